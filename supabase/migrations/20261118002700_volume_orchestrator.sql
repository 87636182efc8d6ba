-- The orchestrator of volumes: moves them from stage to stage, and repairs what was lost.
--
-- One pass processes all running jobs: it reclaims tasks of dead workers, publishes messages for stages
-- that may start, and ends jobs. Any process may call it at any time; an advisory lock lets one pass run
-- at a time. At most 200 messages of a job wait for each stage, so no job blocks others.
--
-- Messages for queues outside this database are written to an outbox in the same transaction; a process
-- claims them, sends them and settles them. Every 10 minutes a pass reconciles: it republishes tasks whose
-- message is missing.

create function private.require_volume_queue(p_queue text)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (p_queue in ('pgmq', 'sqs')) is not true then
    raise exception 'unknown queue kind %', coalesce(p_queue, 'null')
      using errcode = '22023', hint = 'Valid kinds are pgmq and sqs.';
  end if;
end;
$$;
comment on function private.require_volume_queue(text) is 'Raise 22023 for an unknown kind of queue.';

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
set enable_seqscan = off   -- reads few rows by index, whatever the statistics say
as $$
declare
  -- The limit of messages of a job that wait for a stage, so that no job blocks others.
  c_max_queued constant integer := 200;
  v_before constant text := private.previous_volume_stage(p_stage);
  v_free integer;
  v_ids bigint[];
