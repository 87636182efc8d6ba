-- Workers: the pool, what its workers read, and the rate limit of remote engines.
--
-- Pool: long-lived programs whose workers serve any lane. Each reports its workers every two seconds
-- (report_pool) and receives the lane of each, and which lanes have work. One program leads at a time:
-- lead_pool() takes or renews a lease and returns backlog and workers, assign_pool() stores the new lanes.
-- The term increases with each new leader, so a delayed call of a former leader is refused (NOT_LEADER).
-- See docs/decisions/0007.
--
-- list_workers() shows the workers with the documents they have claimed. Claims and locks do not depend on
-- any of this.
--
-- Rate limit: take_engine_call() reserves the next time slot of an engine for all workers together.

create table private.workers (
  worker_id text not null,
  process text not null,
  lanes text[] not null,
  lane text,
  lane_since timestamptz,
  lane_reason text,
  switches integer not null default 0,
  reads_lane text,
  reads_document uuid,
  started_at timestamptz not null,
  seen_at timestamptz not null,
  constraint workers_pkey primary key (worker_id)
);
comment on table private.workers is 'The workers of the pool, and when each was last reported.';
comment on column private.workers.process is
  'The program that the worker belongs to; a program reports all of its workers.';
comment on column private.workers.lanes is 'The lanes that the worker serves.';
comment on column private.workers.lane is 'The lane it is assigned to; null until a leader assigns one.';
comment on column private.workers.reads_lane is
  'The lane of the document that the worker is reading; may differ from its assigned lane.';
alter table private.workers enable row level security;

create type public.worker_document as (
  document_id uuid,
  name text,
  lane text,
  claimed_at timestamptz,
  page_count integer,
  pages_done bigint
);
comment on type public.worker_document is 'A document that a worker has claimed, and its progress. Nullable: page_count.';

create type public.listed_worker as (
  worker_id text,
  state text,
  lanes text[],
  started_at timestamptz,
  seen_at timestamptz,
  in_hand bigint,
  documents public.worker_document[],
  completed bigint
);
comment on type public.listed_worker is
  'A worker with the first three documents it has claimed. state is reading, idle, ended or silent. Nullable: started_at.';

create function private.list_workers(p_now timestamptz default now())
returns setof public.listed_worker
language plpgsql
stable
security definer          -- checks the role, then reads private tables
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
      array_agg((
        h.id, h.name::text, h.lane::text, h.claimed_at, h.page_count,
        (select count(*) from public.ocr_pages as o where o.run_id = h.open_run_id)
      )::public.worker_document order by h.place) filter (where h.place <= 3) as documents
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
    coalesce(h.documents, '{}'), coalesce(r.completed, 0)
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

create table private.pool_leader (
  is_only boolean not null default true,
  process text not null,
  term bigint not null,
  since timestamptz not null,
  expires_at timestamptz not null,
  constraint pool_leader_pkey primary key (is_only),
  constraint pool_leader_one_row check (is_only)
);
comment on table private.pool_leader is 'The program that leads the pool, and when its lease expires.';
comment on column private.pool_leader.term is
  'Increases with each new leader; assignments from an earlier term are rejected.';
alter table private.pool_leader enable row level security;

create table private.pool_history (
  at timestamptz not null,
  backlog jsonb not null,
  allocation jsonb not null,
  switches integer not null,
  leader text not null,
  constraint pool_history_pkey primary key (at)
);
comment on table private.pool_history is 'Backlog and assigned workers at each run of the leader; kept for a week.';
alter table private.pool_history enable row level security;

create function private.silent_after()
returns interval
language sql
immutable
security invoker
set search_path = ''
as $$ select interval '30 seconds' $$;
comment on function private.silent_after() is
  'For how long a worker may be silent; then it is no longer counted as part of the pool.';

create table private.pool_switches (
  at timestamptz not null,
  worker_id text not null,
  from_lane text not null,
  to_lane text not null,
  reason text not null,
  constraint pool_switches_pkey primary key (at, worker_id)
);
comment on table private.pool_switches is 'Workers that were assigned to another lane, and why; kept for a week.';
alter table private.pool_switches enable row level security;

create type public.report_pool_answer as (
  lanes jsonb,
  reading jsonb,
  waiting text[]
);
comment on type public.report_pool_answer is
  'The assignments of a program in the pool. lanes: the lane of each of its workers, null until one is assigned; '
  'reading: how many workers of other programs are reading in each lane; waiting: which of its lanes have work, a due '
  'probe included.';

