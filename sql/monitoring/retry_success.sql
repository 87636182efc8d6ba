-- Success rate of retries, by the number of failed attempts; last 24 hours.
-- For up to three failures, it should be above 90 percent.
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
