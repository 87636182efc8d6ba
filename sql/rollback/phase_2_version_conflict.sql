-- Emergency stop for uploads and for retries after version conflicts (phase 2).
--
-- Who:      the owner of the tables (role postgres), with the approval of HAC (the administrators).
-- Effect:   uploads are refused; conflicts are not retried; no lane hands out documents; documents in
--           progress for more than ten minutes return to the queue, counted as a rescue.
--           No data is lost: documents keep their position, and attempts in progress finish.
-- Undo:     phase_2_version_conflict_undo.sql
begin;

set local request.jwt.claims = '{"role": "service_role"}';

-- Lanes that were already paused by hand stay as they are.
select public.pause_lane(l.lane, 'rollback of phase 2')
from public.lanes as l
where l.pause_kind is distinct from 'manual';

select public.recover_stuck_documents(10);

revoke execute on function public.safe_document_reupload_v2(
  uuid, text, text, text, text, text, text, bigint, text, integer, text, text, text
) from authenticated, service_role;

-- The log records which functions were enabled, for the undo.
with switched as (
  update public.edge_function_config as c
  set enabled = false, updated_at = now()
  where c.function_name in ('ocr-worker-retry-v2', 'upload-to-dropbox') and c.enabled
  returning c.function_name
)
insert into public.hac_logs (action_type, action_description, metadata)
select 'ocr_rollback', 'Phase 2, version conflicts: stopped',
  jsonb_build_object('phase', 2, 'functions', coalesce(jsonb_agg(s.function_name), '[]'))
from switched as s;

commit;