create function public.report_pool(
  p_process text,
  p_lanes text[],
  p_workers jsonb,
  p_now timestamptz default now()
)
returns public.report_pool_answer
language plpgsql
volatile
security definer          -- workers have no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer public.report_pool_answer;
begin
  perform private.require_text('p_process', p_process, 200);
  if p_lanes is null then
    raise exception 'p_lanes must not be null' using errcode = '22023', hint = 'List the lanes that the program serves.';
  end if;
  perform private.require_lane(u.lane) from unnest(p_lanes) as u (lane);
  perform private.require_list('p_workers', p_workers);
  perform private.require_text('worker_id', r.worker_id, 200), private.require_lane(coalesce(r.lane, 'image'))
  from jsonb_to_recordset(p_workers) as r (worker_id text, lane text);
  insert into private.workers as w (worker_id, process, lanes, reads_lane, reads_document, started_at, seen_at)
  select r.worker_id, p_process, p_lanes, r.lane, r.document_id, p_now, p_now
  from jsonb_to_recordset(p_workers) as r (worker_id text, lane text, document_id uuid)
  order by r.worker_id
  on conflict on constraint workers_pkey do update
  set process = excluded.process, lanes = excluded.lanes, reads_lane = excluded.reads_lane,
      reads_document = excluded.reads_document, seen_at = excluded.seen_at;
  delete from private.workers as w
  where w.ctid = any (array(
    select k.ctid from private.workers as k
    where k.seen_at < p_now - interval '1 hour'
      or k.process = p_process
        and not exists (
          select 1 from jsonb_array_elements(p_workers) as r (worker) where r.worker ->> 'worker_id' = k.worker_id
        )
    for update skip locked
  ));
  if p_workers = '[]' then
    update private.pool_leader as l set expires_at = least(l.expires_at, p_now) where l.process = p_process;
  end if;
  v_answer.lanes := (
    select coalesce(jsonb_object_agg(w.worker_id, w.lane), '{}')
    from private.workers as w where w.process = p_process
  );
  v_answer.reading := (
    select coalesce(jsonb_object_agg(x.reads_lane, x.workers), '{}')
    from (
      select w.reads_lane, count(*) as workers from private.workers as w
      where w.reads_lane is not null and w.process <> p_process and w.seen_at > p_now - private.silent_after()
      group by w.reads_lane
    ) as x
  );
  v_answer.waiting := array(
    select l.lane from public.lanes as l
    where l.lane = any (p_lanes) and not l.is_disabled
      -- A due probe is work too; nothing else ends an outage while the other lanes have a backlog.
      and (l.paused_at is null or l.probe_at <= p_now and l.probe_token is null)
      and (
        exists (select 1 from private.queue as q where q.lane = l.lane)
        or exists (select 1 from private.queue_delayed as k where k.lane = l.lane and k.retry_at <= p_now)
      )
    order by l.lane
  );
  -- Workers that read a long document learn when another lane gets work.
  perform public.wait_for_documents(array(
    select u.lane from unnest(p_lanes) as u (lane) where p_workers <> '[]' and u.lane <> all (v_answer.waiting)
  ));
  return v_answer;
end;
$$;
comment on function public.report_pool(text, text[], jsonb, timestamptz) is
  'Report the lanes of a program, its workers and what each is reading; call it every two seconds. p_workers is '
  '[{"worker_id", "lane", "document_id"}, …]; an empty list removes the program. Returns the lane of each worker, how '
  'many workers of other programs are reading in each lane, and which lanes have work. The next document in any other '
  'lane is notified.';
grant execute on function public.report_pool(text, text[], jsonb, timestamptz) to service_role, pagewarden_worker;

create function private.pool_backlog()
returns jsonb
language sql
stable
security invoker
set search_path = ''
set enable_seqscan = off      -- statistics of an empty queue mislead the planner
set enable_bitmapscan = off
as $$
  -- Shares do not change beyond a million.
  select coalesce(jsonb_object_agg(l.lane, q.documents), '{}')
  from public.lanes as l
  cross join lateral (
    select count(*) as documents from (select 1 from private.queue as k where k.lane = l.lane limit 1000000) as k
  ) as q;
$$;
comment on function private.pool_backlog() is 'Number of queued documents in each lane.';

