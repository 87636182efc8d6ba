-- Emergency stop for all OCR (phase 5): no more results are written.
--
-- Who:      the owner of the tables (role postgres), with the approval of HAC (the administrators).
-- Effect:   no lane hands out documents, the functions that read are switched off, and documents in
--           progress are released at once, uncounted: their workers get LOCK_LOST when they save.
--           Saved pages stay. Uploads continue and wait.
-- Undo:     phase_5_transactions_undo.sql
begin;

set local request.jwt.claims = '{"role": "service_role"}';

-- Lanes that were already paused by hand stay as they are.
select public.pause_lane(l.lane, 'rollback of phase 5')
from public.lanes as l
where l.pause_kind is distinct from 'manual';

-- Their workers may still be alive: extraction_queue accepts nothing from them without a claim_token.
update public.documents as d set claim_lost_at = now() where d.lock_token is not null and d.ocr_status = 'processing';

select public.release_documents(b.documents, 'rollback of phase 5')
from (
  -- In batches of the maximum size that the function accepts.
  select jsonb_agg(jsonb_build_object('document_id', k.id, 'lock_token', k.lock_token)) as documents
  from (
    select d.id, d.lock_token, row_number() over (order by d.id) as number
    from public.documents as d
    where d.lock_token is not null and d.ocr_status = 'processing'
  ) as k
  group by k.number / 10000
) as b;

-- The log records which functions were enabled, for the undo.
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
