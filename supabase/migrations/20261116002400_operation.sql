-- Purpose:  how the system is run: which workers are there, what the lanes hold, when functions ran, who did what.
-- Affects:  creates report_worker, list_workers, list_lanes, begin_function_run, end_function_run, list_functions,
--           set_function, list_acts, list_action_types, two tables; other indexes on hac_acts and ocr_processing_logs.
-- Locks:    both against writing while their indexes are built: seconds for a million lines.

-- Workers -----------------------------------------------------------------------------------

create unlogged table private.workers (   -- after a crash whoever lives reports again
  worker_id text not null,
  lanes text[] not null,
  started_at timestamptz not null,
  seen_at timestamptz not null,
  constraint workers_pkey primary key (worker_id)
);
comment on table private.workers is 'Workers that run all the time, and when each last said so.';
alter table private.workers enable row level security;

create function private.report_worker(p_worker_id text, p_lanes text[], p_leaves boolean, p_now timestamptz default now())
returns boolean
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_text('p_worker_id', p_worker_id, 200);
  if p_lanes is null or p_leaves is null then
    raise exception 'p_lanes and p_leaves must not be null' using errcode = '22023', hint = 'Say which lanes it serves.';
  end if;
  perform private.require_lane(u.lane) from unnest(p_lanes) as u (lane);
  if p_leaves then
    delete from private.workers as w where w.worker_id = p_worker_id;
    return found;
  end if;
  insert into private.workers as w (worker_id, lanes, started_at, seen_at)
  values (p_worker_id, p_lanes, p_now, p_now)
  on conflict on constraint workers_pkey do update set lanes = excluded.lanes, seen_at = excluded.seen_at;
  delete from private.workers as w
  where w.ctid = any (array(
    select k.ctid from private.workers as k where k.seen_at < p_now - interval '1 hour' for update skip locked
  ));
  return true;
end;
$$;
comment on function private.report_worker(text, text[], boolean, timestamptz) is 'See public.report_worker.';
grant execute on function private.report_worker(text, text[], boolean, timestamptz) to service_role, pagewarden_worker;

create function public.report_worker(p_worker_id text, p_lanes text[], p_leaves boolean default false)
returns boolean
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.report_worker(p_worker_id, p_lanes, p_leaves);
$$;
comment on function public.report_worker(text, text[], boolean) is
  'A worker that runs all the time says every half minute that it does, and at its end that it leaves. For people '
  'to see; nothing depends on it. False for one that leaves and had not been there.';
grant execute on function public.report_worker(text, text[], boolean) to service_role, pagewarden_worker;

create function private.list_workers(p_now timestamptz default now())
returns table (
  worker_id text,
  state text,
  lanes text[],
  started_at timestamptz,
  seen_at timestamptz,
  in_hand bigint,
  documents jsonb,
  completed bigint
)
language plpgsql
stable
security definer          -- reads what the caller may not, after asking who it is
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_admin();
  return query
  with held as materialized (
    select coalesce(d.locked_by, 'unknown') as worker_id, d.id, d.name, d.lane, d.claimed_at, d.page_count,
      d.open_run_id, d.locked_at, d.lock_expires_at,
      row_number() over (partition by d.locked_by order by d.claimed_at, d.id) as place
    from public.documents as d
    where d.id = any (private.claimed_ids()) and d.ocr_status = 'processing'
  ),
  holder as (
    select h.worker_id, count(*) as in_hand, max(h.locked_at) as heard_at, max(h.lock_expires_at) as held_until,
      jsonb_agg(
        jsonb_build_object(
          'document_id', h.id, 'name', h.name, 'lane', h.lane, 'claimed_at', h.claimed_at, 'page_count', h.page_count,
          'pages_done', (select count(*) from public.ocr_pages as o where o.run_id = h.open_run_id)
        )
        order by h.place
      ) filter (where h.place <= 3) as documents
    from held as h group by h.worker_id
  ),
  result as (
    select r.worker_id, count(*) as completed, max(r.created_at) as last_at
    from public.ocr_processing_logs as r
    where r.created_at > p_now - interval '10 minutes' and r.worker_id is not null
    group by r.worker_id
  )
  select i.worker_id,
    case
      when h.held_until > p_now then 'reading'
      when h.in_hand > 0 or w.seen_at < p_now - interval '90 seconds' then 'silent'
      when w.worker_id is not null then 'idle'
      else 'ended'
    end,
    coalesce(w.lanes, '{}'), w.started_at, greatest(w.seen_at, h.heard_at, r.last_at), coalesce(h.in_hand, 0),
    coalesce(h.documents, '[]'), coalesce(r.completed, 0)
  from (
    select k.worker_id from private.workers as k union select k.worker_id from holder as k
    union select k.worker_id from result as k
  ) as i
  left join private.workers as w on w.worker_id = i.worker_id
  left join holder as h on h.worker_id = i.worker_id
  left join result as r on r.worker_id = i.worker_id
  order by array_position(array['silent', 'reading', 'idle'], case
      when h.held_until > p_now then 'reading'
      when h.in_hand > 0 or w.seen_at < p_now - interval '90 seconds' then 'silent'
      when w.worker_id is not null then 'idle'
    end), i.worker_id
  limit 500;
