-- Documents in progress, by hour of upload, and how many of them had no heartbeat for ten
-- minutes. stuck_count should be 0 in every row.
select
  date_trunc('hour', d.created_at) as hour,
  count(*) filter (where d.locked_at < now() - interval '10 minutes') as stuck_count,
  count(*) as total_processing
from public.documents as d
where d.ocr_status = 'processing'
  and d.created_at > now() - interval '24 hours'
group by 1
order by 1 desc;
