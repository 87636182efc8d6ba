-- Purpose:  what machines do with volumes: workers take messages, start stages, say that they are alive, finish or
--           fail; the orchestrator moves tasks from stage to stage, tries failed ones again and ends jobs.
-- Affects:  creates receive_volume_messages, extend_volume_message, remove_volume_message, start_volume_stage,
--           extend_volume_lock, complete_volume_stage, fail_volume_stage, release_volume_stage, orchestrate_volumes,
--           claim_volume_outbox, settle_volume_outbox, republish_volumes.
-- Locks:    none that anybody could notice.
--
-- Rows are locked in one order: the job, then its tasks. Workers lock their one task only. The orchestrator passes by
-- what is locked, so nobody waits for it and it waits for nobody. Jobs are locked "for no key update", as their tasks
-- refer to them: whoever changes a task twice in a transaction has Postgres look at its job.

-- What stages took --------------------------------------------------------------------------

create function private.stage_seconds(p_task_id bigint)
returns table (stage text, seconds double precision)
language sql
stable
security invoker
set search_path = ''
as $$
  select distinct on (r.stage) r.stage, extract(epoch from r.ended_at - r.started_at)::double precision
  from public.volume_runs as r
  where r.task_id = p_task_id and r.outcome in ('done', 'skipped')
  -- A run that found everything done says nothing of what that took.
  order by r.stage, r.outcome = 'skipped', r.id desc;
$$;
comment on function private.stage_seconds(bigint) is 'What each stage of a task took, the last time it was done.';

create function private.seconds_of_stages(p_task_id bigint)
returns double precision
language sql
stable
security invoker
set search_path = ''
as $$
  select coalesce(sum(s.seconds), 0) from private.stage_seconds(p_task_id) as s;
$$;
comment on function private.seconds_of_stages(bigint) is 'What all stages of a task took together, the last time each was done.';

-- How a run ends ----------------------------------------------------------------------------

create function private.end_volume_run(
  p_token uuid,
  p_outcome text,
  p_error jsonb,
  p_now timestamptz,
  p_pages integer default null,
  p_failed_pages integer default null,
  p_metrics jsonb default null
)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  update public.volume_runs as r
  set ended_at = p_now, outcome = p_outcome, error = p_error, pages = p_pages, failed_pages = p_failed_pages,
      metrics = p_metrics
  where r.token = p_token and r.ended_at is null;
$$;
comment on function private.end_volume_run(uuid, text, jsonb, timestamptz, integer, integer, jsonb) is
  'Write down how a worker''s turn at a stage ended.';

create function private.free_volume(p_task_id bigint, p_now timestamptz)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  update public.volume_tasks as t
  set token = null, locked_by = null, locked_at = null, lock_expires_at = null, deadline = null, updated_at = p_now
  where t.id = p_task_id;
$$;
comment on function private.free_volume(bigint, timestamptz) is 'Nobody has the task any more; its message stays.';

create function private.fail_volume(
  p_task public.volume_tasks,
  p_outcome text,
  p_error jsonb,
  p_is_final boolean,
  p_retry_after integer,
  p_now timestamptz
)
returns jsonb
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_error jsonb := p_error || jsonb_build_object('stage', p_task.current_stage, 'at', p_now);
  v_attempts integer := p_task.attempts + 1;
  v_max integer := case when p_is_final then least(v_attempts, p_task.max_attempts) else p_task.max_attempts end;
begin
  perform private.end_volume_run(p_task.token, p_outcome, v_error, p_now);
  update public.volume_tasks as t
  set status = 'failed', attempts = v_attempts, max_attempts = v_max, last_error = v_error,
      retry_at = case
        when v_attempts < v_max then
          p_now + make_interval(secs => coalesce(p_retry_after, least(5 * 2 ^ least(v_attempts - 1, 10), 300)))
      end,
      token = null, locked_by = null, locked_at = null, lock_expires_at = null, deadline = null, updated_at = p_now
  where t.id = p_task.id;
  perform private.wake_for_volumes('orchestrator');
  return jsonb_build_object('success', true, 'is_final', v_attempts >= v_max, 'attempts', v_attempts);
end;
$$;
comment on function private.fail_volume(public.volume_tasks, text, jsonb, boolean, integer, timestamptz) is
  'Count a failure of a task that the caller has locked; a final one is the last.';

create function private.is_abandoned(p_task public.volume_tasks, p_now timestamptz)
returns boolean
language sql
stable
security invoker
set search_path = ''
as $$
  select p_task.token is not null and (
    p_task.deadline < p_now
    or exists (
      -- Nobody is held for dead before somebody noticed that the database is back; see private.notice_restart.
      select 1 from private.sweep_state as s
      where s.server_since = private.server_since()
        and greatest(
          p_task.lock_expires_at, coalesce(s.resumed_at, '-infinity') + (p_task.lock_expires_at - p_task.locked_at)
        ) < p_now
    )
  );
$$;
comment on function private.is_abandoned(public.volume_tasks, timestamptz) is
  'Whether a task is in the hands of a worker that died, or that took too long.';

