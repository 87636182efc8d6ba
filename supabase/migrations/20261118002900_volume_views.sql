-- Schema volumes: jobs, tasks, volumes and results under the names of the pipeline they come from.
--
-- Schema public uses these names for other tables. With search_path = volumes, public the statements of
-- that pipeline's programs run unchanged. Triggers map an update to the steps of the functions: a change
-- that the state machine does not allow is refused, an outdated one has no effect. The API does not expose this schema.

create schema if not exists volumes;
comment on schema volumes is
  'Jobs, tasks, volumes and results under the names of their original pipeline, which schema public uses for other tables.';
grant usage on schema volumes to authenticated, service_role;

create view volumes.jobs
with (security_invoker = true)
as
select j.id, j.job_key::text as job_key, j.status, j.config, j.created_at, j.finished_at
from public.volume_jobs as j;
comment on view volumes.jobs is
  'The rows of volume_jobs. An update can end a job only when none of its volumes is open.';
grant select on volumes.jobs to authenticated, service_role;
grant update on volumes.jobs to service_role;

create view volumes.volumes
with (security_invoker = true)
as
select v.id, v.bdrc_w_id::text as bdrc_w_id, v.bdrc_i_id::text as bdrc_i_id, v.created_at from public.volumes as v;
comment on view volumes.volumes is 'The rows of public.volumes.';
grant select on volumes.volumes to authenticated, service_role;

create view volumes.tasks
with (security_invoker = true)
as
select t.id, t.job_id, t.volume_id, t.current_stage, t.status, t.attempts::integer as attempts,
  t.max_attempts::integer as max_attempts, t.last_error, t.started_at, t.done_at, t.created_at, t.updated_at,
  t.locked_by as worker, t.pages_done::integer as pages_done, t.pages_total::integer as pages_total
from public.volume_tasks as t;
comment on view volumes.tasks is
  'The rows of volume_tasks. An update carries no lock token, so it applies only while no worker holds the task.';
grant select on volumes.tasks to authenticated, service_role;
grant update on volumes.tasks to service_role;

create view volumes.volume_results
with (security_invoker = true)
as
select t.job_id, t.volume_id, r.task_id, r.total_images, r.total_lines, r.total_characters, r.processing_duration_ms,
  r.dewarping_applied_count, r.metrics, r.created_at, r.updated_at
from public.volume_results as r
join public.volume_tasks as t on t.id = r.task_id;
comment on view volumes.volume_results is 'The rows of public.volume_results, by job and volume.';
grant select on volumes.volume_results to authenticated, service_role;
grant insert, update on volumes.volume_results to service_role;

