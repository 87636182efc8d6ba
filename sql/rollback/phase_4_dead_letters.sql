-- Disable the dead letters (phase 4): their documents become plain failures again.
--
-- Who:      the owner of the tables (role postgres), with the approval of HAC (the administrators).
-- Effect:   every document in the dead letters is failed, its entry abandoned with a note, its
--           task done. Entries and error histories stay. Workers continue, and documents that they
--           give up from now on become dead letters as before; to prevent this, pause the lanes first.
-- Undo:     phase_4_dead_letters_undo.sql
begin;

set local request.jwt.claims = '{"role": "service_role"}';

select public.resolve_dead_letters(jsonb_build_object('status', s.status), 'abandon', 'rollback of phase 4')
from unnest(array['pending', 'investigating']) as s (status);

insert into public.hac_logs (action_type, action_description, metadata)
values ('ocr_rollback', 'Phase 4, dead letters: documents are plain failures again', '{"phase": 4}');

commit;
