-- Volume jobs, as people see them: create, cancel, run again, lists and the board.
--
-- A job belongs to the user who created it; only its owner, HAC and services may see and change it. The
-- functions in private check that and do the work; the functions in public only call them.

create function private.require_volume_job(p_job_id bigint)
returns void
language plpgsql
stable
security definer          -- the caller may not read the job
set search_path = pg_catalog, pg_temp
as $$
begin
  if not private.is_service() and not private.is_admin() and not exists (
    select 1 from public.volume_jobs as j where j.id = p_job_id and j.user_id = auth.uid()
  ) then
    raise exception 'no permission for job %', coalesce(p_job_id::text, 'null')
      using errcode = '42501', hint = 'Only its owner and HAC may see and change it.';
  end if;
end;
$$;
comment on function private.require_volume_job(bigint) is
  'Raise 42501 unless the caller is the owner of the job, HAC or a service.';

create function private.require_volume_sources(p_config jsonb)
returns void
language plpgsql
stable
security definer          -- the caller may not read the jobs of others
set search_path = pg_catalog, pg_temp
as $$
declare
  v_source text;
begin
  if private.is_service() or private.is_admin() then
    return;
  end if;
  select s.value into v_source
  from jsonb_array_elements_text(coalesce(p_config -> 'sources', '[]')) as s
  where s.value not like 'jobs/_%/_%' or not exists (
    select 1 from public.volume_jobs as j
    where j.job_key = split_part(s.value, '/', 2) and j.user_id = auth.uid()
  )
  limit 1;
  if found then
    raise exception 'the source % does not belong to one of your jobs', left(v_source, 450)
      using errcode = '42501', hint = 'Use a file of one of your own jobs (jobs/…/ocr_results.parquet); HAC may use any.';
  end if;
end;
$$;
comment on function private.require_volume_sources(jsonb) is
  'Raise 42501 unless the caller may read the texts that a config combines, because they become part of the job''s '
  'artifacts.';

create function private.require_volumes(p_volumes jsonb)
returns void
language plpgsql
stable
security invoker
set search_path = ''
as $$
declare
  v_wrong text;
begin
  if (
    jsonb_typeof(p_volumes) = 'array' and jsonb_array_length(p_volumes) between 1 and 100000
    and not p_volumes @? 'strict $[*] ? (@.type() <> "object")'
  ) is not true then
    raise exception 'p_volumes must be a list of 1 to 100000 objects'
      using errcode = '22023', hint = 'Send [{"bdrc_w_id": …, "bdrc_i_id": …}, …]; split larger lists into several jobs.';
  end if;
  select coalesce(v.value ->> 'bdrc_w_id', 'null') || '-' || coalesce(v.value ->> 'bdrc_i_id', 'null') into v_wrong
  from jsonb_array_elements(p_volumes) as v
  where (
    octet_length(v.value ->> 'bdrc_w_id') <= 200 and v.value ->> 'bdrc_w_id' ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]*$'
    and octet_length(v.value ->> 'bdrc_i_id') <= 200 and v.value ->> 'bdrc_i_id' ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]*$'
  ) is not true
  limit 1;
  if found then
    raise exception 'invalid volume name %', left(v_wrong, 450)
      using errcode = '22023', hint = 'bdrc_w_id and bdrc_i_id may contain only letters, digits, dots, dashes and underscores.';
  end if;
end;
$$;
comment on function private.require_volumes(jsonb) is 'Raise 22023 unless this is a list of volumes.';

create type public.create_volume_job_answer as (
  success boolean,
  error text,
  message text,
  job_id bigint,
  job_key text,
  volumes integer
);
comment on type public.create_volume_job_answer is
  'The new job, its key and its number of volumes; or an error. Nullable: error, message, job_id, volumes.';

create function private.create_volume_job(
  p_volumes jsonb,
  p_job_key text,
  p_config jsonb,
  p_max_attempts integer,
  p_stage_seconds integer,
  p_now timestamptz default now()
)
returns public.create_volume_job_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job_id bigint;
  v_key text := coalesce(p_job_key, to_char(p_now at time zone 'UTC', 'YYYYMMDD') || '-' || left(gen_random_uuid()::text, 8));
  v_count integer;
  v_answer public.create_volume_job_answer;
