-- Users: their roles, and the functions that check who calls.
--
-- HAC (the seeds' name) is the team of users with the role admin, who review what machines could not
-- finish. A caller is HAC if user_roles says so, and one of our services if its token has the role
-- service_role and no subject. Functions for users read auth.uid(), never current_user; a caller
-- without the needed role gets SQLSTATE 42501.
--
-- Accounts are in auth.users, which belongs to Supabase Auth. Rights on a single case are in the
-- next file (case_rank).

create type public.app_role as enum ('admin', 'user');
comment on type public.app_role is
  'admin: members of HAC, who review documents that could not be processed automatically.';

create table public.user_roles (
  user_id uuid not null references auth.users (id) on delete cascade,
  role public.app_role not null,
  created_at timestamptz not null default now(),
  constraint user_roles_pkey primary key (user_id, role)
);
comment on table public.user_roles is
  'Roles granted to users. Every call checks them, so revoking a role takes effect on the next call.';

create function private.has_role(p_user_id uuid, p_role public.app_role)
returns boolean
language sql
stable
security definer          -- the caller may not read user_roles
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select 1 from public.user_roles as r
    where r.user_id = p_user_id and r.role = p_role
  );
$$;
comment on function private.has_role(uuid, public.app_role) is 'Whether the user has the role.';
grant execute on function private.has_role(uuid, public.app_role) to authenticated, service_role;

create function private.is_admin()
returns boolean
language sql
stable
security definer          -- the caller may not read user_roles
set search_path = pg_catalog, pg_temp
as $$
  select private.has_role(auth.uid(), 'admin');
$$;
comment on function private.is_admin() is 'Whether the signed-in user is a member of HAC.';
grant execute on function private.is_admin() to authenticated;

create function private.is_service()
returns boolean
language plpgsql
stable
security invoker
set search_path = ''
as $$
begin
  -- The settings that auth.uid() and auth.role() read, without the calls: bulk uploads call this function,
  -- and those two took 20 of its 200 us.
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
comment on function private.is_service() is 'Whether the caller is a service rather than a user.';

create function private.require_admin()
returns void
language plpgsql
stable
security invoker
set search_path = ''
as $$
begin
  if not private.is_admin() and not private.is_service() then
    raise exception 'this requires the "admin" role (HAC)'
      using errcode = '42501', hint = 'Ask an administrator to grant you the "admin" role.';
  end if;
end;
$$;
comment on function private.require_admin() is 'Reject callers other than HAC and services (42501).';

alter table public.user_roles enable row level security;
create policy "People see their own roles, HAC sees all"
  on public.user_roles for select to authenticated
  using (user_id = (select auth.uid()) or (select private.is_admin()));
grant select on public.user_roles to authenticated;
grant select, insert, update, delete on public.user_roles to service_role;

create function private.require_admin_user(p_user_id uuid)
returns void
language plpgsql
stable
security invoker
set search_path = ''
as $$
begin
  if p_user_id is not null and not private.has_role(p_user_id, 'admin') then
    raise exception '% is not one of HAC', p_user_id
      using errcode = '22023', hint = 'Assign the task to a user returned by list_people(p_admin => true).';
  end if;
end;
$$;
comment on function private.require_admin_user(uuid) is
  'Reject a user without the admin role (22023); null is allowed.';

create function private.display_name(p_user_id uuid)
returns text
language sql
stable
security invoker
set search_path = ''
as $$
  select coalesce(
    (select coalesce(u.email::text, u.id::text) from auth.users as u where u.id = p_user_id), 'an operator or a service'
  );
$$;
comment on function private.display_name(uuid) is
  'The name of a user in messages: the e-mail address, or a placeholder for operators and services.';

create function private.log_role_change()
returns trigger
language plpgsql
volatile
security definer          -- the caller may not write the log
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into public.hac_acts (
    user_id, action_type, action_description, field_changed, old_value, new_value, metadata
  )
  values (
    auth.uid(),
    case when old is null then 'role_given' when new is null then 'role_taken' else 'role_changed' end,
    'User role changed', 'role', old.role, new.role,
    jsonb_build_object('user_id', coalesce(new.user_id, old.user_id))
  );
  return null;
end;
$$;
comment on function private.log_role_change() is 'Write an audit log entry for each role that is granted or revoked.';
revoke execute on function private.log_role_change() from public;
create trigger user_roles_log
  after insert or update or delete on public.user_roles
  for each row execute function private.log_role_change();

create type public.listed_person as (
  user_id uuid,
  email text,
  is_admin boolean,
  cases bigint,
  created_at timestamptz,
  last_sign_in_at timestamptz
);
comment on type public.listed_person is
  'A user who can sign in. Nullable: created_at, last_sign_in_at.';

