-- Serverless functions: configuration, runs, schedules, calls over HTTP.
--
-- edge_function_config has a row for each function: an operator disables a function or changes its
-- schedule there without a deployment. begin_function_run and end_function_run record the last 50
-- runs of each function.
--
-- With pg_cron and pg_net (Supabase), the rows become cron jobs that call the functions over HTTP, at
-- the URL and with the key that Vault has as pagewarden_url and pagewarden_key. Without them, the
-- scheduler of `pagewarden up` reads the same rows. stale-monitor is SQL only: its job calls
-- sweep_documents() directly.
--
-- Not here: the code of the functions (functions/) and the call when a document is queued (wake_ups).

create table public.edge_function_config (
  function_name text not null,
  enabled boolean not null default true,
  schedule text,
  description text not null default '',
  updated_at timestamptz not null default now(),
  lanes text[] not null default '{}',
  constraint edge_function_config_pkey primary key (function_name),
  constraint edge_function_config_lanes_are_known check (lanes <@ array['image', 'pdf', 'index', 'acte', 'check']),
  constraint edge_function_config_schedule_is_valid check (
    schedule ~ '^([1-9]|[1-5][0-9]) seconds$' or schedule ~ '^\S+( \S+){4}$'
  )
);
comment on table public.edge_function_config is 'Enables, disables and schedules each function without a deployment.';
alter table public.edge_function_config enable row level security;
create policy "Functions are visible to HAC"
  on public.edge_function_config for select to authenticated
  using ((select private.is_admin()));
grant select on public.edge_function_config to authenticated;
grant select, insert, update, delete on public.edge_function_config to service_role;
comment on column public.edge_function_config.lanes is 'Lanes whose documents it reads: it is called when one is queued while no worker reads.';
comment on column public.edge_function_config.schedule is
  'When it is called: "30 seconds" (1 to 59), or a cron expression of five fields, in UTC.';
insert into public.edge_function_config (function_name, schedule, lanes, description)
values
  ('upload-to-dropbox', null, '{}', 'Receives files'),
  ('ocr-worker', '* * * * *', '{image,index,acte,check}', 'Reads images'),
  ('pdf-worker', '* * * * *', '{pdf}', 'Sends PDFs to the GPU service'),
  ('ocr-universal', null, '{}', 'Reads one image'),
  ('pdf-extract', null, '{}', 'Reads one PDF'),
  ('stale-monitor', '5 seconds', '{}', 'Reclaims documents of crashed workers; SQL, see public.sweep_documents()'),
  ('ocr-worker-retry-v2', null, '{}', 'Retries after a version conflict'),
  ('documents', null, '{}', 'Status and text of a document; cancels, reads again, deletes it'),
  ('retention', '17 * * * *', '{}', 'Removes expired files and rows'),
  ('webhooks', '10 seconds', '{}', 'Sends webhooks of documents and check jobs that ended'),
  ('jobs', null, '{}', 'Submits check jobs, shows their status, cancels and reruns them'),
  ('pubsub', null, '{}', 'Reads the pictures of a check job that Pub/Sub pushes'),
  ('volume-orchestrator', '30 seconds', '{}', 'Moves volumes from stage to stage and recovers stuck ones'),
  ('alerts', '* * * * *', '{}', 'Measures disk and services, and sends alert messages');

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
  'The last 50 calls of each function that services call. A row without an end is running, or was killed.';
create index function_runs_function_idx on private.function_runs (function_name, id);
alter table private.function_runs enable row level security;

create function public.begin_function_run(p_function_name text)
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
comment on function public.begin_function_run(text) is 'Record the start of a function run; returns the id that end_function_run takes.';
grant execute on function public.begin_function_run(text) to service_role;

create function public.end_function_run(
  p_run_id bigint,
  p_outcome text,
  p_error text default null,
  p_result jsonb default null
)
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
comment on function public.end_function_run(bigint, text, text, jsonb) is
  'Record the end of a function run: completed, refused (an error of the caller) or failed. False for an unknown or ended run.';