begin
  if auth.uid() is null and not private.is_service() then
    raise exception 'only a user or a service may create a volume job'
      using errcode = '42501', hint = 'Sign in and send the access token.';
  end if;
  perform private.require_volumes(p_volumes);
  perform private.require_volume_config(p_config);
  perform private.require_volume_sources(p_config);
  if (octet_length(v_key) <= 200 and v_key ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]*$') is not true then
    raise exception 'invalid job key %', left(v_key, 200)
      using errcode = '22023', hint = 'A key may contain only letters, digits, dots, dashes and underscores; omit it to generate one.';
  end if;
  if (p_max_attempts between 1 and 100 and p_stage_seconds between 1 and 43200) is not true then
    raise exception 'p_max_attempts must be between 1 and 100, and p_stage_seconds between 1 and 43200'
      using errcode = '22023', hint = 'Omit them to use the defaults.';
  end if;
  insert into public.volume_jobs as j (user_id, job_key, config, max_attempts, stage_seconds, created_at, updated_at)
  values (auth.uid(), v_key, jsonb_strip_nulls(p_config), p_max_attempts, p_stage_seconds, p_now, p_now)
  on conflict on constraint volume_jobs_job_key_is_unique do nothing
  returning j.id into v_job_id;
  if not found then
    v_answer.success := false;
    v_answer.error := 'JOB_KEY_TAKEN';
    v_answer.message := 'a job with this key already exists';
    v_answer.job_key := v_key;
    return v_answer;
  end if;
  -- In one order, so that two calls with the same new volumes cannot deadlock.
  insert into public.volumes (bdrc_w_id, bdrc_i_id)
  select distinct v.bdrc_w_id, v.bdrc_i_id
  from jsonb_to_recordset(p_volumes) as v (bdrc_w_id text, bdrc_i_id text)
  order by v.bdrc_w_id, v.bdrc_i_id
  on conflict on constraint volumes_are_unique do nothing;
  insert into public.volume_tasks (job_id, volume_id, max_attempts, created_at, updated_at)
  select v_job_id, k.id, p_max_attempts, p_now, p_now
  from (
    select distinct v.bdrc_w_id, v.bdrc_i_id
    from jsonb_to_recordset(p_volumes) as v (bdrc_w_id text, bdrc_i_id text)
  ) as v
  join public.volumes as k on k.bdrc_w_id = v.bdrc_w_id and k.bdrc_i_id = v.bdrc_i_id
  order by v.bdrc_w_id, v.bdrc_i_id;
  get diagnostics v_count = row_count;
  perform private.log_act(
    null, null, 'volumes_ordered', format('job %s with %s volumes', v_key, v_count), null, null,
    jsonb_build_object('job_id', v_job_id, 'config', p_config)
  );
  perform private.notify_volumes('orchestrator');
  v_answer.success := true;
  v_answer.job_id := v_job_id;
  v_answer.job_key := v_key;
  v_answer.volumes := v_count;
  return v_answer;
end;
$$;
comment on function private.create_volume_job(jsonb, text, jsonb, integer, integer, timestamptz) is
  'See public.create_volume_job.';
grant execute on function private.create_volume_job(jsonb, text, jsonb, integer, integer, timestamptz)
  to authenticated, service_role;

create function private.reset_volumes(p_task_ids bigint[], p_stage text, p_is_forced boolean, p_now timestamptz)
returns integer
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_count integer;
begin
  perform private.end_volume_run(t.token, 'taken_away', null, p_now)
  from public.volume_tasks as t where t.id = any (p_task_ids) and t.token is not null;
  delete from private.volume_outbox as o where o.task_id = any (p_task_ids);
  update public.volume_tasks as t
  set current_stage = s.stage, status = case s.stage when 'pending' then 'pending' else 'done' end,
      forced_stage = case when p_is_forced then coalesce(p_stage, t.current_stage) else t.forced_stage end,
      retry_at = null, pages_done = 0, pages_total = null,
      token = null, locked_by = null, locked_at = null, lock_expires_at = null, deadline = null, updated_at = p_now
  from (
    select k.id, private.previous_volume_stage(coalesce(p_stage, k.current_stage)) as stage
    from public.volume_tasks as k where k.id = any (p_task_ids)
  ) as s
  where t.id = s.id;
  get diagnostics v_count = row_count;
  return v_count;
end;
$$;
comment on function private.reset_volumes(bigint[], text, boolean, timestamptz) is
  'Reset tasks, which the caller has locked, to the start of a stage (null: the current stage of each) and remove '
  'their locks. p_is_forced: run that stage even if it was already done. Messages already sent become stale.';

