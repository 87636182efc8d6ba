-- Undo of phase_4_dead_letters.sql: turn its failures into dead letters with a task again.
--
-- Who:      the owner of the tables (role postgres).
-- Effect:   documents that HAC (the administrators) had abandoned, or that were deleted or read in the
--           meantime, stay as they are. Entries that were under investigation become pending.
begin;

set local request.jwt.claims = '{"role": "service_role"}';

select public.move_to_dead_letter_queue(
  l.document_id, coalesce(l.last_error_message, 'unknown'), l.last_error_details, l.error_category
)
from public.ocr_dead_letter as l
join public.documents as d on d.id = l.document_id
where l.status = 'abandoned'
  and l.resolution_notes = 'rollback of phase 4'
  and d.ocr_status = 'failed'
  and d.deleted_at is null;

insert into public.hac_logs (action_type, action_description, metadata)
values ('ocr_rollback_undone', 'Phase 4, dead letters: in use again', '{"phase": 4}');

commit;
