-- The queue of volume stages: receive, start, heartbeat, complete, fail, release, sweep.
--
-- A message (in pgmq, or in SQS by way of the outbox) says that a stage may start; volume_tasks is the
-- source of truth. A worker receives a message and starts its stage, which gives it a lock token that
-- every later call must carry. A message that arrives twice, late, or in the queue of another stage
-- starts nothing: its attempt is not the number of the newest publication (docs/decisions/0008).
--
-- A failure is retried with backoff until max_attempts. An outage is not counted: the task is published
-- again with a delay. A worker that stops sending heartbeats loses its lock to the sweep.
--
-- The functions of workers run as definer, because workers have no rights on tables and queues.
-- Publishing for the next stage is in volume_orchestrator.

select pgmq.create(q.name)
from unnest(array['ocr_line_detection', 'ocr_line_extraction', 'ocr_ocr', 'ocr_reduce']) as q (name)
where not exists (select 1 from pgmq.meta as m where m.queue_name = q.name);

do $$
declare
  v_table text;
begin
  for v_table in
    select format('pgmq.%I', p.prefix || '_ocr_' || s.stage)
    from unnest(array['q', 'a']) as p (prefix)
    cross join unnest(array['line_detection', 'line_extraction', 'ocr', 'reduce']) as s (stage)
  loop
    execute format('alter table %s enable row level security', v_table);
  end loop;
end;
$$;

create function private.volume_messages()
returns table (stage text, msg_id bigint, message jsonb)
language sql
stable
security invoker
set search_path = ''
as $$
  select 'line_detection', q.msg_id, q.message from pgmq.q_ocr_line_detection as q
  union all
  select 'line_extraction', q.msg_id, q.message from pgmq.q_ocr_line_extraction as q
  union all
  select 'ocr', q.msg_id, q.message from pgmq.q_ocr_ocr as q
  union all
  select 'reduce', q.msg_id, q.message from pgmq.q_ocr_reduce as q;
$$;
comment on function private.volume_messages() is 'All messages in the queues of this database.';

create function private.notify_volumes(p_recipient text)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  perform pg_notify('pagewarden_volumes', p_recipient);
  if p_recipient = 'orchestrator' and exists (select 1 from pg_catalog.pg_namespace as n where n.nspname = 'net') then
    -- One call is pending at a time. The lock waits for a pass that is running, which may have looked already; an update
    -- alone would skip the row that it sees as unchanged.
    perform 1 from private.volume_orchestrator_state as s for update;
    update private.volume_orchestrator_state as s set is_call_pending = true where not s.is_call_pending;
    if found then
      perform private.call_function_or_warn('volume-orchestrator', '{}');
    end if;
  end if;
end;
$$;
comment on function private.notify_volumes(text) is
  'Wake the workers of a stage, or the orchestrator (p_recipient), with NOTIFY; on Supabase, also call the '
  'orchestrator''s function.';

-- The stage and its message change in one transaction, so neither exists without the other.
create function private.publish_volumes(
  p_task_ids bigint[],
  p_stage text,
  p_queue text,
  p_now timestamptz,
  p_delay_seconds integer default 0
)
returns integer
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_task record;
  v_count integer := 0;
begin
  for v_task in
    with published as (
      update public.volume_tasks as t
      set current_stage = p_stage, status = 'running', publications = t.publications + 1, published_to = p_queue,
          published_at = p_now, retry_at = null, pages_done = 0, pages_total = null, updated_at = p_now
      from public.volumes as v, public.volume_jobs as j
      where t.id = any (p_task_ids) and v.id = t.volume_id and j.id = t.job_id
      returning t.id, jsonb_build_object(
        'task_id', t.id, 'job_id', t.job_id, 'volume_id', t.volume_id, 'bdrc_w_id', v.bdrc_w_id,
        'bdrc_i_id', v.bdrc_i_id, 'attempt', t.publications, 'job_key', j.job_key
      ) as message
    )
    select p.id, p.message from published as p
    order by p.id   -- volumes are read in the order of their job
  loop
    v_count := v_count + 1;
    if p_queue = 'pgmq' then
      perform pgmq.send('ocr_' || p_stage, v_task.message, p_delay_seconds);
      -- A message written before the kind of queue was changed.
      delete from private.volume_outbox as o where o.task_id = v_task.id;
    else
      -- A FIFO queue cannot delay a single message, so the outbox does.
      insert into private.volume_outbox as o (task_id, stage, message, claimed_until, created_at)
      values (
        v_task.id, p_stage, v_task.message,
        case when p_delay_seconds > 0 then p_now + make_interval(secs => p_delay_seconds) else '-infinity' end, p_now
      )
      on conflict on constraint volume_outbox_pkey do update
      set stage = excluded.stage, message = excluded.message, claimed_until = excluded.claimed_until,
          created_at = excluded.created_at;
    end if;
  end loop;
  if v_count > 0 and p_delay_seconds = 0 then
    perform private.notify_volumes(p_stage);
  end if;
  return v_count;
