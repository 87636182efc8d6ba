-- Alerts: metrics, rules, alerts, silences, and the notices that go out.
--
-- Once a minute evaluate_alerts measures the metric of every enabled rule (measure_metric) and records
-- since when its condition is true or false (alert_states). A condition that is true for hold_seconds opens
-- an alert; one that is false for calm_seconds resolves it. A rule has at most one open alert. A
-- critical alert also opens an urgent task.
--
-- Notices are an outbox: firing and resolving write them to alert_notices in the same transaction, and the
-- function alerts claims, sends and settles them, with retries for about a day. A silence delays notices,
-- not alerts: conditions that are still true at its end are notified then.
--
-- A rate needs enough events to mean something: where the window of a rule has fewer than at_least, it grows
-- back to the last at_least of them, up to a day. So a rate is judged at a few hundred documents a day as well.
--
-- Metrics that only a process can measure (free disk, GPU service) arrive through report_gauge.
-- ocr_success_criteria shows the five criteria by which the system is judged, each of which has a rule as well.
-- What /metrics exposes is in 03200_metrics; the health view is in 03000_health.

create table public.alert_metrics (
  metric text not null,
  description text not null,
  unit text not null,
  over_time boolean not null,
  constraint alert_metrics_pkey primary key (metric)
);
comment on table public.alert_metrics is
  'The metrics that rules can watch. over_time: counted over a time window that the rule sets.';
insert into public.alert_metrics (metric, unit, over_time, description)
values
  ('stuck_documents', 'documents', false, 'Documents claimed for more than 10 minutes, or without a heartbeat for 5'),
  ('dead_letter_growth', 'documents', true, 'New dead letters'),
  ('success_rate', 'share', true, 'Share of ended attempts with a result'),
  ('version_conflict_rate', 'share', true, 'Calls with a lost lock, and conflicts that persisted after all retries, per ended attempt'),
  ('processing_seconds', 'seconds', true, 'Average time to read a document'),
  ('retry_rate', 'share', true, 'Share of ended attempts that failed'),
  ('retry_success_rate', 'share', true, 'Share of documents completed after one to three failed attempts, of those whose retries have ended'),
  ('seconds_to_text', 'seconds', true, 'Time from upload to text, 95th percentile'),
  ('queue_age_seconds', 'seconds', false, 'Waiting time of the next document, across all lanes that are not paused'),
  ('awaiting_file_seconds', 'seconds', false, 'Waiting time of the registry document that has waited longest for its file'),
  ('extracting_seconds', 'seconds', false, 'Duration of the longest extraction in progress'),
  ('extraction_failures', 'extractions', true, 'Failed and expired extractions of registry documents'),
  ('paused_lanes', 'lanes', false, 'Lanes paused by an outage'),
  ('silent_workers', 'workers', false, 'Workers with no report for 2 minutes that have not signed off'),
  ('pool_switches', 'switches', true, 'Changes of lane by the worker of the pool that changed most often'),
  ('failed_webhooks', 'webhooks', true, 'Webhooks that failed after all retries'),
  ('failed_functions', 'runs', true, 'Failed runs of functions'),
  ('volume_outages', 'turns', true, 'Volume stages released because a store or an engine was unavailable'),
  ('failed_volumes', 'volumes', true, 'Volumes that failed after all attempts'),
  ('free_disk_share', 'share', false, 'Free share of the disk that holds the files and the database, if a process can measure it'),
  ('gpu_service_down', 'services', false, '1 while the GPU service does not answer');
alter table public.alert_metrics enable row level security;
create policy "Metrics are visible to HAC"
  on public.alert_metrics for select to authenticated
  using ((select private.is_admin()));
grant select on public.alert_metrics to authenticated, service_role;

create table public.alert_rules (
  rule text not null,
  metric text not null,
  comparison text not null default '>',
  threshold double precision not null,
  window_seconds integer,
  hold_seconds integer not null default 0,
  calm_seconds integer not null default 300,
  at_least integer not null default 0,
  severity text not null,
  enabled boolean not null default true,
  advice text not null default '',
  updated_at timestamptz not null default now(),
  constraint alert_rules_pkey primary key (rule),
  constraint alert_rules_metric_is_known foreign key (metric) references public.alert_metrics (metric),
  constraint alert_rules_name_is_valid check (rule ~ '^[a-z][a-z0-9_-]{0,62}$'),
  constraint alert_rules_comparison_is_known check (comparison in ('>', '<')),
  constraint alert_rules_threshold_is_a_number check (threshold not in ('NaN', 'Infinity', '-Infinity')),
  constraint alert_rules_times_are_in_range check (
    (window_seconds is null or window_seconds between 60 and 604800)
    and hold_seconds between 0 and 86400 and calm_seconds between 0 and 86400 and at_least >= 0
  ),
  constraint alert_rules_severity_is_known check (severity in ('critical', 'warning'))
);
comment on table public.alert_rules is
  'When an alert fires and where its notices go: critical to HAC (task, e-mail, webhook), warning to Slack.';
comment on column public.alert_rules.window_seconds is 'The window of a metric that is counted over time.';
comment on column public.alert_rules.hold_seconds is 'How long the condition must be true without interruption before the alert fires.';
comment on column public.alert_rules.calm_seconds is 'How long the condition must be false without interruption before the alert is resolved.';
comment on column public.alert_rules.at_least is
  'The sample that a rate or an average needs. With fewer events in the window, the window grows back to the last '
  'at_least events, up to a day; if the day has fewer, the condition counts as false.';
comment on column public.alert_rules.advice is 'What to do. Details are in docs/how-to/handbook.md.';
create index alert_rules_metric_idx on public.alert_rules (metric);
insert into public.alert_rules
  (rule, metric, comparison, threshold, window_seconds, hold_seconds, calm_seconds, at_least, severity, advice)
