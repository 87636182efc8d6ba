-- Cases: what documents belong to, with owner and members.
--
-- Row-level security of documents, pages and results goes through the case: owners and members see
-- their cases, HAC sees all. case_rank() returns what the caller may do: 1 viewer (read), 2 editor
-- (upload, cancel, read again), 3 owner, HAC or service (share, delete, erase).
--
-- Creating and sharing cases is here. Functions that change all documents of a case (cancel, delete,
-- erase, restore) and lists of cases are in case_actions.

create table public.cases (
  id uuid not null default gen_random_uuid(),
  user_id uuid references auth.users (id) on delete set null,
  kind text not null default 'client',
  name text not null default 'Inbox',
  is_inbox boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz,
  constraint cases_pkey primary key (id),
  constraint cases_kind_is_known check (kind in ('client', 'registry', 'check')),
  constraint cases_name_has_sensible_length check (length(name) between 1 and 300),
  constraint cases_inbox_has_owner check (not is_inbox or user_id is not null)
);
comment on table public.cases is 'A set of documents with an owner. Every document belongs to exactly one case.';
comment on column public.cases.user_id is
  'The owner; null once the account has been deleted, after which only members and HAC can see the case.';
comment on column public.cases.is_inbox is
  'Whether this is the default case for the owner''s uploads, used when they do not specify one.';
create index cases_user_id_idx on public.cases (user_id);
create unique index cases_one_inbox_of_a_kind on public.cases (user_id, kind) where is_inbox;
create index cases_created_idx on public.cases (created_at, id);
-- Check jobs far outnumber other cases, and users choose among the others.
create index cases_no_jobs_idx on public.cases (created_at, id) where kind <> 'check';
create index cases_bin_idx on public.cases (created_at, id) where deleted_at is not null;