end;
$$;
comment on function private.list_workers(timestamptz) is 'See public.list_workers.';
grant execute on function private.list_workers(timestamptz) to authenticated, service_role;

create function public.list_workers()
returns table (
  worker_id text,
  state text,
  lanes text[],
  started_at timestamptz,
  seen_at timestamptz,
  in_hand bigint,
  documents jsonb,
  completed bigint
)
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.list_workers();
$$;
comment on function public.list_workers() is
  'HAC: workers that have documents in hand (the first three of each are named), that run and wait, or that completed '
  'documents in the last ten minutes. state is reading, idle, ended, or silent: not heard of for too long.';
grant execute on function public.list_workers() to authenticated, service_role;

-- Lanes -------------------------------------------------------------------------------------

create function private.list_lanes()
returns table (
  lane text,
  description text,
  queued bigint,
  later bigint,
  processing bigint,
  paused_at timestamptz,
  pause_kind text,
  pause_reason text,
  paused_by text,
  probe_at timestamptz,
  max_attempts integer,
  max_rescues integer,
  backoff_seconds integer,
  backoff_cap_seconds integer,
  attempt_seconds integer,
  failed_pages_allowed numeric
)
language plpgsql
stable
security definer          -- reads what the caller may not, after asking who it is
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off   -- it would look at all of them before the limit is heard
as $$
begin
  perform private.require_admin();
  return query
  with held as materialized (
    select d.lane, count(*) as documents
    from public.documents as d
    where d.id = any (private.claimed_ids()) and d.ocr_status = 'processing'
    group by d.lane
  )
  select l.lane, l.description,
    (select count(*) from (select 1 from private.queue as q where q.lane = l.lane limit 10000) as k),
    (select count(*) from (select 1 from private.later as q where q.lane = l.lane limit 10000) as k),
    coalesce(h.documents, 0),
    l.paused_at, l.pause_kind, l.pause_reason, (select u.email::text from auth.users as u where u.id = l.paused_by),
    l.probe_at, l.max_attempts, l.max_rescues, l.backoff_seconds, l.backoff_cap_seconds, l.attempt_seconds,
    l.failed_pages_allowed
  from public.lanes as l
  left join held as h on h.lane = l.lane
  order by l.lane;
end;
$$;
comment on function private.list_lanes() is 'See public.list_lanes.';
grant execute on function private.list_lanes() to authenticated, service_role;

create function public.list_lanes()
returns table (
  lane text,
  description text,
  queued bigint,
  later bigint,
  processing bigint,
  paused_at timestamptz,
  pause_kind text,
  pause_reason text,
  paused_by text,
  probe_at timestamptz,
  max_attempts integer,
  max_rescues integer,
  backoff_seconds integer,
  backoff_cap_seconds integer,
  attempt_seconds integer,
  failed_pages_allowed numeric
)
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.list_lanes();
$$;
comment on function public.list_lanes() is
  'HAC: each lane with what waits (counted up to 10,000), what waits for its next attempt, what is being read, '
  'whether, why and by whose word it is paused, and its limits.';
