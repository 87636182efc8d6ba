-- Volumes: the tables of jobs that read books in four stages.
--
-- A job reads volumes with one config. Each volume passes through line_detection, line_extraction, ocr
-- and reduce; one row of volume_tasks, its stage task, records how far it is. volume_runs has a row for
-- each attempt of a worker at a stage, volume_results the figures of finished volumes.
--
-- This file has the tables, the order of the stages, and the check of a job's config. Claiming and
-- completing stages is in volume_queue, moving volumes from stage to stage in volume_orchestrator,
-- creating jobs and the lists of the dashboard in volume_jobs.

create domain public.path_part as text
  constraint path_part_is_plain check (octet_length(value) <= 200 and value ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]*$');
comment on domain public.path_part is 'A name that can be one segment of a path, in a folder or in a bucket.';

create function private.volume_stages()
returns text[]
language sql
immutable
security invoker
set search_path = ''
as $$
  select array['pending', 'line_detection', 'line_extraction', 'ocr', 'reduce', 'done'];
$$;
comment on function private.volume_stages() is
  'All stages in order; pending comes before the first stage that does work, done after the last.';

create function private.volume_stage_number(p_stage text)
returns integer
language sql
immutable
security invoker
set search_path = ''
as $$
  select array_position(private.volume_stages(), p_stage);
$$;
comment on function private.volume_stage_number(text) is
  'The position of a stage in volume_stages(), from 1; null for an unknown stage.';

create function private.previous_volume_stage(p_stage text)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select (private.volume_stages())[private.volume_stage_number(p_stage) - 1];
$$;
comment on function private.previous_volume_stage(text) is 'The stage before this one.';

create function private.volume_status_rank(p_status text)
returns integer
language sql
immutable
security invoker
set search_path = ''
as $$
  select case p_status when 'failed' then 0 when 'running' then 1 when 'done' then 2 else 3 end;
$$;
comment on function private.volume_status_rank(text) is 'The order in which lists show statuses: failed first.';

create function private.require_volume_stage(p_stage text)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (p_stage in ('line_detection', 'line_extraction', 'ocr', 'reduce')) is not true then
    raise exception 'unknown stage %', coalesce(p_stage, 'null')
      using errcode = '22023', hint = 'Valid stages are line_detection, line_extraction, ocr, reduce.';
  end if;
end;
$$;
comment on function private.require_volume_stage(text) is 'Raise 22023 unless this is a stage that does work.';

create function private.volume_config_types()
returns jsonb
language sql
immutable
security invoker
set search_path = ''
as $$
  select jsonb_build_object(
    'k_factor', 'number', 'bbox_tolerance', 'number', 'merge_lines', 'boolean', 'use_tps', 'boolean',
    'tps_ratio', 'number', 'encoding', 'string', 'line_mode', 'string', 'engine', 'string', 'profile', 'string',
    'language', 'string', 'failed_pages_allowed', 'number', 'reducer', 'string', 'sources', 'array', 'exports', 'array',
    'processes', 'number'
  );
$$;
comment on function private.volume_config_types() is
  'The keys that the config of a job may have, and the JSON type of each.';

create function private.volume_config_problem(p_config jsonb)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select case
    when p_config is null or jsonb_typeof(p_config) <> 'object' then 'config must be an object'
    else (
      select case
        when t.type is null then format('config has an unknown key "%s"', left(c.key, 100))
        else format('config: %s must be a %s', c.key, t.type)
      end
      from jsonb_each(p_config) as c
      left join jsonb_each_text(private.volume_config_types()) as t (key, type) on t.key = c.key
      where jsonb_typeof(c.value) is distinct from t.type and (t.type is null or jsonb_typeof(c.value) <> 'null')
      order by c.key
      limit 1
    )
  end;
$$;
comment on function private.volume_config_problem(jsonb) is
  'The error in a job config; null if the config is valid. A key whose value is null counts as omitted.';

create function private.require_volume_config(p_config jsonb)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
declare
  v_problem text := private.volume_config_problem(p_config);
