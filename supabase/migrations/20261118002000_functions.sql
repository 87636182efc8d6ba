-- Serverless functions: configuration, runs, schedules, calls over HTTP.
--
-- edge_function_config has a row for each function: an operator disables a function or changes its
-- schedule there without a deployment. begin_function_run and end_function_run record the last 50
-- runs of each function.
--
-- With pg_cron and pg_net (Supabase), the rows become cron jobs that call the functions over HTTP, at
-- the URL and with the key that Vault has as pagewarden_url and pagewarden_key. Without them, the
-- scheduler of `pagewarden up` reads the same rows. stale-monitor is SQL only: its job calls
-- sweep_documents() directly. pg_cron before 1.5 knows no seconds: a job of less than a minute runs every
-- minute there (fit_schedule).
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
comment on column public.edge_function_config.lanes is 'Lanes whose documents it reads: it is called when a document is queued and no worker is reading.';
comment on column public.edge_function_config.schedule is
  'When the function is called: "30 seconds" (1 to 59), or a cron expression of five fields, in UTC.';
insert into public.edge_function_config (function_name, schedule, lanes, description)
values
  ('upload-to-dropbox', null, '{}', 'Receives files'),
  ('ocr-worker', '* * * * *', '{image,index,acte,check}', 'Reads images'),
  ('pdf-worker', '* * * * *', '{pdf}', 'Sends PDFs to the GPU service'),
  ('ocr-universal', null, '{}', 'Reads one image'),
  ('pdf-extract', null, '{}', 'Reads one PDF'),
  ('stale-monitor', '5 seconds', '{}', 'Reclaims documents from crashed workers; SQL, see public.sweep_documents()'),
  ('ocr-worker-retry-v2', null, '{}', 'Retries after a version conflict'),
  ('documents', null, '{}', 'Returns the status and text of a document; cancels, re-reads or deletes it'),
  ('retention', '17 * * * *', '{}', 'Removes expired files and rows'),
  ('webhooks', '10 seconds', '{}', 'Sends webhooks for documents and check jobs that have ended'),
  ('jobs', null, '{}', 'Submits check jobs, shows their status, cancels and reruns them'),
  ('pubsub', null, '{}', 'Reads the pictures of a check job that Pub/Sub pushes'),
  ('volume-orchestrator', '30 seconds', '{}', 'Moves volumes from stage to stage and recovers stuck ones'),
  ('pool-manager', '30 seconds', '{}', 'Assigns the workers of the pool to lanes where no program of the pool leads it'),
  ('alerts', '* * * * *', '{}', 'Checks disk space and services, and sends alert notices');

create function public.is_function_enabled(p_function_name text)
returns boolean
language sql
stable
security definer          -- callers have no privileges on the table
set search_path = pg_catalog, pg_temp
as $$
  select not exists (
    select 1 from public.edge_function_config as c where c.function_name = p_function_name and not c.enabled
  );
$$;
comment on function public.is_function_enabled(text) is
  'Whether edge_function_config enables a function; functions without a row are enabled.';
grant execute on function public.is_function_enabled(text) to service_role, pagewarden_worker;

create function private.disable_lanes()
returns trigger
language plpgsql
security definer          -- the service role may change the configuration, but not whether lanes are disabled
set search_path = pg_catalog, pg_temp
as $$
begin
  update public.lanes as l
  set is_disabled = s.is_disabled, updated_at = now()
  from (
    select k.lane, not bool_or(public.is_function_enabled(f.name)) as is_disabled
    from public.lanes as k cross join lateral unnest(k.functions) as f (name)
    group by k.lane
  ) as s
  where s.lane = l.lane and l.is_disabled <> s.is_disabled;
  return null;
end;
$$;
comment on function private.disable_lanes() is
  'Disable the lanes of which all reading functions are disabled, and enable them again.';
create trigger edge_function_config_disable_lanes
  after insert or update or delete on public.edge_function_config
  for each statement execute function private.disable_lanes();

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
  'The last 50 runs of each function that services call, and all of the last day that failed or have no end. A run '
  'without an end is still running, or was killed.';