values
  ('stuck-critical', 'stuck_documents', '>', 10, null, 900, 300, 0, 'critical', 'Open the Stuck page and check that the workers are alive.'),
  ('dead-letters-critical', 'dead_letter_growth', '>', 20, 3600, 0, 600, 0, 'critical', 'Open the Dead letters page, grouped by error.'),
  ('success-critical', 'success_rate', '<', 0.5, 3600, 0, 600, 30, 'critical', 'Check the Dead letters page and the worker logs.'),
  ('conflicts-critical', 'version_conflict_rate', '>', 0.25, 600, 0, 600, 30, 'critical', 'Workers lose their locks: check whether they are too slow or were suspended.'),
  ('stuck-warning', 'stuck_documents', '>', 5, null, 600, 300, 0, 'warning', 'Open the Stuck page.'),
  ('slow-warning', 'processing_seconds', '>', 60, 3600, 0, 600, 30, 'warning', 'Reading is slow: check the Workers page and the load of the machine.'),
  ('retries-warning', 'retry_rate', '>', 0.4, 3600, 0, 600, 30, 'warning', 'Check the latest document errors.'),
  ('stuck-any-warning', 'stuck_documents', '>', 0, null, 3600, 300, 0, 'warning', 'Open the Stuck page: the sweep did not take these documents back.'),
  ('dead-letters-warning', 'dead_letter_growth', '>', 2, 86400, 86400, 3600, 0, 'warning', 'Three dead letters a day or more: open the Dead letters page, grouped by error.'),
  ('retry-success-warning', 'retry_success_rate', '<', 0.9, 86400, 0, 3600, 10, 'warning', 'Retries do not help: the causes last longer than the backoff. Check the Dead letters page.'),
  ('conflicts-warning', 'version_conflict_rate', '>', 0.01, 86400, 0, 3600, 100, 'warning', 'Workers lose their locks now and then: compare the times with their logs.'),
  ('slow-day-warning', 'processing_seconds', '>', 40, 86400, 0, 3600, 30, 'warning', 'Reading takes longer than planned: check the Workers page, or the length of the documents.'),
  ('waiting-warning', 'queue_age_seconds', '>', 3600, null, 600, 300, 0, 'warning', 'No workers, or too few, are claiming documents: start more.'),
  ('awaiting-file-warning', 'awaiting_file_seconds', '>', 3600, null, 600, 300, 0, 'warning', 'No extractors, or too few, are fetching files: start more. Failed extractions are in ocr_errors.'),
  ('extracting-warning', 'extracting_seconds', '>', 3600, null, 600, 300, 0, 'warning', 'An extractor renews its lease but does not deliver: check its log. Status 1 returns the document.'),
  ('extractions-warning', 'extraction_failures', '>', 10, 3600, 0, 600, 0, 'warning', 'Check error_message in extraction_queue, and the logs of the extractors.'),
  ('lane-paused-critical', 'paused_lanes', '>', 0, null, 300, 60, 0, 'critical', 'An engine, the GPU service or the file store is unavailable; the Lanes page shows which.'),
  ('silent-workers-warning', 'silent_workers', '>', 0, null, 300, 120, 0, 'warning', 'A worker died: check its log. The sweep has returned its documents to the queue.'),
  ('pool-thrashing-warning', 'pool_switches', '>', 20, 3600, 0, 600, 0, 'warning', 'Workers change lanes too often: raise OCR_REBALANCE_INTERVAL_MS; the Pool page shows the reasons.'),
  ('webhooks-warning', 'failed_webhooks', '>', 0, 3600, 0, 600, 0, 'warning', 'A webhook was not delivered: the webhooks table has its URL and error.'),
  ('functions-warning', 'failed_functions', '>', 5, 3600, 0, 600, 0, 'warning', 'The Functions page shows the errors.'),
  ('volume-outages-critical', 'volume_outages', '>', 2, 1800, 0, 600, 0, 'critical', 'A bucket or an engine is unavailable or misconfigured: the latest stage runs of the volume show which.'),
  ('volumes-warning', 'failed_volumes', '>', 0, 3600, 0, 600, 0, 'warning', 'The Volumes page shows which volumes failed, and why.'),
  ('disk-warning', 'free_disk_share', '<', 0.1, null, 300, 300, 0, 'warning', 'Free disk space: remove old files, or use a larger disk.'),
  ('disk-critical', 'free_disk_share', '<', 0.03, null, 60, 300, 0, 'critical', 'Free disk space immediately: uploads and saves are about to fail.'),
  ('gpu-service-warning', 'gpu_service_down', '>', 0, null, 300, 120, 0, 'warning', 'PDFs are waiting: start the GPU service, or check its log.');
alter table public.alert_rules enable row level security;
create policy "Rules are visible to HAC"
  on public.alert_rules for select to authenticated
  using ((select private.is_admin()));
grant select on public.alert_rules to authenticated, service_role;

create table private.alert_states (
  rule text not null references public.alert_rules (rule) on delete cascade,
  value double precision,
  events bigint,
  detail text,
  broken_since timestamptz,
  calm_since timestamptz,
  evaluated_at timestamptz not null,
  constraint alert_states_pkey primary key (rule),
  constraint alert_states_one_of_both check (num_nonnulls(broken_since, calm_since) = 1)
);
comment on table private.alert_states is
  'The last measurement of each rule, and when its condition became true or false.';
alter table private.alert_states enable row level security;

create table public.alerts (
  id bigint generated always as identity,
  rule text not null references public.alert_rules (rule) on delete cascade,
  severity text not null,
  value double precision not null,
  worst double precision not null,
  threshold double precision not null,
  detail text,
  broken_since timestamptz not null,
  fired_at timestamptz not null,
  resolved_at timestamptz,
  told boolean not null default false,
  constraint alerts_pkey primary key (id),
  constraint alerts_severity_is_known check (severity in ('critical', 'warning')),
  constraint alerts_end_after_they_began check (broken_since <= fired_at and fired_at <= resolved_at is not false)
);
comment on table public.alerts is 'Alerts that fired, and when they were resolved. A rule has at most one open alert.';
comment on column public.alerts.told is
  'Whether notices were written when it fired; only then are notices written when it is resolved.';
create unique index alerts_one_open_of_a_rule on public.alerts (rule) where resolved_at is null;
create index alerts_fired_idx on public.alerts (fired_at, id);
create index alerts_rule_idx on public.alerts (rule);
alter table public.alerts enable row level security;
create policy "Alerts are visible to HAC"
  on public.alerts for select to authenticated
  using ((select private.is_admin()));
grant select on public.alerts to authenticated, service_role;

create table public.alert_silences (
  id bigint generated always as identity,
  rule text references public.alert_rules (rule) on delete cascade,
  reason text not null,
  begins_at timestamptz not null default now(),
  ends_at timestamptz not null,
  made_by uuid references auth.users (id) on delete set null,
  constraint alert_silences_pkey primary key (id),
  constraint alert_silences_end check (ends_at > begins_at)
);
comment on table public.alert_silences is 'Periods without notices for a rule, or for all rules if rule is null.';
create index alert_silences_rule_idx on public.alert_silences (rule);
create index alert_silences_ends_idx on public.alert_silences (ends_at);
create index alert_silences_made_by_idx on public.alert_silences (made_by);
alter table public.alert_silences enable row level security;
create policy "Silences are visible to HAC"
  on public.alert_silences for select to authenticated
  using ((select private.is_admin()));
grant select on public.alert_silences to authenticated, service_role;