create function private.paused_lanes()
returns text[]
language sql
stable
security invoker
set search_path = ''
as $$
  select array(select l.lane::text from public.lanes as l where l.paused_at is not null order by l.lane);
$$;
comment on function private.paused_lanes() is 'The paused lanes.';

create type public.assignable_worker as (
  worker_id text,
  lane text,
  is_idle boolean,
  seconds numeric,
  lanes text[]
);
comment on type public.assignable_worker is
  'A worker that the leader can assign: its lane, for how many seconds it has been assigned to it, and the lanes that '
  'it serves. Nullable: lane, seconds.';

create type public.lead_pool_answer as (
  term bigint,
  backlog jsonb,
  workers public.assignable_worker[]
);
comment on type public.lead_pool_answer is
  'Backlog by lane and the workers of the pool. All fields are null while another program is the leader. Nullable: '
  'term, backlog, workers.';

create function public.lead_pool(
  p_process text,
  p_lease_seconds integer,
  p_now timestamptz default now()
)
returns public.lead_pool_answer
language plpgsql
volatile
security definer          -- workers have no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_lead private.pool_leader;
  v_answer public.lead_pool_answer;
begin
  perform private.require_text('p_process', p_process, 200);
  if (p_lease_seconds between 1 and 86400) is not true then
    raise exception 'p_lease_seconds must be between 1 and 86400' using errcode = '22023', hint = 'The default is two intervals.';
  end if;
  -- One candidate at a time; the others retry at their next interval.
  if not pg_try_advisory_xact_lock(hashtextextended('pagewarden: pool leader', 0)) then
    return v_answer;
  end if;
  insert into private.pool_leader as l (process, term, since, expires_at)
  values (p_process, 1, p_now, p_now + make_interval(secs => p_lease_seconds))
  on conflict on constraint pool_leader_pkey do update
  set process = excluded.process,
      term = l.term + (l.process <> excluded.process)::integer,
      since = case when l.process = excluded.process then l.since else excluded.since end,
      expires_at = excluded.expires_at
  where l.process = excluded.process or l.expires_at <= p_now
  returning l.* into v_lead;
  if v_lead.process is null then
    return v_answer;
  end if;
  delete from private.pool_history as h where h.at < p_now - interval '7 days';
  delete from private.pool_switches as s where s.at < p_now - interval '7 days';
  v_answer.term := v_lead.term;
  -- Documents of a paused lane cannot be claimed.
  v_answer.backlog := private.pool_backlog() - private.paused_lanes();
  v_answer.workers := array(
    select x::public.assignable_worker
    from (
      select w.worker_id, w.lane, w.reads_document is null, extract(epoch from p_now - w.lane_since), w.lanes
      from private.workers as w
      where w.seen_at >= p_now - make_interval(secs => p_lease_seconds)
      order by w.worker_id
    ) as x
  );
  return v_answer;
end;
$$;
comment on function public.lead_pool(text, integer, timestamptz) is
  'Acquire or renew the pool leader lease. Returns backlog and workers, or all nulls while another program is the '
  'leader. Workers that have not reported for as long as the lease are left out.';
grant execute on function public.lead_pool(text, integer, timestamptz) to service_role, pagewarden_worker;

create type public.assign_pool_answer as (
  success boolean,
  error text,
  message text,
  switches integer
);
comment on type public.assign_pool_answer is
  'The number of workers whose lane changed. Nullable: error, message, switches.';

