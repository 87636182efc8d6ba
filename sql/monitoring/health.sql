-- State of the system: one row, fast for any number of documents.
select * from public.ocr_system_health;
