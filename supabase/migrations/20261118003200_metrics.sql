-- Metrics: current figures of the database for Prometheus.
--
-- The function server exposes them on /metrics with one call of system_metrics. It scans no large table:
-- waiting documents and volumes are counted up to a limit, claimed ones found through the claims or an
-- index. What has ended is counted when it ends (counters).
--
-- Counters and histograms of the processes themselves are in Python. Alert rules have metrics of their own,
-- in 03100_alerts.

create type public.lane_metrics as (
  lane text,
  paused boolean,
  queued bigint,
  later bigint,
  processing bigint,
  stuck bigint,
  oldest_seconds double precision,
  assigned_workers bigint,
  reading_workers bigint
);
comment on type public.lane_metrics is
  'The numbers of documents in a lane: waiting for a worker (queued) or for a retry (later), being read, and, among '
  'those, stuck; how long the next one has been waiting; and how many workers of the pool are assigned to the lane, and '
  'are reading in it.';

create type public.volume_stage_metrics as (
  stage text,
  queued bigint,
  processing bigint,
  later bigint,
  oldest_seconds double precision
);
comment on type public.volume_stage_metrics is
  'The numbers of volumes at a stage: waiting for a worker (queued), in progress, and waiting for a retry (later); and '
  'how long the first one has been waiting.';

create type public.counted_events as (
  counter text,
  labels text[],
  events bigint,
  seconds double precision
);
comment on type public.counted_events is 'A counter with its labels: the number of events so far, and their duration.';

create type public.labelled_count as (
  label text,
  count bigint
);
comment on type public.labelled_count is 'A count with its label.';

create type public.system_metrics_answer as (
  lanes public.lane_metrics[],
  dead_letters public.labelled_count[],
  open_alerts public.labelled_count[],
  open_tasks bigint,
  workers public.labelled_count[],
  open_check_jobs bigint,
  volume_stages public.volume_stage_metrics[],
  counters public.counted_events[],
  extractions public.labelled_count[]
);
comment on type public.system_metrics_answer is
  'Current values: by lane, open dead letters by category, open alerts by severity, open tasks, workers by state, open '
  'check jobs, volumes by stage, registry documents without a file by state; and all counters.';

