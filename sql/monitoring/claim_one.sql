-- CHANGES DATA. Claim the next registry document by hand, for ten minutes.
--
-- The returned row has the lock_token that process_ocr_atomic requires. If there is no row, the queue
-- is empty, or another worker claimed the document first; then run it again.
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
  and status_id = 3   -- checked again when the row is locked: this makes the claim safe
returning *;