create type public.cancel_volume_job_answer as (
  success boolean,
  error text,
  message text,
  id bigint,
  job_id bigint,
  taken_back integer
);
comment on type public.cancel_volume_job_answer is
  'The number of volumes withdrawn from queues and workers; or an error, with the job id. Nullable: error, message, '
  'id, job_id, taken_back.';

create function private.cancel_volume_job(p_job_id bigint, p_reason text, p_now timestamptz default now())
returns public.cancel_volume_job_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job public.volume_jobs;
  v_taken_back integer;
  v_answer public.cancel_volume_job_answer;
begin
  perform private.require_volume_job(p_job_id);
  perform private.require_optional_text('p_reason', p_reason, 10000);
  select j.* into v_job from public.volume_jobs as j where j.id = p_job_id for no key update;
  if not found then
    return private.volume_refusal(v_answer, 'VOLUME_JOB_NOT_FOUND', p_job_id);
  end if;
  if v_job.status <> 'running' then
    return private.volume_refusal(v_answer, 'JOB_ENDED', p_job_id);
  end if;
  update public.volume_jobs as j set status = 'cancelled', finished_at = p_now, updated_at = p_now where j.id = p_job_id;
  v_taken_back := private.reset_volumes(
    array(
      select t.id from public.volume_tasks as t
      where t.job_id = p_job_id and t.status = 'running'
      order by t.id
      for update
    ),
    null, false, p_now
  );
  perform private.log_act(
    null, null, 'volumes_cancelled', concat_ws(': ', format('job %s cancelled', v_job.job_key), p_reason), null, null,
    jsonb_build_object('job_id', p_job_id, 'taken_back', v_taken_back)
  );
  v_answer.success := true;
  v_answer.job_id := p_job_id;
  v_answer.taken_back := v_taken_back;
  return v_answer;
end;
$$;
comment on function private.cancel_volume_job(bigint, text, timestamptz) is 'See public.cancel_volume_job.';
grant execute on function private.cancel_volume_job(bigint, text, timestamptz) to authenticated, service_role;

create type public.rerun_volumes_answer as (
  success boolean,
  error text,
  message text,
  id bigint,
  job_id bigint,
  rerun integer,
  skipped integer
);
comment on type public.rerun_volumes_answer is
  'The number of volumes that will run the stage again, and the number that have not yet reached it; or an error, '
  'with the job id. Nullable: error, message, id, job_id, rerun, skipped.';

create function private.rerun_volumes(
  p_job_id bigint,
  p_stage text,
  p_task_ids bigint[],
  p_only_failed boolean,
  p_config jsonb,
  p_now timestamptz default now()
)
returns public.rerun_volumes_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job public.volume_jobs;
  v_config jsonb;
  v_wanted bigint[];
  v_ids bigint[];
  v_answer public.rerun_volumes_answer;
begin
  perform private.require_volume_job(p_job_id);
  if p_stage is not null then
    perform private.require_volume_stage(p_stage);
  end if;
  select j.* into v_job from public.volume_jobs as j where j.id = p_job_id for no key update;
  if not found then
    return private.volume_refusal(v_answer, 'VOLUME_JOB_NOT_FOUND', p_job_id);
  end if;
  v_config := jsonb_strip_nulls(v_job.config || coalesce(p_config, '{}'));
  perform private.require_volume_config(v_config);
  perform private.require_volume_sources(v_config);
  v_wanted := array(
    select t.id from public.volume_tasks as t
    where t.job_id = p_job_id and (p_task_ids is null or t.id = any (p_task_ids))
      and (t.status = 'failed' or p_stage is not null and not p_only_failed)
    order by t.id
    for update
  );
  -- A volume that has not reached the stage lacks its input.
  v_ids := array(
    select t.id from public.volume_tasks as t
    where t.id = any (v_wanted) and (
      p_stage is null
      or private.volume_stage_number(t.current_stage) >= private.volume_stage_number(p_stage)
      or t.current_stage = private.previous_volume_stage(p_stage) and t.status in ('pending', 'done')
    )
  );
  perform private.reset_volumes(v_ids, p_stage, p_stage is not null, p_now);
  update public.volume_tasks as t
  set attempts = 0, rescues = 0, max_attempts = v_job.max_attempts, last_error = null
  where t.id = any (v_ids);
  if v_ids <> '{}' or v_job.status = 'cancelled' then
    update public.volume_jobs as j
    set status = 'running', finished_at = null, config = v_config, updated_at = p_now
    where j.id = p_job_id;
  end if;
  perform private.log_act(
    null, null, 'volumes_rerun',
    format('job %s: %s volumes run %s again', v_job.job_key, cardinality(v_ids), coalesce(p_stage, 'the stage that failed')),
    null, null,
    jsonb_build_object(
      'job_id', p_job_id, 'stage', p_stage, 'tasks', to_jsonb(v_ids[1:100]), 'old_config', v_job.config, 'config', v_config
    )
  );
  perform private.notify_volumes('orchestrator');
  v_answer.success := true;
  v_answer.job_id := p_job_id;
  v_answer.rerun := cardinality(v_ids);
  v_answer.skipped := cardinality(v_wanted) - cardinality(v_ids);
  return v_answer;
