-- Case actions: cancel, delete, restore or erase a case with its documents; lists of cases.
--
-- cancel stops unfinished documents; delete moves the case and its documents to the bin, restore
-- brings both back; erase permanently removes them with files and texts. end_case() implements cancel,
-- delete and erase: it locks the case, then its documents by id, the order that all functions use.
--
-- Creating and sharing cases are in cases, actions on one document in document_actions.

create function private.end_case(p_case_id uuid, p_how text, p_now timestamptz default now())
returns public.case_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_ids uuid[];
  v_answer public.case_answer;
begin
  perform private.require_case_rank(p_case_id, 3);
  perform 1 from public.cases as c
  where c.id = p_case_id and (p_how <> 'cancel' or c.deleted_at is null) for update;
  if not found then
    return private.case_refusal('CASE_NOT_FOUND', p_case_id);
  end if;
  v_ids := array(
    select d.id from public.documents as d
    where d.case_id = p_case_id
      and (p_how = 'erase' or d.deleted_at is null)
      and (p_how <> 'cancel' or d.ocr_status not in ('completed', 'cancelled', 'failed'))
    order by d.id
    for update
  );
  v_answer.documents := cardinality(v_ids);
  if p_how = 'erase' then
    perform private.erase(p_case_id, v_ids);
  else
    for v_document in
      select d.* from public.documents as d
      where d.id = any (v_ids) and d.ocr_status not in ('completed', 'cancelled', 'failed')
      order by d.id
    loop
      perform private.cancel(v_document, case p_how when 'cancel' then 'the case was cancelled' else 'deleted' end, p_now);
    end loop;
  end if;
  if p_how = 'delete' then
    -- In one statement: a loop over 100,000 documents would take minutes.
    perform private.close_dead_letter_and_tasks(t.document_id) from (
      select distinct t.document_id from public.tasks as t
      where t.case_id = p_case_id and t.document_id = any (v_ids) and t.status in ('pending', 'in_progress')
    ) as t;
    update public.documents as d set deleted_at = clock_timestamp(), updated_at = p_now where d.id = any (v_ids);
    perform private.log_act(p_case_id, d.id, 'deleted', d.name) from public.documents as d where d.id = any (v_ids);
  end if;
  -- The case has no queued documents left; later uploads start with a fresh turn.
  delete from private.fair_turns as t where t.case_id = p_case_id;
  if p_how = 'delete' then
    -- A second delete keeps the first time, because restore_case finds the documents by it.
    update public.cases as c set deleted_at = coalesce(c.deleted_at, p_now), updated_at = p_now where c.id = p_case_id;
  elsif p_how = 'erase' then
    delete from public.cases as c where c.id = p_case_id;
  end if;
  perform private.log_act(p_case_id, null, 'case_' || p_how, format('%s documents', v_answer.documents));
  v_answer.success := true;
  v_answer.case_id := p_case_id;
  return v_answer;
end;
$$;
comment on function private.end_case(uuid, text, timestamptz) is 'Cancel, delete or erase a case with its documents.';
grant execute on function private.end_case(uuid, text, timestamptz) to authenticated, service_role;

create function public.cancel_case(p_case_id uuid)
returns public.case_answer
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.end_case(p_case_id, 'cancel');
$$;
comment on function public.cancel_case(uuid) is 'Owner or HAC: cancel every unfinished document of a case.';
grant execute on function public.cancel_case(uuid) to authenticated, service_role;

create function public.delete_case(p_case_id uuid)
returns public.case_answer
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.end_case(p_case_id, 'delete');
$$;
comment on function public.delete_case(uuid) is 'Owner or HAC: move a case and its documents to the bin.';
grant execute on function public.delete_case(uuid) to authenticated, service_role;

create function public.erase_case(p_case_id uuid)
returns public.case_answer
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.end_case(p_case_id, 'erase');
$$;
comment on function public.erase_case(uuid) is
  'Owner or HAC: permanently remove a case with its documents, files and texts. Audit entries are kept.';
grant execute on function public.erase_case(uuid) to authenticated, service_role;

create function private.restore_case(p_case_id uuid, p_now timestamptz default now())
returns public.case_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_case public.cases;
  v_ids uuid[];
  v_answer public.case_answer;
begin
  perform private.require_case_rank(p_case_id, 3);
  select c.* into v_case from public.cases as c where c.id = p_case_id for update;
  if not found then
    return private.case_refusal('CASE_NOT_FOUND', p_case_id);
  end if;
  if v_case.deleted_at is null then
    return private.case_refusal('WRONG_STATE', p_case_id);
  end if;
  update public.cases as c set deleted_at = null, updated_at = p_now where c.id = p_case_id;
  -- Restore the documents deleted with the case, not those deleted before it, and one document of each name.
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
  v_answer.success := true;
  v_answer.case_id := p_case_id;
  v_answer.documents := cardinality(v_ids);
  return v_answer;
