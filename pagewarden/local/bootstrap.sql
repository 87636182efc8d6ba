-- What Supabase has before the first migration, for a plain Postgres.
-- Runs as a superuser inside a transaction, any number of times: existing objects
-- are not changed, so a superuser named postgres is not demoted.

-- Roles belong to the whole server, so an advisory lock (one database) does not keep two
-- bootstraps of two databases apart. This lock does not prevent logins.
lock table pg_catalog.pg_authid in share row exclusive mode;

do $$
declare
  v_role text;
  v_attributes text;
begin
  for v_role, v_attributes in
    values
      ('anon', 'nologin'),
      ('authenticated', 'nologin'),
      ('service_role', 'nologin bypassrls'),
      ('authenticator', 'login noinherit'),
      ('pagewarden_worker', 'login'),
      ('postgres', 'login createdb createrole bypassrls replication')
  loop
    if not exists (select from pg_catalog.pg_roles as r where r.rolname = v_role) then
      execute format('create role %I %s', v_role, v_attributes);
    end if;
  end loop;
end;
$$;

grant anon, authenticated, service_role to authenticator;

-- Roles that log in as themselves may not be members of themselves.
do $$
begin
  if current_user <> 'postgres' then
    grant anon, authenticated, service_role, authenticator, pagewarden_worker
      to postgres with admin option;
  end if;
end;
$$;

do $$
declare
  v_database constant text := current_database();
begin
  execute format('grant all on database %I to postgres', v_database);
  if exists (
    select
    from pg_catalog.pg_database as d
    where d.datname = v_database and pg_catalog.pg_get_userbyid(d.datdba) = current_user
  ) then
    execute format('alter database %I owner to postgres', v_database);
  end if;
end;
$$;

grant usage on schema public to postgres, anon, authenticated, service_role;
grant all on schema public to postgres;

create schema if not exists extensions authorization postgres;
grant usage on schema extensions to anon, authenticated, service_role;

create schema if not exists auth;
grant usage on schema auth to postgres, anon, authenticated, service_role;

create table if not exists auth.users (
  id uuid primary key default gen_random_uuid(),
  aud text default 'authenticated',
  role text default 'authenticated',
  email text constraint users_email_unique unique,
  encrypted_password text,
  email_confirmed_at timestamptz,
  last_sign_in_at timestamptz,
  raw_app_meta_data jsonb not null default '{}',
  raw_user_meta_data jsonb not null default '{}',
  is_anonymous boolean not null default false,
  banned_until timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
comment on table auth.users is 'Who can sign in; the columns of Supabase Auth that are used here.';
alter table auth.users enable row level security;
grant select, insert, update, delete, references, trigger on table auth.users to postgres;

-- Sign-in. A column that came later is added by itself, since the table may be there already.
alter table auth.users
  add column if not exists recovery_token text,
  add column if not exists recovery_sent_at timestamptz;
comment on column auth.users.recovery_token is 'Hash of the token that lets its bearer in once.';
create unique index if not exists recovery_token_idx
  on auth.users (recovery_token) where recovery_token is not null;

create table if not exists auth.sessions (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  refresh_token_counter bigint not null default 0,
  refreshed_at timestamptz not null,
  user_agent text,
  ip inet,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table auth.sessions is
  'Who is signed in where. Its refresh token carries the counter; one with a lower number was used.';
create index if not exists sessions_user_id_idx on auth.sessions (user_id);
alter table auth.sessions enable row level security;
grant select, insert, update, delete on table auth.sessions to postgres;

-- Unlogged: after a crash everybody may try again.
create unlogged table if not exists auth.failed_sign_ins (
  subject text primary key,
  failures integer not null,
  forgotten_at timestamptz not null
);
comment on table auth.failed_sign_ins is 'How often a sign-in failed, by account and by address.';
create index if not exists failed_sign_ins_forgotten_at_idx
  on auth.failed_sign_ins (forgotten_at);
alter table auth.failed_sign_ins enable row level security;
grant select, insert, update, delete on table auth.failed_sign_ins to postgres;

-- The claims of the signed-in user arrive as settings of the transaction. An empty string is
-- what a setting becomes after the transaction that made it, so it means "not set".
create or replace function auth.jwt()
returns jsonb
language sql
stable
set search_path = ''
as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim', true), ''),
    nullif(current_setting('request.jwt.claims', true), '')
  )::jsonb
$$;
comment on function auth.jwt() is 'The claims of the caller''s token; null without one.';

create or replace function auth.uid()
returns uuid
language sql
stable
set search_path = ''
as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim.sub', true), ''),
    nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub'
  )::uuid
$$;
comment on function auth.uid() is 'Id of the signed-in user; null for everybody else.';

create or replace function auth.role()
returns text
language sql
stable
set search_path = ''
as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim.role', true), ''),
    nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role'
  )
$$;
comment on function auth.role() is 'Role named in the caller''s token; null without one.';

create or replace function auth.email()
returns text
language sql
stable
set search_path = ''
as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim.email', true), ''),
    nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'email'
  )
$$;
comment on function auth.email() is 'Address named in the caller''s token; null without one.';

grant execute on function auth.jwt(), auth.uid(), auth.role(), auth.email() to public;