grant execute on function public.list_lanes() to authenticated, service_role;

-- Functions ---------------------------------------------------------------------------------

create table private.function_runs (
  id bigint generated always as identity,
  function_name text not null,
  started_at timestamptz not null default now(),
  ended_at timestamptz,
  outcome text,
  error text,
  result jsonb,
  constraint function_runs_pkey primary key (id),
  constraint function_runs_outcome_is_known check (outcome in ('completed', 'refused', 'failed')),
  constraint function_runs_ended_has_an_outcome check ((ended_at is null) = (outcome is null))
);
comment on table private.function_runs is
  'The last fifty calls of each function that services call. Without an end it is at work, or was killed.';
create index function_runs_function_idx on private.function_runs (function_name, id);
alter table private.function_runs enable row level security;

create function private.begin_function_run(p_function_name text)
returns bigint
language plpgsql
volatile
security definer          -- the service role holds no rights on schema private
set search_path = pg_catalog, pg_temp
as $$
declare
  v_id bigint;
begin
  perform private.require_text('p_function_name', p_function_name, 200);
  insert into private.function_runs as f (function_name, started_at) values (p_function_name, clock_timestamp())
  returning f.id into v_id;
  delete from private.function_runs as f
  where f.ctid = any (array(
    select k.ctid from private.function_runs as k
    where k.function_name = p_function_name and k.id <= (
      select l.id from private.function_runs as l where l.function_name = p_function_name
      order by l.id desc offset 50 limit 1
    )
    for update skip locked
  ));
  return v_id;
end;
$$;
comment on function private.begin_function_run(text) is 'See public.begin_function_run.';
grant execute on function private.begin_function_run(text) to service_role;

create function public.begin_function_run(p_function_name text)
returns bigint
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.begin_function_run(p_function_name);
$$;
comment on function public.begin_function_run(text) is 'Note that a function begins; end_function_run takes the number.';
grant execute on function public.begin_function_run(text) to service_role;

create function private.end_function_run(p_run_id bigint, p_outcome text, p_error text, p_result jsonb)
returns boolean
language plpgsql
volatile
security definer          -- the service role holds no rights on schema private
set search_path = pg_catalog, pg_temp
as $$
begin
  if (p_outcome in ('completed', 'refused', 'failed')) is not true then
    raise exception 'there is no outcome %', coalesce(p_outcome, 'null')
      using errcode = '22023', hint = 'Outcomes are completed, refused and failed.';
  end if;
  update private.function_runs as f
  set ended_at = clock_timestamp(), outcome = p_outcome, error = left(p_error, 1000), result = p_result
  where f.id = p_run_id and f.ended_at is null;
  return found;
end;
$$;
comment on function private.end_function_run(bigint, text, text, jsonb) is 'See public.end_function_run.';
grant execute on function private.end_function_run(bigint, text, text, jsonb) to service_role;

create function public.end_function_run(
  p_run_id bigint,
  p_outcome text,
  p_error text default null,
  p_result jsonb default null
)
returns boolean
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.end_function_run(p_run_id, p_outcome, p_error, p_result);
$$;
comment on function public.end_function_run(bigint, text, text, jsonb) is
  'Note how a function ended: completed, refused (the caller was at fault) or failed. False when nobody knows of the run.';
grant execute on function public.end_function_run(bigint, text, text, jsonb) to service_role;

create function private.list_functions()
returns table (
  function_name text,
  enabled boolean,
  schedule text,
  description text,
  lanes text[],
  updated_at timestamptz,
  last_run_at timestamptz,
  runs jsonb
)
language plpgsql
stable
security definer          -- reads what the caller may not, after asking who it is
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_admin();
  return query
  select c.function_name, c.enabled, c.schedule, c.description, c.lanes, c.updated_at,
    -- The sweep is done in SQL, and notes the time itself.
    greatest(r.last_at, case c.function_name when 'stale-monitor' then (select s.swept_at from private.sweep_state as s) end),
    coalesce(r.runs, '[]')
  from public.edge_function_config as c
  cross join lateral (
    select max(k.started_at) as last_at,
      jsonb_agg(
        jsonb_build_object(
          'started_at', k.started_at, 'seconds', round(extract(epoch from k.ended_at - k.started_at), 3),
          'outcome', k.outcome, 'error', k.error, 'result', k.result
        )
        order by k.id desc
      ) as runs
    from (
      select f.* from private.function_runs as f where f.function_name = c.function_name order by f.id desc limit 10
    ) as k
  ) as r
  order by c.function_name;