create table public.alert_notices (
  id uuid not null default gen_random_uuid(),
  alert_id bigint references public.alerts (id) on delete cascade,
  rule text not null references public.alert_rules (rule) on delete cascade,
  kind text not null,
  channel text not null,
  body jsonb not null,
  attempts public.counter not null default 0,
  next_attempt_at timestamptz not null,
  settled_at timestamptz,
  outcome text,
  error text,
  created_at timestamptz not null,
  constraint alert_notices_pkey primary key (id),
  constraint alert_notices_kind_is_known check (kind in ('fired', 'resolved', 'test')),
  constraint alert_notices_channel_is_known check (channel in ('email', 'webhook', 'slack')),
  constraint alert_notices_outcome_is_known check (outcome in ('delivered', 'not set up', 'given up')),
  constraint alert_notices_settled_one_way check ((settled_at is null) = (outcome is null))
);
comment on table public.alert_notices is 'Notices to deliver through a channel, and the outcome of each.';
create index alert_notices_open_idx on public.alert_notices (next_attempt_at) where settled_at is null;
create index alert_notices_alert_idx on public.alert_notices (alert_id);
create index alert_notices_rule_idx on public.alert_notices (rule);
alter table public.alert_notices enable row level security;
create policy "Notices are visible to HAC"
  on public.alert_notices for select to authenticated
  using ((select private.is_admin()));
grant select on public.alert_notices to authenticated, service_role;

create table private.gauges (
  gauge text not null,
  value double precision not null,
  reported_at timestamptz not null,
  constraint gauges_pkey primary key (gauge)
);
comment on table private.gauges is 'Measurements that only processes can take: disks, services.';
alter table private.gauges enable row level security;

create function public.report_gauge(
  p_gauge text,
  p_value double precision,
  p_now timestamptz default now()
)
returns void
language plpgsql
volatile
security definer          -- callers have no write privileges on the table
set search_path = pg_catalog, pg_temp
as $$
begin
  if (p_gauge in ('free_disk_share', 'gpu_service_down')) is not true then
    raise exception 'unknown gauge %', coalesce(p_gauge, 'null')
      using errcode = '22023', hint = 'Valid gauges are free_disk_share and gpu_service_down.';
  end if;
  if p_value is null or p_value in ('NaN', 'Infinity', '-Infinity') then
    raise exception 'p_value must be a number' using errcode = '22023', hint = 'Pass the measured value.';
  end if;
  insert into private.gauges as g (gauge, value, reported_at) values (p_gauge, p_value, p_now)
  on conflict on constraint gauges_pkey do update set value = excluded.value, reported_at = excluded.reported_at;
end;
$$;
comment on function public.report_gauge(text, double precision, timestamptz) is
  'Report a measurement that only a process can take: free_disk_share (0 to 1), gpu_service_down (0 or 1).';
grant execute on function public.report_gauge(text, double precision, timestamptz) to service_role;

create unlogged table private.conflicts (   -- only for statistics, so a crash may lose the rows
  id bigint generated always as identity,
  happened_at timestamptz not null default now(),
  constraint conflicts_pkey primary key (id)
);
comment on table private.conflicts is
  'One row for each call with a lost lock. evaluate_alerts deletes old rows.';
alter table private.conflicts enable row level security;

create function private.report_conflict(p_message text, p_case_id uuid, p_document_id uuid)
returns void
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_text('p_message', p_message, 10000);
  if not private.is_service() and session_user <> 'pagewarden_worker' then
    perform private.require_case_rank(p_case_id, 2);
  end if;
  insert into public.ocr_errors (document_id, case_id, kind, error_category, error_message)
  values (
    (select d.id from public.documents as d where d.id = p_document_id), p_case_id, 'conflict', 'transient', p_message
  );
end;
$$;
comment on function private.report_conflict(text, uuid, uuid) is 'See public.report_conflict.';
grant execute on function private.report_conflict(text, uuid, uuid) to authenticated, service_role, pagewarden_worker;

create function private.find_window_start(p_since timestamptz, p_at_least integer, p_kinds text[], p_now timestamptz)
returns timestamptz
language sql
stable
security invoker
set search_path = ''
as $$
  -- least() ignores null: without any event the window stays as it is.
  select least(p_since, min(e.created_at) - interval '1 microsecond')
  from (
    (
      select r.created_at from public.ocr_processing_logs as r
      where r.created_at > p_now - interval '1 day' and r.created_at <= p_now
      order by r.created_at desc limit p_at_least
    )
    union all
    (
      select e.created_at from public.ocr_errors as e
      where e.created_at > p_now - interval '1 day' and e.created_at <= p_now and e.kind = any (p_kinds)
      order by e.created_at desc limit p_at_least
    )
    order by created_at desc limit p_at_least
  ) as e;
$$;
comment on function private.find_window_start(timestamptz, integer, text[], timestamptz) is
  'p_since, or the time of the last p_at_least results and errors of these kinds if that is earlier; at most a day ago.';

create function private.measure_attempts(
  p_metric text,
  p_since timestamptz,
  p_at_least integer,
  p_now timestamptz,
  out v_value double precision,
  out v_events bigint
)
language plpgsql
stable
security invoker
set search_path = ''
as $$
declare
  -- Every claim ends as a result or a failure; one that never came to its claim ends as a conflict.
  v_kinds constant text[] := array['failure', 'lock_expired', 'deadline']
    || case when p_metric = 'version_conflict_rate' then array['conflict'] else '{}' end;
  v_since constant timestamptz := private.find_window_start(p_since, p_at_least, v_kinds, p_now);
  v_results bigint;
  v_errors bigint;
  v_conflicts bigint;
begin
  select count(*) into v_results
  from public.ocr_processing_logs as r where r.created_at > v_since and r.created_at <= p_now;
  select count(*), count(*) filter (where e.kind = 'conflict') into v_errors, v_conflicts
  from public.ocr_errors as e where e.created_at > v_since and e.created_at <= p_now and e.kind = any (v_kinds);
  if p_metric = 'version_conflict_rate' then
    v_conflicts := v_conflicts + (
      select count(*) from private.conflicts as c where c.happened_at > v_since and c.happened_at <= p_now
    );
  end if;
  v_events := v_results + v_errors;
  v_value := case p_metric
    when 'success_rate' then v_results when 'retry_rate' then v_errors else v_conflicts
  end / nullif(v_events, 0)::double precision;
end;
$$;
comment on function private.measure_attempts(text, timestamptz, integer, timestamptz) is
  'Measure success_rate, retry_rate or version_conflict_rate of the attempts that ended since p_since, or of the last '
  'p_at_least.';