begin
  if v_problem is not null then
    raise exception '%', v_problem using errcode = '22023',
      hint = 'Valid keys are ' || array_to_string(
        array(select k.key from jsonb_object_keys(private.volume_config_types()) as k (key) order by k.key), ', '
      ) || '.';
  end if;
end;
$$;
comment on function private.require_volume_config(jsonb) is
  'Raise 22023 for a config with unknown keys or wrong types.';

create table public.volume_jobs (
  id bigint generated always as identity,
  user_id uuid references auth.users (id) on delete set null,
  job_key public.path_part not null,
  config jsonb not null default '{}',
  status text not null default 'running',
  max_attempts public.counter not null default 3,
  max_rescues public.counter not null default 5,
  stage_seconds public.counter not null default 21600,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  finished_at timestamptz,
  constraint volume_jobs_pkey primary key (id),
  constraint volume_jobs_job_key_is_unique unique (job_key),
  constraint volume_jobs_status_is_known check (status in ('running', 'completed', 'failed', 'cancelled')),
  constraint volume_jobs_ended_has_finished_at check ((status = 'running') = (finished_at is null)),
  constraint volume_jobs_config_is_valid check (private.volume_config_problem(config) is null),
  constraint volume_jobs_stage_seconds_are_in_range check (stage_seconds between 1 and 43200)
);
comment on table public.volume_jobs is 'Requests to read volumes with one config.';
comment on column public.volume_jobs.user_id is
  'The owner; null if a service created the job or the owner was deleted, in which case only HAC sees the job.';
comment on column public.volume_jobs.job_key is 'The folder for the job''s artifacts.';
comment on column public.volume_jobs.max_attempts is 'How often each volume may fail, counted over all stages.';
comment on column public.volume_jobs.max_rescues is 'How many workers may die during one stage of a volume.';
comment on column public.volume_jobs.stage_seconds is 'How long a stage may take. SQS allows at most 12 hours.';
create index volume_jobs_user_idx on public.volume_jobs (user_id);
create index volume_jobs_created_idx on public.volume_jobs (created_at, id);
create index volume_jobs_running_idx on public.volume_jobs (id) where status = 'running';
alter table public.volume_jobs enable row level security;
create policy "Jobs are visible to their owner and to HAC"
  on public.volume_jobs for select to authenticated
  using (user_id = (select auth.uid()) or (select private.is_admin()));
grant select on public.volume_jobs to authenticated, service_role;

create table public.volumes (
  id bigint generated always as identity,
  bdrc_w_id public.path_part not null,
  bdrc_i_id public.path_part not null,
  created_at timestamptz not null default now(),
  constraint volumes_pkey primary key (id),
  constraint volumes_are_unique unique (bdrc_w_id, bdrc_i_id)
);
comment on table public.volumes is 'Books: an image group (bdrc_i_id) of a work (bdrc_w_id).';

create table public.volume_tasks (
  id bigint generated always as identity,
  job_id bigint not null references public.volume_jobs (id) on delete cascade,
  volume_id bigint not null references public.volumes (id),
  current_stage text not null default 'pending',
  status text not null default 'pending',
  attempts public.counter not null default 0,
  max_attempts public.counter not null default 3,
  rescues public.counter not null default 0,
  publications public.counter not null default 0,
  published_to text,
  published_at timestamptz,
  forced_stage text,
  retry_at timestamptz,
  last_error jsonb,
  token uuid,
  locked_by text,
  locked_at timestamptz,
  lock_expires_at timestamptz,
  deadline timestamptz,
  pages_done public.counter not null default 0,
  pages_total public.counter,
  started_at timestamptz,
  done_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint volume_tasks_pkey primary key (id),
  constraint volume_tasks_are_unique_per_job_and_volume unique (job_id, volume_id),
  constraint volume_tasks_stage_is_known check (
    current_stage in ('pending', 'line_detection', 'line_extraction', 'ocr', 'reduce', 'done')
  ),
  constraint volume_tasks_status_is_known check (status in ('pending', 'running', 'done', 'failed')),
  constraint volume_tasks_pending_is_before_the_first_stage check ((current_stage = 'pending') = (status = 'pending')),
  constraint volume_tasks_done_is_done check (current_stage <> 'done' or status = 'done'),
  constraint volume_tasks_reduced_is_done check (current_stage <> 'reduce' or status <> 'done'),
  constraint volume_tasks_locked_is_running check (token is null or status = 'running'),
  constraint volume_tasks_lock_is_complete check (
    (token is null) = (locked_by is null)
    and (token is null) = (locked_at is null)
    and (token is null) = (lock_expires_at is null)
    and (token is null) = (deadline is null)
  ),
  constraint volume_tasks_running_is_published check (status <> 'running' or published_to is not null),
  constraint volume_tasks_queue_is_known check (published_to in ('pgmq', 'sqs')),
  constraint volume_tasks_forced_stage_is_known check (
    forced_stage in ('line_detection', 'line_extraction', 'ocr', 'reduce')
  )
)
-- Heartbeats are HOT updates.
with (fillfactor = 70);
comment on table public.volume_tasks is
  'The stage task of each volume of a job: its stage, its status, and the worker that holds it.';