end;
$$;
comment on function private.publish_volumes(bigint[], text, text, timestamptz, integer) is
  'Move tasks, which the caller has locked, to a stage and put their messages into its queue, visible after the '
  'delay. Returns the number moved.';

create function private.volume_refusal(p_answer anyelement, p_error text, p_id bigint)
returns anyelement
language sql
stable
security invoker
set search_path = ''
as $$
  select jsonb_populate_record(p_answer, jsonb_build_object(
    'success', false, 'error', p_error, 'id', p_id,
    'message', case p_error
      when 'VOLUME_JOB_NOT_FOUND' then 'there is no such job'
      when 'JOB_ENDED' then 'the job has already ended'
      when 'LOCK_LOST' then 'this worker no longer holds the task; do not publish anything'
      when 'STALE_MESSAGE' then 'the message belongs to a stage or an attempt that has ended; remove it'
      when 'STAGE_HELD' then 'another worker holds the task; leave the message until its lock expires'
    end
  ));
$$;
comment on function private.volume_refusal(anyelement, text, bigint) is
  'A result of the given type for a call that changed nothing, with the reason.';

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
  with ended as (
    update public.volume_runs as r
    set ended_at = p_now, outcome = p_outcome, error = p_error, pages = p_pages, failed_pages = p_failed_pages,
        metrics = p_metrics
    where r.token = p_token and r.ended_at is null
    returning r.stage, r.started_at
  )
  select private.count_event('volume_stages', array[e.stage, p_outcome], extract(epoch from p_now - e.started_at))
  from ended as e;
$$;
comment on function private.end_volume_run(uuid, text, jsonb, timestamptz, integer, integer, jsonb) is
  'Record how a worker''s attempt at a stage ended.';

create function private.clear_volume_lock(p_task_id bigint, p_now timestamptz)
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
comment on function private.clear_volume_lock(bigint, timestamptz) is
  'Remove the lock of a task; its message stays in the queue.';

create type public.volume_stage_message as (stage text, handle bigint, message jsonb);
comment on type public.volume_stage_message is
  'A message that a worker received: the stage of its queue, its id there (handle), and its content.';

create function public.receive_volume_messages(
  p_stages text[],
  p_limit integer default 1,
  p_visibility integer default 20,
  p_now timestamptz default now()
)
returns setof public.volume_stage_message
language plpgsql
volatile
security definer          -- workers have no privileges on queues
set search_path = pg_catalog, pg_temp
as $$
declare
  v_stage text;
  v_left integer := p_limit;
  v_found integer;
begin
  if (p_limit between 1 and 100) is not true then
    raise exception 'p_limit must be between 1 and 100, got %', coalesce(p_limit::text, 'null')
      using errcode = '22023', hint = 'Receive fewer messages at a time.';
  end if;
  if (cardinality(p_stages) between 1 and 4) is not true then
    raise exception 'p_stages must be a list of one to four stages'
      using errcode = '22023', hint = 'Valid stages are line_detection, line_extraction, ocr, reduce.';
  end if;
  perform private.require_seconds('p_visibility', p_visibility, 0);
  perform private.require_volume_stage(s.stage) from unnest(p_stages) as s (stage);
  foreach v_stage in array p_stages loop
    return query
    select v_stage, m.msg_id, m.message
    from pgmq.read('ocr_' || v_stage, p_visibility, v_left) as m;
    get diagnostics v_found = row_count;
    v_left := v_left - v_found;
    exit when v_left = 0;
  end loop;
  -- A worker that finds no message reclaims expired locks, so recovery does not depend on the orchestrator.
  if v_left = p_limit then
    update private.volume_orchestrator_state as s set swept_at = p_now
    where s.ctid = any (array(
      select k.ctid from private.volume_orchestrator_state as k
      where coalesce(k.swept_at < p_now - interval '1 second', true)
      for update skip locked
    ));
    if found then
      perform private.sweep_volumes(p_now);
    end if;
  end if;