create function private.measure_retries(
  p_since timestamptz,
  p_now timestamptz,
  out v_value double precision,
  out v_events bigint
)
language sql
stable
security invoker
set search_path = ''
as $$
  -- A file that was refused for good at its first attempt was not retried.
  select c.completed / nullif(c.completed + d.dead, 0)::double precision, c.completed + d.dead
  from (
    select count(*) as completed from public.ocr_processing_logs as r
    where r.created_at > p_since and r.created_at <= p_now and r.retry_count between 1 and 3
  ) as c
  cross join (
    select count(*) as dead from public.ocr_dead_letter as l
    join public.documents as d on d.id = l.document_id
    where l.last_failed_at > p_since and l.last_failed_at <= p_now
      and l.status in ('pending', 'investigating', 'manual', 'abandoned') and d.retry_count between 2 and 3
  ) as d;
$$;
comment on function private.measure_retries(timestamptz, timestamptz) is
  'Measure retry_success_rate: documents whose retries ended since p_since, and how many of them were completed.';

-- v_value is null without a measurement; v_events is the sample size, for rules with at_least.
create function private.measure_metric(
  p_metric text,
  p_window_seconds integer,
  p_at_least integer,
  p_now timestamptz,
  out v_value double precision,
  out v_events bigint,
  out v_detail text
)
language plpgsql
stable
security invoker
set search_path = ''
as $$
declare
  v_since timestamptz := p_now - make_interval(secs => coalesce(p_window_seconds, 3600));
begin
  case p_metric
    when 'stuck_documents' then
      select count(*), string_agg(d.name, ', ' order by d.claimed_at) filter (where d.row <= 3)
      into v_value, v_detail
      from (
        select d.name, d.claimed_at, row_number() over (order by d.claimed_at) as row
        from public.documents as d
        where d.id = any (private.claimed_ids()) and d.ocr_status = 'processing'
          and (d.locked_at < p_now - interval '5 minutes' or d.claimed_at < p_now - interval '10 minutes')
      ) as d;
    when 'dead_letter_growth' then
      select count(*), mode() within group (order by l.error_group) into v_value, v_detail
      from public.ocr_dead_letter as l
      where l.status in ('pending', 'investigating', 'requeued', 'manual') and l.last_failed_at > v_since and l.last_failed_at <= p_now;
    when 'success_rate', 'retry_rate', 'version_conflict_rate' then
      select m.* into v_value, v_events from private.measure_attempts(p_metric, v_since, p_at_least, p_now) as m;
    when 'retry_success_rate' then
      select m.* into v_value, v_events from private.measure_retries(v_since, p_now) as m;
    when 'processing_seconds' then
      v_since := private.find_window_start(v_since, p_at_least, '{}', p_now);
      select avg(r.processing_time_ms) / 1000, count(*) into v_value, v_events
      from public.ocr_processing_logs as r
      where r.created_at > v_since and r.created_at <= p_now and r.processing_time_ms is not null;
    when 'seconds_to_text' then
      v_since := private.find_window_start(v_since, p_at_least, '{}', p_now);
      select percentile_cont(0.95) within group (order by r.seconds_to_text), count(*) into v_value, v_events
      from public.ocr_processing_logs as r
      where r.created_at > v_since and r.created_at <= p_now;
    when 'queue_age_seconds' then
      select extract(epoch from p_now - min(o.created_at)), string_agg(distinct o.lane, ', ') into v_value, v_detail
      from public.lanes as l
      cross join lateral (
        select d.created_at, l.lane from private.queue as q
        join public.documents as d on d.id = q.document_id
        where q.lane = l.lane
        order by q.urgency, q.turn, q.document_id
        limit 1
      ) as o
      where l.paused_at is null;
      v_value := coalesce(v_value, 0);
    when 'awaiting_file_seconds', 'extracting_seconds' then
      select extract(epoch from p_now - o.since), o.name into v_value, v_detail
      from (
        select d.name, case p_metric when 'extracting_seconds' then d.extraction_started_at else d.updated_at end as since
        from private.queue_parked as k
        join public.documents as d on d.id = k.document_id
        where k.ocr_status = case p_metric when 'extracting_seconds' then 'extracting' else 'awaiting_file' end
      ) as o
      order by o.since, o.name
      limit 1;
      v_value := coalesce(v_value, 0);
    when 'extraction_failures' then
      select count(*), mode() within group (order by e.error_group) into v_value, v_detail
      from public.ocr_errors as e
      where e.kind = 'extraction' and e.created_at > v_since and e.created_at <= p_now;
    when 'paused_lanes' then
      select count(*), string_agg(format('%s: %s', l.lane, l.pause_reason), '; ' order by l.lane) into v_value, v_detail
      from public.lanes as l where l.pause_kind = 'outage';
    when 'silent_workers' then
      select count(*), string_agg(w.worker_id, ', ' order by w.worker_id) into v_value, v_detail
      from private.workers as w where w.seen_at < p_now - interval '2 minutes';
    when 'pool_switches' then
      select x.switches, x.detail into v_value, v_detail
      from (
        select count(*) as switches, format('%s: %s', s.worker_id, max(s.reason)) as detail
        from private.pool_switches as s
        where s.at > v_since and s.at <= p_now
        group by s.worker_id order by count(*) desc limit 1
      ) as x;
      v_value := coalesce(v_value, 0);
    when 'failed_webhooks' then
      select count(*), min(w.error) into v_value, v_detail
      from public.webhooks as w
      where w.delivered = false and w.settled_at > v_since and w.settled_at <= p_now;
    when 'failed_functions' then
      select count(*), string_agg(distinct r.function_name, ', ') into v_value, v_detail
      from private.function_runs as r
      where r.outcome = 'failed' and r.ended_at > v_since and r.ended_at <= p_now;
    -- Repeats the predicate of the partial index of failed runs, so that the planner can use it.
    when 'volume_outages' then
      select count(*), mode() within group (order by r.error ->> 'message') into v_value, v_detail
      from public.volume_runs as r
      where r.outcome in ('failed', 'deadline', 'lost', 'outage') and r.outcome = 'outage'
        and r.ended_at > v_since and r.ended_at <= p_now;
    when 'failed_volumes' then
      select count(distinct t.id), mode() within group (order by r.error ->> 'message') into v_value, v_detail
      from public.volume_runs as r
      join public.volume_tasks as t on t.id = r.task_id
      where r.outcome in ('failed', 'deadline', 'lost', 'outage') and r.outcome <> 'outage'
        and r.ended_at > v_since and r.ended_at <= p_now
        and t.status = 'failed' and t.attempts >= t.max_attempts;
    else
      -- A gauge without a recent report has no value: its process is gone.
      select g.value into v_value from private.gauges as g
      where g.gauge = p_metric and g.reported_at > p_now - interval '10 minutes';
  end case;
  v_events := coalesce(v_events, 0);