create function private.reopen_volume_job(p_job_id bigint, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  update public.volume_jobs as j set status = 'running', finished_at = null, updated_at = p_now
  where j.id = p_job_id and j.status in ('completed', 'failed') and private.volume_job_outcome(p_job_id) is null;
  perform private.notify_volumes('orchestrator');
end;
$$;
comment on function private.reopen_volume_job(bigint, timestamptz) is
  'Set a completed or failed job that the caller has locked to running again if it has open volumes. A cancelled '
  'job stays cancelled.';

create function private.apply_volume_task_update(p_old volumes.tasks, p_new volumes.tasks, p_now timestamptz default now())
returns boolean
language plpgsql
volatile
security definer          -- the caller has no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task public.volume_tasks;
  v_stage constant text := (private.volume_stages())[private.volume_stage_number(p_new.current_stage) + 1];
begin
  if (p_new.id, p_new.job_id, p_new.volume_id, p_new.worker, p_new.pages_done, p_new.pages_total)
    is distinct from (p_old.id, p_old.job_id, p_old.volume_id, p_old.worker, p_old.pages_done, p_old.pages_total)
    or (p_new.max_attempts > 0) is not true then
    raise exception 'only the stage, status, attempts, max_attempts, last_error and times of a task can be changed'
      using errcode = '22023', hint = 'Create jobs with create_volume_job.';
  end if;
  perform 1 from public.volume_jobs as j where j.id = p_old.job_id for no key update;
  -- Waits for a transaction that is changing the task, and reads its new state.
  select t.* into v_task from public.volume_tasks as t where t.id = p_old.id for update;
  if v_task.token is not null
    or (v_task.current_stage, v_task.status, v_task.attempts)
      is distinct from (p_old.current_stage, p_old.status, p_old.attempts) then
    return false;
  end if;
  case
    when (p_new.current_stage, p_new.status, p_new.attempts) = (p_old.current_stage, p_old.status, p_old.attempts) then
      update public.volume_tasks as t
      set started_at = p_new.started_at, done_at = p_new.done_at, last_error = p_new.last_error,
          max_attempts = p_new.max_attempts, updated_at = p_now,
          retry_at = case when t.status = 'failed' and t.attempts < p_new.max_attempts then coalesce(t.retry_at, p_now) end
      where t.id = p_old.id;
      if v_task.status = 'failed' and p_new.max_attempts <> v_task.max_attempts then
        perform private.reopen_volume_job(p_old.job_id, p_now);
      end if;
    when p_old.status = 'running' and p_new.status = 'done'
      and p_new.current_stage = coalesce(nullif(p_old.current_stage, 'reduce'), 'done') then
      perform private.finish_volume_stage(v_task, null, p_now);
    when p_old.status = 'running' and p_new.status = 'failed' and p_new.current_stage = p_old.current_stage
      and p_new.attempts = p_old.attempts + 1 then
      perform private.fail_volume(
        v_task, 'failed',
        case when jsonb_typeof(p_new.last_error) = 'object' then p_new.last_error
          else jsonb_build_object('message', p_new.last_error) end,
        false, null, p_now
      );
    when (p_new.status = 'done' or p_new.current_stage = 'pending' and p_new.status = 'pending')
      and v_stage in ('line_detection', 'line_extraction', 'ocr', 'reduce')
      and private.volume_stage_number(p_old.current_stage) >= private.volume_stage_number(v_stage) then
      perform private.reset_volumes(array[p_old.id], v_stage, true, p_now);
      update public.volume_tasks as t
      set attempts = p_new.attempts, max_attempts = p_new.max_attempts, rescues = 0
      where t.id = p_old.id;
      perform private.reopen_volume_job(p_old.job_id, p_now);
    when p_new.current_stage = p_old.current_stage and p_new.status in ('running', 'done', 'failed') then
      return false;   -- a late report
    else
      raise exception 'a task cannot change from % % to % %',
        p_old.current_stage, p_old.status, p_new.current_stage, p_new.status
        using errcode = '22023', hint = 'The orchestrator moves tasks forward; manually, they can only be reset to an earlier completed stage.';
  end case;
  return true;
end;
$$;
comment on function private.apply_volume_task_update(volumes.tasks, volumes.tasks, timestamptz) is
  'Apply an update of volumes.tasks. Returns false if the task has changed in the meantime or a worker holds it.';
grant execute on function private.apply_volume_task_update(volumes.tasks, volumes.tasks, timestamptz) to service_role;

create function private.write_volume_task()
returns trigger
language plpgsql
security invoker
set search_path = ''
as $$
begin
  if not private.apply_volume_task_update(old, new) then
    return null;
  end if;
  select t.* into new from volumes.tasks as t where t.id = old.id;
  return new;
end;
$$;
comment on function private.write_volume_task() is
  'Make volumes.tasks writable. An update that loses a race changes nothing and returns no row.';
create trigger tasks_write
  instead of update on volumes.tasks
  for each row execute function private.write_volume_task();

create function private.apply_volume_job_update(p_old volumes.jobs, p_new volumes.jobs, p_now timestamptz default now())
returns boolean
language plpgsql
volatile
security definer          -- the caller has no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job public.volume_jobs;
begin
  if (p_new.id, p_new.job_key, p_new.created_at) is distinct from (p_old.id, p_old.job_key, p_old.created_at) then
    raise exception 'only the status and config of a job can be changed'
      using errcode = '22023', hint = 'Create jobs with create_volume_job.';
  end if;
  perform private.require_volume_config(p_new.config);
  select j.* into v_job from public.volume_jobs as j where j.id = p_old.id for no key update;
  if v_job.status is distinct from p_old.status then
    return false;
  end if;
  if p_new.config is distinct from p_old.config then
    update public.volume_jobs as j set config = p_new.config, updated_at = p_now where j.id = p_old.id;
  end if;
  case
    when p_new.status = p_old.status then
      return true;
    when p_old.status = 'running' and p_new.status in ('completed', 'failed') then
      if private.volume_job_outcome(p_old.id) is distinct from p_new.status then
        return false;
      end if;
      perform private.end_volume_job(p_old.id, p_now);
    when p_old.status = 'running' and p_new.status = 'cancelled' then
      perform private.cancel_volume_job(p_old.id, null, p_now);
    when p_new.status = 'running' then
      update public.volume_jobs as j set status = 'running', finished_at = null, updated_at = p_now where j.id = p_old.id;
      perform private.notify_volumes('orchestrator');
    else
      raise exception 'a job cannot change from % to %', p_old.status, p_new.status
        using errcode = '22023', hint = 'Set it to running again first.';
  end case;
  return true;
end;
$$;
comment on function private.apply_volume_job_update(volumes.jobs, volumes.jobs, timestamptz) is
  'Apply an update of volumes.jobs. Returns false if the job has changed in the meantime, or still has open volumes.';
grant execute on function private.apply_volume_job_update(volumes.jobs, volumes.jobs, timestamptz) to service_role;

create function private.write_volume_job()
returns trigger
language plpgsql
security invoker
set search_path = ''
as $$
begin
  if not private.apply_volume_job_update(old, new) then
    return null;
  end if;
  select j.* into new from volumes.jobs as j where j.id = old.id;
  return new;
end;
$$;
comment on function private.write_volume_job() is
  'Make volumes.jobs writable. An update that loses a race changes nothing and returns no row.';
create trigger jobs_write
  instead of update on volumes.jobs
  for each row execute function private.write_volume_job();

create function private.apply_volume_result_write(p_row volumes.volume_results, p_now timestamptz default now())
returns bigint
language plpgsql
volatile
security definer          -- the caller has no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task_id bigint;
begin
  select t.id into v_task_id from public.volume_tasks as t
  where t.job_id = p_row.job_id and t.volume_id = p_row.volume_id and t.current_stage in ('reduce', 'done') and t.token is null
  for update;
  if found then
    insert into public.volume_results as r (
      task_id, total_images, total_lines, total_characters, processing_duration_ms, dewarping_applied_count, metrics,
      created_at, updated_at
    )
    values (
      v_task_id, p_row.total_images, p_row.total_lines, p_row.total_characters, p_row.processing_duration_ms,
      p_row.dewarping_applied_count, coalesce(p_row.metrics, '{}'), p_now, p_now
    )
    on conflict on constraint volume_results_pkey do update
    set total_images = excluded.total_images, total_lines = excluded.total_lines,
        total_characters = excluded.total_characters, processing_duration_ms = excluded.processing_duration_ms,
        dewarping_applied_count = excluded.dewarping_applied_count, metrics = excluded.metrics, updated_at = p_now;
  end if;
  return v_task_id;
end;
$$;
comment on function private.apply_volume_result_write(volumes.volume_results, timestamptz) is
  'Store results written through volumes.volume_results. Returns null if the volume is not at the reduce stage or a '
  'worker holds it.';
grant execute on function private.apply_volume_result_write(volumes.volume_results, timestamptz) to service_role;

create function private.write_volume_results()
returns trigger
language plpgsql
security invoker
set search_path = ''
as $$
declare
  v_task_id constant bigint := private.apply_volume_result_write(new);
begin
  if v_task_id is null then
    return null;
  end if;
  select r.* into new from volumes.volume_results as r where r.task_id = v_task_id;
  return new;
end;
$$;
comment on function private.write_volume_results() is 'Make volumes.volume_results writable.';
create trigger volume_results_write
  instead of insert or update on volumes.volume_results
  for each row execute function private.write_volume_results();
