-- Undo of phase_2_version_conflict.sql: resume uploads, retries and lanes.
--
-- Who:      the owner of the tables (role postgres).
-- Effect:   resumes only what the stop had stopped; a lane that was paused or a function that was
--           switched off before it stays so.
begin;

set local request.jwt.claims = '{"role": "service_role"}';

grant execute on function public.safe_document_reupload_v2(
  uuid, text, text, text, text, text, text, bigint, text, integer, text, text, text
) to authenticated, service_role;

update public.edge_function_config as c
set enabled = true, updated_at = now()
where exists (
  select 1 from public.hac_acts as a
  where a.action_type = 'ocr_rollback'
    and a.metadata @> '{"phase": 2}'
    and a.metadata -> 'functions' ? c.function_name
    and not exists (
      select 1 from public.hac_acts as u
      where u.action_type = 'ocr_rollback_undone' and u.metadata @> '{"phase": 2}' and u.created_at > a.created_at
    )
);

select public.resume_lane(l.lane)
from public.lanes as l
where l.pause_kind = 'manual' and l.pause_reason = 'rollback of phase 2';

insert into public.hac_logs (action_type, action_description, metadata)
values ('ocr_rollback_undone', 'Phase 2, version conflicts: running again', '{"phase": 2}');

commit;
