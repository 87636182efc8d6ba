-- Purpose:  hints, so that nobody waits for the next poll: an idle worker is woken by what comes into its
--           queue, functions are called by pg_net where it is, and by pg_cron on their schedules.
-- Affects:  creates private.idle_lanes, wait_for_documents, a trigger on private.queue; gives
--           edge_function_config its lanes, and makes its schedules those of pg_cron.
-- Locks:    share row exclusive on private.queue and access exclusive on edge_function_config, for a moment.
--
-- The queue is the truth. A hint that is lost costs one poll, or one minute of the schedule.

-- Wake-up -----------------------------------------------------------------------------------
-- A commit with a notification waits for every other such commit of the server. So there is one only for
-- somebody who waits: a worker that found nothing marks its lanes, looks once more, and listens.

create unlogged table private.idle_lanes (   -- after a crash nobody listens any more, so no mark is missed
  lane text not null,
  constraint idle_lanes_pkey primary key (lane)
);
comment on table private.idle_lanes is 'Lanes whose next document somebody waits for.';
alter table private.idle_lanes enable row level security;

create function private.wait_for_documents(p_lanes text[])
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
comment on function private.wait_for_documents(text[]) is 'See public.wait_for_documents.';
grant execute on function private.wait_for_documents(text[]) to service_role, pagewarden_worker;

create function public.wait_for_documents(p_lanes text[] default null)
returns integer
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.wait_for_documents(p_lanes);
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

-- Functions ---------------------------------------------------------------------------------

alter table public.edge_function_config
  add column lanes text[] not null default '{}',
  add constraint edge_function_config_lanes_are_known
    check (lanes <@ array['image', 'pdf', 'index', 'acte', 'check']),
  add constraint edge_function_config_schedule_is_one
    check (schedule ~ '^([1-9]|[1-5][0-9]) seconds$' or schedule ~ '^\S+( \S+){4}$');
comment on column public.edge_function_config.lanes is 'Lanes whose documents it reads: it is called when one comes and nobody is at work.';
comment on column public.edge_function_config.schedule is
  'When it is called: "30 seconds" (1 to 59), or minute, hour, day, month, weekday as cron knows them, in UTC.';

update public.edge_function_config as c set lanes = '{image,index,acte}' where c.function_name = 'ocr-worker';
update public.edge_function_config as c set lanes = '{pdf}' where c.function_name = 'pdf-worker';

do $$
begin
  if exists (select 1 from pg_catalog.pg_available_extensions as e where e.name = 'pg_net') then
    create extension if not exists pg_net with schema extensions;
  end if;
exception
  when insufficient_privilege or internal_error or object_not_in_prerequisite_state then
    raise warning 'pg_net cannot be used: %', sqlerrm
      using hint = 'Workers that listen do not need it. For functions, add it to shared_preload_libraries.';
end;
$$;

create function private.secret(p_name text)
returns text
language plpgsql
stable
security invoker
set search_path = ''
as $$
declare
  v_secret text;
begin
  if exists (select 1 from pg_catalog.pg_namespace as n where n.nspname = 'vault') then
    select s.decrypted_secret into v_secret from vault.decrypted_secrets as s where s.name = p_name;
  end if;
  return v_secret;
end;
$$;
comment on function private.secret(text) is 'A secret of Supabase Vault; null where there is none.';

create function private.call_function(p_function_name text, p_body jsonb default '{}')
returns bigint
language plpgsql
volatile
security invoker
set search_path = ''
set lock_timeout = '500ms'   -- whoever uploads does not wait for pg_net
as $$
declare
  v_url text := private.secret('pagewarden_url');
  v_key text := private.secret('pagewarden_key');
begin
  if v_url is null or v_key is null or not exists (
    select 1 from public.edge_function_config as c where c.function_name = p_function_name and c.enabled
  ) then
    return null;
  end if;
  -- Sent after the commit, and nobody waits for the answer.
  return net.http_post(
    url => rtrim(v_url, '/') || '/functions/v1/' || p_function_name,
    body => p_body,
    headers => jsonb_build_object('Content-Type', 'application/json', 'apikey', v_key)
      -- A key of the old kind is a token too, and some gateways want it as one.
      || case when v_key like '%.%.%' then jsonb_build_object('Authorization', 'Bearer ' || v_key) else '{}' end,
    timeout_milliseconds => 5000
  );
end;
$$;
comment on function private.call_function(text, jsonb) is
  'Have pg_net call a function that is switched on, at the URL and with the key that Vault has as pagewarden_url '
  'and pagewarden_key; null while it has none.';

create function private.try_function(p_function_name text, p_body jsonb)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  perform private.call_function(p_function_name, p_body);
exception
  -- Whatever pg_net or Vault may say; a document comes in also without a hint.
  when syntax_error_or_access_rule_violation or invalid_schema_name or data_exception
    or integrity_constraint_violation or object_not_in_prerequisite_state or plpgsql_error or internal_error then
    raise warning 'function % was not called: %', p_function_name, sqlerrm
      using errcode = sqlstate, hint = 'It is called on its schedule.';
end;
$$;
comment on function private.try_function(text, jsonb) is 'Call a function, or warn that it could not be.';

-- Schedules ---------------------------------------------------------------------------------

create function private.wanted_jobs()
returns table (name text, schedule text, command text)
language sql
stable
security invoker
set search_path = ''
as $$
  select 'pagewarden-' || c.function_name, c.schedule,
    case c.function_name
      when 'stale-monitor' then 'select private.sweep()'
      else format('select private.call_function(%L)', c.function_name)
    end
  from public.edge_function_config as c
  where c.enabled and c.schedule is not null
  union all
  -- Alerts are evaluated whatever becomes of the function that sends their messages. A later migration brings this.
  select 'pagewarden-sql-evaluate-alerts', '* * * * *', 'select private.evaluate_alerts()'
  where to_regprocedure('private.evaluate_alerts(timestamptz)') is not null;
$$;
comment on function private.wanted_jobs() is 'The jobs that pg_cron is to have of ours, each under a name of its own.';

create function private.apply_schedules()
returns integer
language plpgsql
volatile
security definer          -- whoever may change a schedule need not know pg_cron
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
begin
  if not exists (select 1 from pg_namespace as n where n.nspname = 'cron') then
    return 0;
  end if;
  perform cron.unschedule(j.jobname)
  from cron.job as j
  where j.jobname like 'pagewarden-%' and not exists (
    select 1 from private.wanted_jobs() as w where w.name = j.jobname
  );
  select count(cron.schedule(w.name, w.schedule, w.command)) into v_count
  from private.wanted_jobs() as w
  where not exists (
    select 1 from cron.job as j
    where j.jobname = w.name and j.schedule = w.schedule and j.command = w.command
  );
  return v_count;
end;
$$;
comment on function private.apply_schedules() is
  'Make private.wanted_jobs() the jobs of pg_cron, where it is; nothing else schedules. Returns how many were set.';

create function private.schedules_changed()
returns trigger
language plpgsql
security definer          -- whoever may change a schedule need not know pg_cron
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.apply_schedules();
  return null;
end;
$$;
comment on function private.schedules_changed() is 'A change of edge_function_config is a change of schedules.';
create trigger edge_function_config_schedules
  after insert or update or delete on public.edge_function_config
  for each statement execute function private.schedules_changed();

select private.apply_schedules();
