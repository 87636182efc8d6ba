-- Health: the view ocr_system_health (one row for HAC and the services) and results by hour.
--
-- Both read hourly_results, into which the sweep aggregates each hour once after its end, plus the results
-- of the hours since then. The current state is counted in the queue tables. So neither scans the table
-- documents, however many documents are completed; health answers in milliseconds with a million.
-- The view has the columns of the seeds first, followed by others.
--
-- The metrics for Prometheus are in 03200_metrics, the alert rules in 03100_alerts.

create table private.hourly_results (
  hour timestamptz not null,
  completed bigint not null,
  seconds_to_text double precision not null,
  retried bigint not null,
  retries bigint not null,
  max_retries integer not null,
  constraint hourly_results_pkey primary key (hour)
);
comment on table private.hourly_results is 'The results of each finished hour.';
alter table private.hourly_results enable row level security;

create function private.aggregate_results(p_from timestamptz, p_until timestamptz)
returns setof private.hourly_results
language sql
stable
security invoker
set search_path = ''
as $$
  select date_trunc('hour', r.created_at), count(*), coalesce(sum(r.seconds_to_text), 0),
    count(*) filter (where r.retry_count > 0), coalesce(sum(r.retry_count), 0), coalesce(max(r.retry_count), 0)
  from public.ocr_processing_logs as r
  where r.created_at >= p_from and r.created_at < p_until
  group by 1;
$$;
comment on function private.aggregate_results(timestamptz, timestamptz) is 'The results of a period by hour, from ocr_processing_logs.';

create function private.aggregate_finished_hours(p_now timestamptz default now())
returns void
language plpgsql
volatile
security definer          -- called by the sweep
set search_path = pg_catalog, pg_temp
as $$
declare
  -- Ten minutes after the end of an hour no transaction writes into it any more: completing documents takes seconds.
  v_until timestamptz := date_trunc('hour', p_now - interval '10 minutes');
  v_from timestamptz := (select max(h.hour) + interval '1 hour' from private.hourly_results as h);
begin
  if v_from >= v_until then
    return;
  end if;
  insert into private.hourly_results
  select * from private.aggregate_results(coalesce(v_from, v_until - interval '8 days'), v_until)
  on conflict on constraint hourly_results_pkey do nothing;
  -- Records the progress also where the last hour has no results.
  insert into private.hourly_results values (v_until - interval '1 hour', 0, 0, 0, 0, 0)
  on conflict on constraint hourly_results_pkey do nothing;
  delete from private.hourly_results as h where h.hour < p_now - interval '90 days';
end;
$$;
comment on function private.aggregate_finished_hours(timestamptz) is 'Aggregate the results of finished hours into hourly_results, and drop hours older than 90 days.';

create function private.count_queue(p_max integer)
returns bigint
language sql
stable
security invoker
set search_path = ''
set enable_seqscan = off
set enable_bitmapscan = off   -- a bitmap scan reads all rows before the limit applies
as $$
  -- Beyond p_max the planner's estimate is accurate enough.
  select case when count(*) < p_max then count(*)
    else greatest(count(*), (select c.reltuples::bigint from pg_catalog.pg_class as c where c.oid = 'private.queue'::regclass))
  end
  from (select 1 from private.queue as q limit p_max) as k;
$$;
comment on function private.count_queue(integer) is
  'Documents that can be claimed now: exact up to p_max, estimated above that.';

create function private.count_parked(p_status text, p_max integer)
returns bigint
language sql
stable
security invoker
set search_path = ''
set enable_seqscan = off
set enable_bitmapscan = off   -- a bitmap scan reads all rows before the limit applies
as $$
  select count(*) from (select 1 from private.queue_parked as q where q.ocr_status = p_status limit p_max) as k;
$$;
comment on function private.count_parked(text, integer) is 'Parked documents of a status, counted up to p_max.';