end;
$$;
comment on function public.receive_volume_messages(text[], integer, integer, timestamptz) is
  'Receive messages from the queue of the first of these stages that has any. They stay hidden from other workers for '
  'p_visibility seconds. Returns no rows if all queues are empty.';
grant execute on function public.receive_volume_messages(text[], integer, integer, timestamptz) to service_role, pagewarden_worker;

create function public.extend_volume_message(p_stage text, p_handle bigint, p_seconds integer)
returns boolean
language plpgsql
volatile
security definer          -- workers have no privileges on queues
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_volume_stage(p_stage);
  perform private.require_seconds('p_seconds', p_seconds, 0);
  perform pgmq.set_vt('ocr_' || p_stage, p_handle, p_seconds);
  return found;
end;
$$;
comment on function public.extend_volume_message(text, bigint, integer) is
  'Hide a message from other workers for this many seconds from now; 0 makes it visible immediately. Returns false if '
  'the message no longer exists.';
grant execute on function public.extend_volume_message(text, bigint, integer) to service_role, pagewarden_worker;

create function public.remove_volume_message(p_stage text, p_handle bigint)
returns boolean
language plpgsql
volatile
security definer          -- workers have no privileges on queues
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_volume_stage(p_stage);
  return pgmq.archive('ocr_' || p_stage, p_handle);
end;
$$;
comment on function public.remove_volume_message(text, bigint) is
  'Archive a message that has been handled. Returns false if it no longer exists.';
grant execute on function public.remove_volume_message(text, bigint) to service_role, pagewarden_worker;

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
  -- A skipped run does not show how long the stage takes.
  order by r.stage, r.outcome = 'skipped', r.id desc;
$$;
comment on function private.stage_seconds(bigint) is 'The duration of each stage of a task in its last completed run.';

create function private.total_stage_seconds(p_task_id bigint)
returns double precision
language sql
stable
security invoker
set search_path = ''
as $$
  select coalesce(sum(s.seconds), 0) from private.stage_seconds(p_task_id) as s;
$$;
comment on function private.total_stage_seconds(bigint) is
  'The total duration of all stages of a task, based on the last completed run of each.';

create type public.start_volume_stage_answer as (
  success boolean,
  error text,
  message text,
  id bigint,
  retry_after integer,
  task_id bigint,
  token uuid,
  stage text,
  job_key text,
  bdrc_w_id text,
  bdrc_i_id text,
  config jsonb,
  is_forced boolean,
  stage_seconds integer,
  seconds_before double precision
);
comment on type public.start_volume_stage_answer is
  'The lock token of a stage and the data that its worker needs. An error result has error, message, the task id, and '
  'for STAGE_HELD the seconds to wait before a retry. Nullable: error, message, id, retry_after, task_id, token, '
  'stage, job_key, bdrc_w_id, bdrc_i_id, config, is_forced, stage_seconds, seconds_before.';

create function public.start_volume_stage(
  p_task_id bigint,
  p_stage text,
  p_attempt integer,
  p_worker_id text,
  p_lock_seconds integer default 20,
  p_now timestamptz default now()
)
returns public.start_volume_stage_answer
language plpgsql
volatile
security definer          -- workers have no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task public.volume_tasks;
  v_job public.volume_jobs;
  v_volume public.volumes;
  v_token uuid := gen_random_uuid();
  v_deadline timestamptz;
  v_answer public.start_volume_stage_answer;
