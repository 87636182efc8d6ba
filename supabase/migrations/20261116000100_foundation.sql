-- Purpose:  the ground everything stands on: schemas, extensions, the workers' role, roles of people.
-- Affects:  creates schema private, role pagewarden_worker, type app_role, table user_roles.
-- Locks:    none that anybody could notice; nothing of ours exists yet.
-- Before:   needs what Supabase brings (roles anon, authenticated, service_role; schema auth).

create schema if not exists private;
comment on schema private is
  'Helpers and every security definer body. Not exposed by the API.';

create schema if not exists extensions;
create extension if not exists unaccent with schema extensions;

-- Supabase has pgmq as an extension; elsewhere its SQL was installed beforehand.
do $$
begin
  if exists (select 1 from pg_catalog.pg_available_extensions as e where e.name = 'pgmq') then
    create extension if not exists pgmq;
  elsif not exists (select 1 from pg_catalog.pg_namespace as n where n.nspname = 'pgmq') then
    raise exception 'pgmq is not here'
      using errcode = '55000', hint = 'Run "pagewarden migrate", which installs it first.';
  end if;
end;
$$;

-- Long-lived workers log in as this role. It may execute the workers' functions, and nothing else.
-- It has no password, so nobody can log in until an operator gives it one.
do $$
begin
  if not exists (select 1 from pg_catalog.pg_roles as r where r.rolname = 'pagewarden_worker') then
    create role pagewarden_worker login noinherit;
  end if;
end;
$$;

-- Nothing is executable or readable unless a migration says so. The first line must stand without
-- "in schema": only that form takes away what PUBLIC has by default. The others undo the grants
-- that Supabase adds by itself to everything in schema public.
alter default privileges revoke execute on functions from public;
alter default privileges in schema public revoke execute on functions from anon, authenticated, service_role;
alter default privileges in schema public revoke all on tables from anon, authenticated, service_role;
alter default privileges in schema public revoke all on sequences from anon, authenticated, service_role;

grant usage on schema public to anon, authenticated, service_role, pagewarden_worker;
grant usage on schema private to authenticated, service_role, pagewarden_worker;

-- Roles of people ---------------------------------------------------------------------------

create type public.app_role as enum ('admin', 'user');
comment on type public.app_role is 'admin: the people of HAC, who review what machines could not finish.';

create table public.user_roles (
  user_id uuid not null references auth.users (id) on delete cascade,
  role public.app_role not null,
  created_at timestamptz not null default now(),
  constraint user_roles_pkey primary key (user_id, role)
);
comment on table public.user_roles is 'Who is what. Asked at every act, so taking a role away works at once.';

create function private.has_role(p_user_id uuid, p_role public.app_role)
returns boolean
language sql
stable
security definer          -- the one who asks may not read user_roles
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select 1 from public.user_roles as r
    where r.user_id = p_user_id and r.role = p_role
  );
$$;
comment on function private.has_role(uuid, public.app_role) is 'Whether the person has the role.';
grant execute on function private.has_role(uuid, public.app_role) to authenticated, service_role;

create function public.has_role(p_user_id uuid, p_role public.app_role)
returns boolean
language sql
stable
security invoker
set search_path = ''
as $$
  select private.has_role(p_user_id, p_role);
$$;
comment on function public.has_role(uuid, public.app_role) is 'Whether the person has the role.';
grant execute on function public.has_role(uuid, public.app_role) to authenticated, service_role;

create function private.is_admin()
returns boolean
language sql
stable
security definer          -- the one who asks may not read user_roles
set search_path = pg_catalog, pg_temp
as $$
  select private.has_role(auth.uid(), 'admin');
$$;
comment on function private.is_admin() is 'Whether the signed-in person belongs to HAC.';
grant execute on function private.is_admin() to authenticated;

create function private.is_service()
returns boolean
language plpgsql
stable
security invoker
set search_path = ''
as $$
begin
  -- What auth.uid() and auth.role() say, asked without them: bulk uploads call this, and as functions they
  -- took 20 us of 200.
  return coalesce(
      nullif(current_setting('request.jwt.claim.role', true), ''),
      nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role'
    ) is not distinct from 'service_role'
    and coalesce(
      nullif(current_setting('request.jwt.claim.sub', true), ''),
      nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub'
    ) is null;
end;
$$;
comment on function private.is_service() is 'Whether the call comes from one of our own services, not from a person.';

create function private.require_admin()
returns void
language plpgsql
stable
security invoker
set search_path = ''
as $$
begin
  if not private.is_admin() and not private.is_service() then
    raise exception 'this is for HAC only'
      using errcode = '42501', hint = 'Ask an administrator to give you the role "admin".';
  end if;
end;
$$;
comment on function private.require_admin() is 'Refuse everybody but HAC and our own services (42501).';

alter table public.user_roles enable row level security;
create policy "People see their own roles, HAC sees all"
  on public.user_roles for select to authenticated
  using (user_id = (select auth.uid()) or (select private.is_admin()));
grant select on public.user_roles to authenticated;
grant select, insert, update, delete on public.user_roles to service_role;
