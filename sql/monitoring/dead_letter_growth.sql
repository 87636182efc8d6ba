-- New dead letters by day, and their resolutions; last seven days. Expect fewer than three a day.
select
  date_trunc('day', l.created_at) as day,
  count(*) as new_dlq_entries,
  count(*) filter (where l.status = 'requeued') as requeued,
  count(*) filter (where l.status = 'manual') as manual_required
from public.ocr_dead_letter as l
where l.created_at > now() - interval '7 days'
group by 1
order by 1 desc;