begin
  perform private.require_volume_stage(p_stage);
  perform private.require_text('p_worker_id', p_worker_id, 200);
  perform private.require_seconds('p_lock_seconds', p_lock_seconds, 1);
  select t.* into v_task from public.volume_tasks as t where t.id = p_task_id for update;
  -- Read after the lock: a cancellation that held it has been committed by now.
  select j.* into v_job from public.volume_jobs as j where j.id = v_task.job_id;
  if (
    v_job.status = 'running' and v_task.status = 'running' and v_task.current_stage = p_stage
    and v_task.publications = p_attempt
  ) is not true then
    return private.volume_refusal(v_answer, 'STALE_MESSAGE', p_task_id);
  end if;
  if v_task.token is not null then
    if not private.is_volume_lock_expired(v_task, p_now) then
      v_answer := private.volume_refusal(v_answer, 'STAGE_HELD', p_task_id);
      v_answer.retry_after := greatest(1, ceil(extract(epoch from v_task.lock_expires_at - p_now)))::integer;
      return v_answer;
    end if;
    perform private.reclaim_volume(v_task, p_now);
    select t.* into v_task from public.volume_tasks as t where t.id = p_task_id;
    if v_task.status <> 'running' then
      return private.volume_refusal(v_answer, 'STALE_MESSAGE', p_task_id);
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
  -- Do not resend a message that arrived before its sender crashed.
  delete from private.volume_outbox as o where o.task_id = p_task_id;
  v_answer.success := true;
  v_answer.task_id := p_task_id;
  v_answer.token := v_token;
  v_answer.stage := p_stage;
  v_answer.job_key := v_job.job_key;
  v_answer.bdrc_w_id := v_volume.bdrc_w_id;
  v_answer.bdrc_i_id := v_volume.bdrc_i_id;
  v_answer.config := v_job.config;
  v_answer.is_forced := v_task.forced_stage is not distinct from p_stage;
  v_answer.stage_seconds := v_job.stage_seconds;
  select coalesce(sum(s.seconds), 0) into v_answer.seconds_before
  from private.stage_seconds(p_task_id) as s
  where private.volume_stage_number(s.stage) < private.volume_stage_number(p_stage);
  return v_answer;
end;
$$;
comment on function public.start_volume_stage(bigint, text, integer, text, integer, timestamptz) is
  'Start the stage of a message: returns the lock token and what the stage needs. STALE_MESSAGE: the message was '
  'already handled; remove it. STAGE_HELD: another worker holds the task; leave the message for retry_after seconds.';
grant execute on function public.start_volume_stage(bigint, text, integer, text, integer, timestamptz)
  to service_role, pagewarden_worker;

create type public.volume_stage_answer as (
  success boolean,
  error text,
  message text,
  id bigint,
  task_id bigint,
  is_counted boolean,
  is_final boolean,
  attempts integer
);
comment on type public.volume_stage_answer is
  'The result of a call for a task that a worker holds. is_counted: a release was counted as a failure. is_final, '
  'attempts: after a failure, whether it is final, and the number of failures so far. An error result has error, '
  'message and the task id. Nullable: error, message, id, task_id, is_counted, is_final, attempts.';

create function public.extend_volume_lock(
  p_task_id bigint,
  p_token uuid,
  p_lock_seconds integer default 20,
  p_pages_done integer default null,
  p_pages_total integer default null,
  p_now timestamptz default now()
)
returns public.volume_stage_answer
language plpgsql
volatile
security definer          -- workers have no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer public.volume_stage_answer;
begin
  perform private.require_seconds('p_lock_seconds', p_lock_seconds, 1);
  if p_pages_done < 0 or p_pages_total < 0 then
    raise exception 'p_pages_done and p_pages_total must not be negative'
      using errcode = '22023', hint = 'Omit unknown values.';
  end if;
  update public.volume_tasks as t
  set locked_at = p_now, lock_expires_at = least(p_now + make_interval(secs => p_lock_seconds), t.deadline),
      pages_done = coalesce(p_pages_done, t.pages_done), pages_total = coalesce(p_pages_total, t.pages_total),
      updated_at = p_now
  where t.id = p_task_id and t.token = p_token and t.deadline > p_now;
  if not found then
    return private.volume_refusal(v_answer, 'LOCK_LOST', p_task_id);
  end if;
  v_answer.success := true;
  v_answer.task_id := p_task_id;
  return v_answer;
end;
$$;
comment on function public.extend_volume_lock(bigint, uuid, integer, integer, integer, timestamptz) is
  'Heartbeat: renew the lock and record progress. Also call it immediately before publishing artifacts, to check that '
  'the lock is still held. LOCK_LOST: the lock was lost, or the stage exceeded its deadline.';