grant execute on function public.end_function_run(bigint, text, text, jsonb) to service_role;

create type public.function_run as (
  started_at timestamptz,
  seconds numeric,
  outcome text,
  error text,
  result jsonb
);
comment on type public.function_run is
  'A call of a function; without an outcome it is running, or was killed. Nullable: seconds, outcome, error, result.';

create type public.listed_function as (
  function_name text,
  enabled boolean,
  schedule text,
  description text,
  lanes text[],
  updated_at timestamptz,
  last_run_at timestamptz,
  runs public.function_run[]
);
comment on type public.listed_function is
  'A function with its switch, its schedule and its last ten runs, newest first. Nullable: schedule, last_run_at.';

create function private.list_functions()
returns setof public.listed_function
language plpgsql
stable
security definer          -- checks the role, then reads private tables
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_admin();
  return query
  select c.function_name, c.enabled, c.schedule, c.description, c.lanes, c.updated_at,
    -- The sweep is SQL and records its own time.
    greatest(r.last_at, case c.function_name when 'stale-monitor' then (select s.swept_at from private.sweep_state as s) end),
    coalesce(r.runs, '{}')
  from public.edge_function_config as c
  cross join lateral (
    select max(k.started_at) as last_at, array_agg(k::public.function_run) as runs
    from (
      select f.started_at, round(extract(epoch from f.ended_at - f.started_at), 3) as seconds, f.outcome, f.error, f.result
      from private.function_runs as f
      where f.function_name = c.function_name
      order by f.id desc
      limit 10
    ) as k
  ) as r
  order by c.function_name;
end;
$$;
comment on function private.list_functions() is 'See public.list_functions.';
grant execute on function private.list_functions() to authenticated, service_role;

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
comment on function private.require_schedule(text) is 'Refuse a schedule that pg_cron or the scheduler cannot parse (22023).';

create type public.set_function_answer as (
  success boolean,
  error text,
  message text,
  function_name text,
  enabled boolean,
  schedule text
);
comment on type public.set_function_answer is
  'The switch and the schedule of a function after set_function. Nullable: error, message, function_name, enabled, schedule.';

create function private.set_function(p_function_name text, p_enabled boolean, p_schedule text)
returns public.set_function_answer
language plpgsql
volatile
security definer          -- HAC holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_old public.edge_function_config;
  v_new public.edge_function_config;
  v_answer public.set_function_answer;
begin
  perform private.require_admin();
  v_answer.function_name := p_function_name;
  select c.* into v_old from public.edge_function_config as c where c.function_name = p_function_name for update;
  if not found then
    v_answer.success := false;
    v_answer.error := 'FUNCTION_NOT_FOUND';
    v_answer.message := 'there is no such function';
    return v_answer;
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
  v_answer.success := true;
  v_answer.enabled := v_new.enabled;
  v_answer.schedule := v_new.schedule;
  return v_answer;
end;
$$;
comment on function private.set_function(text, boolean, text) is 'See public.set_function.';
grant execute on function private.set_function(text, boolean, text) to authenticated, service_role;

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

create function private.vault_secret(p_name text)
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
comment on function private.vault_secret(text) is 'A secret of Supabase Vault; null if it does not exist.';

create function private.call_function(p_function_name text, p_body jsonb default '{}')
returns bigint
language plpgsql
volatile
security invoker
set search_path = ''
set lock_timeout = '500ms'   -- an upload must not wait for pg_net
as $$
declare
  v_url text := private.vault_secret('pagewarden_url');
  v_key text := private.vault_secret('pagewarden_key');
begin
  if v_url is null or v_key is null or not exists (
    select 1 from public.edge_function_config as c where c.function_name = p_function_name and c.enabled
  ) then
    return null;
  end if;
  -- pg_net sends it after the commit; the answer is not awaited.
  return net.http_post(
    url => rtrim(v_url, '/') || '/functions/v1/' || p_function_name,
    body => p_body,
    headers => jsonb_build_object('Content-Type', 'application/json', 'apikey', v_key)
      -- A legacy key is a JWT, and some gateways require it as bearer token.
      || case when v_key like '%.%.%' then jsonb_build_object('Authorization', 'Bearer ' || v_key) else '{}' end,
    timeout_milliseconds => 5000
  );
