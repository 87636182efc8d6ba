-- Purpose:  people, as HAC sees them: who can sign in, and who is one of HAC.
-- Affects:  creates list_people.
-- Locks:    none that anybody could notice.

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
