-- Take the dead letters out of use (phase 4): documents in them become plain failures again.
--
-- Who:      the owner of the tables (role postgres), after HAC agreed.
-- Effect:   every document in the dead letters is failed, its entry abandoned with a note, its
--           task done. Entries and error histories stay. Workers go on, and what they give up
--           from now on is a dead letter as before; pause the lanes first if it must not be.
-- Undo:     phase_4_dead_letters_undo.sql
begin;

set local request.jwt.claims = '{"role": "service_role"}';

select public.resolve_dead_letters(jsonb_build_object('status', s.status), 'abandon', 'rollback of phase 4')
from unnest(array['pending', 'investigating']) as s (status);

insert into public.hac_logs (action_type, action_description, metadata)
values ('ocr_rollback', 'Phase 4, dead letters: documents are plain failures again', '{"phase": 4}');

commit;
