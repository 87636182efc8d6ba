-- To watch for ten minutes after a deployment: errors, conflicts, results and stuck documents, minute
-- by minute. Repeat it: watch -n 30 psql "$PAGEWARDEN_DATABASE_URL" -f sql/monitoring/deployment.sql
--
-- Roll back (sql/rollback/) if stuck_now rises above 5, if conflicts reach a quarter of the ended
-- attempts, or if there are more failures than results. A minute without work has zeros.
select
  m.minute,
  (
    select count(*) from public.ocr_processing_logs as r
    where r.created_at >= m.minute and r.created_at < m.minute + interval '1 minute'
  ) as results,
  e.failures,
  e.conflicts,
  e.outages,
  e.latest_error,
  s.stuck_now
from generate_series(date_trunc('minute', now()), now() - interval '11 minutes', interval '-1 minute') as m (minute)
cross join lateral (
  select
    count(*) filter (where x.kind in ('failure', 'lock_expired', 'deadline')) as failures,
    count(*) filter (where x.kind = 'conflict') as conflicts,
    count(*) filter (where x.kind = 'outage') as outages,
    (array_agg(x.error_group order by x.id desc))[1] as latest_error
  from public.ocr_errors as x
  where x.created_at >= m.minute and x.created_at < m.minute + interval '1 minute'
) as e
cross join (select h.stuck as stuck_now from public.ocr_system_health as h) as s
order by m.minute desc;