create function public.assign_pool(
  p_process text,
  p_term bigint,
  p_workers jsonb,
  p_backlog jsonb,
  p_now timestamptz default now()
)
returns public.assign_pool_answer
language plpgsql
volatile
security definer          -- workers have no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer public.assign_pool_answer;
begin
  perform private.require_text('p_process', p_process, 200);
  perform private.require_list('p_workers', p_workers);
  if jsonb_typeof(p_backlog) is distinct from 'object' then
    raise exception 'p_backlog must be an object' using errcode = '22023', hint = 'Pass the result of lead_pool.';
  end if;
  perform private.require_lane(r.lane) from jsonb_to_recordset(p_workers) as r (lane text);
  perform private.require_text('reason', r.reason, 1000)
  from jsonb_to_recordset(p_workers) as r (reason text) where r.reason is not null;
  -- Locked, so that no other program takes over meanwhile.
  perform 1 from private.pool_leader as l
  where l.process = p_process and l.term = p_term and l.expires_at > p_now
  for update;
  if not found then
    v_answer.success := false;
    v_answer.error := 'NOT_LEADER';
    v_answer.message := 'another process is the pool leader';
    return v_answer;
  end if;
  with changed as (
    update private.workers as w
    set lane = x.lane, lane_since = p_now, lane_reason = x.reason,
        switches = w.switches + (x.old_lane is not null)::integer
    from (
      select k.worker_id, k.lane as old_lane, r.lane, coalesce(r.reason, 'assigned by hand') as reason
      from private.workers as k
      join jsonb_to_recordset(p_workers) as r (worker_id text, lane text, reason text) on r.worker_id = k.worker_id
      where k.lane is distinct from r.lane
      order by k.worker_id
      for update of k
    ) as x
    where w.worker_id = x.worker_id
    returning w.worker_id, x.old_lane, w.lane as new_lane, x.reason
  ),
  recorded as (
    insert into private.pool_switches (at, worker_id, from_lane, to_lane, reason)
    select p_now, c.worker_id, c.old_lane, c.new_lane, c.reason from changed as c where c.old_lane is not null
    on conflict on constraint pool_switches_pkey do nothing
  ),
  counted as (
    insert into private.counter_changes (counter, labels, events, seconds)
    select 'pool_switches', array[c.new_lane], count(*), 0
    from changed as c where c.old_lane is not null
    group by c.new_lane
  )
  select count(c.old_lane) into v_answer.switches from changed as c;
  insert into private.pool_history (at, backlog, allocation, switches, leader)
  select p_now, p_backlog, coalesce(jsonb_object_agg(a.lane, a.workers), '{}'), v_answer.switches, p_process
  from (
    select r.lane, count(*) as workers from jsonb_to_recordset(p_workers) as r (lane text) group by r.lane
  ) as a
  on conflict on constraint pool_history_pkey do nothing;
  v_answer.success := true;
  return v_answer;
end;
$$;
comment on function public.assign_pool(text, bigint, jsonb, jsonb, timestamptz) is
  'Assign lanes to workers, as the leader: [{"worker_id", "lane", "reason"}, …]. A call with an earlier term is '
  'rejected (NOT_LEADER). p_backlog is stored in the history.';
grant execute on function public.assign_pool(text, bigint, jsonb, jsonb, timestamptz) to service_role, pagewarden_worker;

create type public.pool_leader as (
  process text,
  term bigint,
  since timestamptz,
  is_late boolean
);
comment on type public.pool_leader is 'The program that leads the pool; is_late: its lease has expired.';

create type public.pool_member as (
  worker_id text,
  process text,
  lanes text[],
  lane text,
  lane_since timestamptz,
  lane_reason text,
  switches integer,
  reads_lane text,
  reads_document uuid,
  started_at timestamptz,
  seen_at timestamptz,
  document_name text,
  claimed_at timestamptz
);
comment on type public.pool_member is
  'A pool worker: the lanes it serves, the one it is assigned to and why, and the document it is reading. '
  'Nullable: lane, lane_since, lane_reason, reads_lane, reads_document, document_name, claimed_at.';

create type public.pool_switch as (
  at timestamptz,
  worker_id text,
  from_lane text,
  to_lane text,
  reason text
);
comment on type public.pool_switch is 'A worker that was assigned to another lane, and why.';

create type public.pool_history_point as (
  at timestamptz,
  backlog jsonb,
  allocation jsonb,
  switches bigint
);
comment on type public.pool_history_point is
  'Documents waiting and workers assigned in each lane at one point in time. switches: the number of lane changes '
  'since the previous point.';

create type public.pool_status_answer as (
  backlog jsonb,
  paused text[],
  leader public.pool_leader,
  workers public.pool_member[],
  history public.pool_history_point[],
  switches public.pool_switch[]
);
comment on type public.pool_status_answer is
  'Lane backlog, paused lanes, leader, workers, and the history of the last hours with the latest 50 switches. '
  'Nullable: leader.';

