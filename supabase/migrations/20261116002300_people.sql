-- Purpose:  people and their cases: who can sign in, who is one of HAC, who sees which case and what is in it.
-- Affects:  creates list_people, grant_role, revoke_role, list_cases, case_contents, list_case_people,
--           share_case_by_email, restore_case, indexes on cases and tasks.
-- Locks:    both against writing while the indexes are built: a moment.

create function private.require_page_size(p_limit integer)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (p_limit between 1 and 200) is not true then
    raise exception 'p_limit must be 1 to 200' using errcode = '22023', hint = 'Read the list page by page.';
  end if;
end;
$$;
comment on function private.require_page_size(integer) is 'Refuse lists without end (22023).';

-- People ------------------------------------------------------------------------------------

create function private.list_people(
  p_search text,
  p_admin boolean,
  p_after text,
  p_after_id uuid,
  p_limit integer
)
returns table (
  user_id uuid,
  email text,
  is_admin boolean,
  cases bigint,
  created_at timestamptz,
  last_sign_in_at timestamptz
)
language plpgsql
stable
security definer          -- nobody may read auth.users
set search_path = pg_catalog, pg_temp
set enable_seqscan = off   -- cases are counted person by person
set jit = off              -- before PostgreSQL 18 a scan that is off counts as dear enough for it
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

create function public.list_people(
  p_search text default null,
  p_admin boolean default null,
  p_after text default null,
  p_after_id uuid default null,
  p_limit integer default 50
)
returns table (
  user_id uuid,
  email text,
  is_admin boolean,
  cases bigint,
  created_at timestamptz,
  last_sign_in_at timestamptz
)
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.list_people(p_search, p_admin, p_after, p_after_id, p_limit);
$$;
comment on function public.list_people(text, boolean, text, uuid, integer) is
  'HAC: who can sign in, by address; whose address contains p_search, who is (p_admin) or is not of HAC. Goes on '
  'after p_after, the address of p_after_id. Counts the cases that are theirs or shared with them.';
grant execute on function public.list_people(text, boolean, text, uuid, integer) to authenticated, service_role;

create function private.change_role(p_user_id uuid, p_role public.app_role, p_give boolean)
returns jsonb
language plpgsql
volatile
security definer          -- HAC holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_refusal text;
  v_changed boolean;
begin
  -- One after the other: of two who take each other's role at once, the second is of HAC no more.
  perform pg_advisory_xact_lock(hashtextextended('user_roles', 5));
  perform private.require_admin();
  if p_role is null then
    raise exception 'p_role must be admin or user' using errcode = '22023', hint = 'HAC are those with the role admin.';
  end if;
  v_refusal := case
    when not exists (select 1 from auth.users as u where u.id = p_user_id) then 'PERSON_NOT_FOUND'
    when p_give or p_role <> 'admin' or not private.has_role(p_user_id, 'admin') then null
    when not exists (select 1 from public.user_roles as r where r.role = 'admin' and r.user_id <> p_user_id)
      then 'LAST_ADMIN'
    when p_user_id = auth.uid() then 'OWN_ROLE'
  end;
  if v_refusal is not null then
    return jsonb_build_object(
      'success', false, 'error', v_refusal, 'user_id', p_user_id, 'message', case v_refusal
        when 'PERSON_NOT_FOUND' then 'there is no such person'
        when 'LAST_ADMIN' then 'this is the last administrator; give the role to somebody else first'
        when 'OWN_ROLE' then 'this is your own role; ask another administrator to take it'
      end
    );
  end if;
  if p_give then
    insert into public.user_roles (user_id, role) values (p_user_id, p_role) on conflict do nothing;
  else
    delete from public.user_roles as r where r.user_id = p_user_id and r.role = p_role;
  end if;
  v_changed := found;
  return jsonb_build_object('success', true, 'user_id', p_user_id, 'changed', v_changed);
end;
$$;
comment on function private.change_role(uuid, public.app_role, boolean) is
  'Give or take a role; the trigger of user_roles writes the line of the log.';
