-- Purpose:  fairness between cases. Each document is stamped with a turn at enqueue; the claim
--           takes the lowest, so it stays one index scan.
-- Affects:  creates private.turns, private.lane_clocks.
-- Locks:    none that anybody could notice.
--
-- A case's documents get turns n, n+1, n+2, …; n is the case's next turn, or the lane's clock if
-- that is further (an idle case saves nothing up). The clock is about the turn being served.
-- So ten cases with work are served in turn, however many documents each has, and a newcomer
-- starts level with the others.

create table private.turns (
  case_id uuid not null references public.cases (id) on delete cascade,
  lane text not null,
  priority integer not null,
  next_turn bigint not null,
  constraint turns_pkey primary key (case_id, lane, priority)
)
with (fillfactor = 50);
comment on table private.turns is 'The turn the next document of a case gets, by lane and priority.';
alter table private.turns enable row level security;

create table private.lane_clocks (
  lane text not null,
  priority integer not null,
  turn bigint not null,
  constraint lane_clocks_pkey primary key (lane, priority)
)
with (fillfactor = 10);
comment on table private.lane_clocks is 'About the turn that is being served, by lane and priority.';
alter table private.lane_clocks enable row level security;

create function private.start_clock(p_lane text, p_priority integer)
returns bigint
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  insert into private.lane_clocks (lane, priority, turn) values (p_lane, p_priority, 0)
  on conflict on constraint lane_clocks_pkey do nothing;
  return 0;
end;
$$;
comment on function private.start_clock(text, integer) is 'Begin to count the turns of a priority that a lane has not had yet.';

create function private.take_turns(p_case_id uuid, p_lane text, p_priority integer, p_count integer)
returns bigint
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_clock bigint;
  v_next bigint;
begin
  select c.turn into v_clock from private.lane_clocks as c
  where c.lane = p_lane and c.priority = p_priority;
  if not found then
    v_clock := private.start_clock(p_lane, p_priority);
  end if;
  insert into private.turns as t (case_id, lane, priority, next_turn)
  values (p_case_id, p_lane, p_priority, v_clock + p_count)
  on conflict on constraint turns_pkey
  do update set next_turn = greatest(t.next_turn, v_clock) + p_count
  returning t.next_turn into v_next;
  return v_next - p_count;
end;
$$;
comment on function private.take_turns(uuid, text, integer, integer) is
  'Reserve turns for p_count documents of a case and return the first.';

create function private.advance_clock(p_lane text, p_priority integer, p_turn bigint)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  -- Skip a locked row: somebody else is just writing nearly the same number.
  update private.lane_clocks as c
  set turn = p_turn
  where c.lane = p_lane and c.priority = p_priority
    and c.ctid = (
      select k.ctid from private.lane_clocks as k
      where k.lane = p_lane and k.priority = p_priority and k.turn < p_turn
      for update skip locked
    );
$$;
comment on function private.advance_clock(text, integer, bigint) is 'Note the turn that is being served.';