grant execute on function public.extend_volume_lock(bigint, uuid, integer, integer, integer, timestamptz)
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
    raise exception 'p_metrics must be an object of numbers and strings, and at most 100000 bytes long'
      using errcode = '22023', hint = 'Send {} if nothing was measured.';
  end if;
end;
$$;
comment on function private.require_metrics(jsonb) is 'Raise 22023 unless this is an object of numbers and strings.';

create function private.save_volume_result(p_task_id bigint, p_metrics jsonb, p_now timestamptz)
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
    coalesce(m.processing_duration_ms, 1000 * private.total_stage_seconds(p_task_id)), p_metrics, p_now, p_now
  from jsonb_to_record(p_metrics) as m (
    total_images integer, total_lines integer, total_characters integer, dewarping_applied_count integer,
    processing_duration_ms real
  )
  on conflict on constraint volume_results_pkey do update
  set total_images = excluded.total_images, total_lines = excluded.total_lines,
      total_characters = excluded.total_characters, dewarping_applied_count = excluded.dewarping_applied_count,
      processing_duration_ms = excluded.processing_duration_ms, metrics = excluded.metrics, updated_at = p_now;
$$;
comment on function private.save_volume_result(bigint, jsonb, timestamptz) is
  'Insert or replace the results of a volume.';

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
    perform private.save_volume_result(p_task.id, p_metrics, p_now);
  elsif p_task.current_stage = 'reduce' then
    insert into public.volume_results (task_id, created_at, updated_at) values (p_task.id, p_now, p_now)
    on conflict on constraint volume_results_pkey do nothing;
  end if;
  perform private.notify_volumes('orchestrator');
end;
$$;
comment on function private.finish_volume_stage(public.volume_tasks, jsonb, timestamptz) is
  'Mark the current stage of a task, which the caller has locked, as done. After the last stage, store its metrics; '
  'if they are null, the stored ones are kept.';

create function public.complete_volume_stage(
  p_task_id bigint,
  p_token uuid,
  p_pages integer,
  p_failed_pages integer default 0,
  p_skipped boolean default false,
  p_metrics jsonb default '{}',
  p_now timestamptz default now()
)
returns public.volume_stage_answer
language plpgsql
volatile
security definer          -- workers have no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task public.volume_tasks;
  v_answer public.volume_stage_answer;
begin
  perform private.require_metrics(p_metrics);
  if (p_pages >= 0 and p_failed_pages between 0 and p_pages) is not true then
    raise exception 'p_failed_pages must be between 0 and p_pages, got % of %',
      coalesce(p_failed_pages::text, 'null'), coalesce(p_pages::text, 'null')
      using errcode = '22023', hint = 'p_pages includes the failed pages.';
  end if;
  select t.* into v_task from public.volume_tasks as t where t.id = p_task_id and t.token = p_token for update;
  if not found then
    return private.volume_refusal(v_answer, 'LOCK_LOST', p_task_id);
  end if;
  perform private.end_volume_run(
    p_token, case when p_skipped then 'skipped' else 'done' end, null, p_now, p_pages, p_failed_pages, p_metrics
  );
  update public.volume_tasks as t set pages_done = p_pages, pages_total = p_pages where t.id = p_task_id;
  perform private.finish_volume_stage(v_task, p_metrics, p_now);
  v_answer.success := true;
  v_answer.task_id := p_task_id;
  return v_answer;
end;
$$;
comment on function public.complete_volume_stage(bigint, uuid, integer, integer, boolean, jsonb, timestamptz) is
  'Complete a stage whose artifacts are published; p_skipped: they already existed. After reduce, p_metrics becomes '
  'the result of the volume. LOCK_LOST: another worker holds the task, and nothing has changed.';
grant execute on function public.complete_volume_stage(bigint, uuid, integer, integer, boolean, jsonb, timestamptz)
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
    raise exception 'p_error must be an object with a message, and at most 100000 bytes long'
      using errcode = '22023', hint = 'Send {"type": …, "message": …}.';
  end if;
end;
$$;
comment on function private.require_volume_error(jsonb) is 'Raise 22023 for an error without a message.';