create index function_runs_function_idx on private.function_runs (function_name, id);
create index function_runs_succeeded_idx on private.function_runs (function_name, id)
  where outcome in ('completed', 'refused');
create index function_runs_kept_idx on private.function_runs (function_name, started_at)
  where outcome is null or outcome = 'failed';
alter table private.function_runs enable row level security;

create function public.begin_function_run(p_function_name text)
returns bigint
language plpgsql
volatile
security definer          -- the service role has no privileges on schema private
set search_path = pg_catalog, pg_temp
as $$
declare
  v_id bigint;
  v_last_id bigint;
begin
  perform private.require_text('p_function_name', p_function_name, 200);
  perform private.count_event('function_starts', array[p_function_name]);
  insert into private.function_runs as f (function_name, started_at) values (p_function_name, clock_timestamp())
  returning f.id into v_id;
  select l.id into v_last_id from private.function_runs as l where l.function_name = p_function_name
  order by l.id desc offset 50 limit 1;
  -- A deleted run could not end, and the alert counts those that failed, of an hour.
  delete from private.function_runs as f
  where f.ctid = any (
    array(
      select k.ctid from private.function_runs as k
      where k.function_name = p_function_name and k.outcome in ('completed', 'refused') and k.id <= v_last_id
      for update skip locked
    )
    || array(
      select k.ctid from private.function_runs as k
      where k.function_name = p_function_name and (k.outcome is null or k.outcome = 'failed')
        and k.started_at < clock_timestamp() - interval '1 day' and k.id <= v_last_id
      for update skip locked
    )
  );
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
security definer          -- the service role has no privileges on schema private
set search_path = pg_catalog, pg_temp
as $$
declare
  v_run private.function_runs;
begin
  if (p_outcome in ('completed', 'refused', 'failed')) is not true then
    raise exception 'unknown outcome %', coalesce(p_outcome, 'null')
      using errcode = '22023', hint = 'Valid outcomes are completed, refused and failed.';
  end if;
  update private.function_runs as f
  set ended_at = clock_timestamp(), outcome = p_outcome, error = left(p_error, 1000), result = p_result
  where f.id = p_run_id and f.ended_at is null
  returning f.* into v_run;
  if not found then
    return false;
  end if;
  perform private.count_event(
    'functions', array[v_run.function_name, p_outcome], extract(epoch from v_run.ended_at - v_run.started_at)
  );
  return true;
end;
$$;
comment on function public.end_function_run(bigint, text, text, jsonb) is
  'Record the end of a function run: completed, refused (a caller error) or failed. Returns false if the run is '
  'unknown or has already ended.';
grant execute on function public.end_function_run(bigint, text, text, jsonb) to service_role;

create type public.function_run as (
  started_at timestamptz,
  seconds numeric,
  outcome text,
  error text,
  result jsonb
);
comment on type public.function_run is
  'A run of a function; without an outcome it is still running, or was killed. Nullable: seconds, outcome, error, result.';

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
  'A function: whether it is enabled, its schedule and its last ten runs, newest first. Nullable: schedule, last_run_at.';

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
    raise exception 'a schedule must have five fields (minute, hour, day, month, weekday), got %', p_schedule
      using errcode = '22023', hint = 'For example "*/10 * * * *" or "30 seconds" (1 to 59).';
  end if;
  for n in 1 .. 5 loop
    foreach v_part in array string_to_array(v_fields[n], ',') loop
      v_match := regexp_match(v_part, '^(?:(\d{1,2})|(?:\*|(\d{1,2})-(\d{1,2}))(?:/([1-9]\d?))?)$');
      if v_match is null
        or coalesce(v_match[1], v_match[2], v_lowest[n]::text)::integer not between v_lowest[n] and v_highest[n]
        or coalesce(v_match[3], v_highest[n]::text)::integer
          not between coalesce(v_match[2], v_lowest[n]::text)::integer and v_highest[n] then
        raise exception 'invalid % "%" in the schedule', v_names[n], v_part
          using errcode = '22023',
            hint = 'Use *, */n, a range a-b, a comma-separated list, or a number from ' || v_lowest[n] || ' to '
              || v_highest[n] || '.';
      end if;
    end loop;
  end loop;
