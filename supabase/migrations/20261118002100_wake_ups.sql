-- Wake-ups: a worker that waits is told when a document enters its lanes.
--
-- The queue is the truth: a lost wake-up costs one poll, or one minute of the schedule. A commit with a
-- notification waits for every other such commit of the server, so one is sent only while a worker is
-- waiting: a worker that finds nothing marks its lanes as idle, looks once more, and listens.

-- A commit with a notification waits for every other such commit of the server. So there is one only for
-- somebody who waits: a worker that found nothing marks its lanes, looks once more, and listens.
create unlogged table private.idle_lanes (   -- after a crash nobody listens any more, so no mark is missed
  lane text not null,
  constraint idle_lanes_pkey primary key (lane)
);
comment on table private.idle_lanes is 'Lanes whose next document somebody waits for.';
alter table private.idle_lanes enable row level security;

create function public.wait_for_documents(p_lanes text[] default null)
returns integer
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_lanes text[];
begin
  perform private.require_lane(u.lane) from unnest(p_lanes) as u (lane)
  where not exists (select 1 from public.lanes as l where l.lane = u.lane);
  -- What comes into a paused lane is nobody's hint.
  v_lanes := array(
    select l.lane from public.lanes as l
    where (p_lanes is null or l.lane = any (p_lanes)) and l.paused_at is null
    order by l.lane
  );
  -- A mark that somebody is just removing is still seen, and not waited for: with it comes the hint.
  insert into private.idle_lanes (lane)
  select u.lane from unnest(v_lanes) as u (lane)
  where not exists (select 1 from private.idle_lanes as i where i.lane = u.lane)
  on conflict on constraint idle_lanes_pkey do nothing;
  return cardinality(v_lanes);
end;
$$;
comment on function public.wait_for_documents(text[]) is
  'Ask for a hint when the next document comes into one of the lanes (null: all): a notification '
  '"pagewarden_documents" with the lane, and a call of the functions that serve it. Claim once more before you '
  'wait. Returns how many of the lanes give hints; a paused one does not.';
grant execute on function public.wait_for_documents(text[]) to service_role, pagewarden_worker;

create function private.hint(p_lanes text[])
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_lanes text[];
begin
  -- Everybody who sees the mark says so, since nobody knows which of them commits last.
  perform pg_notify('pagewarden_documents', i.lane) from private.idle_lanes as i where i.lane = any (p_lanes);
  -- A mark that is locked is just being removed, and its functions called.
  with removed as (
    delete from private.idle_lanes as i
    where i.ctid = any (array(
      select k.ctid from private.idle_lanes as k where k.lane = any (p_lanes) for update skip locked
    ))
    returning i.lane
  )
  select array_agg(r.lane) into v_lanes from removed as r;
  if exists (select 1 from pg_catalog.pg_namespace as n where n.nspname = 'net') then
    perform private.try_function(c.function_name, jsonb_build_object('lanes', to_jsonb(v_lanes)))
    from public.edge_function_config as c
    where c.lanes && v_lanes;
  end if;
end;
$$;
comment on function private.hint(text[]) is 'Tell those who wait for documents of these lanes that there are some.';

create function private.wake_workers()
returns trigger
language plpgsql
security invoker
set search_path = ''
as $$
begin
  -- One statement, because every upload pays for it.
  if exists (select 1 from private.idle_lanes as i where i.lane = any (array(select a.lane from added as a))) then
    perform private.hint(array(select distinct a.lane from added as a));
  end if;
  return null;
end;
$$;
comment on function private.wake_workers() is 'Tell those who wait, if anybody does, what came into the queue.';
create trigger queue_wake
  after insert on private.queue
  referencing new table as added
  for each statement execute function private.wake_workers();