create function private.fail_volume(
  p_task public.volume_tasks,
  p_outcome text,
  p_error jsonb,
  p_is_final boolean,
  p_retry_after integer,
  p_now timestamptz
)
returns public.volume_stage_answer
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_error jsonb := p_error || jsonb_build_object('stage', p_task.current_stage, 'at', p_now);
  v_attempts integer := p_task.attempts + 1;
  v_max integer := case when p_is_final then least(v_attempts, p_task.max_attempts) else p_task.max_attempts end;
  v_answer public.volume_stage_answer;
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
  perform private.notify_volumes('orchestrator');
  v_answer.success := true;
  v_answer.task_id := p_task.id;
  v_answer.is_final := v_attempts >= v_max;
  v_answer.attempts := v_attempts;
  return v_answer;
end;
$$;
comment on function private.fail_volume(public.volume_tasks, text, jsonb, boolean, integer, timestamptz) is
  'Record the failure of a task that the caller has locked; if p_is_final, the task is not retried.';

create function public.fail_volume_stage(
  p_task_id bigint,
  p_token uuid,
  p_error jsonb,
  p_category text default 'unknown',
  p_retry_after integer default null,
  p_now timestamptz default now()
)
returns public.volume_stage_answer
language plpgsql
volatile
security definer          -- workers have no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task public.volume_tasks;
  v_answer public.volume_stage_answer;
begin
  perform private.require_volume_error(p_error);
  perform private.require_category(p_category);
  if p_retry_after is not null then
    perform private.require_seconds('p_retry_after', p_retry_after, 0);
  end if;
  select t.* into v_task from public.volume_tasks as t where t.id = p_task_id and t.token = p_token for update;
  if not found then
    return private.volume_refusal(v_answer, 'LOCK_LOST', p_task_id);
  end if;
  return private.fail_volume(
    v_task, 'failed', p_error || jsonb_build_object('category', p_category), p_category = 'permanent',
    p_retry_after, p_now
  );
end;
$$;
comment on function public.fail_volume_stage(bigint, uuid, jsonb, text, integer, timestamptz) is
  'Fail a stage: {"type", "message", …}. It is retried after a backoff (or p_retry_after seconds), unless the error '
  'is permanent or no attempts are left.';
grant execute on function public.fail_volume_stage(bigint, uuid, jsonb, text, integer, timestamptz)
  to service_role, pagewarden_worker;

create function private.stage_worked_for_others(p_task public.volume_tasks, p_worker_id text, p_first_run bigint)
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
comment on function private.stage_worked_for_others(public.volume_tasks, text, bigint) is
  'Whether a worker that reports an outage in a stage has completed that stage for another volume of the job since '
  'this run.';

create function private.postpone_volume(p_task public.volume_tasks, p_error jsonb, p_now timestamptz)
returns public.volume_stage_answer
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  -- Up to this many outages in a row are never counted.
  c_max_outages constant integer := 4;
  v_outages integer;
  v_first_run bigint;
  v_answer public.volume_stage_answer;
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
  if v_outages > c_max_outages and private.stage_worked_for_others(p_task, p_task.locked_by, v_first_run) then
    v_answer := private.fail_volume(
      p_task, 'failed',
      p_error || jsonb_build_object(
        'type', 'OnlyThisVolume', 'category', 'configuration',
        'message', format('other volumes of the job are not affected: %s', p_error ->> 'message')
      ),
      false, null, p_now
    );
    v_answer.is_counted := true;
    return v_answer;
  end if;
  perform private.end_volume_run(p_task.token, 'outage', p_error, p_now);
  perform private.clear_volume_lock(p_task.id, p_now);
  update public.volume_tasks as t set last_error = p_error where t.id = p_task.id;
  -- With a delay, so that volumes without the outage come first.
  perform private.publish_volumes(
    array[p_task.id], p_task.current_stage, p_task.published_to, p_now,
    least(30 * 2 ^ least(v_outages - 1, 10), 300)::integer
  );
  v_answer.success := true;
  v_answer.task_id := p_task.id;
  v_answer.is_counted := false;
  return v_answer;
end;
$$;
comment on function private.postpone_volume(public.volume_tasks, jsonb, timestamptz) is
  'Handle an outage: republish a task, which the caller has locked, with a delay that grows from 30 seconds to 5 '
  'minutes. The fifth outage in a row counts as a failure if the same worker completed the stage for other volumes of '
  'the job in the meantime.';

