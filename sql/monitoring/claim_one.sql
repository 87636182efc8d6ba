-- CHANGES DATA. Take the next registry document by hand, for ten minutes.
--
-- The row that comes back has the lock_token that process_ocr_atomic wants. No row: there is
-- nothing to do, or somebody else was quicker; then just try again.
update public.extraction_queue
set status_id = 4,
    ocr_worker_id = 'by hand',
    ocr_started_at = now(),
    ocr_attempts = ocr_attempts + 1
where id = (
    select q.id from public.extraction_queue as q
    where q.status_id = 3
    order by q.priority desc, q.created_at
    limit 1
  )
  and status_id = 3   -- asked again when the row is locked: this is what makes it safe
returning *;