end;
$$;
comment on function private.require_schedule(text) is 'Reject a schedule that pg_cron or the scheduler cannot parse (22023).';

create type public.set_function_answer as (
  success boolean,
  error text,
  message text,
  function_name text,
  enabled boolean,
  schedule text
);
comment on type public.set_function_answer is
  'The result of set_function: whether the function is enabled, and its schedule. Nullable: error, message, '
  'function_name, enabled, schedule.';

create function private.set_function(p_function_name text, p_enabled boolean, p_schedule text)
returns public.set_function_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
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
    raise warning 'pg_net is unavailable: %', sqlerrm
      using hint = 'Listening workers do not need it. To call functions, add it to shared_preload_libraries.';
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
  'Call an enabled function through pg_net, with the URL and the key stored in Vault as pagewarden_url and '
  'pagewarden_key. Returns the request id, or null if the URL or the key is missing.';

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
      using errcode = sqlstate, hint = 'It still runs on its schedule.';
end;
$$;
comment on function private.call_function_or_warn(text, jsonb) is
  'Call a function; if pg_net or Vault fails, raise a warning instead of an error.';

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

create function private.fit_schedule(p_schedule text)
returns text
language sql
stable
security invoker
set search_path = ''
as $$
  select case
    when p_schedule like '% seconds' and exists (
      select 1 from pg_catalog.pg_extension as e
      where e.extname = 'pg_cron' and string_to_array(substring(e.extversion from '^\d+\.\d+'), '.')::integer[] < array[1, 5]
    ) then '* * * * *'
    else p_schedule
  end;
$$;
comment on function private.fit_schedule(text) is
  'The schedule as the installed pg_cron can keep it: before 1.5 it knows no seconds, and the job runs every minute.';

create function private.apply_schedules(p_again boolean default false)
returns integer
language plpgsql
volatile
security definer          -- roles that change a schedule have no privileges on pg_cron
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
begin
  if not exists (select 1 from pg_extension as e where e.extname = 'pg_cron') then
    return 0;
  end if;
  if not has_schema_privilege('cron', 'usage') then
    raise exception 'the role % has no privileges on the schema of pg_cron', current_user
      using errcode = '42501', hint = 'As a superuser, run "grant usage on schema cron to ' || quote_ident(current_user::text) || '".';
  end if;
  perform cron.unschedule(j.jobname)
  from cron.job as j
  where j.jobname like 'pagewarden-%' and not exists (
    select 1 from private.cron_jobs() as w where w.name = j.jobname
  );
  select count(cron.schedule(w.name, private.fit_schedule(w.schedule), w.command)) into v_count
  from private.cron_jobs() as w
  where p_again or not exists (
    select 1 from cron.job as j
    where j.jobname = w.name and j.schedule = private.fit_schedule(w.schedule) and j.command = w.command
  );
  return v_count;
end;
$$;
comment on function private.apply_schedules(boolean) is
  'Update the pg_cron jobs to match private.cron_jobs(), if pg_cron is installed. p_again also writes those that '
  'match: pg_cron does not notice jobs of a transaction with thousands of changes to the catalog, as migrating makes '
  'them. Returns the number of jobs written.';

create function private.apply_changed_schedules()
returns trigger
language plpgsql
security definer          -- roles that change a schedule have no privileges on pg_cron
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.apply_schedules();
  return null;
end;
$$;
comment on function private.apply_changed_schedules() is 'Apply the schedules after a change to edge_function_config.';
create trigger edge_function_config_schedules
  after insert or update or delete on public.edge_function_config
  for each statement execute function private.apply_changed_schedules();

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.list_functions()
returns setof public.listed_function
language sql stable security invoker set search_path = ''
as $$ select * from private.list_functions() $$;
comment on function public.list_functions() is
  'HAC: whether each function is enabled, its schedule and its last ten runs, newest first.';
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
  'HAC: enable or disable a function, or set its schedule. A null parameter leaves its setting unchanged; an empty '
  'schedule removes the schedule. pg_cron or the scheduler applies the change immediately.';
grant execute on function public.set_function(text, boolean, text) to authenticated, service_role;