create function public.release_volume_stage(
  p_task_id bigint,
  p_token uuid,
  p_reason text default 'the worker is stopping',
  p_outage boolean default false,
  p_now timestamptz default now()
)
returns public.volume_stage_answer
language plpgsql
volatile
security definer          -- workers have no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task public.volume_tasks;
  v_error jsonb;
  v_answer public.volume_stage_answer;
begin
  perform private.require_text('p_reason', p_reason, 10000);
  select t.* into v_task from public.volume_tasks as t where t.id = p_task_id and t.token = p_token for update;
  if not found then
    return private.volume_refusal(v_answer, 'LOCK_LOST', p_task_id);
  end if;
  v_error := jsonb_build_object(
    'type', case when p_outage then 'Outage' else 'GivenBack' end, 'category', 'transient', 'message', p_reason,
    'stage', v_task.current_stage, 'at', p_now
  );
  if p_outage then
    return private.postpone_volume(v_task, v_error, p_now);
  end if;
  perform private.end_volume_run(p_token, 'given_back', v_error, p_now);
  perform private.clear_volume_lock(p_task_id, p_now);
  v_answer.success := true;
  v_answer.task_id := p_task_id;
  v_answer.is_counted := false;
  return v_answer;
end;
$$;
comment on function public.release_volume_stage(bigint, uuid, text, boolean, timestamptz) is
  'Release a stage without counting a failure. If the worker is stopping, the message stays for other workers. If a '
  'store or an engine is unavailable or misconfigured (p_outage), a new message is published with a delay, and the '
  'worker removes this one. is_counted: other volumes of the job are not affected, so the outage counted as a failure '
  'of this volume.';
grant execute on function public.release_volume_stage(bigint, uuid, text, boolean, timestamptz) to service_role, pagewarden_worker;

create function private.is_volume_lock_expired(p_task public.volume_tasks, p_now timestamptz)
returns boolean
language sql
stable
security invoker
set search_path = ''
as $$
  select p_task.token is not null and (
    p_task.deadline < p_now
    or exists (
      -- After a restart of the database every lock is valid for one more period; see private.detect_restart.
      select 1 from private.sweep_state as s
      where s.server_since = private.server_since()
        and greatest(
          p_task.lock_expires_at, coalesce(s.resumed_at, '-infinity') + (p_task.lock_expires_at - p_task.locked_at)
        ) < p_now
    )
  );
$$;
comment on function private.is_volume_lock_expired(public.volume_tasks, timestamptz) is
  'Whether the worker that holds a task died or exceeded the deadline.';

create function private.reclaim_volume(p_task public.volume_tasks, p_now timestamptz)
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
    'message', format('worker %s stopped sending heartbeats', p_task.locked_by)
  );
begin
  if p_task.deadline < p_now then
    perform private.fail_volume(
      p_task, 'deadline',
      jsonb_build_object(
        'type', 'StageTimedOut', 'category', 'transient',
        'message', format('the stage did not finish within %s', p_task.deadline - p_task.started_at)
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
  perform private.clear_volume_lock(p_task.id, p_now);
  update public.volume_tasks as t set rescues = t.rescues + 1, last_error = v_error where t.id = p_task.id;
end;
$$;
comment on function private.reclaim_volume(public.volume_tasks, timestamptz) is
  'Reclaim a task, which the caller has locked, from a worker that died or exceeded the deadline.';

create function private.sweep_volumes(p_now timestamptz)
returns integer
language plpgsql
volatile
security invoker
set search_path = ''
set enable_seqscan = off   -- reads few rows by index, whatever the statistics say
as $$
declare
  v_task public.volume_tasks;
  v_count integer := 0;
begin
  for v_task in
    select t.* from public.volume_tasks as t
    where t.token is not null and private.is_volume_lock_expired(t, p_now)
    order by t.id
    limit 1000
    for update skip locked
  loop
    perform private.reclaim_volume(v_task, p_now);
    v_count := v_count + 1;
  end loop;
  return v_count;
end;
$$;
comment on function private.sweep_volumes(timestamptz) is
  'Reclaim tasks whose locks have expired. Returns the number reclaimed; their messages become visible again '
  'automatically.';