create function private.list_people(
  p_search text,
  p_admin boolean,
  p_after text,
  p_after_id uuid,
  p_limit integer
)
returns setof public.listed_person
language plpgsql
stable
security definer          -- callers may not read auth.users
set search_path = pg_catalog, pg_temp
set enable_seqscan = off   -- counts cases user by user
set jit = off              -- before PostgreSQL 18 the cost of a disabled scan is high enough to trigger jit
as $$
begin
  perform private.require_admin();
  perform private.require_page_size(p_limit);
  perform private.require_optional_text('p_search', nullif(p_search, ''), 1000);
  return query
  select u.id, u.email::text, private.has_role(u.id, 'admin'),
    (select count(*) from public.cases as c where c.user_id = u.id and c.deleted_at is null)
      + (
        select count(*) from public.case_members as m join public.cases as c on c.id = m.case_id
        where m.user_id = u.id and c.deleted_at is null
      ),
    u.created_at, u.last_sign_in_at
  from auth.users as u
  where u.email is not null and u.deleted_at is null
    and (u.email::text, u.id) > (coalesce(p_after, ''), coalesce(p_after_id, '00000000-0000-0000-0000-000000000000'))
    and (p_admin is null or private.has_role(u.id, 'admin') = p_admin)
    and (p_search is null or position(lower(p_search) in lower(u.email::text)) > 0)
  order by u.email::text, u.id
  limit p_limit;
end;
$$;
comment on function private.list_people(text, boolean, text, uuid, integer) is 'See public.list_people.';
grant execute on function private.list_people(text, boolean, text, uuid, integer) to authenticated, service_role;

create type public.role_answer as (
  success boolean,
  error text,
  message text,
  user_id uuid,
  changed boolean
);
comment on type public.role_answer is
  'The result of granting or revoking a role; changed is false if the user already had the role, or had no role to '
  'revoke. Nullable: error, message, user_id, changed.';

create function private.change_role(p_user_id uuid, p_role public.app_role, p_give boolean)
returns public.role_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer public.role_answer;
begin
  -- Serialize: if two users revoke each other's role at once, the second call finds its caller not HAC.
  perform pg_advisory_xact_lock(hashtextextended('user_roles', 5));
  perform private.require_admin();
  if p_role is null then
    raise exception 'p_role must be admin or user' using errcode = '22023', hint = 'Users with the "admin" role are members of HAC.';
  end if;
  v_answer.user_id := p_user_id;
  v_answer.error := case
    when not exists (select 1 from auth.users as u where u.id = p_user_id) then 'PERSON_NOT_FOUND'
    when p_give or p_role <> 'admin' or not private.has_role(p_user_id, 'admin') then null
    when not exists (select 1 from public.user_roles as r where r.role = 'admin' and r.user_id <> p_user_id)
      then 'LAST_ADMIN'
    when p_user_id = auth.uid() then 'OWN_ROLE'
  end;
  v_answer.success := v_answer.error is null;
  if not v_answer.success then
    v_answer.message := case v_answer.error
      when 'PERSON_NOT_FOUND' then 'there is no such user'
      when 'LAST_ADMIN' then 'this user is the last administrator; grant the role to another user first'
      when 'OWN_ROLE' then 'you cannot revoke your own role; ask another administrator'
    end;
    return v_answer;
  end if;
  if p_give then
    insert into public.user_roles (user_id, role) values (p_user_id, p_role) on conflict do nothing;
  else
    delete from public.user_roles as r where r.user_id = p_user_id and r.role = p_role;
  end if;
  v_answer.changed := found;
  return v_answer;
end;
$$;
comment on function private.change_role(uuid, public.app_role, boolean) is
  'Grant or revoke a role; the trigger on user_roles writes the audit log entry.';
grant execute on function private.change_role(uuid, public.app_role, boolean) to authenticated, service_role;

create function public.grant_role(p_user_id uuid, p_role public.app_role default 'admin')
returns public.role_answer
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.change_role(p_user_id, p_role, true);
$$;
comment on function public.grant_role(uuid, public.app_role) is
  'HAC: grant a role to a user; takes effect immediately.';
grant execute on function public.grant_role(uuid, public.app_role) to authenticated, service_role;

create function public.revoke_role(p_user_id uuid, p_role public.app_role default 'admin')
returns public.role_answer
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.change_role(p_user_id, p_role, false);
$$;
comment on function public.revoke_role(uuid, public.app_role) is
  'HAC: revoke a user''s role; takes effect immediately. Rejected for the last administrator and for the caller''s '
  'own role.';
grant execute on function public.revoke_role(uuid, public.app_role) to authenticated, service_role;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.has_role(p_user_id uuid, p_role public.app_role)
returns boolean
language sql stable security invoker set search_path = ''
as $$ select private.has_role(p_user_id, p_role) $$;
comment on function public.has_role(uuid, public.app_role) is 'Whether the user has the role.';
grant execute on function public.has_role(uuid, public.app_role) to authenticated, service_role;

create function public.list_people(
  p_search text default null,
  p_admin boolean default null,
  p_after text default null,
  p_after_id uuid default null,
  p_limit integer default 50
)
returns setof public.listed_person
language sql stable security invoker set search_path = ''
as $$ select * from private.list_people(p_search, p_admin, p_after, p_after_id, p_limit) $$;
comment on function public.list_people(text, boolean, text, uuid, integer) is
  'HAC: users who can sign in, ordered by e-mail address; p_search filters by part of the address, p_admin by the '
  'admin role. Continues after the user p_after_id, whose address is p_after. cases is the number of owned and shared '
  'cases.';
grant execute on function public.list_people(text, boolean, text, uuid, integer) to authenticated, service_role;
