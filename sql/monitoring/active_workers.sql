-- Workers that read registry documents now, with the number of documents and their start times.
select
  q.ocr_worker_id,
  count(*) as active_jobs,
  min(q.ocr_started_at) as oldest_job,
  max(q.ocr_started_at) as newest_job
from public.extraction_queue as q
where q.status_id = 4
group by q.ocr_worker_id
order by oldest_job;