end;
$$;
comment on function private.restore_case(uuid, timestamptz) is 'See public.restore_case.';
grant execute on function private.restore_case(uuid, timestamptz) to authenticated, service_role;

create type public.listed_case as (
  case_id uuid,
  name text,
  kind text,
  is_inbox boolean,
  owner_email text,
  role text,
  created_at timestamptz,
  documents bigint,
  completed bigint,
  has_more boolean,
  attention bigint
);
comment on type public.listed_case is
  'A case in a list. role is the caller''s role; documents and completed are counts over the 100 newest documents of '
  'the case; has_more is true if it may have more; attention is the number of open tasks, capped at 100. Nullable: '
  'owner_email.';

create function private.list_cases(
  p_search text,
  p_kind text,
  p_deleted boolean,
  p_before timestamptz,
  p_before_id uuid,
  p_limit integer
)
returns setof public.listed_case
language plpgsql
stable
security definer          -- callers may not read auth.users or tasks
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
    raise exception 'p_deleted must be true or false' using errcode = '22023', hint = 'Pass true to list deleted cases.';
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
  -- Count only the newest hundred documents of each case, so that the cost of a page has a bound.
  return query
  select c.id, c.name, c.kind, c.is_inbox, u.email::text,
    case when c.user_id = auth.uid() then 'owner' else coalesce(m.role, 'hac') end,
    c.created_at, n.documents, n.completed, n.has_more, t.open
  from public.cases as c
  left join auth.users as u on u.id = c.user_id
  left join public.case_members as m on m.case_id = c.id and m.user_id = auth.uid()
  cross join lateral (
    select count(*) filter (where k.is_there) as documents,
      count(*) filter (where k.is_there and k.ocr_status = 'completed') as completed, count(*) = 100 as has_more
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

create type public.case_contents_answer as (
  documents bigint,
  deleted bigint,
  pages bigint,
  files bigint,
  bytes numeric,
  statuses jsonb
);
comment on type public.case_contents_answer is
  'The contents of a case: documents in it and in the bin (deleted), their pages, files and bytes, and the number of '
  'documents in each status.';

create function private.case_contents(p_case_id uuid)
returns setof public.case_contents_answer
language plpgsql
stable
security definer          -- policies would be evaluated for every document counted
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

create type public.case_person as (
  user_id uuid,
  email text,
  role text,
  since timestamptz
);
comment on type public.case_person is
  'The owner of a case, or a user it is shared with. Nullable: email.';

create function private.list_case_people(p_case_id uuid)
returns setof public.case_person
language plpgsql
stable
security definer          -- callers may not read auth.users
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

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.restore_case(p_case_id uuid)
returns public.case_answer
language sql volatile security invoker set search_path = ''
as $$ select private.restore_case(p_case_id) $$;
comment on function public.restore_case(uuid) is
  'Owner or HAC: restore a deleted case with the documents that were deleted with it.';
grant execute on function public.restore_case(uuid) to authenticated, service_role;

create function public.list_cases(
  p_search text default null,
  p_kind text default null,
  p_deleted boolean default false,
  p_before timestamptz default null,
  p_before_id uuid default null,
  p_limit integer default 50
)
returns setof public.listed_case
language sql stable security invoker set search_path = ''
as $$ select * from private.list_cases(p_search, p_kind, p_deleted, p_before, p_before_id, p_limit) $$;
comment on function public.list_cases(text, text, boolean, timestamptz, uuid, integer) is
  'Cases the caller may see, newest first, whose name contains p_search; p_deleted lists deleted cases instead. Continues '
  'after the case p_before_id, created at p_before.';
grant execute on function public.list_cases(text, text, boolean, timestamptz, uuid, integer)
  to authenticated, service_role;

create function public.case_contents(p_case_id uuid)
returns setof public.case_contents_answer
language sql stable security invoker set search_path = ''
as $$ select * from private.case_contents(p_case_id) $$;
comment on function public.case_contents(uuid) is
  'Members of the case and HAC: the number of its documents, documents in the bin, pages, files and bytes, and of '
  'documents in each status.';
grant execute on function public.case_contents(uuid) to authenticated, service_role;

create function public.list_case_people(p_case_id uuid)
returns setof public.case_person
language sql stable security invoker set search_path = ''
as $$ select * from private.list_case_people(p_case_id) $$;
comment on function public.list_case_people(uuid) is
  'Members of the case and HAC: its owner and the users it is shared with, ordered by address.';
grant execute on function public.list_case_people(uuid) to authenticated, service_role;
