-- Pending dead letters, by kind of error; the most frequent first.
select
  l.error_category,
  l.error_group,
  count(*) as documents,
  min(l.first_failed_at) as first_failed_at,
  max(l.last_failed_at) as last_failed_at
from public.ocr_dead_letter as l
where l.status = 'pending'
group by l.error_category, l.error_group
order by documents desc, l.error_group;
