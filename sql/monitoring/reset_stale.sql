-- CHANGES DATA. Take the documents of stale_documents.sql back from their workers.
--
-- Each counts as a rescue. A document that was rescued too often becomes a dead letter instead, and
-- is returned with status_id 6. The sweep does the same within seconds for workers without
-- heartbeat; this statement is for workers that are alive but stuck.
update public.extraction_queue
set status_id = 3,
    ocr_worker_id = null
where status_id = 4
  and ocr_started_at < now() - interval '10 minutes'
returning id, document_name, status_id, ocr_attempts;
