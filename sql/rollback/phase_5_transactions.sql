-- Emergency stop for all reading (phase 5): results are no longer written.
--
-- Who:      the owner of the tables (role postgres), after HAC agreed.
-- Effect:   no lane hands out documents, the functions that read are off, and what is being read
--           is given back at once, uncounted: its worker is told LOCK_LOST when it comes to save.
--           Pages saved so far stay. Uploads go on and wait.
-- Undo:     phase_5_transactions_undo.sql
begin;

set local request.jwt.claims = '{"role": "service_role"}';

-- Lanes that somebody has paused already are left to them.
select public.pause_lane(l.lane, 'rollback of phase 5')
from public.lanes as l
where l.pause_kind is distinct from 'manual';

select public.release_documents(b.documents, 'rollback of phase 5')
from (
  -- In lists as long as the function takes.
  select jsonb_agg(jsonb_build_object('document_id', k.id, 'lock_token', k.lock_token)) as documents
  from (
    select d.id, d.lock_token, row_number() over (order by d.id) as number
    from public.documents as d
    where d.lock_token is not null and d.ocr_status = 'processing'
  ) as k
  group by k.number / 10000
) as b;

-- The log remembers what was on, for the undo.
with switched as (
  update public.edge_function_config as c
  set enabled = false, updated_at = now()
  where c.function_name in ('ocr-worker', 'pdf-worker', 'ocr-universal', 'pdf-extract') and c.enabled
  returning c.function_name
)
insert into public.hac_logs (action_type, action_description, metadata)
select 'ocr_rollback', 'Phase 5, transactions: reading stopped',
  jsonb_build_object('phase', 5, 'functions', coalesce(jsonb_agg(s.function_name), '[]'))
from switched as s;

commit;