comment on column public.volume_tasks.status is
  'pending: new. running: its message is in the queue of the stage, or a worker holds it. done: the stage is done and '
  'the next one follows, or all are done. failed: retried while attempts < max_attempts.';
comment on column public.volume_tasks.attempts is 'Failures, counted over all stages.';
comment on column public.volume_tasks.max_attempts is
  'After this many failures, the task stays failed. A permanent error sets max_attempts to attempts.';
comment on column public.volume_tasks.rescues is 'Workers that died during the current stage.';
comment on column public.volume_tasks.publications is
  'Number of messages published so far. The newest message has this number as its attempt, and only that message is '
  'valid.';
comment on column public.volume_tasks.published_to is 'The kind of queue that holds its message.';
comment on column public.volume_tasks.forced_stage is
  'The stage to run again even if it was already done with the same input and config.';
comment on column public.volume_tasks.last_error is
  'The last error of the current stage; volume_runs has all of them.';
comment on column public.volume_tasks.token is 'The lock token (fencing token) of the worker that holds the task.';
comment on column public.volume_tasks.locked_at is 'The last heartbeat.';
comment on column public.volume_tasks.deadline is 'When the stage must be done. Heartbeats do not extend it.';
create index volume_tasks_volume_idx on public.volume_tasks (volume_id);
-- For counts and lists. Heartbeats change no column of these indexes.
create index volume_tasks_stage_status_idx on public.volume_tasks (job_id, current_stage, status);
create index volume_tasks_open_idx on public.volume_tasks (job_id)
  where current_stage <> 'done' and (status <> 'failed' or attempts < max_attempts);
create index volume_tasks_ready_idx on public.volume_tasks (job_id, current_stage, id)
  where status in ('pending', 'done') and current_stage <> 'done';
create index volume_tasks_retry_idx on public.volume_tasks (job_id, current_stage, retry_at)
  where status = 'failed' and attempts < max_attempts;
create index volume_tasks_queued_idx on public.volume_tasks (job_id, current_stage)
  where status = 'running' and token is null;
create index volume_tasks_waiting_idx on public.volume_tasks (current_stage, published_at)
  where status = 'running' and token is null;
create index volume_tasks_locked_idx on public.volume_tasks (id) where token is not null;
-- For reading all tasks in pages, in an order that does not change in between.
create index volume_tasks_job_id_idx on public.volume_tasks (job_id, id);
create index volume_tasks_job_rank_idx on public.volume_tasks (job_id, private.volume_status_rank(status), id);
alter table public.volume_tasks enable row level security;
create policy "Tasks are visible to the owner of the job and to HAC"
  on public.volume_tasks for select to authenticated
  using (exists (select 1 from public.volume_jobs as j where j.id = volume_tasks.job_id));
grant select on public.volume_tasks to authenticated, service_role;