create function private.system_health(p_now timestamptz default now())
returns table (
  queued bigint,
  processing bigint,
  completed bigint,
  failed bigint,
  in_dlq bigint,
  stuck bigint,
  avg_retries numeric,
  max_retries integer,
  avg_processing_seconds double precision,
  success_rate_24h_pct numeric,
  waiting_to_retry bigint,
  pending bigint,
  pending_review bigint,
  oldest_waiting_seconds double precision,
  paused_lanes text[],
  open_tasks bigint,
  completed_24h bigint,
  dead_lettered_24h bigint,
  oldest_waiting_id uuid,
  awaiting_file bigint,
  extracting bigint,
  extraction_failed bigint
)
language plpgsql
stable
security definer          -- checks the caller's role, then reads tables the caller may not
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  v_open record;
  v_results record;
  v_waiting record;
  v_closed timestamptz := coalesce(
    (select max(h.hour) + interval '1 hour' from private.hourly_results as h), p_now - interval '7 days'
  );
begin
  -- A connection without a token is an operator's own.
  if auth.role() is not null and not private.is_service() and not private.is_admin() then
    raise exception 'system health requires the "admin" role (HAC)'
      using errcode = '42501', hint = 'Ask an administrator to grant you the "admin" role.';
  end if;
  select count(*) filter (where d.ocr_status = 'failed') as failed,
    count(*) filter (where d.ocr_status = 'dead_letter') as in_dlq,
    count(*) filter (where d.ocr_status = 'pending') as pending,
    count(*) filter (where d.ocr_status = 'pending_review') as pending_review,
    count(*) filter (where d.retry_count > 0) as retried, coalesce(sum(d.retry_count), 0) as retries,
    max(d.retry_count) as max_retries
  into v_open
  from private.queue_parked as a
  join public.documents as d on d.id = a.document_id
  where a.ocr_status in ('failed', 'dead_letter', 'pending', 'pending_review');
  select coalesce(sum(h.completed), 0) as completed, sum(h.seconds_to_text) as seconds,
    coalesce(sum(h.retried), 0) as retried, coalesce(sum(h.retries), 0) as retries, max(h.max_retries) as max_retries,
    coalesce(sum(h.completed) filter (where h.hour >= p_now - interval '24 hours'), 0) as completed_24h
  into v_results
  from (
    select * from private.hourly_results as h where h.hour >= p_now - interval '7 days'
    union all
    select * from private.aggregate_results(v_closed, 'infinity')
  ) as h;
  select count(*) into dead_lettered_24h from public.ocr_dead_letter as l
  where l.last_failed_at > p_now - interval '24 hours' and l.status <> 'requeued';

  queued := private.count_queue(10000);
  select count(*), count(*) filter (where d.locked_at < p_now - interval '5 minutes' or d.claimed_at < p_now - interval '10 minutes')
  into processing, stuck
  from public.documents as d where d.id = any (private.claimed_ids()) and d.ocr_status = 'processing';
  select count(*) as documents, count(*) filter (where d.retry_count > 0) as retried,
    coalesce(sum(d.retry_count), 0) as retries, max(d.retry_count) as max_retries
  into v_waiting
  from private.queue_delayed as l
  join public.documents as d on d.id = l.document_id;
  waiting_to_retry := v_waiting.documents;
  completed := v_results.completed;
  failed := v_open.failed;
  in_dlq := v_open.in_dlq;
  avg_retries := round(
    (v_results.retries + v_open.retries + v_waiting.retries)
      / nullif(v_results.retried + v_open.retried + v_waiting.retried, 0),
    2
  );
  max_retries := greatest(v_results.max_retries, v_open.max_retries, v_waiting.max_retries, 0);
  avg_processing_seconds := v_results.seconds / nullif(v_results.completed, 0);
  completed_24h := v_results.completed_24h;
  success_rate_24h_pct := round(100.0 * completed_24h / nullif(completed_24h + dead_lettered_24h, 0), 2);
  pending := v_open.pending;
  pending_review := v_open.pending_review;
  awaiting_file := private.count_parked('awaiting_file', 100000);
  extracting := private.count_parked('extracting', 100000);
  extraction_failed := private.count_parked('extraction_failed', 100000);
  select o.id, extract(epoch from p_now - o.created_at) into oldest_waiting_id, oldest_waiting_seconds
  from public.lanes as l
  cross join lateral (
    select d.id, d.created_at from private.queue as q
    join public.documents as d on d.id = q.document_id
    where q.lane = l.lane
    order by q.urgency, q.turn, q.document_id
    limit 1
  ) as o
  order by o.created_at, o.id
  limit 1;
  select coalesce(array_agg(l.lane order by l.lane), '{}') into paused_lanes
  from public.lanes as l where l.paused_at is not null;
  select count(*) into open_tasks from public.tasks as t where t.status in ('pending', 'in_progress');
  return next;
