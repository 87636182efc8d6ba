-- Volumes: tables of books that pass through four stages.
--
-- line_detection, line_extraction, ocr and reduce; one row of volume_tasks follows a volume through
-- them. Claiming and completing stages is in volume_queue, moving volumes from stage to stage in
-- volume_orchestrator, what people do in volume_jobs.

create domain public.path_part as text
  constraint path_part_is_plain check (octet_length(value) <= 200 and value ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]*$');
comment on domain public.path_part is 'A name that may stand between two slashes, in a folder and in a bucket.';

create function private.volume_stages()
returns text[]
language sql
immutable
security invoker
set search_path = ''
as $$
  select array['pending', 'line_detection', 'line_extraction', 'ocr', 'reduce', 'done'];
$$;
comment on function private.volume_stages() is 'The stages in their order; pending is before the first, done after the last.';

create function private.volume_stage_number(p_stage text)
returns integer
language sql
immutable
security invoker
set search_path = ''
as $$
  select array_position(private.volume_stages(), p_stage);
$$;
comment on function private.volume_stage_number(text) is 'The place of a stage in their order, from 1 on; null for what is none.';

create function private.stage_before(p_stage text)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select (private.volume_stages())[private.volume_stage_number(p_stage) - 1];
$$;
comment on function private.stage_before(text) is 'The stage before this one.';

create function private.volume_rank(p_status text)
returns integer
language sql
immutable
security invoker
set search_path = ''
as $$
  select case p_status when 'failed' then 0 when 'running' then 1 when 'done' then 2 else 3 end;
$$;
comment on function private.volume_rank(text) is 'The order in which people look at tasks: failed ones first.';

create function private.require_volume_stage(p_stage text)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (p_stage in ('line_detection', 'line_extraction', 'ocr', 'reduce')) is not true then
    raise exception 'there is no stage %', coalesce(p_stage, 'null')
      using errcode = '22023', hint = 'Stages are line_detection, line_extraction, ocr, reduce.';
  end if;
end;
$$;
comment on function private.require_volume_stage(text) is 'Refuse what is no stage that does work (22023).';

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
comment on function private.volume_config_types() is 'The keys that the config of a job may have, and the type of each.';

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
  'What is wrong with the config of a job, in words; null when nothing is. A null is as good as a key left out.';

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
      hint = 'Keys are ' || array_to_string(
        array(select k.key from jsonb_object_keys(private.volume_config_types()) as k (key) order by k.key), ', '
      ) || '.';
  end if;
end;
$$;
comment on function private.require_volume_config(jsonb) is 'Refuse a config with unknown keys or wrong types (22023).';

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
  constraint volume_jobs_have_keys_of_their_own unique (job_key),
  constraint volume_jobs_status_is_known check (status in ('running', 'completed', 'failed', 'cancelled')),
  constraint volume_jobs_ended_has_a_time check ((status = 'running') = (finished_at is null)),
  constraint volume_jobs_config_makes_sense check (private.volume_config_problem(config) is null),
  constraint volume_jobs_stage_seconds_are_sensible check (stage_seconds between 1 and 43200)
);
comment on table public.volume_jobs is 'A request to read volumes, all in the same way.';
comment on column public.volume_jobs.user_id is 'Whose it is; null: of a service, or its owner left, then only HAC sees it.';
comment on column public.volume_jobs.job_key is 'The folder of its artifacts.';
comment on column public.volume_jobs.max_attempts is 'How often each volume may fail, in all stages together.';
comment on column public.volume_jobs.max_rescues is 'How many workers may die over one stage of a volume.';
comment on column public.volume_jobs.stage_seconds is 'How long a stage may take; 12 hours is what SQS allows at most.';
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
  constraint volumes_are_there_once unique (bdrc_w_id, bdrc_i_id)
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
  constraint volume_tasks_one_for_a_volume_of_a_job unique (job_id, volume_id),
  constraint volume_tasks_stage_is_known check (
    current_stage in ('pending', 'line_detection', 'line_extraction', 'ocr', 'reduce', 'done')
  ),
  constraint volume_tasks_status_is_known check (status in ('pending', 'running', 'done', 'failed')),
  constraint volume_tasks_pending_is_before_the_first_stage check ((current_stage = 'pending') = (status = 'pending')),
  constraint volume_tasks_done_is_done check (current_stage <> 'done' or status = 'done'),
  constraint volume_tasks_reduced_is_done check (current_stage <> 'reduce' or status <> 'done'),
  constraint volume_tasks_in_hand_is_running check (token is null or status = 'running'),
  constraint volume_tasks_lock_is_whole check (
    (token is null) = (locked_by is null)
    and (token is null) = (locked_at is null)
    and (token is null) = (lock_expires_at is null)
    and (token is null) = (deadline is null)
  ),
  constraint volume_tasks_running_is_published check (status <> 'running' or published_to is not null),
  constraint volume_tasks_queue_is_known check (published_to in ('pgmq', 'sqs')),
  constraint volume_tasks_forced_stage_is_one check (
    forced_stage in ('line_detection', 'line_extraction', 'ocr', 'reduce')
  )
)
-- Heartbeats update in place.
with (fillfactor = 70);
comment on table public.volume_tasks is 'A volume of a job, on its way through the stages.';
comment on column public.volume_tasks.status is
  'pending: new. running: its message is in the queue of the stage, or a worker has it. done: the stage is done, the '
  'next one comes; or all are. failed: tried again while attempts are fewer than max_attempts.';