create table public.volume_runs (
  id bigint generated always as identity,
  task_id bigint not null references public.volume_tasks (id) on delete cascade,
  job_id bigint not null,
  stage text not null,
  attempt integer not null,
  token uuid not null,
  worker_id text not null,
  started_at timestamptz not null,
  ended_at timestamptz,
  outcome text,
  pages public.counter,
  failed_pages public.counter,
  metrics jsonb,
  error jsonb,
  constraint volume_runs_pkey primary key (id),
  constraint volume_runs_token_is_unique unique (token),
  constraint volume_runs_outcome_is_known check (
    outcome in ('done', 'skipped', 'failed', 'deadline', 'lost', 'given_back', 'outage', 'taken_away')
  ),
  constraint volume_runs_ended_has_an_outcome check ((ended_at is null) = (outcome is null))
);
comment on table public.volume_runs is 'Each attempt of a worker at a stage of a volume, and its outcome.';
comment on column public.volume_runs.outcome is
  'done. skipped: the artifacts already existed. failed, deadline: counted as failures. lost: the worker died. '
  'given_back: the worker stopped. outage: a store or an engine was unavailable or misconfigured. taken_away: the job '
  'was cancelled or the stage is run again. Null: the run has not ended.';
create index volume_runs_task_idx on public.volume_runs (task_id, id);
create index volume_runs_failures_idx on public.volume_runs (ended_at) where outcome in ('failed', 'deadline', 'lost', 'outage');
create index volume_runs_done_idx on public.volume_runs (job_id, stage, id) where outcome = 'done';
alter table public.volume_runs enable row level security;
create policy "Runs are visible to the owner of the job and to HAC"
  on public.volume_runs for select to authenticated
  using (exists (select 1 from public.volume_tasks as t where t.id = volume_runs.task_id));
grant select on public.volume_runs to authenticated, service_role;

create table public.volume_results (
  task_id bigint not null references public.volume_tasks (id) on delete cascade,
  total_images integer,
  total_lines integer,
  total_characters integer,
  processing_duration_ms real,
  dewarping_applied_count integer,
  metrics jsonb not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint volume_results_pkey primary key (task_id)
);
comment on table public.volume_results is
  'The results of each finished volume, written when the last stage completes.';
comment on column public.volume_results.processing_duration_ms is
  'The total time of all stages, based on the last completed run of each.';
comment on column public.volume_results.metrics is 'All metrics recorded by the last stage.';
alter table public.volume_results enable row level security;
create policy "Results of volumes are visible to the owner of the job and to HAC"
  on public.volume_results for select to authenticated
  using (exists (select 1 from public.volume_tasks as t where t.id = volume_results.task_id));
grant select on public.volume_results to authenticated, service_role;

create table private.volume_outbox (
  task_id bigint not null references public.volume_tasks (id) on delete cascade,
  stage text not null,
  message jsonb not null,
  claimed_until timestamptz not null default '-infinity',
  created_at timestamptz not null,
  constraint volume_outbox_pkey primary key (task_id)
);
comment on table private.volume_outbox is
  'Messages to send to queues outside this database, written in the transaction that moves the task. A row is deleted '
  'once its message has been sent. A newer message for a task replaces an unsent one.';
-- Retried messages come after new ones, so an unavailable queue does not block others.
create index volume_outbox_order_idx on private.volume_outbox (claimed_until, created_at, task_id);
alter table private.volume_outbox enable row level security;

create table private.volume_orchestrator_state (
  is_one boolean not null default true,
  last_pass_at timestamptz,
  last_pass_by text,
  swept_at timestamptz,
  reconciled_at timestamptz,
  is_call_pending boolean not null default false,
  constraint volume_orchestrator_state_pkey primary key (is_one),
  constraint volume_orchestrator_state_is_one_row check (is_one)
);
comment on table private.volume_orchestrator_state is
  'One row: when the orchestrator last ran, swept and reconciled, and whether a call of its function is pending.';
alter table private.volume_orchestrator_state enable row level security;
insert into private.volume_orchestrator_state default values;

alter table public.volumes enable row level security;
create policy "Volumes are visible to owners of their jobs and to HAC"
  on public.volumes for select to authenticated
  using ((select private.is_admin()) or exists (select 1 from public.volume_tasks as t where t.volume_id = volumes.id));
grant select on public.volumes to authenticated, service_role;
