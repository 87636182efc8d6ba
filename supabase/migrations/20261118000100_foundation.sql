-- Foundation: schemas, extensions, the role of workers, default privileges, checks of arguments.
--
-- The migrations expect a Supabase project: the roles anon, authenticated and service_role, and the
-- schema auth. Schema public holds the tables and functions that clients may use; schema private
-- holds the rest, and the API does not expose it. Users and their roles are in the next file.
--
-- Every function pins its search_path. Nothing is granted by default: the grants of an object
-- follow its definition.
--
-- A function named require_… returns if its argument is valid, and otherwise raises SQLSTATE 22023
-- (invalid argument) with a hint.

create schema if not exists private;
comment on schema private is
  'Helper functions and the bodies of security definer functions. Not exposed through the API.';

create schema if not exists extensions;
create extension if not exists unaccent with schema extensions;
create extension if not exists pg_trgm with schema extensions;

-- Supabase has pgmq as an extension; elsewhere its SQL has been installed before.
do $$
begin
  if exists (select 1 from pg_catalog.pg_available_extensions as e where e.name = 'pgmq') then
    create extension if not exists pgmq;
  elsif not exists (select 1 from pg_catalog.pg_namespace as n where n.nspname = 'pgmq') then
    raise exception 'pgmq is not here'
      using errcode = '55000', hint = 'Run "pagewarden migrate"; it installs pgmq first.';
  end if;
end;
$$;

-- Long-lived workers log in as this role. It may execute the workers' functions, and nothing else.
-- It has no password, so no login is possible until an operator sets one.
do $$
begin
  if not exists (select 1 from pg_catalog.pg_roles as r where r.rolname = 'pagewarden_worker') then
    create role pagewarden_worker login noinherit;
  end if;
end;
$$;

-- Nothing is executable or readable unless a migration grants it. The first line must not have "in
-- schema": only that form revokes the default privileges of PUBLIC. The others undo the grants that
-- Supabase adds automatically to everything in schema public.
alter default privileges revoke execute on functions from public;
alter default privileges in schema public revoke execute on functions from anon, authenticated, service_role;
alter default privileges in schema public revoke all on tables from anon, authenticated, service_role;
alter default privileges in schema public revoke all on sequences from anon, authenticated, service_role;

grant usage on schema public to anon, authenticated, service_role, pagewarden_worker;
grant usage on schema private to authenticated, service_role, pagewarden_worker;

create function private.require_text(p_what text, p_text text, p_max integer)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (octet_length(p_text) between 1 and p_max and btrim(p_text) <> '') is not true then
    raise exception '% must be 1 to % bytes long, got %', p_what, p_max,
      coalesce(octet_length(p_text)::text, 'null')
      using errcode = '22023', hint = 'It must not be empty or longer than that.';
  end if;
end;
$$;
comment on function private.require_text(text, text, integer) is 'Reject null, blank or overlong text (22023).';

create function private.require_optional_text(p_what text, p_text text, p_max integer)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if p_text is not null then
    perform private.require_text(p_what, p_text, p_max);
  end if;
end;
$$;
comment on function private.require_optional_text(text, text, integer) is
  'Reject blank or overlong text (22023); null is allowed.';

create function private.require_list(p_what text, p_list jsonb)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (
    jsonb_typeof(p_list) = 'array' and jsonb_array_length(p_list) <= 10000
    and not p_list @? 'strict $[*] ? (@.type() <> "object")'
  ) is not true then
    raise exception '% must be a list of at most 10000 objects', p_what
      using errcode = '22023', hint = 'Send a smaller list.';
  end if;
end;
$$;
comment on function private.require_list(text, jsonb) is 'Reject a value that is not a list of at most 10,000 objects (22023).';

create function private.require_page_size(p_limit integer)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (p_limit between 1 and 200) is not true then
    raise exception 'p_limit must be between 1 and 200' using errcode = '22023', hint = 'Use pagination.';
  end if;
end;
$$;
comment on function private.require_page_size(integer) is 'Reject a page size that is not between 1 and 200 (22023).';

create function private.require_seconds(p_what text, p_seconds integer, p_least integer)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (p_seconds between p_least and 43200) is not true then
    raise exception '% must be % to 43200 seconds, got %', p_what, p_least, coalesce(p_seconds::text, 'null')
      using errcode = '22023', hint = 'Heartbeats renew locks; 20 seconds is a reasonable value.';
  end if;
end;
$$;
comment on function private.require_seconds(text, integer, integer) is
  'Reject a duration that is not between p_least and 43200 seconds (22023).';

create function private.like_pattern(p_text text)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select '%' || regexp_replace(lower(p_text), '([\\%_])', '\\\1', 'g') || '%';
$$;
comment on function private.like_pattern(text) is
  'Return a LIKE pattern that matches lower-case text containing p_text.';

create function private.format_time(p_at timestamptz)
returns text
language sql
stable
security invoker
set search_path = ''
as $$
  select to_char(p_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI "UTC"');
$$;
comment on function private.format_time(timestamptz) is 'Format a time for messages: YYYY-MM-DD HH24:MI UTC.';