end;
$$;
comment on function private.measure_metric(text, integer, integer, timestamptz) is
  'Measure a metric now, or over the last p_window_seconds; a rate or an average over p_at_least events or more, if '
  'the last day had them.';

create function private.success_criteria(p_now timestamptz default now())
returns table (
  criterion text,
  value double precision,
  unit text,
  comparison text,
  threshold double precision,
  met boolean,
  events bigint
)
language plpgsql
stable
security definer          -- checks the caller's role, then reads tables the caller may not
set search_path = pg_catalog, pg_temp
as $$
begin
  -- A connection without a token is an operator's own.
  if auth.role() is not null and not private.is_service() and not private.is_admin() then
    raise exception 'the success criteria require the "admin" role (HAC)'
      using errcode = '42501', hint = 'Ask an administrator to grant you the "admin" role.';
  end if;
  return query
  select c.criterion, m.v_value, a.unit, c.comparison, c.threshold,
    case c.comparison
      when '=' then m.v_value = c.threshold when '>' then m.v_value > c.threshold else m.v_value < c.threshold
    end,
    case when a.unit <> 'documents' then m.v_events end
  from (
    values
      (1, 'Stuck documents', 'stuck_documents', '=', 0::double precision),
      (2, 'Successful retries', 'retry_success_rate', '>', 0.9),
      (3, 'New dead letters', 'dead_letter_growth', '<', 3),
      (4, 'Version conflicts', 'version_conflict_rate', '<', 0.01),
      (5, 'Reading time', 'processing_seconds', '<', 40)
  ) as c (place, criterion, metric, comparison, threshold)
  join public.alert_metrics as a on a.metric = c.metric
  cross join lateral private.measure_metric(c.metric, 86400, 0, p_now) as m
  order by c.place;
end;
$$;
comment on function private.success_criteria(timestamptz) is 'See public.ocr_success_criteria.';
grant execute on function private.success_criteria(timestamptz) to authenticated, service_role;

create view public.ocr_success_criteria
with (security_invoker = true)
as
select * from private.success_criteria();
comment on view public.ocr_success_criteria is
  'One row for each of the five success criteria: its value over the last 24 hours (stuck documents: now), what it '
  'should be, and whether that is met; events is the sample of a share or an average. Nullable: value, met, events.';
grant select on public.ocr_success_criteria to authenticated, service_role;

create function private.is_silenced(p_rule text, p_now timestamptz)
returns boolean
language sql
stable
security invoker
set search_path = ''
as $$
  select exists (
    select 1 from public.alert_silences as s
    where (s.rule is null or s.rule = p_rule) and s.begins_at <= p_now and s.ends_at > p_now
  );
$$;
comment on function private.is_silenced(text, timestamptz) is 'Whether a silence covers a rule now.';

create function private.alert_body(p_rule public.alert_rules, p_kind text, p_alert public.alerts, p_now timestamptz)
returns jsonb
language sql
stable
security invoker
set search_path = ''
as $$
  select jsonb_build_object(
    'kind', p_kind, 'rule', (p_rule).rule, 'severity', (p_rule).severity, 'metric', m.metric, 'unit', m.unit,
    'description', m.description, 'comparison', (p_rule).comparison, 'threshold', (p_rule).threshold,
    'value', (p_alert).value, 'worst', (p_alert).worst, 'detail', (p_alert).detail, 'advice', (p_rule).advice,
    'broken_since', (p_alert).broken_since, 'fired_at', (p_alert).fired_at, 'resolved_at', (p_alert).resolved_at,
    'at', p_now
  )
  from public.alert_metrics as m
  where m.metric = (p_rule).metric;
$$;
comment on function private.alert_body(public.alert_rules, text, public.alerts, timestamptz) is
  'The body of an alert notice.';

create function private.create_alert_notices(p_rule public.alert_rules, p_kind text, p_alert public.alerts, p_now timestamptz)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  insert into public.alert_notices (alert_id, rule, kind, channel, body, next_attempt_at, created_at)
  select (p_alert).id, (p_rule).rule, p_kind, c.channel, private.alert_body(p_rule, p_kind, p_alert, p_now), p_now, p_now
  from unnest(
    case (p_rule).severity when 'critical' then array['email', 'webhook'] else array['slack'] end
  ) as c (channel);
$$;
comment on function private.create_alert_notices(public.alert_rules, text, public.alerts, timestamptz) is
  'Add a notice to the outbox for each channel: e-mail and webhook for critical alerts, Slack for warnings.';

create function private.open_alert_task(p_rule public.alert_rules, p_alert public.alerts)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  if (p_alert).severity = 'critical' then
    perform private.open_task(
      null, null, 'alert', format('Alert: %s', (p_rule).rule),
      concat_ws(' ', format('%s is %s.', (p_rule).metric, round((p_alert).value::numeric, 2)), (p_alert).detail, (p_rule).advice),
      'urgent', jsonb_build_object('alert_id', (p_alert).id, 'rule', (p_rule).rule)
    );
  end if;
end;
$$;
comment on function private.open_alert_task(public.alert_rules, public.alerts) is
  'Open a task for HAC if the alert is critical.';