create table public.case_members (
  case_id uuid not null references public.cases (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  role text not null default 'viewer',
  created_at timestamptz not null default now(),
  constraint case_members_pkey primary key (case_id, user_id),
  constraint case_members_role_is_known check (role in ('viewer', 'editor'))
);
comment on table public.case_members is
  'Users with whom a case is shared: viewers can read documents; editors can also upload, cancel and re-read them.';
create index case_members_user_id_idx on public.case_members (user_id);

create function private.my_case_ids()
returns setof uuid
language sql
stable
security definer          -- policies call it, so their own policies would recurse
set search_path = pg_catalog, pg_temp
as $$
  select c.id from public.cases as c where c.user_id = auth.uid()
  union all
  select m.case_id from public.case_members as m where m.user_id = auth.uid();
$$;
comment on function private.my_case_ids() is 'The cases that the signed-in user owns or is a member of.';
grant execute on function private.my_case_ids() to authenticated;

alter table public.cases enable row level security;
create policy "Cases are visible to their people and to HAC"
  on public.cases for select to authenticated
  using ((select private.is_admin()) or id in (select private.my_case_ids()));
grant select on public.cases to authenticated, service_role;

alter table public.case_members enable row level security;
create policy "Members are visible to the people of the case and to HAC"
  on public.case_members for select to authenticated
  using ((select private.is_admin()) or case_id in (select private.my_case_ids()));
grant select on public.case_members to authenticated, service_role;

-- Ranks: 0 stranger, 1 viewer, 2 editor, 3 owner, HAC or one of our services.
create function private.case_rank(p_case_id uuid)
returns integer
language sql
stable
security definer          -- the caller may not be allowed to read the case
set search_path = pg_catalog, pg_temp
as $$
  select case
    when private.is_service() or private.is_admin() then 3
    else coalesce(
      (select 3 from public.cases as c where c.id = p_case_id and c.user_id = auth.uid()),
      (
        select case m.role when 'editor' then 2 else 1 end
        from public.case_members as m
        where m.case_id = p_case_id and m.user_id = auth.uid()
      ),
      0
    )
  end;
$$;
comment on function private.case_rank(uuid) is
  'The caller''s rank in a case: 0 no access, 1 viewer, 2 editor, 3 owner, HAC or service.';

create function private.require_case_rank(p_case_id uuid, p_rank integer)
returns void
language plpgsql
stable
security invoker
set search_path = ''
as $$
begin
  if private.case_rank(p_case_id) < p_rank then
    raise exception 'no permission to change case %', p_case_id
      using errcode = '42501', hint = 'Ask its owner to share it with you as an editor.';
  end if;
end;
$$;
comment on function private.require_case_rank(uuid, integer) is 'Reject a caller whose rank is too low (42501).';

-- Each document belongs to an existing case. Checking a foreign key would take a third of the time of a bulk
-- upload; instead the upload locks its case once, and two triggers check all other changes.
create function private.require_live_case(p_case_id uuid)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  perform 1 from public.cases as c where c.id = p_case_id and c.deleted_at is null for key share;
  if not found then
    raise exception 'there is no case %', coalesce(p_case_id::text, 'null')
      using errcode = '22023', hint = 'Create it with create_case.';
  end if;
end;
$$;
comment on function private.require_live_case(uuid) is
  'Reject a missing or deleted case (22023); otherwise, lock it against deletion until the transaction ends.';

create function private.create_case(p_name text, p_kind text, p_owner uuid, p_inbox boolean)
returns uuid
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_owner uuid := coalesce(p_owner, auth.uid());
  v_case_id uuid;
begin
  perform private.require_text('p_name', p_name, 300);
  if (p_kind in ('client', 'registry', 'check')) is not true then
    raise exception 'unknown case kind %', coalesce(p_kind, 'null')
      using errcode = '22023', hint = 'Valid kinds are client, registry and check.';
  end if;
  if not private.is_service() and not private.is_admin() and (auth.uid() is null or v_owner <> auth.uid()) then
    raise exception 'you can only create cases for yourself' using errcode = '42501', hint = 'Omit p_owner.';
  end if;
  if v_owner is not null and not exists (select 1 from auth.users as u where u.id = v_owner) then
    raise exception 'there is no user %', v_owner using errcode = '22023', hint = 'The user needs an account first.';
  end if;
  if p_inbox and v_owner is null then
    raise exception 'an inbox requires an owner' using errcode = '22023', hint = 'Pass the owner in p_owner.';
  end if;
  -- "do update", not "do nothing": the second of two concurrent calls must return the case of the first.
  insert into public.cases as c (user_id, kind, name, is_inbox)
  values (v_owner, p_kind, p_name, coalesce(p_inbox, false))
  on conflict (user_id, kind) where is_inbox do update set updated_at = now(), deleted_at = null
  returning c.id into v_case_id;
  return v_case_id;
end;
$$;
comment on function private.create_case(text, text, uuid, boolean) is 'See public.create_case.';
grant execute on function private.create_case(text, text, uuid, boolean) to authenticated, service_role;

create type public.case_answer as (
  success boolean,
  error text,
  message text,
  case_id uuid,
  documents integer
);
comment on type public.case_answer is
  'The result of changing a case; documents is the number of documents changed with it. Nullable: error, message, '
  'case_id, documents.';

create function private.case_refusal(p_error text, p_case_id uuid)
returns public.case_answer
language plpgsql
immutable
security invoker
set search_path = ''
as $$
declare
  v_answer public.case_answer;
begin
  v_answer.success := false;
  v_answer.error := p_error;
  v_answer.message := case p_error
    when 'CASE_NOT_FOUND' then 'there is no such case'
    when 'WRONG_STATE' then 'the case is not in the bin'
    when 'PERSON_NOT_FOUND' then 'no user has this address; ask an administrator to create the account'
    when 'ALREADY_OWNER' then 'this user already owns the case'
  end;
  v_answer.case_id := p_case_id;
  return v_answer;
end;
$$;
comment on function private.case_refusal(text, uuid) is
  'The error result of a rejected change to a case, with the reason.';

create function private.share_case(p_case_id uuid, p_user_id uuid, p_role text)
returns public.case_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer public.case_answer;
begin
  perform private.require_case_rank(p_case_id, 3);
  if not exists (select 1 from public.cases as c where c.id = p_case_id) then
    return private.case_refusal('CASE_NOT_FOUND', p_case_id);
  end if;
  if p_role not in ('viewer', 'editor') then
    raise exception 'unknown case role %', p_role
      using errcode = '22023', hint = 'Valid roles are viewer and editor; null removes the user.';
  end if;
  if not exists (select 1 from auth.users as u where u.id = p_user_id) then
    raise exception 'there is no user %', coalesce(p_user_id::text, 'null')
      using errcode = '22023', hint = 'The user needs an account first.';
  end if;
  if p_role is null then
    delete from public.case_members as m where m.case_id = p_case_id and m.user_id = p_user_id;
  else
    insert into public.case_members as m (case_id, user_id, role) values (p_case_id, p_user_id, p_role)
    on conflict on constraint case_members_pkey do update set role = excluded.role;
  end if;
  perform private.log_act(
    p_case_id, null, 'case_shared',
    format(case when p_role is null then 'no longer shared with %s' else 'shared with %s as %s' end, p_user_id, p_role),
    null, null,
    jsonb_build_object('user_id', p_user_id, 'role', p_role)
  );
  v_answer.success := true;
  v_answer.case_id := p_case_id;
  return v_answer;
end;
$$;
comment on function private.share_case(uuid, uuid, text) is 'See public.share_case.';
grant execute on function private.share_case(uuid, uuid, text) to authenticated, service_role;

create function private.share_case_by_email(p_case_id uuid, p_email text, p_role text)
returns public.case_answer
language plpgsql
volatile
security definer          -- callers may not read auth.users
set search_path = pg_catalog, pg_temp
as $$
declare
  v_user_id uuid;
begin
  -- First, so that only an owner learns whether an account with this address exists.
  perform private.require_case_rank(p_case_id, 3);
  perform private.require_text('p_email', p_email, 300);
  if (p_role in ('viewer', 'editor')) is not true then
    raise exception 'unknown case role %', coalesce(p_role, 'null')
      using errcode = '22023', hint = 'Valid roles are viewer and editor.';
  end if;
  select u.id into v_user_id from auth.users as u
  where u.email = lower(btrim(p_email)) and u.deleted_at is null;
  if not found then
    return private.case_refusal('PERSON_NOT_FOUND', p_case_id);
  end if;
  if exists (select 1 from public.cases as c where c.id = p_case_id and c.user_id = v_user_id) then
    return private.case_refusal('ALREADY_OWNER', p_case_id);
  end if;
  return private.share_case(p_case_id, v_user_id, p_role);
end;
$$;
comment on function private.share_case_by_email(uuid, text, text) is 'See public.share_case_by_email.';
grant execute on function private.share_case_by_email(uuid, text, text) to authenticated, service_role;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.create_case(
  p_name text,
  p_kind text default 'client',
  p_owner uuid default null,
  p_inbox boolean default false
)
returns uuid
language sql volatile security invoker set search_path = ''
as $$ select private.create_case(p_name, p_kind, p_owner, p_inbox) $$;
comment on function public.create_case(text, text, uuid, boolean) is
  'Create a case and return its id. p_inbox: return the owner''s inbox, the case for uploads that do not specify one; '
  'it is created on first use.';
grant execute on function public.create_case(text, text, uuid, boolean) to authenticated, service_role;

create function public.share_case(p_case_id uuid, p_user_id uuid, p_role text default 'viewer')
returns public.case_answer
language sql volatile security invoker set search_path = ''
as $$ select private.share_case(p_case_id, p_user_id, p_role) $$;
comment on function public.share_case(uuid, uuid, text) is
  'Owner or HAC: share a case with a user as viewer or editor; a null role removes the user. Nullable: p_role.';
grant execute on function public.share_case(uuid, uuid, text) to authenticated, service_role;

create function public.share_case_by_email(p_case_id uuid, p_email text, p_role text default 'viewer')
returns public.case_answer
language sql volatile security invoker set search_path = ''
as $$ select private.share_case_by_email(p_case_id, p_email, p_role) $$;
comment on function public.share_case_by_email(uuid, text, text) is
  'Owner or HAC: share a case with the user who has this e-mail address; see share_case.';
grant execute on function public.share_case_by_email(uuid, text, text) to authenticated, service_role;