end;
$$;
comment on function private.rerun_volumes(bigint, text, bigint[], boolean, jsonb, timestamptz) is
  'See public.rerun_volumes.';
grant execute on function private.rerun_volumes(bigint, text, bigint[], boolean, jsonb, timestamptz)
  to authenticated, service_role;

create type public.listed_volume_job as (
  job_id bigint,
  job_key text,
  owner_id uuid,
  status text,
  config jsonb,
  volumes bigint,
  done bigint,
  failed bigint,
  in_hand bigint,
  created_at timestamptz,
  finished_at timestamptz
);
comment on type public.listed_volume_job is
  'A job in a list: its owner, and how many volumes it has in total, done, failed, and held by workers. Nullable: '
  'owner_id, finished_at.';

create function private.list_volume_jobs(
  p_status text,
  p_before timestamptz,
  p_before_id bigint,
  p_limit integer
)
returns setof public.listed_volume_job
language plpgsql
stable
security definer          -- a policy would be evaluated for every task counted
set search_path = pg_catalog, pg_temp
as $$
declare
  v_all constant boolean := private.is_admin() or private.is_service();
begin
  perform private.require_page_size(p_limit);
  if p_status not in ('running', 'completed', 'failed', 'cancelled') then
    raise exception 'unknown job status %', p_status
      using errcode = '22023', hint = 'Valid statuses are running, completed, failed, cancelled.';
  end if;
  return query
  select j.id, j.job_key::text, j.user_id, j.status, j.config, c.volumes, c.done, c.failed, h.in_hand, j.created_at,
    j.finished_at
  from (
    select k.* from public.volume_jobs as k
    where (v_all or k.user_id = auth.uid()) and (p_status is null or k.status = p_status)
      and (k.created_at, k.id) < (coalesce(p_before, 'infinity'), coalesce(p_before_id, 9223372036854775807))
    order by k.created_at desc, k.id desc
    limit p_limit
  ) as j
  cross join lateral (
    select count(*) as volumes, count(*) filter (where t.current_stage = 'done') as done,
      count(*) filter (where t.status = 'failed') as failed
    from public.volume_tasks as t where t.job_id = j.id
  ) as c
  cross join lateral (
    select count(*) as in_hand from public.volume_tasks as t where t.job_id = j.id and t.token is not null
  ) as h
  order by j.created_at desc, j.id desc;
end;
$$;
comment on function private.list_volume_jobs(text, timestamptz, bigint, integer) is 'See public.list_volume_jobs.';
grant execute on function private.list_volume_jobs(text, timestamptz, bigint, integer) to authenticated, service_role;

create type public.volume_stage_count as (stage text, status text, volumes bigint);
comment on type public.volume_stage_count is 'How many volumes of a job are at a stage in a status.';

create type public.volume_in_progress as (
  task_id bigint,
  bdrc_w_id text,
  bdrc_i_id text,
  stage text,
  worker text,
  started_at timestamptz,
  seconds double precision,
  pages_done integer,
  pages_total integer
);
comment on type public.volume_in_progress is
  'A volume that a worker holds: when its stage started, the seconds since then, and its progress. Nullable: pages_total.';

create type public.volume_orchestrator_pass as (passed_at timestamptz, by text);
comment on type public.volume_orchestrator_pass is
  'The last orchestrator pass: its time and the process that ran it. Nullable: passed_at, by.';