end;
$$;
comment on function private.list_functions() is 'See public.list_functions.';
grant execute on function private.list_functions() to authenticated, service_role;

create function public.list_functions()
returns table (
  function_name text,
  enabled boolean,
  schedule text,
  description text,
  lanes text[],
  updated_at timestamptz,
  last_run_at timestamptz,
  runs jsonb
)
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.list_functions();
$$;
comment on function public.list_functions() is
  'HAC: each function with its switch, its schedule and its last ten runs, newest first.';
grant execute on function public.list_functions() to authenticated, service_role;

create function private.require_schedule(p_schedule text)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
declare
  v_fields text[] := string_to_array(p_schedule, ' ');
  v_names constant text[] := array['minute', 'hour', 'day', 'month', 'weekday'];
  v_lowest constant integer[] := array[0, 0, 1, 1, 0];
  v_highest constant integer[] := array[59, 23, 31, 12, 7];
  v_part text;
  v_match text[];
begin
  if p_schedule ~ '^([1-9]|[1-5][0-9]) seconds$' then
    return;
  end if;
  if cardinality(v_fields) <> 5 then
    raise exception 'a schedule has five fields (minute, hour, day, month, weekday), got %', p_schedule
      using errcode = '22023', hint = 'Write it like "*/10 * * * *", or like "30 seconds" (1 to 59).';
  end if;
  for n in 1 .. 5 loop
    foreach v_part in array string_to_array(v_fields[n], ',') loop
      v_match := regexp_match(v_part, '^(?:(\d{1,2})|(?:\*|(\d{1,2})-(\d{1,2}))(?:/([1-9]\d?))?)$');
      if v_match is null
        or coalesce(v_match[1], v_match[2], v_lowest[n]::text)::integer not between v_lowest[n] and v_highest[n]
        or coalesce(v_match[3], v_highest[n]::text)::integer
          not between coalesce(v_match[2], v_lowest[n]::text)::integer and v_highest[n] then
        raise exception '"%" is no % of a schedule', v_part, v_names[n]
          using errcode = '22023',
            hint = 'Write *, */n, a range a-b, several with commas, or a number from ' || v_lowest[n] || ' to '
              || v_highest[n] || '.';
      end if;
    end loop;
  end loop;
end;
$$;
comment on function private.require_schedule(text) is 'Refuse what neither pg_cron nor our own scheduler would keep (22023).';

create function private.set_function(p_function_name text, p_enabled boolean, p_schedule text)
returns jsonb
language plpgsql
volatile
security definer          -- HAC holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_old public.edge_function_config;
  v_new public.edge_function_config;
begin
  perform private.require_admin();
  select c.* into v_old from public.edge_function_config as c where c.function_name = p_function_name for update;
  if not found then
    return jsonb_build_object(
      'success', false, 'error', 'FUNCTION_NOT_FOUND', 'function_name', p_function_name,
      'message', 'there is no such function'
    );
  end if;
  v_new := v_old;
  v_new.enabled := coalesce(p_enabled, v_old.enabled);
  if p_schedule is not null then
    v_new.schedule := nullif(regexp_replace(btrim(p_schedule), '\s+', ' ', 'g'), '');
    if v_new.schedule is not null then
      perform private.require_schedule(v_new.schedule);
    end if;
  end if;
  if v_new is distinct from v_old then
    update public.edge_function_config as c
    set enabled = v_new.enabled, schedule = v_new.schedule, updated_at = now()
    where c.function_name = p_function_name;
    insert into public.hac_acts (
      user_id, action_type, action_description, field_changed, old_value, new_value, metadata
    )
    select auth.uid(), 'function_changed', format('%s of %s', f.field, p_function_name), f.field, f.old, f.new,
      jsonb_build_object('function_name', p_function_name)
    from (
      values ('enabled', v_old.enabled::text, v_new.enabled::text), ('schedule', v_old.schedule, v_new.schedule)
    ) as f (field, old, new)
    where f.old is distinct from f.new;
  end if;
  return jsonb_build_object(
    'success', true, 'function_name', p_function_name, 'enabled', v_new.enabled, 'schedule', v_new.schedule
  );