create function public.system_metrics(p_now timestamptz default now())
returns public.system_metrics_answer
language sql
stable
security definer          -- services have no privileges on the private tables
set search_path = pg_catalog, pg_temp
set enable_seqscan = off      -- a plan for an empty queue must also suit a full one
set enable_bitmapscan = off   -- a bitmap scan reads all rows before the limit applies
as $$
  with held as materialized (
    select d.lane, d.locked_by, d.lock_expires_at,
      d.locked_at < p_now - interval '5 minutes' or d.claimed_at < p_now - interval '10 minutes' as is_stuck
    from public.documents as d
    where d.id = any (private.claimed_ids()) and d.ocr_status = 'processing'
  ),
  lane as (
    select l.lane, l.paused_at is not null as paused,
      (select count(*) from (select 1 from private.queue as q where q.lane = l.lane limit 100000) as k) as queued,
      (select count(*) from (select 1 from private.queue_delayed as q where q.lane = l.lane limit 100000) as k) as later,
      (select count(*) from held as h where h.lane = l.lane) as processing,
      (select count(*) from held as h where h.lane = l.lane and h.is_stuck) as stuck,
      coalesce((
        select extract(epoch from p_now - d.created_at) from private.queue as q
        join public.documents as d on d.id = q.document_id
        where q.lane = l.lane
        order by q.urgency, q.turn, q.document_id
        limit 1
      ), 0)::double precision as oldest_seconds,
      (
        select count(*) from private.workers as w
        where w.lane = l.lane and w.seen_at > p_now - private.silent_after()
      ) as assigned_workers,
      (
        select count(*) from private.workers as w
        where w.reads_lane = l.lane and w.seen_at > p_now - private.silent_after()
      ) as reading_workers
    from public.lanes as l
  ),
  stage as (
    select u.stage, u.place,
      (
        select count(*) from (
          select 1 from public.volume_tasks as t
          where t.current_stage = u.stage and t.status = 'running' and t.token is null
          limit 100000
        ) as k
      ) as queued,
      (select count(*) from public.volume_tasks as t where t.token is not null and t.current_stage = u.stage) as processing,
      (
        select count(*) from (
          select 1 from public.volume_tasks as t
          where t.status = 'failed' and t.attempts < t.max_attempts and t.current_stage = u.stage
          limit 100000
        ) as k
      ) as later,
      coalesce((
        select extract(epoch from p_now - t.published_at) from public.volume_tasks as t
        where t.current_stage = u.stage and t.status = 'running' and t.token is null
        order by t.published_at
        limit 1
      ), 0)::double precision as oldest_seconds
    from unnest(array['line_detection', 'line_extraction', 'ocr', 'reduce']) with ordinality as u (stage, place)
  ),
  counter as (
    select k.counter, k.labels, sum(k.events)::bigint as events, sum(k.seconds) as seconds
    from (
      select c.counter, c.labels, c.events, c.seconds from private.counters as c
      union all
      select c.counter, c.labels, c.events, c.seconds from private.counter_changes as c
      union all
      -- From 0, so that Prometheus sees the first event as an increase.
      select 'check_jobs', array[u.outcome, '1'], 0, 0
      from unnest(array['SUCCEEDED', 'FAILED', 'CANCELLED']) as u (outcome)
      union all
      select 'volume_stages', array[t.stage, u.outcome], 0, 0
      from stage as t
      cross join unnest(array[
        'done', 'skipped', 'failed', 'deadline', 'lost', 'given_back', 'outage', 'taken_away'
      ]) as u (outcome)
      union all
      select 'pool_switches', array[l.lane], 0, 0 from lane as l
      union all
      select 'functions', c.labels || u.outcome, 0, 0
      from private.counters as c
      cross join unnest(array['completed', 'refused', 'failed']) as u (outcome)
      where c.counter = 'function_starts'
    ) as k
    group by k.counter, k.labels
  ),
  -- The states of list_workers(), without ended workers.
  worker as (
    select case
        when h.held_until > p_now then 'reading'
        when h.worker_id is not null or w.seen_at < p_now - interval '90 seconds' then 'silent'
        else 'idle'
      end as state
    from private.workers as w
    full join (
      select coalesce(k.locked_by, 'unknown') as worker_id, max(k.lock_expires_at) as held_until
      from held as k group by 1
    ) as h on h.worker_id = w.worker_id
  )
  select
    array(
      select row(
        l.lane, l.paused, l.queued, l.later, l.processing, l.stuck, l.oldest_seconds, l.assigned_workers,
        l.reading_workers
      )::public.lane_metrics
      from lane as l order by l.lane
    ) as lanes,
    -- Labels without rows count 0: Prometheus would take a missing gauge for a missing measurement.
    array(
      select row(k.category, coalesce(n.letters, 0))::public.labelled_count
      from unnest(array['transient', 'permanent', 'resource', 'configuration', 'unknown']) as k (category)
      left join (
        select l.error_category, count(*) as letters from public.ocr_dead_letter as l
        where l.status in ('pending', 'investigating')
        group by l.error_category
      ) as n on n.error_category = k.category
    ) as dead_letters,
    array(
      select row(k.severity, coalesce(n.alerts, 0))::public.labelled_count
      from unnest(array['critical', 'warning']) as k (severity)
      left join (
        select a.severity, count(*) as alerts from public.alerts as a
        where a.resolved_at is null
        group by a.severity
      ) as n on n.severity = k.severity
    ) as open_alerts,
    (select count(*) from public.tasks as t where t.status in ('pending', 'in_progress')) as open_tasks,
    array(
      select row(k.state, coalesce(n.workers, 0))::public.labelled_count
      from unnest(array['reading', 'idle', 'silent']) as k (state)
      left join (select w.state, count(*) as workers from worker as w group by w.state) as n on n.state = k.state
    ) as workers,
    (select count(*) from public.check_jobs as j where j.outcome is null) as open_check_jobs,
    array(
      select row(t.stage, t.queued, t.processing, t.later, t.oldest_seconds)::public.volume_stage_metrics
      from stage as t order by t.place
    ) as volume_stages,
    array(
      select row(c.counter, c.labels, c.events, c.seconds)::public.counted_events
      from counter as c order by c.counter, c.labels
    ) as counters,
    array(
      select row(k.state, (
        select count(*) from (select 1 from private.queue_parked as q where q.ocr_status = k.state limit 100000) as c
      ))::public.labelled_count
      from unnest(array['awaiting_file', 'extracting', 'extraction_failed']) as k (state)
    ) as extractions;
$$;
comment on function public.system_metrics(timestamptz) is
  'Values for /metrics: waiting, claimed and stuck documents in each lane, dead letters, open alerts and tasks, '
  'workers and the pool, check jobs, volumes at each stage, registry documents without a file, and counters. Waiting '
  'documents and volumes are counted up to 100,000 in each lane, state and stage.';
grant execute on function public.system_metrics(timestamptz) to service_role;

