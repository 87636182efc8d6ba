-- Wake-ups: notify waiting workers when a document enters one of their lanes.
--
-- A worker that finds no work calls wait_for_documents(), which marks its lanes in idle_lanes, claims
-- once more, and then listens on the channel pagewarden_documents. An insert into the queue notifies
-- only marked lanes, removes the marks, and calls the functions that serve these lanes (edge_function_config).
--
-- The marks exist for performance: a commit with a notification takes a lock that serializes all such
-- commits of the server, so uploads into busy lanes send none.
--
-- Notifications are only a hint, and the queue is authoritative: a lost one delays a document by a poll
-- interval, or by a minute of the schedule.

create unlogged table private.idle_lanes (   -- a crash also ends all listeners, so losing the marks is harmless
  lane text not null,
  constraint idle_lanes_pkey primary key (lane)
);
comment on table private.idle_lanes is 'Lanes in which a worker is waiting for the next document.';
alter table private.idle_lanes enable row level security;

create function public.wait_for_documents(p_lanes text[] default null)
returns integer
language plpgsql
volatile
security definer          -- workers have no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_lanes text[];
begin
  perform private.require_lane(u.lane) from unnest(p_lanes) as u (lane)
  where not exists (select 1 from public.lanes as l where l.lane = u.lane);
  -- A paused lane sends no notification.
  v_lanes := array(
    select l.lane from public.lanes as l
    where (p_lanes is null or l.lane = any (p_lanes)) and l.paused_at is null
    order by l.lane
  );
  -- A mark that another transaction is removing is still visible; its commit sends the notification.
  insert into private.idle_lanes (lane)
  select u.lane from unnest(v_lanes) as u (lane)
  where not exists (select 1 from private.idle_lanes as i where i.lane = u.lane)
  on conflict on constraint idle_lanes_pkey do nothing;
  return cardinality(v_lanes);
end;
$$;
comment on function public.wait_for_documents(text[]) is
  'Request a notification when the next document enters one of the lanes (null: all). The channel is '
  'pagewarden_documents, and the payload is the lane; functions that serve the lane are called. Claim once more '
  'before waiting. Returns the number of lanes that will notify; paused lanes do not.';
grant execute on function public.wait_for_documents(text[]) to service_role, pagewarden_worker;

create function private.notify_lanes(p_lanes text[])
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_lanes text[];
begin
  -- Each transaction that sees the mark notifies, because the order of commits is unknown.
  perform pg_notify('pagewarden_documents', i.lane) from private.idle_lanes as i where i.lane = any (p_lanes);
  -- Another transaction removes the marks that are locked, and calls their functions.
  with removed as (
    delete from private.idle_lanes as i
    where i.ctid = any (array(
      select k.ctid from private.idle_lanes as k where k.lane = any (p_lanes) for update skip locked
    ))
    returning i.lane
  )
  select array_agg(r.lane) into v_lanes from removed as r;
  if exists (select 1 from pg_catalog.pg_namespace as n where n.nspname = 'net') then
    perform private.call_function_or_warn(c.function_name, jsonb_build_object('lanes', to_jsonb(v_lanes)))
    from public.edge_function_config as c
    where c.lanes && v_lanes;
  end if;
end;
$$;
comment on function private.notify_lanes(text[]) is
  'Notify workers waiting for documents in these lanes, and call the functions that serve the lanes.';

create function private.notify_queued()
returns trigger
language plpgsql
security invoker
set search_path = ''
as $$
begin
  -- One statement: it runs with every upload.
  if exists (select 1 from private.idle_lanes as i where i.lane = any (array(select a.lane from added as a))) then
    perform private.notify_lanes(array(select distinct a.lane from added as a));
  end if;
  return null;
end;
$$;
comment on function private.notify_queued() is 'Notify waiting workers of rows inserted into the queue.';
create trigger queue_notify
  after insert on private.queue
  referencing new table as added
  for each statement execute function private.notify_queued();
