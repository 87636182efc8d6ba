-- How things stand: one row, however many documents there are.
select * from public.ocr_system_health;
