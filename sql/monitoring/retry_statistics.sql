-- Failures among what waits or was given up: how many used up three attempts, how many ended, and
-- how many attempts failed on average. Waiting includes PDFs.
select
  count(*) filter (where d.retry_count >= 3) as max_retries,
  count(*) filter (where d.ocr_status = 'failed') as failed_total,
  round(avg(d.retry_count), 2) as avg_retries
from public.documents as d
where d.ocr_status in ('failed', 'queued', 'queued_for_pdf');
