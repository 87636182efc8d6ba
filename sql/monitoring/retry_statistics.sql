-- Failures among waiting and failed documents: how many had three failed attempts or more, how many
-- failed for good, and the mean number of failed attempts. Waiting documents include PDFs.
select
  count(*) filter (where d.retry_count >= 3) as max_retries,
  count(*) filter (where d.ocr_status = 'failed') as failed_total,
  round(avg(d.retry_count), 2) as avg_retries
from public.documents as d
where d.ocr_status in ('failed', 'queued', 'queued_for_pdf');