create function private.rescue_volume(p_task public.volume_tasks, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_max_rescues integer;
  v_error jsonb := jsonb_build_object(
    'type', 'WorkerDied', 'category', 'resource', 'stage', p_task.current_stage, 'at', p_now,
    'message', format('worker %s was not heard of again', p_task.locked_by)
  );
begin
  if p_task.deadline < p_now then
    perform private.fail_volume(
      p_task, 'deadline',
      jsonb_build_object(
        'type', 'StageTimedOut', 'category', 'transient',
        'message', format('the stage did not end in %s', p_task.deadline - p_task.started_at)
      ),
      false, null, p_now
    );
    return;
  end if;
  select j.max_rescues into v_max_rescues from public.volume_jobs as j where j.id = p_task.job_id;
  if p_task.rescues >= v_max_rescues then
    perform private.fail_volume(
      p_task, 'lost', v_error || jsonb_build_object(
        'message', format('%s workers died over this stage; the last was %s', p_task.rescues + 1, p_task.locked_by)
      ),
      true, null, p_now
    );
    return;
  end if;
  perform private.end_volume_run(p_task.token, 'lost', v_error, p_now);
  perform private.free_volume(p_task.id, p_now);
  update public.volume_tasks as t set rescues = t.rescues + 1, last_error = v_error where t.id = p_task.id;
end;
$$;
comment on function private.rescue_volume(public.volume_tasks, timestamptz) is
  'Take a task, which the caller has locked, from a worker that died or took too long.';

create function private.sweep_volumes(p_now timestamptz)
returns integer
language plpgsql
volatile
security invoker
set search_path = ''
set enable_seqscan = off   -- a handful of rows by index, whatever the statistics say
as $$
declare
  v_task public.volume_tasks;
  v_count integer := 0;
begin
  for v_task in
    select t.* from public.volume_tasks as t
    where t.token is not null and private.is_abandoned(t, p_now)
    order by t.id
    limit 1000
    for update skip locked
  loop
    perform private.rescue_volume(v_task, p_now);
    v_count := v_count + 1;
  end loop;
  return v_count;
end;
$$;
comment on function private.sweep_volumes(timestamptz) is
  'Take tasks from workers that died or took too long. Returns how many; their messages show again by themselves.';

-- Messages ----------------------------------------------------------------------------------

create function private.require_seconds(p_what text, p_seconds integer, p_least integer)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (p_seconds between p_least and 43200) is not true then
    raise exception '% must be % to 43200 seconds, got %', p_what, p_least, coalesce(p_seconds::text, 'null')
      using errcode = '22023', hint = 'Locks are renewed by heartbeat; 20 seconds is a good length.';
  end if;
end;
$$;
comment on function private.require_seconds(text, integer, integer) is 'Refuse a time that makes no sense (22023).';

create function private.receive_volume_messages(
  p_stages text[],
  p_limit integer,
  p_visibility integer,
  p_now timestamptz default now()
)
returns setof jsonb
language plpgsql
volatile
security definer          -- workers hold no rights on queues
set search_path = pg_catalog, pg_temp
as $$
declare
  v_stage text;
  v_left integer := p_limit;
  v_found integer;
begin
  if (p_limit between 1 and 100) is not true then
    raise exception 'p_limit must be 1 to 100, got %', coalesce(p_limit::text, 'null')
      using errcode = '22023', hint = 'Take one message at a time.';
  end if;
  if (cardinality(p_stages) between 1 and 4) is not true then
    raise exception 'p_stages must name one to four stages'
      using errcode = '22023', hint = 'Stages are line_detection, line_extraction, ocr, reduce.';
  end if;
  perform private.require_seconds('p_visibility', p_visibility, 0);
  perform private.require_volume_stage(s.stage) from unnest(p_stages) as s (stage);
  foreach v_stage in array p_stages loop
    return query
    select jsonb_build_object('stage', v_stage, 'handle', m.msg_id, 'message', m.message)
    from pgmq.read('ocr_' || v_stage, p_visibility, v_left) as m;
    get diagnostics v_found = row_count;
    v_left := v_left - v_found;
    exit when v_left = 0;
  end loop;
  -- Who finds nothing looks for what the dead left behind, so recovery never hangs on the orchestrator.
  if v_left = p_limit then
    update private.volume_state as s set swept_at = p_now
    where s.ctid = any (array(
      select k.ctid from private.volume_state as k
      where coalesce(k.swept_at < p_now - interval '1 second', true)
      for update skip locked
    ));
    if found then
      perform private.sweep_volumes(p_now);
    end if;
  end if;
end;
$$;
comment on function private.receive_volume_messages(text[], integer, integer, timestamptz) is
  'See public.receive_volume_messages.';
grant execute on function private.receive_volume_messages(text[], integer, integer, timestamptz)
  to service_role, pagewarden_worker;

create function public.receive_volume_messages(
  p_stages text[],
  p_limit integer default 1,
  p_visibility integer default 20
)
returns setof jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.receive_volume_messages(p_stages, p_limit, p_visibility);
$$;
comment on function public.receive_volume_messages(text[], integer, integer) is
  'Take messages of the first of these stages that has some: {stage, handle, message}. Nobody else gets one for '
  'p_visibility seconds. No rows when there is nothing to do.';
grant execute on function public.receive_volume_messages(text[], integer, integer) to service_role, pagewarden_worker;

create function private.extend_volume_message(p_stage text, p_handle bigint, p_seconds integer)
returns boolean
language plpgsql
volatile
security definer          -- workers hold no rights on queues
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_volume_stage(p_stage);
  perform private.require_seconds('p_seconds', p_seconds, 0);
  perform pgmq.set_vt('ocr_' || p_stage, p_handle, p_seconds);
  return found;
end;
$$;
comment on function private.extend_volume_message(text, bigint, integer) is 'See public.extend_volume_message.';
grant execute on function private.extend_volume_message(text, bigint, integer) to service_role, pagewarden_worker;

create function public.extend_volume_message(p_stage text, p_handle bigint, p_seconds integer)
returns boolean
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.extend_volume_message(p_stage, p_handle, p_seconds);
$$;
comment on function public.extend_volume_message(text, bigint, integer) is
  'Keep a message to oneself for so many seconds from now on; 0 lets others have it at once. False when it is gone.';
grant execute on function public.extend_volume_message(text, bigint, integer) to service_role, pagewarden_worker;

create function private.remove_volume_message(p_stage text, p_handle bigint)
returns boolean
language plpgsql
volatile
security definer          -- workers hold no rights on queues
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_volume_stage(p_stage);
  return pgmq.archive('ocr_' || p_stage, p_handle);
end;
$$;
comment on function private.remove_volume_message(text, bigint) is 'See public.remove_volume_message.';
grant execute on function private.remove_volume_message(text, bigint) to service_role, pagewarden_worker;

create function public.remove_volume_message(p_stage text, p_handle bigint)
returns boolean
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.remove_volume_message(p_stage, p_handle);
$$;
comment on function public.remove_volume_message(text, bigint) is
  'Take a message that is dealt with out of its queue, into the archive. False when it is gone already.';
grant execute on function public.remove_volume_message(text, bigint) to service_role, pagewarden_worker;

-- A worker's turn ---------------------------------------------------------------------------

create function private.start_volume_stage(
  p_task_id bigint,
  p_stage text,
  p_attempt integer,
  p_worker_id text,
  p_lock_seconds integer,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task public.volume_tasks;
  v_job public.volume_jobs;
  v_volume public.volumes;
  v_token uuid := gen_random_uuid();
  v_deadline timestamptz;
begin
  perform private.require_volume_stage(p_stage);
  perform private.require_text('p_worker_id', p_worker_id, 200);
  perform private.require_seconds('p_lock_seconds', p_lock_seconds, 1);
  select t.* into v_task from public.volume_tasks as t where t.id = p_task_id for update;
  -- Asked after the lock: whoever cancels the job moves its tasks first.
  select j.* into v_job from public.volume_jobs as j where j.id = v_task.job_id;
  if (
    v_job.status = 'running' and v_task.status = 'running' and v_task.current_stage = p_stage
    and v_task.publications = p_attempt
  ) is not true then
    return private.volume_refusal('STALE_MESSAGE', p_task_id);
  end if;
  if v_task.token is not null then
    if not private.is_abandoned(v_task, p_now) then
      return private.volume_refusal('STAGE_HELD', p_task_id) || jsonb_build_object(
        'retry_after', greatest(1, ceil(extract(epoch from v_task.lock_expires_at - p_now)))::integer
      );
    end if;
    perform private.rescue_volume(v_task, p_now);
    select t.* into v_task from public.volume_tasks as t where t.id = p_task_id;
    if v_task.status <> 'running' then
      return private.volume_refusal('STALE_MESSAGE', p_task_id);
    end if;
  end if;
  select v.* into v_volume from public.volumes as v where v.id = v_task.volume_id;
  v_deadline := p_now + make_interval(secs => v_job.stage_seconds);
  update public.volume_tasks as t
  set token = v_token, locked_by = p_worker_id, locked_at = p_now,
      lock_expires_at = least(p_now + make_interval(secs => p_lock_seconds), v_deadline), deadline = v_deadline,
      started_at = p_now, pages_done = 0, pages_total = null, updated_at = p_now
  where t.id = p_task_id;
  insert into public.volume_runs (task_id, job_id, stage, attempt, token, worker_id, started_at)
  values (p_task_id, v_job.id, p_stage, p_attempt, v_token, p_worker_id, p_now);
  return jsonb_build_object(
    'success', true, 'task_id', p_task_id, 'token', v_token, 'stage', p_stage, 'job_key', v_job.job_key,
    'bdrc_w_id', v_volume.bdrc_w_id, 'bdrc_i_id', v_volume.bdrc_i_id, 'config', v_job.config,
    'is_forced', v_task.forced_stage is not distinct from p_stage, 'stage_seconds', v_job.stage_seconds,
    'seconds_before', (
      select coalesce(sum(s.seconds), 0) from private.stage_seconds(p_task_id) as s
      where private.volume_stage_number(s.stage) < private.volume_stage_number(p_stage)
    )
  );
end;
$$;
comment on function private.start_volume_stage(bigint, text, integer, text, integer, timestamptz) is
  'See public.start_volume_stage.';
grant execute on function private.start_volume_stage(bigint, text, integer, text, integer, timestamptz)
  to service_role, pagewarden_worker;

create function public.start_volume_stage(
  p_task_id bigint,
  p_stage text,
  p_attempt integer,
  p_worker_id text,
  p_lock_seconds integer default 20
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.start_volume_stage(p_task_id, p_stage, p_attempt, p_worker_id, p_lock_seconds);
$$;
comment on function public.start_volume_stage(bigint, text, integer, text, integer) is
  'Begin the stage that a message is about, and get the token that proves it, with all that the stage needs to know. '
  'STALE_MESSAGE: it was dealt with; remove the message. STAGE_HELD: a worker has it; leave the message for retry_after.';
grant execute on function public.start_volume_stage(bigint, text, integer, text, integer)
  to service_role, pagewarden_worker;

create function private.extend_volume_lock(
  p_task_id bigint,
  p_token uuid,
  p_lock_seconds integer,
  p_pages_done integer,
  p_pages_total integer,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_seconds('p_lock_seconds', p_lock_seconds, 1);
  if p_pages_done < 0 or p_pages_total < 0 then
    raise exception 'pages are counted from 0 on' using errcode = '22023', hint = 'Leave out what is not known.';
  end if;
  update public.volume_tasks as t
  set locked_at = p_now, lock_expires_at = least(p_now + make_interval(secs => p_lock_seconds), t.deadline),
      pages_done = coalesce(p_pages_done, t.pages_done), pages_total = coalesce(p_pages_total, t.pages_total),
      updated_at = p_now
  where t.id = p_task_id and t.token = p_token and t.deadline > p_now;
  if not found then
    return private.volume_refusal('LOCK_LOST', p_task_id);
  end if;
  return jsonb_build_object('success', true, 'task_id', p_task_id);
end;
$$;
comment on function private.extend_volume_lock(bigint, uuid, integer, integer, integer, timestamptz) is
  'See public.extend_volume_lock.';
grant execute on function private.extend_volume_lock(bigint, uuid, integer, integer, integer, timestamptz)
  to service_role, pagewarden_worker;

create function public.extend_volume_lock(
  p_task_id bigint,
  p_token uuid,
  p_lock_seconds integer default 20,
  p_pages_done integer default null,
  p_pages_total integer default null
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.extend_volume_lock(p_task_id, p_token, p_lock_seconds, p_pages_done, p_pages_total);
$$;
comment on function public.extend_volume_lock(bigint, uuid, integer, integer, integer) is
  'Say that one is alive, how far one is, and hear whether the task is still one''s own: ask right before publishing. '
  'LOCK_LOST: it is not, or the stage took longer than it may.';
grant execute on function public.extend_volume_lock(bigint, uuid, integer, integer, integer)
  to service_role, pagewarden_worker;

create function private.require_metrics(p_metrics jsonb)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (
    jsonb_typeof(p_metrics) = 'object' and octet_length(p_metrics::text) <= 100000
    and not p_metrics @? '$.* ? (@.type() <> "number" && @.type() <> "string" && @.type() <> "null")'
  ) is not true then
    raise exception 'p_metrics must be an object of numbers and texts, of at most 100000 bytes'
      using errcode = '22023', hint = 'Send {} when nothing was measured.';
  end if;
end;
$$;
comment on function private.require_metrics(jsonb) is 'Refuse what is no set of figures (22023).';

create function private.write_volume_result(p_task_id bigint, p_metrics jsonb, p_now timestamptz)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  insert into public.volume_results as r (
    task_id, total_images, total_lines, total_characters, dewarping_applied_count, processing_duration_ms, metrics,
    created_at, updated_at
  )
  select p_task_id, m.total_images, m.total_lines, m.total_characters, m.dewarping_applied_count,
    coalesce(m.processing_duration_ms, 1000 * private.seconds_of_stages(p_task_id)), p_metrics, p_now, p_now
  from jsonb_to_record(p_metrics) as m (
    total_images integer, total_lines integer, total_characters integer, dewarping_applied_count integer,
    processing_duration_ms real
  )
  on conflict on constraint volume_results_pkey do update
  set total_images = excluded.total_images, total_lines = excluded.total_lines,
      total_characters = excluded.total_characters, dewarping_applied_count = excluded.dewarping_applied_count,
      processing_duration_ms = excluded.processing_duration_ms, metrics = excluded.metrics, updated_at = p_now;
$$;
comment on function private.write_volume_result(bigint, jsonb, timestamptz) is
  'Write the figures of a volume down, in place of those of before.';

create function private.finish_volume_stage(p_task public.volume_tasks, p_metrics jsonb, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  update public.volume_tasks as t
  set current_stage = case t.current_stage when 'reduce' then 'done' else t.current_stage end, status = 'done',
      done_at = p_now, rescues = 0, retry_at = null, last_error = null,
      forced_stage = nullif(t.forced_stage, t.current_stage),
      token = null, locked_by = null, locked_at = null, lock_expires_at = null, deadline = null, updated_at = p_now
  where t.id = p_task.id;
  if p_task.current_stage = 'reduce' and p_metrics is not null then
    perform private.write_volume_result(p_task.id, p_metrics, p_now);
  elsif p_task.current_stage = 'reduce' then
    insert into public.volume_results (task_id, created_at, updated_at) values (p_task.id, p_now, p_now)
    on conflict on constraint volume_results_pkey do nothing;
  end if;
  perform private.wake_for_volumes('orchestrator');
end;
$$;
comment on function private.finish_volume_stage(public.volume_tasks, jsonb, timestamptz) is
  'A stage of a task, which the caller has locked, is done; after the last one its figures are kept. Without figures '
  'those stay that are there.';

create function private.complete_volume_stage(
  p_task_id bigint,
  p_token uuid,
  p_pages integer,
  p_failed_pages integer,
  p_skipped boolean,
  p_metrics jsonb,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task public.volume_tasks;
begin
  perform private.require_metrics(p_metrics);
  if (p_pages >= 0 and p_failed_pages between 0 and p_pages) is not true then
    raise exception 'of % pages % cannot have failed', coalesce(p_pages::text, 'null'), coalesce(p_failed_pages::text, 'null')
      using errcode = '22023', hint = 'Failed pages count among the pages.';
  end if;
  select t.* into v_task from public.volume_tasks as t where t.id = p_task_id and t.token = p_token for update;
  if not found then
    return private.volume_refusal('LOCK_LOST', p_task_id);
  end if;
  perform private.end_volume_run(
    p_token, case when p_skipped then 'skipped' else 'done' end, null, p_now, p_pages, p_failed_pages, p_metrics
  );
  update public.volume_tasks as t set pages_done = p_pages, pages_total = p_pages where t.id = p_task_id;
  perform private.finish_volume_stage(v_task, p_metrics, p_now);
  return jsonb_build_object('success', true, 'task_id', p_task_id);
end;
$$;
comment on function private.complete_volume_stage(bigint, uuid, integer, integer, boolean, jsonb, timestamptz) is
  'See public.complete_volume_stage.';
grant execute on function private.complete_volume_stage(bigint, uuid, integer, integer, boolean, jsonb, timestamptz)
  to service_role, pagewarden_worker;

create function public.complete_volume_stage(
  p_task_id bigint,
  p_token uuid,
  p_pages integer,
  p_failed_pages integer default 0,
  p_skipped boolean default false,
  p_metrics jsonb default '{}'
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.complete_volume_stage(
    p_task_id, p_token, p_pages, p_failed_pages, coalesce(p_skipped, false), p_metrics
  );
$$;
comment on function public.complete_volume_stage(bigint, uuid, integer, integer, boolean, jsonb) is
  'The stage is done and its artifacts are published; p_skipped: they had been. After reduce, p_metrics becomes the '
  'result of the volume. LOCK_LOST: the task is somebody else''s, and nothing has changed.';
grant execute on function public.complete_volume_stage(bigint, uuid, integer, integer, boolean, jsonb)
  to service_role, pagewarden_worker;

create function private.require_volume_error(p_error jsonb)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (
    jsonb_typeof(p_error) = 'object' and octet_length(p_error::text) <= 100000
    and jsonb_typeof(p_error -> 'message') = 'string'
  ) is not true then
    raise exception 'p_error must be an object with a message, of at most 100000 bytes'
      using errcode = '22023', hint = 'Send {"type": …, "message": …}.';
  end if;
end;
$$;
comment on function private.require_volume_error(jsonb) is 'Refuse an error that says nothing (22023).';

create function private.fail_volume_stage(
  p_task_id bigint,
  p_token uuid,
  p_error jsonb,
  p_category text,
  p_retry_after integer,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task public.volume_tasks;
begin
  perform private.require_volume_error(p_error);
  perform private.require_category(p_category);
  if p_retry_after is not null then
    perform private.require_seconds('p_retry_after', p_retry_after, 0);
  end if;
  select t.* into v_task from public.volume_tasks as t where t.id = p_task_id and t.token = p_token for update;
  if not found then
    return private.volume_refusal('LOCK_LOST', p_task_id);
  end if;
  return private.fail_volume(
    v_task, 'failed', p_error || jsonb_build_object('category', p_category), p_category = 'permanent',
    p_retry_after, p_now
  );
end;
$$;
comment on function private.fail_volume_stage(bigint, uuid, jsonb, text, integer, timestamptz) is
  'See public.fail_volume_stage.';
grant execute on function private.fail_volume_stage(bigint, uuid, jsonb, text, integer, timestamptz)
  to service_role, pagewarden_worker;

create function public.fail_volume_stage(
  p_task_id bigint,
  p_token uuid,
  p_error jsonb,
  p_category text default 'unknown',
  p_retry_after integer default null
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.fail_volume_stage(p_task_id, p_token, p_error, p_category, p_retry_after);
$$;
comment on function public.fail_volume_stage(bigint, uuid, jsonb, text, integer) is
  'The stage failed: {"type", "message", …}. It is tried again after a pause (p_retry_after seconds, where given), '
  'unless the error is permanent or the attempts are used up.';
grant execute on function public.fail_volume_stage(bigint, uuid, jsonb, text, integer)
  to service_role, pagewarden_worker;

create function private.is_no_outage(p_task public.volume_tasks, p_worker_id text, p_first_run bigint)
returns boolean
language sql
stable
security invoker
set search_path = ''
as $$
  select exists (
    select 1 from public.volume_runs as r
    where r.job_id = p_task.job_id and r.stage = p_task.current_stage and r.outcome = 'done' and r.id > p_first_run
      and r.task_id <> p_task.id and r.worker_id = p_worker_id
  );
$$;
comment on function private.is_no_outage(public.volume_tasks, text, bigint) is
  'Whether a worker that says a stage is out has, since this run, done it for another volume of the job.';

create function private.put_volume_off(p_task public.volume_tasks, p_error jsonb, p_now timestamptz)
returns jsonb
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  -- So often in a row it is an outage, whatever others meet.
  c_believed constant integer := 4;
  v_outages integer;
  v_first_run bigint;
begin
  select count(*) + 1, min(r.id) into v_outages, v_first_run
  from public.volume_runs as r
  where r.task_id = p_task.id and r.ended_at is not null and r.id > coalesce(
    (
      select k.id from public.volume_runs as k
      where k.task_id = p_task.id and (k.outcome, k.stage) <> ('outage', p_task.current_stage)
      order by k.id desc limit 1
    ), 0
  );
  if v_outages > c_believed and private.is_no_outage(p_task, p_task.locked_by, v_first_run) then
    return private.fail_volume(
      p_task, 'failed',
      p_error || jsonb_build_object(
        'type', 'OnlyThisVolume', 'category', 'configuration',
        'message', format('others of the job do not meet this: %s', p_error ->> 'message')
      ),
      false, null, p_now
    ) || jsonb_build_object('is_counted', true);
  end if;
  perform private.end_volume_run(p_task.token, 'outage', p_error, p_now);
  perform private.free_volume(p_task.id, p_now);
  update public.volume_tasks as t set last_error = p_error where t.id = p_task.id;
  -- Behind all others, who may not meet the same.
  perform private.publish_volumes(
    array[p_task.id], p_task.current_stage, p_task.published_to, p_now,
    least(30 * 2 ^ least(v_outages - 1, 10), 300)::integer
  );
  return jsonb_build_object('success', true, 'is_counted', false);
end;
$$;
comment on function private.put_volume_off(public.volume_tasks, jsonb, timestamptz) is
  'Publish a task, which the caller has locked, once more, later and behind all others: what its stage needs is away. '
  'The pause grows from 30 seconds to 5 minutes. The fifth time in a row it is counted as a failure, if its worker has '
  'done the stage for others of the job meanwhile.';

create function private.release_volume_stage(
  p_task_id bigint,
  p_token uuid,
  p_reason text,
  p_outage boolean,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task public.volume_tasks;
  v_error jsonb;
begin
  perform private.require_text('p_reason', p_reason, 10000);
  select t.* into v_task from public.volume_tasks as t where t.id = p_task_id and t.token = p_token for update;
  if not found then
    return private.volume_refusal('LOCK_LOST', p_task_id);
  end if;
  v_error := jsonb_build_object(
    'type', case when p_outage then 'Outage' else 'GivenBack' end, 'category', 'transient', 'message', p_reason,
    'stage', v_task.current_stage, 'at', p_now
  );
  if p_outage then
    return private.put_volume_off(v_task, v_error, p_now) || jsonb_build_object('task_id', p_task_id);
  end if;
  perform private.end_volume_run(p_token, 'given_back', v_error, p_now);
  perform private.free_volume(p_task_id, p_now);
  return jsonb_build_object('success', true, 'task_id', p_task_id, 'is_counted', false);
end;
$$;
comment on function private.release_volume_stage(bigint, uuid, text, boolean, timestamptz) is
  'See public.release_volume_stage.';
grant execute on function private.release_volume_stage(bigint, uuid, text, boolean, timestamptz)
  to service_role, pagewarden_worker;

create function public.release_volume_stage(
  p_task_id bigint,
  p_token uuid,
  p_reason text default 'the worker stops',
  p_outage boolean default false
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.release_volume_stage(p_task_id, p_token, p_reason, coalesce(p_outage, false));
$$;
comment on function public.release_volume_stage(bigint, uuid, text, boolean) is
  'Give a stage back, without counting it: because the worker stops, which leaves the message to others; or (p_outage) '
  'as store or engine are away or set up wrongly: then a new message comes later, behind all others, and this one is to '
  'be removed. is_counted: others of the job do not meet the outage, so it was a failure of this volume.';
grant execute on function public.release_volume_stage(bigint, uuid, text, boolean) to service_role, pagewarden_worker;

-- The orchestrator --------------------------------------------------------------------------

create function private.require_volume_queue(p_queue text)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (p_queue in ('pgmq', 'sqs')) is not true then
    raise exception 'there is no kind of queue %', coalesce(p_queue, 'null')
      using errcode = '22023', hint = 'Kinds are pgmq and sqs.';
  end if;
end;
$$;
comment on function private.require_volume_queue(text) is 'Refuse an unknown kind of queue (22023).';

create function private.publish_ready_volumes(
  p_job_id bigint,
  p_stage text,
  p_queue text,
  p_limit integer,
  p_now timestamptz
)
returns integer
language plpgsql
volatile
security invoker
set search_path = ''
set enable_seqscan = off   -- a handful of rows by index, whatever the statistics say
as $$
declare
  -- More than that of a job does not wait in a queue, so that no job stands in the way of others.
  c_window constant integer := 200;
  v_before constant text := private.stage_before(p_stage);
  v_free integer;
  v_ids bigint[];
begin
  select least(p_limit, c_window - count(*)) into v_free
  from (
    select 1 from public.volume_tasks as t
    where t.job_id = p_job_id and t.current_stage = p_stage and t.status = 'running' and t.token is null
    limit c_window
  ) as q;
  if v_free <= 0 then
    return 0;
  end if;
  v_ids := array(
    select t.id from public.volume_tasks as t
    where t.job_id = p_job_id and t.current_stage = p_stage
      and t.status = 'failed' and t.attempts < t.max_attempts and t.retry_at <= p_now
    order by t.retry_at
    limit v_free
    for update skip locked
  );
  v_ids := v_ids || array(
    select t.id from public.volume_tasks as t
    where t.job_id = p_job_id and t.current_stage = v_before
      and t.status in ('pending', 'done') and t.current_stage <> 'done'
    order by t.id
    limit v_free - cardinality(v_ids)
    for update skip locked
  );
  return private.publish_volumes(v_ids, p_stage, p_queue, p_now);
end;
$$;
comment on function private.publish_ready_volumes(bigint, text, text, integer, timestamptz) is
  'Publish tasks of a job for a stage: those that failed in it and may try again, and those that the stage before has '
  'done. Returns how many.';

create function private.end_of_volume_job(p_job_id bigint)
returns text
language sql
stable
security invoker
set search_path = ''
set enable_seqscan = off   -- one row by index, whatever the statistics say
as $$
  select case
    when exists (
      select 1 from public.volume_tasks as t
      where t.job_id = p_job_id and t.current_stage <> 'done' and (t.status <> 'failed' or t.attempts < t.max_attempts)
    ) then null
    when exists (
      select 1 from public.volume_tasks as t
      where t.job_id = p_job_id and t.current_stage <> 'done'
    ) then 'failed'
    else 'completed'
  end;
$$;
comment on function private.end_of_volume_job(bigint) is
  'How a job ends, when none of its volumes has anything before it: completed when all are done, failed when one is '
  'not. Null before.';

create function private.end_volume_job(p_job_id bigint, p_now timestamptz)
returns text
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_status constant text := private.end_of_volume_job(p_job_id);
begin
  update public.volume_jobs as j set status = v_status, finished_at = p_now, updated_at = p_now
  where j.id = p_job_id and j.status = 'running' and v_status is not null;
  return case when found then v_status end;
end;
$$;
comment on function private.end_volume_job(bigint, timestamptz) is
  'End a job, which the caller has locked, if its time has come. Returns how, or null.';

create function private.republish_lost_volumes(p_queue text, p_now timestamptz)
returns integer
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_stage text;
  v_count integer := 0;
begin
  foreach v_stage in array array['line_detection', 'line_extraction', 'ocr', 'reduce'] loop
    v_count := v_count + private.publish_volumes(
      array(
        select t.id
        from public.volume_jobs as j
        join public.volume_tasks as t on t.job_id = j.id
        where j.status = 'running' and t.current_stage = v_stage and t.status = 'running' and t.token is null
          and t.published_at < p_now - interval '10 minutes'
          and (
            t.published_to <> p_queue
            or t.published_to = 'pgmq' and not exists (
              select 1 from private.volume_messages() as m
              where m.stage = v_stage and m.message -> 'task_id' = to_jsonb(t.id)
                and m.message -> 'attempt' = to_jsonb(t.publications)
            )
          )
        order by t.id
        for update of t skip locked
      ),
      v_stage, p_queue, p_now
    );
  end loop;
  return v_count;
end;
$$;
comment on function private.republish_lost_volumes(text, timestamptz) is
  'Publish again what waits for a message that is not there: somebody emptied a queue, or the kind of queue was changed.';

create function private.orchestrate_volumes(
  p_queue text,
  p_limit integer,
  p_process text,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- whoever orchestrates holds no rights on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_state private.volume_state;
  v_is_reconciling boolean;
  v_job_id bigint;
  v_stage text;
  v_left integer := p_limit;
  v_rescued integer;
  v_lost integer := 0;
  v_ended text;
  v_completed integer := 0;
  v_failed integer := 0;
begin
  perform private.require_volume_queue(p_queue);
  perform private.require_text('p_process', p_process, 200);
  if (p_limit between 1 and 10000) is not true then
    raise exception 'p_limit must be 1 to 10000, got %', coalesce(p_limit::text, 'null')
      using errcode = '22023', hint = 'Call again when there is more to do.';
  end if;
  -- One at a time; whoever comes in between has nothing to add.
  if not pg_try_advisory_xact_lock(hashtextextended('pagewarden: the orchestrator of volumes', 0)) then
    return null;
  end if;
  perform private.notice_restart(p_now);
  update private.volume_state as s
  set passed_at = p_now, passed_by = p_process, swept_at = p_now, is_hinted = false
  returning s.* into v_state;
  v_rescued := private.sweep_volumes(p_now);
  for v_job_id in
    select j.id from public.volume_jobs as j where j.status = 'running' order by j.id for no key update skip locked
  loop
    -- The last stage first: what is nearly done makes room.
    foreach v_stage in array array['reduce', 'ocr', 'line_extraction', 'line_detection'] loop
      exit when v_left = 0;
      v_left := v_left - private.publish_ready_volumes(v_job_id, v_stage, p_queue, v_left, p_now);
    end loop;
    v_ended := private.end_volume_job(v_job_id, p_now);
    v_completed := v_completed + (v_ended is not distinct from 'completed')::integer;
    v_failed := v_failed + (v_ended is not distinct from 'failed')::integer;
  end loop;
  v_is_reconciling := coalesce(v_state.reconciled_at < p_now - interval '10 minutes', true);
  if v_is_reconciling then
    v_lost := private.republish_lost_volumes(p_queue, p_now);
    update private.volume_state as s set reconciled_at = p_now;
  end if;
  return jsonb_build_object(
    'published', p_limit - v_left, 'republished', v_lost, 'rescued', v_rescued, 'completed', v_completed,
    'failed', v_failed,
    'is_more', v_left = 0,
    -- Whoever knows queues outside of the database asks them now; see republish_volumes.
    'is_reconciling', v_is_reconciling,
    'is_busy', exists (select 1 from public.volume_jobs as j where j.status = 'running'),
    'outbox', (select count(*) from (select 1 from private.volume_outbox as o limit 1000) as o),
    -- When the next failed task may try again, so that nobody has to look before.
    'retry_in', (
      select greatest(0, extract(epoch from min(r.retry_at) - p_now))
      from public.volume_jobs as j
      cross join lateral (
        select t.retry_at from public.volume_tasks as t
        where t.job_id = j.id and t.status = 'failed' and t.attempts < t.max_attempts
        order by t.retry_at limit 1
      ) as r
      where j.status = 'running'
    )
  );
end;
$$;
comment on function private.orchestrate_volumes(text, integer, text, timestamptz) is 'See public.orchestrate_volumes.';
grant execute on function private.orchestrate_volumes(text, integer, text, timestamptz)
  to service_role, pagewarden_worker;

create function public.orchestrate_volumes(
  p_queue text default 'pgmq',
  p_limit integer default 1000,
  p_process text default 'unknown'
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.orchestrate_volumes(p_queue, p_limit, p_process);
$$;
comment on function public.orchestrate_volumes(text, integer, text) is
  'Look over all volumes once: give back what dead workers had, publish messages for what comes next or may try again, '
  'end jobs. Messages go into the queues of this database (pgmq), or into the outbox (sqs). Null while another is at it.';
grant execute on function public.orchestrate_volumes(text, integer, text) to service_role, pagewarden_worker;

-- Queues outside of the database ------------------------------------------------------------

create function private.claim_volume_outbox(p_limit integer, p_lease_seconds integer, p_now timestamptz default now())
returns setof jsonb
language plpgsql
volatile
security definer          -- whoever orchestrates holds no rights on tables
set search_path = pg_catalog, pg_temp
as $$
begin
  if (p_limit between 1 and 1000) is not true then
    raise exception 'p_limit must be 1 to 1000, got %', coalesce(p_limit::text, 'null')
      using errcode = '22023', hint = 'Send in smaller batches.';
  end if;
  perform private.require_seconds('p_lease_seconds', p_lease_seconds, 1);
  return query
  with due as materialized (
    select o.task_id from private.volume_outbox as o
    where o.claimed_until <= p_now
    order by o.claimed_until, o.created_at, o.task_id
    limit p_limit
    for update skip locked
  )
  update private.volume_outbox as o
  set claimed_until = p_now + make_interval(secs => p_lease_seconds)
  from due
  where o.task_id = due.task_id
  returning jsonb_build_object('stage', o.stage, 'message', o.message);
end;
$$;
comment on function private.claim_volume_outbox(integer, integer, timestamptz) is 'See public.claim_volume_outbox.';
grant execute on function private.claim_volume_outbox(integer, integer, timestamptz) to service_role, pagewarden_worker;

create function public.claim_volume_outbox(p_limit integer default 100, p_lease_seconds integer default 30)
returns setof jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.claim_volume_outbox(p_limit, p_lease_seconds);
$$;
comment on function public.claim_volume_outbox(integer, integer) is
  'Take messages that are to be sent: {stage, message}. What is not settled in time is handed out again.';
grant execute on function public.claim_volume_outbox(integer, integer) to service_role, pagewarden_worker;

create function private.settle_volume_outbox(p_messages jsonb)
returns integer
language plpgsql
volatile
security definer          -- whoever orchestrates holds no rights on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
begin
  perform private.require_list('p_messages', p_messages);
  delete from private.volume_outbox as o
  using jsonb_to_recordset(p_messages) as m (task_id bigint, attempt integer)
  where o.task_id = m.task_id and o.message -> 'attempt' = to_jsonb(m.attempt);
  get diagnostics v_count = row_count;
  return v_count;
end;
$$;
comment on function private.settle_volume_outbox(jsonb) is 'See public.settle_volume_outbox.';
grant execute on function private.settle_volume_outbox(jsonb) to service_role, pagewarden_worker;

create function public.settle_volume_outbox(p_messages jsonb)
returns integer
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.settle_volume_outbox(p_messages);
$$;
comment on function public.settle_volume_outbox(jsonb) is
  'These messages were sent: [{"task_id", "attempt"}, …]. Returns how many of them were still to be sent.';
grant execute on function public.settle_volume_outbox(jsonb) to service_role, pagewarden_worker;

create function private.republish_volumes(p_stage text, p_older_seconds integer, p_now timestamptz default now())
returns integer
language plpgsql
volatile
security definer          -- whoever orchestrates holds no rights on tables
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_volume_stage(p_stage);
  -- No queue keeps a message for longer than 14 days.
  if (p_older_seconds between 0 and 1209600) is not true then
    raise exception 'p_older_seconds must be 0 to 1209600, got %', coalesce(p_older_seconds::text, 'null')
      using errcode = '22023', hint = 'It is how long the queue keeps messages, or some minutes if it is empty.';
  end if;
  return private.publish_volumes(
    array(
      select t.id
      from public.volume_jobs as j
      join public.volume_tasks as t on t.job_id = j.id
      where j.status = 'running' and t.current_stage = p_stage and t.status = 'running' and t.token is null
        and t.published_to = 'sqs' and t.published_at < p_now - make_interval(secs => p_older_seconds)
        and not exists (select 1 from private.volume_outbox as o where o.task_id = t.id)
      order by t.id
      limit 1000
      for update of t skip locked
    ),
    p_stage, 'sqs', p_now
  );
end;
$$;
comment on function private.republish_volumes(text, integer, timestamptz) is 'See public.republish_volumes.';
grant execute on function private.republish_volumes(text, integer, timestamptz) to service_role, pagewarden_worker;

create function public.republish_volumes(p_stage text, p_older_seconds integer default 300)
returns integer
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.republish_volumes(p_stage, p_older_seconds);
$$;
comment on function public.republish_volumes(text, integer) is
  'The queue of this stage, outside of the database, is empty, or keeps messages for so long only: send again what has '
  'waited in it for longer than this. Returns how many.';
grant execute on function public.republish_volumes(text, integer) to service_role, pagewarden_worker;