comment on column public.volume_tasks.attempts is 'Failures, in all stages.';
comment on column public.volume_tasks.max_attempts is 'After so many it stays failed; what cannot succeed has no more than it used.';
comment on column public.volume_tasks.rescues is 'Workers that died over the stage.';
comment on column public.volume_tasks.publications is 'Messages so far; the number of the one that counts, which it has as attempt.';
comment on column public.volume_tasks.published_to is 'The kind of queue in which its message is.';
comment on column public.volume_tasks.forced_stage is 'The stage that is to be done again, even if it was done with the same input and config.';
comment on column public.volume_tasks.last_error is 'What went wrong last at this stage; all of it is in volume_runs.';
comment on column public.volume_tasks.token is 'The worker that has this is the only one that counts.';
comment on column public.volume_tasks.locked_at is 'The last heartbeat.';
comment on column public.volume_tasks.deadline is 'When the stage must be done, however alive its worker is.';
create index volume_tasks_volume_idx on public.volume_tasks (volume_id);
-- For counting, and for one list after another; heartbeats touch none of these.
create index volume_tasks_board_idx on public.volume_tasks (job_id, current_stage, status);
create index volume_tasks_open_idx on public.volume_tasks (job_id)
  where current_stage <> 'done' and (status <> 'failed' or attempts < max_attempts);
create index volume_tasks_ready_idx on public.volume_tasks (job_id, current_stage, id)
  where status in ('pending', 'done') and current_stage <> 'done';
create index volume_tasks_retry_idx on public.volume_tasks (job_id, current_stage, retry_at)
  where status = 'failed' and attempts < max_attempts;
create index volume_tasks_queued_idx on public.volume_tasks (job_id, current_stage)
  where status = 'running' and token is null;
create index volume_tasks_in_hand_idx on public.volume_tasks (id) where token is not null;
-- For whoever wants all of them: here nothing moves while one turns the pages.
create index volume_tasks_all_idx on public.volume_tasks (job_id, id);
create index volume_tasks_shown_idx on public.volume_tasks (job_id, private.volume_rank(status), id);
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
  constraint volume_runs_have_tokens_of_their_own unique (token),
  constraint volume_runs_outcome_is_known check (
    outcome in ('done', 'skipped', 'failed', 'deadline', 'lost', 'given_back', 'outage', 'taken_away')
  ),
  constraint volume_runs_ended_one_way check ((ended_at is null) = (outcome is null))
);
comment on table public.volume_runs is 'Each time a worker had a stage of a volume in hand, and how that ended.';
comment on column public.volume_runs.outcome is
  'done; skipped: had been done before. failed, deadline: counted. lost: its worker died. given_back: its worker was '
  'told to stop. outage: store or engine were away, or set up wrongly. taken_away: cancelled, or to be done anew. Null: not ended.';
create index volume_runs_task_idx on public.volume_runs (task_id, id);
create index volume_runs_trouble_idx on public.volume_runs (ended_at) where outcome in ('failed', 'deadline', 'lost', 'outage');
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
comment on table public.volume_results is 'What came out of each volume, in figures. Written with the end of the last stage.';
comment on column public.volume_results.processing_duration_ms is 'What all stages took together, the last time each was done.';
comment on column public.volume_results.metrics is 'All that the last stage measured.';
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
  'Messages for queues outside of this database, written in the transaction that moved the task; a row goes when its '
  'message was sent. A newer message of a task takes the place of one that was not.';
-- What was tried comes after what was not: a queue that is away holds up no other.
create index volume_outbox_order_idx on private.volume_outbox (claimed_until, created_at, task_id);
alter table private.volume_outbox enable row level security;

create table private.volume_state (
  is_one boolean not null default true,
  passed_at timestamptz,
  passed_by text,
  swept_at timestamptz,
  reconciled_at timestamptz,
  is_hinted boolean not null default false,
  constraint volume_state_pkey primary key (is_one),
  constraint volume_state_is_one_row check (is_one)
);
comment on table private.volume_state is 'What the orchestrator did last, and whether its function has been called since.';
alter table private.volume_state enable row level security;
insert into private.volume_state default values;

alter table public.volumes enable row level security;
create policy "Volumes are visible to whoever has them read and to HAC"
  on public.volumes for select to authenticated
  using ((select private.is_admin()) or exists (select 1 from public.volume_tasks as t where t.volume_id = volumes.id));
grant select on public.volumes to authenticated, service_role;