create type public.volume_board_answer as (
  success boolean,
  error text,
  message text,
  id bigint,
  job_id bigint,
  job_key text,
  status text,
  config jsonb,
  created_at timestamptz,
  finished_at timestamptz,
  stages public.volume_stage_count[],
  in_hand_by_stage jsonb,
  in_hand public.volume_in_progress[],
  outage jsonb,
  timing jsonb,
  orchestrator public.volume_orchestrator_pass
);
comment on type public.volume_board_answer is
  'A summary of a job. in_hand_by_stage: how many volumes workers hold, by stage. in_hand: at most 200 of them. '
  'outage: the latest error caused by an unavailable store or engine. timing: volumes, pages, failed_pages and '
  'seconds of the last 1000 runs, by stage. Nullable: error, message, id, job_id, job_key, status, config, '
  'created_at, finished_at, stages, in_hand_by_stage, in_hand, outage, timing, orchestrator.';

create function private.volume_board(p_job_id bigint, p_now timestamptz default now())
returns public.volume_board_answer
language plpgsql
stable
security definer          -- checks the caller, then reads tables the caller may not
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job public.volume_jobs;
  v_answer public.volume_board_answer;
begin
  perform private.require_volume_job(p_job_id);
  select j.* into v_job from public.volume_jobs as j where j.id = p_job_id;
  if not found then
    return private.volume_refusal(v_answer, 'VOLUME_JOB_NOT_FOUND', p_job_id);
  end if;
  v_answer.success := true;
  v_answer.job_id := v_job.id;
  v_answer.job_key := v_job.job_key;
  v_answer.status := v_job.status;
  v_answer.config := v_job.config;
  v_answer.created_at := v_job.created_at;
  v_answer.finished_at := v_job.finished_at;
  v_answer.stages := array(
    select b::public.volume_stage_count
    from (
      select t.current_stage as stage, t.status, count(*) as volumes
      from public.volume_tasks as t where t.job_id = p_job_id
      group by t.current_stage, t.status
    ) as b
    order by private.volume_stage_number(b.stage), b.status
  );
  v_answer.in_hand_by_stage := (
    select coalesce(jsonb_object_agg(h.stage, h.volumes), '{}')
    from (
      select t.current_stage as stage, count(*) as volumes
      from public.volume_tasks as t where t.job_id = p_job_id and t.token is not null
      group by t.current_stage
    ) as h
  );
  v_answer.in_hand := array(
    select h::public.volume_in_progress
    from (
      select t.id as task_id, v.bdrc_w_id, v.bdrc_i_id, t.current_stage as stage, t.locked_by as worker,
        t.started_at, extract(epoch from p_now - t.started_at) as seconds, t.pages_done, t.pages_total
      from public.volume_tasks as t
      join public.volumes as v on v.id = t.volume_id
      where t.job_id = p_job_id and t.token is not null
      order by t.id
      limit 200
    ) as h
    order by h.task_id
  );
  -- The newest outage of a store or an engine that keeps volumes waiting.
  v_answer.outage := (
    select t.last_error from public.volume_tasks as t
    where t.job_id = p_job_id and t.status = 'running' and t.token is null and t.last_error ->> 'type' = 'Outage'
    order by t.updated_at desc
    limit 1
  );
  -- The last 1000 runs of each stage, without skipped ones.
  v_answer.timing := (
    select coalesce(jsonb_object_agg(s.stage, to_jsonb(x)), '{}')
    from unnest(private.volume_stages()) as s (stage)
    cross join lateral (
      select count(*) as volumes, sum(r.pages) as pages, sum(r.failed_pages) as failed_pages,
        sum(extract(epoch from r.ended_at - r.started_at)) as seconds
      from (
        select k.pages, k.failed_pages, k.started_at, k.ended_at
        from public.volume_runs as k
        where k.job_id = p_job_id and k.stage = s.stage and k.outcome = 'done'
        order by k.id desc
        limit 1000
      ) as r
    ) as x
    where x.volumes > 0
  );
  v_answer.orchestrator := (
    select o::public.volume_orchestrator_pass
    from (select s.last_pass_at as passed_at, s.last_pass_by as by from private.volume_orchestrator_state as s) as o
  );
  return v_answer;
end;
$$;
comment on function private.volume_board(bigint, timestamptz) is 'See public.volume_board.';
grant execute on function private.volume_board(bigint, timestamptz) to authenticated, service_role;