create function private.resolve_alert(p_rule public.alert_rules, p_alert public.alerts, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_alert public.alerts;
begin
  update public.alerts as a set resolved_at = p_now where a.id = (p_alert).id returning a.* into v_alert;
  update public.tasks as t set status = 'done', done_at = p_now, updated_at = p_now
  where t.kind = 'alert' and (t.metadata ->> 'alert_id')::bigint = (p_alert).id and t.status in ('pending', 'in_progress');
  if v_alert.told then
    perform private.create_alert_notices(p_rule, 'resolved', v_alert, p_now);
  end if;
end;
$$;
comment on function private.resolve_alert(public.alert_rules, public.alerts, timestamptz) is
  'Resolve an alert and close its task, with notices if notices were written when it fired.';

create function private.record_measurement(p_rule public.alert_rules, p_now timestamptz)
returns private.alert_states
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_measured record := private.measure_metric(
    (p_rule).metric, (p_rule).window_seconds, (p_rule).at_least, p_now
  );
  v_broken boolean := coalesce(
    v_measured.v_events >= (p_rule).at_least and case (p_rule).comparison
      when '>' then v_measured.v_value > (p_rule).threshold else v_measured.v_value < (p_rule).threshold end,
    false
  );
  v_state private.alert_states;
begin
  select s.* into v_state from private.alert_states as s where s.rule = (p_rule).rule;
  -- After a gap in the evaluation the rule must hold for its whole time again.
  if v_state.evaluated_at < p_now - interval '5 minutes' then
    v_state.broken_since := null;
    v_state.calm_since := null;
  end if;
  insert into private.alert_states as s (rule, value, events, detail, broken_since, calm_since, evaluated_at)
  values (
    (p_rule).rule, v_measured.v_value, v_measured.v_events, left(v_measured.v_detail, 1000),
    case when v_broken then coalesce(v_state.broken_since, p_now) end,
    case when not v_broken then coalesce(v_state.calm_since, p_now) end,
    p_now
  )
  on conflict on constraint alert_states_pkey do update
  set value = excluded.value, events = excluded.events, detail = excluded.detail, broken_since = excluded.broken_since,
      calm_since = excluded.calm_since, evaluated_at = excluded.evaluated_at
  returning s.* into v_state;
  return v_state;
end;
$$;
comment on function private.record_measurement(public.alert_rules, timestamptz) is
  'Measure the metric of a rule, and record when its condition became true or false.';

create function private.evaluate_alert_rule(p_rule public.alert_rules, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_state private.alert_states := private.record_measurement(p_rule, p_now);
  v_alert public.alerts;
begin
  select a.* into v_alert from public.alerts as a where a.rule = (p_rule).rule and a.resolved_at is null for update;
  if v_alert.id is null then
    if v_state.broken_since is null or v_state.broken_since > p_now - make_interval(secs => (p_rule).hold_seconds) then
      return;
    end if;
    insert into public.alerts as a (rule, severity, value, worst, threshold, detail, broken_since, fired_at)
    values (
      (p_rule).rule, (p_rule).severity, v_state.value, v_state.value, (p_rule).threshold, v_state.detail,
      v_state.broken_since, p_now
    )
    returning a.* into v_alert;
    perform private.open_alert_task(p_rule, v_alert);
  elsif v_state.calm_since <= p_now - make_interval(secs => (p_rule).calm_seconds) then
    perform private.resolve_alert(p_rule, v_alert, p_now);
    return;
  elsif v_state.broken_since is not null then
    update public.alerts as a
    set value = v_state.value, detail = v_state.detail,
        worst = case (p_rule).comparison when '>' then greatest(a.worst, v_state.value) else least(a.worst, v_state.value) end
    where a.id = v_alert.id
    returning a.* into v_alert;
  end if;
  -- Includes an alert that fired during a silence, once the silence has ended.
  if not v_alert.told and not private.is_silenced((p_rule).rule, p_now) then
    update public.alerts as a set told = true where a.id = v_alert.id;
    perform private.create_alert_notices(p_rule, 'fired', v_alert, p_now);
  end if;
end;
$$;
comment on function private.evaluate_alert_rule(public.alert_rules, timestamptz) is 'Fire, update or resolve the alert of a rule.';

create type public.evaluate_alerts_answer as (
  evaluated bigint,
  open bigint
);
comment on type public.evaluate_alerts_answer is
  'The number of rules evaluated and the number of open alerts. While another call is evaluating the rules, evaluated '
  'is 0 and open is null. Nullable: open.';

create function public.evaluate_alerts(p_now timestamptz default now())
returns public.evaluate_alerts_answer
language plpgsql
volatile
security definer          -- services have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_rule public.alert_rules;
  v_answer public.evaluate_alerts_answer;
begin
  -- One call at a time; a second one would only repeat the work of the first.
  if not pg_try_advisory_xact_lock(hashtextextended('alerts', 6)) then
    v_answer.evaluated := 0;
    return v_answer;
  end if;
  for v_rule in select r.* from public.alert_rules as r where r.enabled order by r.rule loop
    perform private.evaluate_alert_rule(v_rule, p_now);
  end loop;
  -- A disabled rule has no open alert.
  perform private.resolve_alert(r, a, p_now)
  from public.alerts as a join public.alert_rules as r on r.rule = a.rule
  where a.resolved_at is null and not r.enabled;
  delete from private.conflicts as c where c.happened_at < p_now - interval '8 days';
  delete from public.alert_silences as s where s.ends_at < p_now - interval '90 days';
  delete from public.alerts as a where a.resolved_at < p_now - interval '400 days';
  select count(*) into v_answer.evaluated from public.alert_rules as r where r.enabled;
  select count(*) into v_answer.open from public.alerts as a where a.resolved_at is null;
  return v_answer;
end;
$$;
comment on function public.evaluate_alerts(timestamptz) is
  'Evaluate all enabled rules: measure their metrics, and fire or resolve alerts. pg_cron or the local scheduler '
  'calls it every minute.';
grant execute on function public.evaluate_alerts(timestamptz) to service_role;

create type public.claimed_alert_notice as (
  id uuid,
  attempt integer,
  channel text,
  body jsonb
);
comment on type public.claimed_alert_notice is
  'A notice to deliver through its channel. attempt is the token for settle_alert_notice.';

create function public.claim_alert_notices(
  p_limit integer default 10,
  p_lease_seconds integer default 60,
  p_now timestamptz default now()
)
returns setof public.claimed_alert_notice
language plpgsql
volatile
security definer          -- callers have no write privileges on the table
set search_path = pg_catalog, pg_temp
as $$
begin
  if (p_limit between 1 and 1000 and p_lease_seconds between 1 and 3600) is not true then
    raise exception 'p_limit must be between 1 and 1000, and p_lease_seconds between 1 and 3600'
      using errcode = '22023', hint = 'Claim in smaller batches.';
  end if;
  return query
  with due as (
    select n.id from public.alert_notices as n
    where n.settled_at is null and n.next_attempt_at <= p_now
    order by n.next_attempt_at
    limit p_limit
    for update skip locked
  )
  update public.alert_notices as n
  set attempts = n.attempts + 1, next_attempt_at = p_now + make_interval(secs => p_lease_seconds)
  from due
  where n.id = due.id
  returning n.id, n.attempts::integer, n.channel, n.body;
end;
$$;
comment on function public.claim_alert_notices(integer, integer, timestamptz) is
  'Claim notices that are due. A notice that is not settled within its lease becomes due again.';
grant execute on function public.claim_alert_notices(integer, integer, timestamptz) to service_role;

create function public.settle_alert_notice(
  p_id uuid,
  p_attempt integer,
  p_error text default null,
  p_is_set_up boolean default true,
  p_now timestamptz default now()
)
returns boolean
language plpgsql
volatile
security definer          -- callers have no write privileges on the table
set search_path = pg_catalog, pg_temp
as $$
declare
  c_max_attempts constant integer := 15;   -- with backoff, about a day
begin
  if p_is_set_up is null then
    raise exception 'p_is_set_up must be true or false' using errcode = '22023', hint = 'Pass false if the channel has no address.';
  end if;
  update public.alert_notices as n
  set error = left(p_error, 1000),
      outcome = case
        when not p_is_set_up then 'not set up'
        when p_error is null then 'delivered'
        when n.attempts >= c_max_attempts then 'given up' end,
      settled_at = case when not p_is_set_up or p_error is null or n.attempts >= c_max_attempts then p_now end,
      next_attempt_at = p_now + make_interval(secs => least(10 * 2 ^ n.attempts, 14400))
  where n.id = p_id and n.attempts = p_attempt and n.settled_at is null;
  return found;
end;
$$;
comment on function public.settle_alert_notice(uuid, integer, text, boolean, timestamptz) is
  'Record the outcome of a delivery attempt: the notice was delivered if p_error is null; otherwise it is retried '
  'with backoff. Returns false if the lease of the attempt has expired and another attempt has begun.';
grant execute on function public.settle_alert_notice(uuid, integer, text, boolean, timestamptz) to service_role;

create type public.listed_alert_rule as (
  rule text,
  metric text,
  comparison text,
  threshold double precision,
  window_seconds integer,
  hold_seconds integer,
  calm_seconds integer,
  at_least integer,
  severity text,
  enabled boolean,
  advice text,
  updated_at timestamptz,
  description text,
  unit text,
  value double precision,
  events bigint,
  detail text,
  broken_since timestamptz,
  calm_since timestamptz,
  evaluated_at timestamptz,
  alert_id bigint,
  fired_at timestamptz,
  silenced boolean
);
comment on type public.listed_alert_rule is
  'A rule with its metric, its last measurement and its open alert. '
  'Nullable: window_seconds, value, events, detail, broken_since, calm_since, evaluated_at, alert_id, fired_at.';

create function private.list_alert_rules(p_now timestamptz default now())
returns setof public.listed_alert_rule
language plpgsql
stable
security definer          -- checks the caller's role, then reads tables the caller may not
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_admin();
  return query
  select r.rule, r.metric, r.comparison, r.threshold, r.window_seconds, r.hold_seconds, r.calm_seconds, r.at_least,
    r.severity, r.enabled, r.advice, r.updated_at, m.description, m.unit, s.value, s.events, s.detail, s.broken_since,
    s.calm_since, s.evaluated_at, a.id, a.fired_at, private.is_silenced(r.rule, p_now)
  from public.alert_rules as r
  join public.alert_metrics as m on m.metric = r.metric
  left join private.alert_states as s on s.rule = r.rule
  left join public.alerts as a on a.rule = r.rule and a.resolved_at is null
  order by a.id is null, r.severity, r.rule;
end;
$$;
comment on function private.list_alert_rules(timestamptz) is 'See public.list_alert_rules.';
grant execute on function private.list_alert_rules(timestamptz) to authenticated, service_role;

create function private.list_alerts(p_before timestamptz, p_before_id bigint, p_limit integer)
returns setof public.alerts
language plpgsql
stable
security definer          -- checks the caller's role, then reads tables the caller may not
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_admin();
  perform private.require_page_size(p_limit);
  return query
  select a.* from public.alerts as a
  where (a.fired_at, a.id) < (coalesce(p_before, 'infinity'), coalesce(p_before_id, 9223372036854775807))
  order by a.fired_at desc, a.id desc
  limit p_limit;
end;
$$;
comment on function private.list_alerts(timestamptz, bigint, integer) is 'See public.list_alerts.';
grant execute on function private.list_alerts(timestamptz, bigint, integer) to authenticated, service_role;

create function private.require_rule(p_rule text)
returns public.alert_rules
language plpgsql
stable
security invoker
set search_path = ''
as $$
declare
  v_rule public.alert_rules;
begin
  select r.* into v_rule from public.alert_rules as r where r.rule = p_rule;
  if not found then
    raise exception 'unknown rule %', coalesce(p_rule, 'null')
      using errcode = '22023', hint = 'list_alert_rules() lists all rules.';
  end if;
  return v_rule;
end;
$$;
comment on function private.require_rule(text) is 'Return the rule with this name; raises 22023 if there is none.';

create type public.alert_rule_answer as (
  success boolean,
  rule text
);
comment on type public.alert_rule_answer is 'The rule that was set or tested.';

create function private.set_alert_rule(p_rule text, p_changes jsonb)
returns public.alert_rule_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  c_known constant text[] := array[
    'metric', 'comparison', 'threshold', 'window_seconds', 'hold_seconds', 'calm_seconds', 'at_least', 'severity',
    'enabled', 'advice'
  ];
  v_rule public.alert_rules;
  v_unknown text;
  v_answer public.alert_rule_answer;
begin
  perform private.require_admin();
  if (jsonb_typeof(p_changes) = 'object') is not true then
    raise exception 'p_changes must be an object' using errcode = '22023', hint = 'Send {"threshold": 10}.';
  end if;
  select k into v_unknown from jsonb_object_keys(p_changes) as k where k <> all (c_known) limit 1;
  if found then
    raise exception 'unknown rule field "%"', v_unknown using errcode = '22023', hint = 'Valid fields are ' || array_to_string(c_known, ', ') || '.';
  end if;
  if p_changes ? 'metric' and not exists (select 1 from public.alert_metrics as m where m.metric = p_changes ->> 'metric') then
    raise exception 'unknown metric %', coalesce(p_changes ->> 'metric', 'null') using errcode = '22023',
      hint = 'Valid metrics are ' || (select string_agg(m.metric, ', ' order by m.metric) from public.alert_metrics as m) || '.';
  end if;
  select r.* into v_rule from public.alert_rules as r where r.rule = p_rule for update;
  if not found then
    v_rule := jsonb_populate_record(null::public.alert_rules, '{"comparison": ">", "hold_seconds": 0, "calm_seconds": 300,
      "at_least": 0, "enabled": true, "advice": ""}');
  end if;
  v_rule := jsonb_populate_record(v_rule, p_changes || jsonb_build_object('rule', p_rule, 'updated_at', now()));
  begin
    insert into public.alert_rules as r select v_rule.*
    on conflict on constraint alert_rules_pkey do update
    set metric = excluded.metric, comparison = excluded.comparison, threshold = excluded.threshold,
        window_seconds = excluded.window_seconds, hold_seconds = excluded.hold_seconds,
        calm_seconds = excluded.calm_seconds, at_least = excluded.at_least, severity = excluded.severity,
        enabled = excluded.enabled, advice = excluded.advice, updated_at = excluded.updated_at;
  exception
    when check_violation or not_null_violation then
      raise exception 'the rule is invalid' using errcode = '22023',
        hint = 'Required: a name in lower case, a metric, a numeric threshold, a comparison (> or <), a severity '
          '(critical or warning), times of 0 to 86400 seconds, and a window of 60 to 604800 seconds.';
  end;
  perform private.log_act(null, null, 'alert_rule', format('rule %s was set', p_rule), null, null, p_changes);
  v_answer.success := true;
  v_answer.rule := p_rule;
  return v_answer;
end;
$$;
comment on function private.set_alert_rule(text, jsonb) is 'See public.set_alert_rule.';
grant execute on function private.set_alert_rule(text, jsonb) to authenticated, service_role;

create type public.silence_answer as (
  success boolean,
  error text,
  message text,
  silence_id bigint,
  ends_at timestamptz
);
comment on type public.silence_answer is
  'The silence that was started or ended, or why it was not. Only silence_alerts sets ends_at. Nullable: error, '
  'message, silence_id, ends_at.';

create function private.silence_alerts(p_rule text, p_minutes integer, p_reason text, p_now timestamptz default now())
returns public.silence_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer public.silence_answer;
begin
  perform private.require_admin();
  perform private.require_text('p_reason', p_reason, 1000);
  if p_rule is not null then
    perform private.require_rule(p_rule);
  end if;
  if (p_minutes between 1 and 43200) is not true then
    raise exception 'p_minutes must be between 1 and 43200' using errcode = '22023', hint = 'The maximum is 30 days.';
  end if;
  insert into public.alert_silences as s (rule, reason, begins_at, ends_at, made_by)
  values (p_rule, p_reason, p_now, p_now + make_interval(mins => p_minutes), auth.uid())
  returning s.id, s.ends_at into v_answer.silence_id, v_answer.ends_at;
  perform private.log_act(
    null, null, 'alerts_silenced', format('%s for %s minutes: %s', coalesce(p_rule, 'all alerts'), p_minutes, p_reason)
  );
  v_answer.success := true;
  return v_answer;
end;
$$;
comment on function private.silence_alerts(text, integer, text, timestamptz) is 'See public.silence_alerts.';
grant execute on function private.silence_alerts(text, integer, text, timestamptz) to authenticated, service_role;

create function private.end_silence(p_silence_id bigint, p_now timestamptz default now())
returns public.silence_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer public.silence_answer;
begin
  perform private.require_admin();
  update public.alert_silences as s set ends_at = greatest(p_now, s.begins_at + interval '1 microsecond')
  where s.id = p_silence_id and s.ends_at > p_now;
  v_answer.success := found;
  v_answer.silence_id := p_silence_id;
  if not v_answer.success then
    v_answer.error := 'SILENCE_NOT_FOUND';
    v_answer.message := 'there is no such silence, or it has ended';
    return v_answer;
  end if;
  perform private.log_act(null, null, 'silence_ended', format('silence %s was ended', p_silence_id));
  return v_answer;
end;
$$;
comment on function private.end_silence(bigint, timestamptz) is 'See public.end_silence.';
grant execute on function private.end_silence(bigint, timestamptz) to authenticated, service_role;

create function private.test_alert(p_rule text, p_now timestamptz default now())
returns public.alert_rule_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer public.alert_rule_answer;
begin
  perform private.require_admin();
  perform private.create_alert_notices(private.require_rule(p_rule), 'test', null, p_now);
  perform private.log_act(null, null, 'alert_tested', format('rule %s was fired as a test', p_rule));
  v_answer.success := true;
  v_answer.rule := p_rule;
  return v_answer;
end;
$$;
comment on function private.test_alert(text, timestamptz) is 'See public.test_alert.';
grant execute on function private.test_alert(text, timestamptz) to authenticated, service_role;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.report_conflict(
  p_message text,
  p_case_id uuid default null,
  p_document_id uuid default null
)
returns void
language sql volatile security invoker set search_path = ''
as $$ select private.report_conflict(p_message, p_case_id, p_document_id) $$;
comment on function public.report_conflict(text, uuid, uuid) is
  'Record in ocr_errors that a serialization failure persisted after all retries.';
grant execute on function public.report_conflict(text, uuid, uuid) to authenticated, service_role, pagewarden_worker;

create function public.list_alert_rules()
returns setof public.listed_alert_rule
language sql stable security invoker set search_path = ''
as $$ select * from private.list_alert_rules() $$;
comment on function public.list_alert_rules() is
  'HAC: every rule with its last measurement, when its condition became true or false, and its open alert; open '
  'alerts first.';
grant execute on function public.list_alert_rules() to authenticated, service_role;

create function public.list_alerts(
  p_before timestamptz default null,
  p_before_id bigint default null,
  p_limit integer default 50
)
returns setof public.alerts
language sql stable security invoker set search_path = ''
as $$ select * from private.list_alerts(p_before, p_before_id, p_limit) $$;
comment on function public.list_alerts(timestamptz, bigint, integer) is 'HAC: alerts, newest first.';
grant execute on function public.list_alerts(timestamptz, bigint, integer) to authenticated, service_role;

create function public.set_alert_rule(p_rule text, p_changes jsonb)
returns public.alert_rule_answer
language sql volatile security invoker set search_path = ''
as $$ select * from private.set_alert_rule(p_rule, p_changes) $$;
comment on function public.set_alert_rule(text, jsonb) is
  'HAC: change or create a rule. Fields: {"metric", "comparison", "threshold", "window_seconds", "hold_seconds", '
  '"calm_seconds", "at_least", "severity", "enabled", "advice"}; omitted fields do not change.';
grant execute on function public.set_alert_rule(text, jsonb) to authenticated, service_role;

create function public.silence_alerts(p_minutes integer, p_reason text, p_rule text default null)
returns public.silence_answer
language sql volatile security invoker set search_path = ''
as $$ select * from private.silence_alerts(p_rule, p_minutes, p_reason) $$;
comment on function public.silence_alerts(integer, text, text) is
  'HAC: suppress the notices of a rule, or of all rules, for p_minutes. Alerts that are still open afterwards send '
  'theirs then.';
grant execute on function public.silence_alerts(integer, text, text) to authenticated, service_role;

create function public.end_silence(p_silence_id bigint)
returns public.silence_answer
language sql volatile security invoker set search_path = ''
as $$ select * from private.end_silence(p_silence_id) $$;
comment on function public.end_silence(bigint) is 'HAC: end a silence early.';
grant execute on function public.end_silence(bigint) to authenticated, service_role;

create function public.test_alert(p_rule text)
returns public.alert_rule_answer
language sql volatile security invoker set search_path = ''
as $$ select * from private.test_alert(p_rule) $$;
comment on function public.test_alert(text) is
  'HAC: send test notices for a rule without firing an alert.';
grant execute on function public.test_alert(text) to authenticated, service_role;
