-- How often another attempt helped, by the number of attempts that had failed; last 24 hours.
-- Above 90 percent is good for up to three failures.
select
  d.retry_count,
  count(*) as documents,
  count(*) filter (where d.ocr_status = 'completed') as succeeded,
  round(100.0 * count(*) filter (where d.ocr_status = 'completed') / count(*), 2) as success_rate_pct
from public.documents as d
where d.updated_at > now() - interval '24 hours'
  and d.retry_count > 0
group by d.retry_count
order by d.retry_count;