end;
$$;
comment on function private.system_health(timestamptz) is 'See public.ocr_system_health.';
grant execute on function private.system_health(timestamptz) to authenticated, service_role;

create view public.ocr_system_health
with (security_invoker = true)
as
select * from private.system_health();
comment on view public.ocr_system_health is
  'One row for HAC: the numbers of documents that are waiting, being read, completed in the last seven days, or '
  'awaiting a decision, and those of the registry whose file has not been delivered yet. queued is exact up to 10,000 and estimated above that. Nullable: avg_retries, '
  'avg_processing_seconds, success_rate_24h_pct, oldest_waiting_seconds, oldest_waiting_id.';
grant select on public.ocr_system_health to authenticated, service_role;

create type public.hourly_result as (
  hour timestamptz,
  completed bigint,
  dead_lettered bigint,
  retries bigint,
  avg_seconds_to_text double precision
);
comment on type public.hourly_result is
  'Completed documents and dead letters in one hour. The average is null for an hour without results. Nullable: '
  'avg_seconds_to_text.';

create function private.results_by_hour(p_hours integer, p_now timestamptz default now())
returns setof public.hourly_result
language plpgsql
stable
security definer          -- checks the caller's role, then reads tables the caller may not
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  v_from timestamptz := date_trunc('hour', p_now) - make_interval(hours => p_hours - 1);
  v_closed timestamptz := coalesce(
    (select max(h.hour) + interval '1 hour' from private.hourly_results as h), p_now - interval '8 days'
  );
begin
  if auth.role() is not null and not private.is_service() and not private.is_admin() then
    raise exception 'system results require the "admin" role (HAC)'
      using errcode = '42501', hint = 'Ask an administrator to grant you the "admin" role.';
  end if;
  if (p_hours between 1 and 720) is not true then
    raise exception 'p_hours must be between 1 and 720' using errcode = '22023', hint = 'The maximum is 30 days.';
  end if;
  return query
  with result as materialized (
    select * from private.hourly_results as h where h.hour >= v_from
    union all
    select * from private.aggregate_results(greatest(v_closed, v_from), 'infinity')
  ),
  dead as materialized (
    select date_trunc('hour', l.created_at) as hour, count(*) as letters
    from public.ocr_dead_letter as l where l.created_at >= v_from group by 1
  )
  select s.hour, coalesce(r.completed, 0), coalesce(x.letters, 0), coalesce(r.retries, 0),
    r.seconds_to_text / nullif(r.completed, 0)
  from generate_series(v_from, date_trunc('hour', p_now), interval '1 hour') as s (hour)
  left join result as r on r.hour = s.hour
  left join dead as x on x.hour = s.hour
  order by s.hour;
end;
$$;
comment on function private.results_by_hour(integer, timestamptz) is 'See public.results_by_hour.';
grant execute on function private.results_by_hour(integer, timestamptz) to authenticated, service_role;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.results_by_hour(p_hours integer default 24)
returns setof public.hourly_result
language sql stable security invoker set search_path = ''
as $$ select * from private.results_by_hour(p_hours) $$;
comment on function public.results_by_hour(integer) is
  'HAC: completed documents and dead letters in each of the last p_hours hours, including the current one, oldest '
  'first.';
grant execute on function public.results_by_hour(integer) to authenticated, service_role;
