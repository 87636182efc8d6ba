-- CHANGES DATA. Take the documents of stale_documents.sql back from their workers.
--
-- Each counts as a rescue. One that was rescued too often goes to the dead letters instead, and
-- comes back here with status_id 6. The sweep does the same within seconds for workers that no
-- longer answer; this is for those that do and should not.
update public.extraction_queue
set status_id = 3,
    ocr_worker_id = null
where status_id = 4
  and ocr_started_at < now() - interval '10 minutes'
returning id, document_name, status_id, ocr_attempts;