grant execute on function private.change_role(uuid, public.app_role, boolean) to authenticated, service_role;

create function public.grant_role(p_user_id uuid, p_role public.app_role default 'admin')
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.change_role(p_user_id, p_role, true);
$$;
comment on function public.grant_role(uuid, public.app_role) is 'HAC: give somebody a role. It counts at once.';
grant execute on function public.grant_role(uuid, public.app_role) to authenticated, service_role;

create function public.revoke_role(p_user_id uuid, p_role public.app_role default 'admin')
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.change_role(p_user_id, p_role, false);
$$;
comment on function public.revoke_role(uuid, public.app_role) is
  'HAC: take a role from somebody, at once. Never that of the last administrator, and not one''s own.';
grant execute on function public.revoke_role(uuid, public.app_role) to authenticated, service_role;

-- Cases -------------------------------------------------------------------------------------

create index cases_created_idx on public.cases (created_at, id);
create index tasks_open_case_idx on public.tasks (case_id) where status in ('pending', 'in_progress');

create function private.list_cases(
  p_search text,
  p_kind text,
  p_deleted boolean,
  p_before timestamptz,
  p_before_id uuid,
  p_limit integer
)
returns table (
  case_id uuid,
  name text,
  kind text,
  is_inbox boolean,
  owner_email text,
  role text,
  created_at timestamptz,
  documents bigint,
  completed bigint,
  are_more boolean,
  attention bigint
)
language plpgsql
stable
security definer          -- nobody may read auth.users, and only HAC sees tasks
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
  v_all boolean := private.is_admin() or private.is_service();
  v_mine uuid[] := array(select private.my_case_ids());
  v_ids uuid[];
  v_before timestamptz := coalesce(p_before, 'infinity');
  v_before_id uuid := coalesce(p_before_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  perform private.require_page_size(p_limit);
  perform private.require_optional_text('p_search', nullif(p_search, ''), 1000);
  if p_deleted is null then
    raise exception 'p_deleted must be true or false' using errcode = '22023', hint = 'Look into the bin, or not.';
  end if;
  v_ids := array(
    select c.id from public.cases as c
    where (c.created_at, c.id) < (v_before, v_before_id)
      and (v_all or c.id = any (v_mine))
      and (c.deleted_at is not null) = p_deleted
      and (p_kind is null or c.kind = p_kind)
      and (p_search is null or position(lower(p_search) in lower(c.name)) > 0)
    order by c.created_at desc, c.id desc
    limit p_limit
  );
  -- Of each the newest hundred are looked at, so that a page costs the same however large its cases are.
  return query
  select c.id, c.name, c.kind, c.is_inbox, u.email::text,
    case when c.user_id = auth.uid() then 'owner' else coalesce(m.role, 'hac') end,
    c.created_at, n.documents, n.completed, n.are_more, t.open
  from public.cases as c
  left join auth.users as u on u.id = c.user_id
  left join public.case_members as m on m.case_id = c.id and m.user_id = auth.uid()
  cross join lateral (
    select count(*) filter (where k.is_there) as documents,
      count(*) filter (where k.is_there and k.ocr_status = 'completed') as completed, count(*) = 100 as are_more
    from (
      select d.ocr_status, d.deleted_at is null or c.deleted_at is not null as is_there
      from public.documents as d
      where d.case_id = c.id
      order by d.created_at desc, d.id desc
      limit 100
    ) as k
  ) as n
  cross join lateral (
    select count(*) as open
    from (
      select 1 from public.tasks as t where t.case_id = c.id and t.status in ('pending', 'in_progress') limit 100
    ) as k
  ) as t
  where c.id = any (v_ids)
  order by c.created_at desc, c.id desc;
end;
$$;
comment on function private.list_cases(text, text, boolean, timestamptz, uuid, integer) is 'See public.list_cases.';
grant execute on function private.list_cases(text, text, boolean, timestamptz, uuid, integer)
  to authenticated, service_role;

create function public.list_cases(
  p_search text default null,
  p_kind text default null,
  p_deleted boolean default false,
  p_before timestamptz default null,
  p_before_id uuid default null,
  p_limit integer default 50
)
returns table (
  case_id uuid,
  name text,
  kind text,
  is_inbox boolean,
  owner_email text,
  role text,
  created_at timestamptz,
  documents bigint,
  completed bigint,
  are_more boolean,
  attention bigint
)
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.list_cases(p_search, p_kind, p_deleted, p_before, p_before_id, p_limit);
$$;
comment on function public.list_cases(text, text, boolean, timestamptz, uuid, integer) is
  'Cases the caller may see, newest first, whose name contains p_search; p_deleted shows the bin instead. Goes on '
  'after the case of p_before_id, which came at p_before. role is what the caller is to it. Of its newest hundred '
  'documents it says how many are there and completed, and whether there are_more; of open tasks (attention), up to '
  'a hundred.';
grant execute on function public.list_cases(text, text, boolean, timestamptz, uuid, integer)
  to authenticated, service_role;

create function private.case_contents(p_case_id uuid)
returns table (documents bigint, deleted bigint, pages bigint, files bigint, bytes numeric, statuses jsonb)
language plpgsql
stable
security definer          -- counting through the policies would ask them for every document
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_case_rank(p_case_id, 1);
  return query
  with part as (
    select d.ocr_status::text as status, d.deleted_at is not null as is_deleted, count(*) as documents,
      sum(d.page_count) as pages, count(d.dropbox_path) as files, sum(d.size_bytes) as bytes
    from public.documents as d
    where d.case_id = p_case_id
    group by 1, 2
  )
  select coalesce(sum(p.documents) filter (where not p.is_deleted), 0)::bigint,
    coalesce(sum(p.documents) filter (where p.is_deleted), 0)::bigint,
    coalesce(sum(p.pages), 0)::bigint, coalesce(sum(p.files), 0)::bigint, coalesce(sum(p.bytes), 0),
    coalesce(jsonb_object_agg(p.status, p.documents) filter (where not p.is_deleted), '{}')
  from part as p;
end;
$$;
comment on function private.case_contents(uuid) is 'See public.case_contents.';
grant execute on function private.case_contents(uuid) to authenticated, service_role;

create function public.case_contents(p_case_id uuid)
returns table (documents bigint, deleted bigint, pages bigint, files bigint, bytes numeric, statuses jsonb)
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.case_contents(p_case_id);
$$;
comment on function public.case_contents(uuid) is
  'For the people of a case and HAC: how many documents it has, how many more are in the bin, what all of them '
  'hold, and how many are in which status.';
grant execute on function public.case_contents(uuid) to authenticated, service_role;

create function private.list_case_people(p_case_id uuid)
returns table (user_id uuid, email text, role text, since timestamptz)
language plpgsql
stable
security definer          -- nobody may read auth.users
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_case_rank(p_case_id, 1);
  return query
  select u.id, u.email::text, p.role, p.since
  from (
    select c.user_id, 'owner' as role, c.created_at as since from public.cases as c where c.id = p_case_id
    union all
    select m.user_id, m.role, m.created_at from public.case_members as m where m.case_id = p_case_id
  ) as p
  join auth.users as u on u.id = p.user_id
  order by p.role <> 'owner', u.email::text, u.id
  limit 1000;
end;
$$;
comment on function private.list_case_people(uuid) is 'See public.list_case_people.';
grant execute on function private.list_case_people(uuid) to authenticated, service_role;

create function public.list_case_people(p_case_id uuid)
returns table (user_id uuid, email text, role text, since timestamptz)
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.list_case_people(p_case_id);
$$;
comment on function public.list_case_people(uuid) is
  'For the people of a case and HAC: its owner, and whom it is shared with, by address.';
grant execute on function public.list_case_people(uuid) to authenticated, service_role;

create function private.share_case_by_email(p_case_id uuid, p_email text, p_role text)
returns jsonb
language plpgsql
volatile
security definer          -- nobody may read auth.users
set search_path = pg_catalog, pg_temp
as $$
declare
  v_user_id uuid;
begin
  -- First, so that only who could share the case learns whether somebody has the address.
  perform private.require_case_rank(p_case_id, 3);
  perform private.require_text('p_email', p_email, 300);
  if (p_role in ('viewer', 'editor')) is not true then
    raise exception 'there is no role % in a case', coalesce(p_role, 'null')
      using errcode = '22023', hint = 'Roles are viewer and editor.';
  end if;
  select u.id into v_user_id from auth.users as u
  where u.email = lower(btrim(p_email)) and u.deleted_at is null;
  if not found then
    return jsonb_build_object(
      'success', false, 'error', 'PERSON_NOT_FOUND', 'case_id', p_case_id,
      'message', 'nobody with this address can sign in; ask an administrator to add them'
    );
  end if;
  if exists (select 1 from public.cases as c where c.id = p_case_id and c.user_id = v_user_id) then
    return jsonb_build_object(
      'success', false, 'error', 'ALREADY_OWNER', 'case_id', p_case_id, 'message', 'it is this person''s own case'
    );
  end if;
  return private.share_case(p_case_id, v_user_id, p_role);
end;
$$;
comment on function private.share_case_by_email(uuid, text, text) is 'See public.share_case_by_email.';
grant execute on function private.share_case_by_email(uuid, text, text) to authenticated, service_role;

create function public.share_case_by_email(p_case_id uuid, p_email text, p_role text default 'viewer')
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.share_case_by_email(p_case_id, p_email, p_role);
$$;
comment on function public.share_case_by_email(uuid, text, text) is
  'Owner or HAC: share_case with whoever signs in with this address.';
grant execute on function public.share_case_by_email(uuid, text, text) to authenticated, service_role;

create function private.restore_case(p_case_id uuid, p_now timestamptz default now())
returns jsonb
language plpgsql
volatile
security definer          -- people hold no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_case public.cases;
  v_ids uuid[];
begin
  perform private.require_case_rank(p_case_id, 3);
  select c.* into v_case from public.cases as c where c.id = p_case_id for update;
  if not found then
    return jsonb_build_object(
      'success', false, 'error', 'CASE_NOT_FOUND', 'case_id', p_case_id, 'message', 'there is no such case'
    );
  end if;
  if v_case.deleted_at is null then
    return jsonb_build_object(
      'success', false, 'error', 'WRONG_STATE', 'case_id', p_case_id, 'message', 'the case is not in the bin'
    );
  end if;
  update public.cases as c set deleted_at = null, updated_at = p_now where c.id = p_case_id;
  -- Those that were put away with it; what was in the bin before stays there, and of a name there is one.
  perform 1 from public.documents as d where d.case_id = p_case_id order by d.id for update;
  v_ids := array(
    select distinct on (d.name) d.id from public.documents as d
    where d.case_id = p_case_id and d.deleted_at >= v_case.deleted_at
      and not exists (
        select 1 from public.documents as o
        where o.case_id = p_case_id and o.name = d.name and o.deleted_at is null
      )
    order by d.name, d.document_version desc
  );
  update public.documents as d set deleted_at = null, updated_at = p_now where d.id = any (v_ids);
  perform private.log_act(p_case_id, d.id, 'restored', d.name) from public.documents as d where d.id = any (v_ids);
  perform private.log_act(p_case_id, null, 'case_restore', format('%s documents', cardinality(v_ids)));
  return jsonb_build_object('success', true, 'case_id', p_case_id, 'documents', cardinality(v_ids));
end;
$$;
comment on function private.restore_case(uuid, timestamptz) is 'See public.restore_case.';
grant execute on function private.restore_case(uuid, timestamptz) to authenticated, service_role;

create function public.restore_case(p_case_id uuid)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.restore_case(p_case_id);
$$;
comment on function public.restore_case(uuid) is
  'Owner or HAC: take a deleted case back, with the documents that were put away with it.';
grant execute on function public.restore_case(uuid) to authenticated, service_role;