create function private.pool_status(p_hours integer, p_now timestamptz default now())
returns public.pool_status_answer
language plpgsql
stable
security definer          -- checks the role, then reads private tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer public.pool_status_answer;
begin
  perform private.require_admin();
  if (p_hours between 1 and 168) is not true then
    raise exception 'p_hours must be between 1 and 168' using errcode = '22023', hint = 'History is kept for a week.';
  end if;
  v_answer.backlog := private.pool_backlog();
  v_answer.paused := private.paused_lanes();
  v_answer.leader := (
    select x::public.pool_leader
    from (select l.process, l.term, l.since, l.expires_at <= p_now from private.pool_leader as l) as x
  );
  v_answer.workers := array(
    select x::public.pool_member
    from (
      select w.worker_id, w.process, w.lanes, w.lane, w.lane_since, w.lane_reason, w.switches, w.reads_lane,
        w.reads_document, w.started_at, w.seen_at, d.name::text, d.claimed_at
      from private.workers as w
      left join public.documents as d on d.id = w.reads_document
      where w.seen_at > p_now - private.silent_after()
      order by w.worker_id
    ) as x
  );
  v_answer.history := array(
    select h::public.pool_history_point
    from (
      -- At most 200 points, each the last of its interval.
      select distinct on (floor(extract(epoch from k.at) / (p_hours * 18)))
        k.at, k.backlog, k.allocation,
        sum(k.switches) over (partition by floor(extract(epoch from k.at) / (p_hours * 18))) as switches
      from private.pool_history as k
      where k.at > p_now - make_interval(hours => p_hours)
      order by floor(extract(epoch from k.at) / (p_hours * 18)), k.at desc
    ) as h
    order by h.at
  );
  v_answer.switches := array(
    select x::public.pool_switch
    from (
      select s.at, s.worker_id, s.from_lane, s.to_lane, s.reason from private.pool_switches as s
      where s.at > p_now - make_interval(hours => p_hours)
      order by s.at desc, s.worker_id
      limit 50
    ) as x
  );
  return v_answer;
end;
$$;
comment on function private.pool_status(integer, timestamptz) is 'See public.pool_status.';
grant execute on function private.pool_status(integer, timestamptz) to authenticated, service_role;

create table private.engine_rate_limits (
  engine text not null,
  next_at timestamptz not null,
  constraint engine_rate_limits_pkey primary key (engine)
)
with (fillfactor = 50);
comment on table private.engine_rate_limits is 'The time of the next free call slot of each remote engine.';
alter table private.engine_rate_limits enable row level security;

create function public.take_engine_call(
  p_engine text,
  p_per_second double precision,
  p_now timestamptz default now()
)
returns double precision
language plpgsql
volatile
security definer          -- workers have no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_next timestamptz;
begin
  perform private.require_text('p_engine', p_engine, 200);
  if (p_per_second > 0 and p_per_second <= 1e6) is not true then
    raise exception 'p_per_second must be positive' using errcode = '22023', hint = 'To read without a limit, leave PAGEWARDEN_ENGINE_CALLS_PER_SECOND unset.';
  end if;
  insert into private.engine_rate_limits as e (engine, next_at)
  values (p_engine, p_now + make_interval(secs => 1 / p_per_second))
  on conflict on constraint engine_rate_limits_pkey
  do update set next_at = greatest(e.next_at, p_now) + make_interval(secs => 1 / p_per_second)
  returning e.next_at into v_next;
  return greatest(date_part('epoch', v_next - p_now) - 1 / p_per_second, 0);
end;
$$;
comment on function public.take_engine_call(text, double precision, timestamptz) is
  'Reserve the next call slot of an engine, at a rate of p_per_second calls across all workers. Returns the number of '
  'seconds to wait.';
grant execute on function public.take_engine_call(text, double precision, timestamptz) to service_role, pagewarden_worker;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.list_workers()
returns setof public.listed_worker
language sql stable security invoker set search_path = ''
as $$ select * from private.list_workers() $$;
comment on function public.list_workers() is
  'HAC: workers that hold documents (up to three of each are listed), are waiting, or completed documents in the last '
  'ten minutes. state is reading, idle, ended, or silent: no report for too long.';
grant execute on function public.list_workers() to authenticated, service_role;

create function public.pool_status(p_hours integer default 24)
returns public.pool_status_answer
language sql stable security invoker set search_path = ''
as $$ select private.pool_status(p_hours) $$;
comment on function public.pool_status(integer) is
  'HAC: lane backlog, leader and workers of the pool, the history of backlog and assignments, and the latest switches.';
grant execute on function public.pool_status(integer) to authenticated, service_role;
