-- Purpose:  cases: what documents belong to, and who may see them.
-- Affects:  creates cases, case_members and the functions that answer "may I".
-- Locks:    none that anybody could notice.

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
comment on table public.cases is 'A set of documents with an owner. Every document belongs to one.';
comment on column public.cases.user_id is 'The owner; null when the owner left, then only HAC sees the case.';
comment on column public.cases.is_inbox is 'Where uploads of the owner go that name no case.';
create index cases_user_id_idx on public.cases (user_id);
create unique index cases_one_inbox_of_a_kind on public.cases (user_id, kind) where is_inbox;

create table public.case_members (
  case_id uuid not null references public.cases (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  role text not null default 'viewer',
  created_at timestamptz not null default now(),
  constraint case_members_pkey primary key (case_id, user_id),
  constraint case_members_role_is_known check (role in ('viewer', 'editor'))
);
comment on table public.case_members is 'Whom a case is shared with: viewers read, editors also upload, cancel and read again.';
create index case_members_user_id_idx on public.case_members (user_id);

create function private.my_case_ids()
returns setof uuid
language sql
stable
security definer          -- policies ask it; going through the tables' own policies would recurse
set search_path = pg_catalog, pg_temp
as $$
  select c.id from public.cases as c where c.user_id = auth.uid()
  union all
  select m.case_id from public.case_members as m where m.user_id = auth.uid();
$$;
comment on function private.my_case_ids() is 'The cases the signed-in person owns or shares.';
grant execute on function private.my_case_ids() to authenticated;

-- Ranks: 0 stranger, 1 viewer, 2 editor, 3 owner, HAC or one of our services.
create function private.case_rank(p_case_id uuid)
returns integer
language sql
stable
security definer          -- the one who asks may not read the case
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
  'What the caller is to a case: 0 stranger, 1 viewer, 2 editor, 3 owner, HAC or service.';

create function private.require_case_rank(p_case_id uuid, p_rank integer)
returns void
language plpgsql
stable
security invoker
set search_path = ''
as $$
begin
  if private.case_rank(p_case_id) < p_rank then
    raise exception 'case % is not yours to change', p_case_id
      using errcode = '42501', hint = 'Ask its owner to share it with you as an editor.';
  end if;
end;
$$;
comment on function private.require_case_rank(uuid, integer) is 'Refuse a caller of a lower rank (42501).';

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
