-- CHANGES DATA. Move documents that failed after three attempts or more to the dead letters, for
-- HAC (the administrators) to review.
--
-- Each gets a dead letter, a task and an audit entry. Documents that were deleted in the meantime are
-- skipped and reported as such.
select public.move_to_dead_letter_queue(
  d.id,
  coalesce(d.ocr_error, 'Failed before there were dead letters'),
  jsonb_build_object('migrated', true),
  'permanent'
) as answer
from public.documents as d
where d.retry_count >= 3
  and d.ocr_status = 'failed';
