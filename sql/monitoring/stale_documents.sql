-- Registry documents that have been in progress for more than ten minutes.
select
  q.id,
  q.document_source,
  q.document_name,
  q.ocr_worker_id,
  q.ocr_started_at,
  q.ocr_attempts,
  q.ocr_max_attempts
from public.extraction_queue as q
where q.status_id = 4
  and q.ocr_started_at < now() - interval '10 minutes'
order by q.ocr_started_at;