end;
$$;
comment on function private.call_function(text, jsonb) is
  'Call an enabled function through pg_net, at the URL and with the key that Vault has as pagewarden_url and '
  'pagewarden_key. Returns the id of the request; null without URL or key.';

create function private.call_function_or_warn(p_function_name text, p_body jsonb)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  perform private.call_function(p_function_name, p_body);
exception
  -- Errors of pg_net or Vault must not fail the upload: the function also runs on its schedule.
  when syntax_error_or_access_rule_violation or invalid_schema_name or data_exception
    or integrity_constraint_violation or object_not_in_prerequisite_state or plpgsql_error or internal_error then
    raise warning 'function % was not called: %', p_function_name, sqlerrm
      using errcode = sqlstate, hint = 'It is called on its schedule.';
end;
$$;
comment on function private.call_function_or_warn(text, jsonb) is 'Call a function; raise a warning instead of an error of pg_net or Vault.';

create function private.cron_jobs()
returns table (name text, schedule text, command text)
language sql
stable
security invoker
set search_path = ''
as $$
  select 'pagewarden-' || c.function_name, c.schedule,
    case c.function_name
      when 'stale-monitor' then 'select public.sweep_documents()'
      else format('select private.call_function(%L)', c.function_name)
    end
  from public.edge_function_config as c
  where c.enabled and c.schedule is not null
  union all
  -- Alerts are evaluated independently of the function that sends their messages. A later migration creates it.
  select 'pagewarden-sql-evaluate-alerts', '* * * * *', 'select public.evaluate_alerts()'
  where to_regprocedure('public.evaluate_alerts(timestamptz)') is not null;
$$;
comment on function private.cron_jobs() is 'The jobs that pg_cron should have, by name.';

create function private.apply_schedules()
returns integer
language plpgsql
volatile
security definer          -- the roles that change a schedule have no rights on pg_cron
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
    select 1 from private.cron_jobs() as w where w.name = j.jobname
  );
  select count(cron.schedule(w.name, w.schedule, w.command)) into v_count
  from private.cron_jobs() as w
  where not exists (
    select 1 from cron.job as j
    where j.jobname = w.name and j.schedule = w.schedule and j.command = w.command
  );
  return v_count;
end;
$$;
comment on function private.apply_schedules() is
  'Set the jobs of pg_cron to private.cron_jobs(), if it is installed. Returns how many changed.';

create function private.apply_changed_schedules()
returns trigger
language plpgsql
security definer          -- the roles that change a schedule have no rights on pg_cron
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.apply_schedules();
  return null;
end;
$$;
comment on function private.apply_changed_schedules() is 'Apply the schedules after a change of edge_function_config.';
create trigger edge_function_config_schedules
  after insert or update or delete on public.edge_function_config
  for each statement execute function private.apply_changed_schedules();

-- What people may call. Each function only calls the private one of its name, which checks the caller.

create function public.list_functions()
returns setof public.listed_function
language sql stable security invoker set search_path = ''
as $$ select * from private.list_functions() $$;
comment on function public.list_functions() is
  'HAC: each function with its switch, its schedule and its last ten runs, newest first.';
grant execute on function public.list_functions() to authenticated, service_role;

create function public.set_function(
  p_function_name text,
  p_enabled boolean default null,
  p_schedule text default null
)
returns public.set_function_answer
language sql volatile security invoker set search_path = ''
as $$ select private.set_function(p_function_name, p_enabled, p_schedule) $$;
comment on function public.set_function(text, boolean, text) is
  'HAC: enable or disable a function, set its schedule. A null parameter changes nothing, an empty schedule removes it. '
  'pg_cron or the scheduler applies it at once.';
grant execute on function public.set_function(text, boolean, text) to authenticated, service_role;