create type public.volume_figures as (
  total_images integer,
  total_lines integer,
  total_characters integer,
  processing_duration_ms real,
  dewarping_applied_count integer,
  metrics jsonb,
  created_at timestamptz,
  updated_at timestamptz
);
comment on type public.volume_figures is
  'The result of a volume, a row of volume_results. Nullable: total_images, total_lines, total_characters, '
  'processing_duration_ms, dewarping_applied_count.';

create type public.listed_volume_task as (
  task_id bigint,
  volume_id bigint,
  bdrc_w_id text,
  bdrc_i_id text,
  stage text,
  status text,
  rank integer,
  attempts integer,
  max_attempts integer,
  last_error jsonb,
  worker text,
  pages_done integer,
  pages_total integer,
  started_at timestamptz,
  done_at timestamptz,
  seconds jsonb,
  result public.volume_figures
);
comment on type public.listed_volume_task is
  'A volume of a job in a list. rank: the sort rank of its status, for pagination. seconds: the duration of each '
  'stage, by stage. Nullable: last_error, worker, pages_total, started_at, done_at, result.';

create function private.list_volume_tasks(
  p_job_id bigint,
  p_stage text,
  p_status text,
  p_after_rank integer,
  p_after_id bigint,
  p_limit integer,
  p_by_id boolean
)
returns setof public.listed_volume_task
language plpgsql
stable
security definer          -- checks the caller, then reads tables the caller may not
set search_path = pg_catalog, pg_temp
-- A page in the order of its index, whatever the statistics say.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_ids bigint[];
begin
  perform private.require_volume_job(p_job_id);
  perform private.require_page_size(p_limit);
  if p_by_id then
    v_ids := array(
      select k.id from public.volume_tasks as k
      where k.job_id = p_job_id and k.id > coalesce(p_after_id, 0)
        and (p_stage is null or k.current_stage = p_stage) and (p_status is null or k.status = p_status)
      order by k.id
      limit p_limit
    );
  else
    v_ids := array(
      select k.id from public.volume_tasks as k
      where k.job_id = p_job_id
        and (private.volume_status_rank(k.status), k.id) > (coalesce(p_after_rank, -1), coalesce(p_after_id, 0))
        and (p_stage is null or k.current_stage = p_stage) and (p_status is null or k.status = p_status)
      order by private.volume_status_rank(k.status), k.id
      limit p_limit
    );
  end if;
  return query
  select t.id, t.volume_id, v.bdrc_w_id::text, v.bdrc_i_id::text, t.current_stage, t.status,
    private.volume_status_rank(t.status), t.attempts::integer, t.max_attempts::integer, t.last_error, t.locked_by,
    t.pages_done::integer, t.pages_total::integer, t.started_at, t.done_at,
    (
      select coalesce(jsonb_object_agg(s.stage, s.seconds), '{}') from private.stage_seconds(t.id) as s
    ),
    (
      select f::public.volume_figures
      from (
        select x.total_images, x.total_lines, x.total_characters, x.processing_duration_ms, x.dewarping_applied_count,
          x.metrics, x.created_at, x.updated_at
        from public.volume_results as x where x.task_id = t.id
      ) as f
    )
  from unnest(v_ids) with ordinality as i (id, place)
  join public.volume_tasks as t on t.id = i.id
  join public.volumes as v on v.id = t.volume_id
  order by i.place;
end;
$$;
comment on function private.list_volume_tasks(bigint, text, text, integer, bigint, integer, boolean) is
  'See public.list_volume_tasks.';
grant execute on function private.list_volume_tasks(bigint, text, text, integer, bigint, integer, boolean)
  to authenticated, service_role;

create function private.volume_history(p_task_id bigint, p_limit integer)
returns setof public.volume_runs
language plpgsql
stable
security definer          -- checks the caller, then reads tables the caller may not
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_volume_job((select t.job_id from public.volume_tasks as t where t.id = p_task_id));
  perform private.require_page_size(p_limit);
  return query
  select r.* from public.volume_runs as r where r.task_id = p_task_id order by r.id desc limit p_limit;
end;
$$;
comment on function private.volume_history(bigint, integer) is 'See public.volume_history.';
grant execute on function private.volume_history(bigint, integer) to authenticated, service_role;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.create_volume_job(
  p_volumes jsonb,
  p_job_key text default null,
  p_config jsonb default '{}',
  p_max_attempts integer default 3,
  p_stage_seconds integer default 21600
)
returns public.create_volume_job_answer
language sql volatile security invoker set search_path = ''
as $$ select private.create_volume_job(p_volumes, p_job_key, p_config, p_max_attempts, p_stage_seconds) $$;
comment on function public.create_volume_job(jsonb, text, jsonb, integer, integer) is
  'Create a job that reads volumes: [{"bdrc_w_id", "bdrc_i_id"}, …]. The images are in the input bucket of the '
  'workers; artifacts go to jobs/<job_key>. JOB_KEY_TAKEN: choose another key.';