end;
$$;
comment on function private.set_function(text, boolean, text) is 'See public.set_function.';
grant execute on function private.set_function(text, boolean, text) to authenticated, service_role;

create function public.set_function(
  p_function_name text,
  p_enabled boolean default null,
  p_schedule text default null
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.set_function(p_function_name, p_enabled, p_schedule);
$$;
comment on function public.set_function(text, boolean, text) is
  'HAC: switch a function on or off, set its schedule; what is null stays, an empty schedule is none. pg_cron, or the '
  'scheduler in its place, follows at once.';
grant execute on function public.set_function(text, boolean, text) to authenticated, service_role;

-- The audit log -----------------------------------------------------------------------------

create index hac_acts_created_idx on public.hac_acts (created_at, id);
create index hac_acts_case_created_idx on public.hac_acts (case_id, created_at, id);
create index hac_acts_document_idx on public.hac_acts (document_id, created_at, id) where document_id is not null;
create index hac_acts_user_idx on public.hac_acts (user_id, created_at, id) where user_id is not null;
create index hac_acts_action_idx on public.hac_acts (action_type, created_at, id);
drop index public.hac_acts_case_idx;

-- In place of one that only knew in which blocks to look: a page of the log is read from where it begins. Keys come
-- in their order, so what it costs completions is lost in the noise.
drop index public.ocr_processing_logs_created_idx;
create index ocr_processing_logs_created_idx on public.ocr_processing_logs (created_at, id);

create type private.acts_filter as (
  user_id uuid,
  action_type text,
  case_ids uuid[],
  document_id uuid,
  since timestamptz,
  before timestamptz,
  before_id uuid,
  rows integer
);
comment on type private.acts_filter is
  'What of the audit log is wanted; case_ids null: of all cases, and of none. Goes on after before and before_id.';

create function private.find_acts(p_filter private.acts_filter)
returns setof public.hac_acts
language plpgsql
stable
security invoker
set search_path = ''
set plan_cache_mode = force_custom_plan   -- each filter has an index of its own, in the order of the lines
set enable_bitmapscan = off
as $$
declare
  v_cases uuid[] := p_filter.case_ids;
  v_user uuid := p_filter.user_id;
  v_action text := p_filter.action_type;
  v_document uuid := p_filter.document_id;
  v_since timestamptz := p_filter.since;
  v_before timestamptz := p_filter.before;
  v_before_id uuid := p_filter.before_id;
  v_rows integer := p_filter.rows;
begin
  if v_cases is null or v_document is not null then
    return query
    select a.* from public.hac_acts as a
    where (a.created_at, a.id) < (v_before, v_before_id) and a.created_at >= v_since
      and (v_user is null or a.user_id = v_user)
      and (v_action is null or a.action_type = v_action)
      and (v_document is null or a.document_id = v_document)
      and (v_cases is null or a.case_id = any (v_cases))
    order by a.created_at desc, a.id desc
    limit v_rows;
  else
    return query
    select f.*
    from unnest(v_cases) as c (id)
    cross join lateral (
      select a.* from public.hac_acts as a
      where a.case_id = c.id
        and (a.created_at, a.id) < (v_before, v_before_id) and a.created_at >= v_since
        and (v_user is null or a.user_id = v_user)
        and (v_action is null or a.action_type = v_action)
      order by a.created_at desc, a.id desc
      limit v_rows
    ) as f
    order by f.created_at desc, f.id desc
    limit v_rows;
  end if;
end;
$$;
comment on function private.find_acts(private.acts_filter) is 'The newest acts that match.';

create function private.find_results(p_filter private.acts_filter)
returns setof public.hac_acts
language plpgsql
stable
security invoker
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
declare
  v_cases uuid[] := p_filter.case_ids;
  v_document uuid := p_filter.document_id;
  v_since timestamptz := p_filter.since;
  v_before timestamptz := p_filter.before;
  v_before_id uuid := p_filter.before_id;
  v_rows integer := p_filter.rows;
  v_ids uuid[];
begin
  -- Few documents are looked up one by one; for many it is quicker to go through the results, newest first.
  if v_document is not null then
    v_ids := array[v_document];
  elsif v_cases is not null then
    v_ids := array(select d.id from public.documents as d where d.case_id = any (v_cases) limit 5001);
    v_ids := case when cardinality(v_ids) <= 5000 then v_ids end;
  end if;
  if v_ids is null then
    return query
    select r.id, d.case_id, r.document_id, null::uuid, 'ocr_completed',
      format('OCR completed for %s (confidence: %s%%)', d.name, coalesce(round(r.confidence_score * 100, 2)::text, 'unknown')),
      'ocr_status', null::text, 'completed', null::jsonb, r.created_at
    from public.ocr_processing_logs as r
    join public.documents as d on d.id = r.document_id
    where (r.created_at, r.id) < (v_before, v_before_id) and r.created_at >= v_since
      and (v_cases is null or d.case_id = any (v_cases))
    order by r.created_at desc, r.id desc
    limit v_rows;
  else
    -- Not by a condition: a planner may take it for a reason to go through all results.
    return query
    select r.id, d.case_id, r.document_id, null::uuid, 'ocr_completed',
      format('OCR completed for %s (confidence: %s%%)', d.name, coalesce(round(r.confidence_score * 100, 2)::text, 'unknown')),
      'ocr_status', null::text, 'completed', null::jsonb, r.created_at
    from unnest(v_ids) as i (id)
    cross join lateral (select l.* from public.ocr_processing_logs as l where l.document_id = i.id offset 0) as r
    join public.documents as d on d.id = r.document_id
    where (r.created_at, r.id) < (v_before, v_before_id) and r.created_at >= v_since
      and (v_cases is null or d.case_id = any (v_cases))
    order by r.created_at desc, r.id desc
    limit v_rows;
  end if;
end;
$$;
comment on function private.find_results(private.acts_filter) is
  'The newest results that match, as lines of the log, as hac_logs shows them.';

create function private.list_acts(
  p_email text,
  p_action_type text,
  p_case_id uuid,
  p_document_id uuid,
  p_since timestamptz,
  p_until timestamptz,
  p_before timestamptz,
  p_before_id uuid,
  p_limit integer
)
returns table (
  id uuid,
  created_at timestamptz,
  user_id uuid,
  email text,
  action_type text,
  description text,
  case_id uuid,
  case_name text,
  document_id uuid,
  document_name text,
  field_changed text,
  old_value text,
  new_value text,
  about_email text
)
language plpgsql
stable
security definer          -- behind the policies no index would be used; it asks who the caller is
set search_path = pg_catalog, pg_temp
set enable_seqscan = off   -- names are looked up line by line
set jit = off              -- before PostgreSQL 18 a scan that is off counts as dear enough for it
as $$
declare
  v_all boolean := private.is_admin() or private.is_service();
  v_filter private.acts_filter;
begin
  if (p_limit between 1 and 1000) is not true then
    raise exception 'p_limit must be 1 to 1000' using errcode = '22023', hint = 'Read the log page by page.';
  end if;
  perform private.require_optional_text('p_email', nullif(p_email, ''), 300);
  v_filter := (
    null, p_action_type, case when p_case_id is not null then array[p_case_id] end, p_document_id,
    coalesce(p_since, '-infinity'), coalesce(p_before, 'infinity'),
    coalesce(p_before_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'), p_limit
  );
  -- With two upper bounds a scan of the index would begin at either of them.
  if p_until < v_filter.before then
    v_filter.before := p_until;
    v_filter.before_id := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  end if;
  if not v_all then
    v_filter.case_ids := array(select i.id from private.my_case_ids() as i (id) where p_case_id is null or i.id = p_case_id);
  end if;
  if p_email is not null then
    -- People may look for what they did themselves; whom else an address belongs to they do not learn.
    select u.id into v_filter.user_id from auth.users as u
    where u.email = lower(btrim(p_email)) and (v_all or u.id = auth.uid());
    if not found then
      return;
    end if;
  end if;
  return query
  with line as materialized (
    select l.* from (
      select a.* from private.find_acts(v_filter) as a where p_action_type is distinct from 'ocr_completed'
      union all
      select r.* from private.find_results(v_filter) as r
      where p_email is null and coalesce(p_action_type, 'ocr_completed') = 'ocr_completed'
    ) as l
    order by l.created_at desc, l.id desc
    limit p_limit
  )
  select l.id, l.created_at, l.user_id,
    (select u.email::text from auth.users as u where u.id = l.user_id and (v_all or u.id = auth.uid())),
    l.action_type, l.action_description, l.case_id, (select c.name from public.cases as c where c.id = l.case_id),
    l.document_id, (select d.name::text from public.documents as d where d.id = l.document_id),
    l.field_changed, l.old_value, l.new_value,
    (
      select u.email::text from auth.users as u
      where v_all and u.id = case
        when l.metadata ->> 'user_id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then (l.metadata ->> 'user_id')::uuid
      end
    )
  from line as l
  order by l.created_at desc, l.id desc;
end;
$$;
comment on function private.list_acts(
  text, text, uuid, uuid, timestamptz, timestamptz, timestamptz, uuid, integer
) is 'See public.list_acts.';
grant execute on function private.list_acts(
  text, text, uuid, uuid, timestamptz, timestamptz, timestamptz, uuid, integer
) to authenticated, service_role;

create function public.list_acts(
  p_email text default null,
  p_action_type text default null,
  p_case_id uuid default null,
  p_document_id uuid default null,
  p_since timestamptz default null,
  p_until timestamptz default null,
  p_before timestamptz default null,
  p_before_id uuid default null,
  p_limit integer default 50
)
returns table (
  id uuid,
  created_at timestamptz,
  user_id uuid,
  email text,
  action_type text,
  description text,
  case_id uuid,
  case_name text,
  document_id uuid,
  document_name text,
  field_changed text,
  old_value text,
  new_value text,
  about_email text
)
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.list_acts(
    p_email, p_action_type, p_case_id, p_document_id, p_since, p_until, p_before, p_before_id, p_limit
  );
$$;
comment on function public.list_acts(
  text, text, uuid, uuid, timestamptz, timestamptz, timestamptz, uuid, integer
) is
  'What hac_logs shows to the caller, newest first, from an index: by the address of who did it, by action, case, '
  'document and time. Goes on after the line p_before_id of p_before. Addresses of others are for HAC.';
grant execute on function public.list_acts(
  text, text, uuid, uuid, timestamptz, timestamptz, timestamptz, uuid, integer
) to authenticated, service_role;

create function private.list_action_types()
returns setof text
language sql
stable
security definer          -- only the words, of which there are a few
set search_path = pg_catalog, pg_temp
as $$
  -- From word to word through the index, instead of over all lines.
  with recursive word as (
    (select a.action_type from public.hac_acts as a order by a.action_type limit 1)
    union all
    select (
      select a.action_type from public.hac_acts as a where a.action_type > w.action_type order by a.action_type limit 1
    )
    from word as w where w.action_type is not null
  )
  select w.action_type from word as w where w.action_type is not null
  union
  select 'ocr_completed'
  order by 1;
$$;
comment on function private.list_action_types() is 'See public.list_action_types.';
grant execute on function private.list_action_types() to authenticated, service_role;

create function public.list_action_types()
returns setof text
language sql
stable
security invoker
set search_path = ''
as $$
  select private.list_action_types();
$$;
comment on function public.list_action_types() is 'The words for actions in the audit log, for a filter.';
grant execute on function public.list_action_types() to authenticated, service_role;