begin
  select least(p_limit, c_max_queued - count(*)) into v_free
  from (
    select 1 from public.volume_tasks as t
    where t.job_id = p_job_id and t.current_stage = p_stage and t.status = 'running' and t.token is null
    limit c_max_queued
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
  'Publish tasks of a job for a stage: failed ones whose retry is due, and those that have completed the previous '
  'stage. Returns the number published.';

create function private.volume_job_outcome(p_job_id bigint)
returns text
language sql
stable
security invoker
set search_path = ''
set enable_seqscan = off   -- reads one row by index, whatever the statistics say
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
comment on function private.volume_job_outcome(bigint) is
  'The final status of a job: completed when all its volumes are done, failed when some cannot be completed. Null '
  'while volumes are still open.';

create function private.end_volume_job(p_job_id bigint, p_now timestamptz)
returns text
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_status constant text := private.volume_job_outcome(p_job_id);
begin
  update public.volume_jobs as j set status = v_status, finished_at = p_now, updated_at = p_now
  where j.id = p_job_id and j.status = 'running' and v_status is not null;
  return case when found then v_status end;
end;
$$;
comment on function private.end_volume_job(bigint, timestamptz) is
  'End a job that the caller has locked if none of its volumes are open. Returns its final status, or null.';

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
  'Republish tasks whose message is missing because a queue was purged or the kind of queue was changed.';

create type public.orchestrate_volumes_answer as (
  published integer,
  republished integer,
  rescued integer,
  completed integer,
  failed integer,
  is_more boolean,
  is_reconciling boolean,
  is_busy boolean,
  outbox integer,
  retry_in double precision
);
comment on type public.orchestrate_volumes_answer is
  'The result of one orchestrator pass: messages published for stages that can start; lost messages republished; '
  'tasks reclaimed from dead workers; jobs completed and failed. is_more: p_limit was reached, so call it again. '
  'is_reconciling: external queues should be compared now, see republish_volumes. is_busy: jobs are running. outbox: '
  'the number of unsent messages, counted up to 1000. retry_in: seconds until the next retry is due. Nullable: '
  'retry_in.';

create function public.orchestrate_volumes(
  p_queue text default 'pgmq',
  p_limit integer default 1000,
  p_process text default 'unknown',
  p_now timestamptz default now()
)
returns setof public.orchestrate_volumes_answer
language plpgsql
volatile
security definer          -- the orchestrator has no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_state private.volume_orchestrator_state;
  v_is_reconciling boolean;
  v_job_id bigint;
  v_stage text;
  v_left integer := p_limit;
  v_rescued integer;
  v_lost integer := 0;
  v_ended text;
  v_completed integer := 0;
  v_failed integer := 0;
  v_answer public.orchestrate_volumes_answer;
begin
  perform private.require_volume_queue(p_queue);
  perform private.require_text('p_process', p_process, 200);
  if (p_limit between 1 and 10000) is not true then
    raise exception 'p_limit must be between 1 and 10000, got %', coalesce(p_limit::text, 'null')
      using errcode = '22023', hint = 'Call it again while is_more is true.';
  end if;
  -- One pass at a time; a second one would find nothing to do.
  if not pg_try_advisory_xact_lock(hashtextextended('pagewarden: volume orchestrator', 0)) then
    return;
  end if;
  perform private.detect_restart(p_now);
  update private.volume_orchestrator_state as s
  set last_pass_at = p_now, last_pass_by = p_process, swept_at = p_now, is_call_pending = false
  returning s.* into v_state;
  v_rescued := private.sweep_volumes(p_now);
  for v_job_id in
    select j.id from public.volume_jobs as j where j.status = 'running' order by j.id for no key update skip locked
  loop
    -- The last stage first, so that volumes finish before new ones start.
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
    update private.volume_orchestrator_state as s set reconciled_at = p_now;
  end if;
  v_answer.published := p_limit - v_left;
  v_answer.republished := v_lost;
  v_answer.rescued := v_rescued;
  v_answer.completed := v_completed;
  v_answer.failed := v_failed;
  v_answer.is_more := v_left = 0;
  v_answer.is_reconciling := v_is_reconciling;
  v_answer.is_busy := exists (select 1 from public.volume_jobs as j where j.status = 'running');
  v_answer.outbox := (select count(*) from (select 1 from private.volume_outbox as o limit 1000) as o);
  v_answer.retry_in := (
    select greatest(0, extract(epoch from min(r.retry_at) - p_now))
    from public.volume_jobs as j
    cross join lateral (
      select t.retry_at from public.volume_tasks as t
      where t.job_id = j.id and t.status = 'failed' and t.attempts < t.max_attempts
      order by t.retry_at limit 1
    ) as r
    where j.status = 'running'
  );
  return next v_answer;
end;
$$;
comment on function public.orchestrate_volumes(text, integer, text, timestamptz) is
  'Run one pass over all jobs: reclaim tasks from dead workers, publish messages for stages that can start, and end '
  'finished jobs. Messages go to the queues of this database (pgmq) or to the outbox (sqs). Returns one row, or none '
  'while another call is running.';
grant execute on function public.orchestrate_volumes(text, integer, text, timestamptz) to service_role, pagewarden_worker;

create type public.volume_outbox_message as (stage text, message jsonb);
comment on type public.volume_outbox_message is 'A message to send, and the stage whose queue gets it.';

create function public.claim_volume_outbox(
  p_limit integer default 100,
  p_lease_seconds integer default 30,
  p_now timestamptz default now()
)
returns setof public.volume_outbox_message
language plpgsql
volatile
security definer          -- the orchestrator has no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
begin
  if (p_limit between 1 and 1000) is not true then
    raise exception 'p_limit must be between 1 and 1000, got %', coalesce(p_limit::text, 'null')
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
  returning o.stage, o.message;
end;
$$;
comment on function public.claim_volume_outbox(integer, integer, timestamptz) is
  'Lease messages from the outbox. A message that is not settled before its lease expires can be leased again.';
grant execute on function public.claim_volume_outbox(integer, integer, timestamptz) to service_role, pagewarden_worker;

create function public.settle_volume_outbox(p_messages jsonb)
returns integer
language plpgsql
volatile
security definer          -- the orchestrator has no privileges on tables
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
comment on function public.settle_volume_outbox(jsonb) is
  'Delete sent messages from the outbox: [{"task_id", "attempt"}, …]. Returns the number deleted.';
grant execute on function public.settle_volume_outbox(jsonb) to service_role, pagewarden_worker;

create function public.republish_volumes(
  p_stage text,
  p_older_seconds integer default 300,
  p_now timestamptz default now()
)
returns integer
language plpgsql
volatile
security definer          -- the orchestrator has no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_volume_stage(p_stage);
  -- No queue keeps a message for longer than 14 days.
  if (p_older_seconds between 0 and 1209600) is not true then
    raise exception 'p_older_seconds must be between 0 and 1209600, got %', coalesce(p_older_seconds::text, 'null')
      using errcode = '22023', hint = 'Pass the retention period of the queue, or a few minutes if the queue is empty.';
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
comment on function public.republish_volumes(text, integer, timestamptz) is
  'Resend messages that were sent to the external queue of this stage more than p_older_seconds ago, because that '
  'queue is empty or has dropped older messages. Returns the number resent.';
grant execute on function public.republish_volumes(text, integer, timestamptz) to service_role, pagewarden_worker;