grant execute on function public.create_volume_job(jsonb, text, jsonb, integer, integer) to authenticated, service_role;

create function public.cancel_volume_job(p_job_id bigint, p_reason text default null)
returns public.cancel_volume_job_answer
language sql volatile security invoker set search_path = ''
as $$ select private.cancel_volume_job(p_job_id, p_reason) $$;
comment on function public.cancel_volume_job(bigint, text) is
  'Cancel a job immediately. Workers lose its tasks, finished stages are kept, and rerun_volumes continues with the '
  'rest.';
grant execute on function public.cancel_volume_job(bigint, text) to authenticated, service_role;

create function public.rerun_volumes(
  p_job_id bigint,
  p_stage text default null,
  p_task_ids bigint[] default null,
  p_only_failed boolean default false,
  p_config jsonb default null
)
returns public.rerun_volumes_answer
language sql volatile security invoker set search_path = ''
as $$ select private.rerun_volumes(p_job_id, p_stage, p_task_ids, coalesce(p_only_failed, false), p_config) $$;
comment on function public.rerun_volumes(bigint, text, bigint[], boolean, jsonb) is
  'Rerun a stage and all later stages for all volumes of a job, for some (p_task_ids), or for failed ones. If p_stage '
  'is null, failed volumes continue with the stage in which they failed. p_config overrides keys of the job''s '
  'config. Volumes that have not reached the stage are skipped. A job that has ended is set to running again.';
grant execute on function public.rerun_volumes(bigint, text, bigint[], boolean, jsonb) to authenticated, service_role;

create function public.list_volume_jobs(
  p_status text default null,
  p_before timestamptz default null,
  p_before_id bigint default null,
  p_limit integer default 50
)
returns setof public.listed_volume_job
language sql stable security invoker set search_path = ''
as $$ select * from private.list_volume_jobs(p_status, p_before, p_before_id, p_limit) $$;
comment on function public.list_volume_jobs(text, timestamptz, bigint, integer) is
  'The jobs that the caller may see, newest first, with their progress. Continues after the job p_before_id, created '
  'at p_before.';
grant execute on function public.list_volume_jobs(text, timestamptz, bigint, integer) to authenticated, service_role;

create function public.volume_board(p_job_id bigint)
returns public.volume_board_answer
language sql stable security invoker set search_path = ''
as $$ select private.volume_board(p_job_id) $$;
comment on function public.volume_board(bigint) is
  'A summary of a job: volumes by stage and status, the volumes that workers hold (at most 200) and their progress, '
  'the stage durations, and the last orchestrator pass.';
grant execute on function public.volume_board(bigint) to authenticated, service_role;

create function public.list_volume_tasks(
  p_job_id bigint,
  p_stage text default null,
  p_status text default null,
  p_after_rank integer default null,
  p_after_id bigint default null,
  p_limit integer default 50,
  p_by_id boolean default false
)
returns setof public.listed_volume_task
language sql stable security invoker set search_path = ''
as $$ select * from private.list_volume_tasks(p_job_id, p_stage, p_status, p_after_rank, p_after_id, p_limit, coalesce(p_by_id, false)) $$;
comment on function public.list_volume_tasks(bigint, text, text, integer, bigint, integer, boolean) is
  'The volumes of a job, failed ones first, with the duration of each stage and the result. Continues after the given '
  'rank and task_id. p_by_id: ordered by task_id, which does not change while volumes progress; continues after '
  'p_after_id.';
grant execute on function public.list_volume_tasks(bigint, text, text, integer, bigint, integer, boolean)
  to authenticated, service_role;

create function public.volume_history(p_task_id bigint, p_limit integer default 50)
returns setof public.volume_runs
language sql stable security invoker set search_path = ''
as $$ select * from private.volume_history(p_task_id, p_limit) $$;
comment on function public.volume_history(bigint, integer) is
  'All attempts to process a volume, newest first: stage, times, pages, outcome.';
grant execute on function public.volume_history(bigint, integer) to authenticated, service_role;
