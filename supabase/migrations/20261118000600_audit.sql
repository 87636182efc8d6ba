-- Audit log: an entry for every user action and every automatic decision.
--
-- hac_acts is the table; log_act() writes it. hac_logs, which the seeds name, is a view that adds an
-- entry for every completion, taken from the results. Entries have no foreign keys, because they
-- outlive the objects they describe.
--
-- list_acts() reads both by index, newest first: find_acts() and find_results() each take the newest
-- p_limit entries that match, and list_acts() merges them.

create table public.hac_acts (
  id uuid not null default gen_random_uuid(),
  case_id uuid,
  document_id uuid,
  user_id uuid,
  action_type text not null,
  action_description text,
  field_changed text,
  old_value text,
  new_value text,
  metadata jsonb,
  created_at timestamptz not null default now(),
  constraint hac_acts_pkey primary key (id)
);
comment on table public.hac_acts is
  'An entry for every user action and every automatic decision except results. Entries outlive the objects they '
  'describe, so there are no foreign keys. Read them through hac_logs.';
comment on column public.hac_acts.user_id is 'The user who performed the action; null for services and operators.';
alter table public.hac_acts enable row level security;
create policy "Acts are visible to the people of the case and to HAC"
  on public.hac_acts for select to authenticated
  using ((select private.is_admin()) or case_id in (select private.my_case_ids()));
grant select on public.hac_acts to authenticated, service_role;
create index hac_acts_created_idx on public.hac_acts (created_at, id);
create index hac_acts_case_created_idx on public.hac_acts (case_id, created_at, id);
create index hac_acts_document_idx on public.hac_acts (document_id, created_at, id) where document_id is not null;
create index hac_acts_user_idx on public.hac_acts (user_id, created_at, id) where user_id is not null;
create index hac_acts_action_idx on public.hac_acts (action_type, created_at, id);

-- An automatic completion is stored once, as a result; the view shows it as an entry.
create view public.hac_logs
with (security_invoker = true)
as
select a.id, a.case_id, a.document_id, a.user_id, a.action_type, a.action_description,
  a.field_changed, a.old_value, a.new_value, a.metadata, a.created_at
from public.hac_acts as a
union all
select r.id, d.case_id, r.document_id, null, 'ocr_completed',
  format('OCR completed for %s (confidence: %s%%)', d.name, coalesce(round(r.confidence_score * 100, 2)::text, 'unknown')),
  'ocr_status', null, 'completed', null, r.created_at
from public.ocr_processing_logs as r
join public.documents as d on d.id = r.document_id;
comment on view public.hac_logs is
  'The audit log: an entry for every automatic completion and every user action. '
  'Nullable: case_id, document_id, user_id, action_description, field_changed, old_value, new_value, metadata.';
grant select on public.hac_logs to authenticated, service_role;

create function private.insert_hac_log()
returns trigger
language plpgsql
security invoker
set search_path = ''
as $$
begin
  insert into public.hac_acts (
    case_id, document_id, user_id, action_type, action_description, field_changed, old_value, new_value, metadata
  )
  values (
    new.case_id, new.document_id, coalesce(new.user_id, auth.uid()), new.action_type, new.action_description,
    new.field_changed, new.old_value, new.new_value, new.metadata
  );
  return new;
end;
$$;
comment on function private.insert_hac_log() is 'Redirect inserts into the view to hac_acts.';
create trigger hac_logs_insert
  instead of insert on public.hac_logs
  for each row execute function private.insert_hac_log();

create function private.log_act(
  p_case_id uuid,
  p_document_id uuid,
  p_action_type text,
  p_description text,
  p_old text default null,
  p_new text default null,
  p_metadata jsonb default null
)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  insert into public.hac_acts (
    case_id, document_id, user_id, action_type, action_description, field_changed, old_value,
    new_value, metadata
  )
  values (
    p_case_id, p_document_id, auth.uid(), p_action_type, p_description,
    case when coalesce(p_old, p_new) is not null then 'ocr_status' end, p_old, p_new, p_metadata
  );
$$;
comment on function private.log_act(uuid, uuid, text, text, text, text, jsonb) is
  'Write an audit log entry; p_old and p_new are the old and new status.';

create type private.acts_filter as (
  user_id uuid,
  action_type text,
  case_ids uuid[],
  document_id uuid,
  since timestamptz,
  before timestamptz,
  before_id uuid,
  rows integer
);
comment on type private.acts_filter is
  'Filter for the audit log. If case_ids is null, it matches entries of all cases and entries without a case. '
  'Continues after the entry before_id, created at before.';

create function private.find_acts(p_filter private.acts_filter)
returns setof public.hac_acts
language plpgsql
stable
security invoker
set search_path = ''
set plan_cache_mode = force_custom_plan   -- each filter has an index of its own, in the order of the lines
set enable_bitmapscan = off
as $$
declare
  v_cases uuid[] := p_filter.case_ids;
  v_user uuid := p_filter.user_id;
  v_action text := p_filter.action_type;
  v_document uuid := p_filter.document_id;
  v_since timestamptz := p_filter.since;
  v_before timestamptz := p_filter.before;
  v_before_id uuid := p_filter.before_id;
  v_rows integer := p_filter.rows;
begin
  if v_cases is null or v_document is not null then
    return query
    select a.* from public.hac_acts as a
    where (a.created_at, a.id) < (v_before, v_before_id) and a.created_at >= v_since
      and (v_user is null or a.user_id = v_user)
      and (v_action is null or a.action_type = v_action)
      and (v_document is null or a.document_id = v_document)
      and (v_cases is null or a.case_id = any (v_cases))
    order by a.created_at desc, a.id desc
    limit v_rows;
  else
    return query
    select f.*
    from unnest(v_cases) as c (id)
    cross join lateral (
      select a.* from public.hac_acts as a
      where a.case_id = c.id
        and (a.created_at, a.id) < (v_before, v_before_id) and a.created_at >= v_since
        and (v_user is null or a.user_id = v_user)
        and (v_action is null or a.action_type = v_action)
      order by a.created_at desc, a.id desc
      limit v_rows
    ) as f
    order by f.created_at desc, f.id desc
    limit v_rows;
  end if;
end;
$$;
comment on function private.find_acts(private.acts_filter) is 'The newest matching entries of hac_acts.';

create function private.find_results(p_filter private.acts_filter)
returns setof public.hac_acts
language plpgsql
stable
security invoker
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
declare
  v_cases uuid[] := p_filter.case_ids;
  v_document uuid := p_filter.document_id;
  v_since timestamptz := p_filter.since;
  v_before timestamptz := p_filter.before;
  v_before_id uuid := p_filter.before_id;
  v_rows integer := p_filter.rows;
  v_ids uuid[];
begin
  -- A few documents are looked up one by one; for many, a scan of the results from the newest on is faster.
  if v_document is not null then
    v_ids := array[v_document];
  elsif v_cases is not null then
    v_ids := array(select d.id from public.documents as d where d.case_id = any (v_cases) limit 5001);
    v_ids := case when cardinality(v_ids) <= 5000 then v_ids end;
  end if;
  if v_ids is null then
    return query
    select r.id, d.case_id, r.document_id, null::uuid, 'ocr_completed',
      format('OCR completed for %s (confidence: %s%%)', d.name, coalesce(round(r.confidence_score * 100, 2)::text, 'unknown')),
      'ocr_status', null::text, 'completed', null::jsonb, r.created_at
    from public.ocr_processing_logs as r
    join public.documents as d on d.id = r.document_id
    where (r.created_at, r.id) < (v_before, v_before_id) and r.created_at >= v_since
      and (v_cases is null or d.case_id = any (v_cases))
    order by r.created_at desc, r.id desc
    limit v_rows;
  else
    -- Lateral, not a condition: for a condition the planner may scan all results.
    return query
    select r.id, d.case_id, r.document_id, null::uuid, 'ocr_completed',
      format('OCR completed for %s (confidence: %s%%)', d.name, coalesce(round(r.confidence_score * 100, 2)::text, 'unknown')),
      'ocr_status', null::text, 'completed', null::jsonb, r.created_at
    from unnest(v_ids) as i (id)
    cross join lateral (select l.* from public.ocr_processing_logs as l where l.document_id = i.id offset 0) as r
    join public.documents as d on d.id = r.document_id
    where (r.created_at, r.id) < (v_before, v_before_id) and r.created_at >= v_since
      and (v_cases is null or d.case_id = any (v_cases))
    order by r.created_at desc, r.id desc
    limit v_rows;
  end if;
end;
$$;
comment on function private.find_results(private.acts_filter) is
  'The newest matching results, in the format of hac_logs.';

create type public.listed_act as (
  id uuid,
  created_at timestamptz,
  user_id uuid,
  email text,
  action_type text,
  description text,
  case_id uuid,
  case_name text,
  document_id uuid,
  document_name text,
  field_changed text,
  old_value text,
  new_value text,
  about_email text
);
comment on type public.listed_act is
  'An audit log entry with the names it refers to; about_email is the address of the user whose access was changed. '
  'Nullable: user_id, email, description, case_id, case_name, document_id, document_name, field_changed, old_value, '
  'new_value, about_email.';

create function private.list_acts(
  p_email text,
  p_action_type text,
  p_case_id uuid,
  p_document_id uuid,
  p_since timestamptz,
  p_until timestamptz,
  p_before timestamptz,
  p_before_id uuid,
  p_limit integer
)
returns setof public.listed_act
language plpgsql
stable
security definer          -- policies would prevent the use of indexes; it checks the caller itself
set search_path = pg_catalog, pg_temp
set enable_seqscan = off   -- looks up names row by row
set jit = off              -- before PostgreSQL 18 the cost of a disabled scan is high enough to trigger jit
as $$
declare
  v_all boolean := private.is_admin() or private.is_service();
  v_filter private.acts_filter;
begin
  if (p_limit between 1 and 1000) is not true then
    raise exception 'p_limit must be between 1 and 1000' using errcode = '22023', hint = 'Use pagination.';
  end if;
  perform private.require_optional_text('p_email', nullif(p_email, ''), 300);
  v_filter := (
    null, p_action_type, case when p_case_id is not null then array[p_case_id] end, p_document_id,
    coalesce(p_since, '-infinity'), coalesce(p_before, 'infinity'),
    coalesce(p_before_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'), p_limit
  );
  -- One upper bound: with two, the index scan may start at the wrong one.
  if p_until < v_filter.before then
    v_filter.before := p_until;
    v_filter.before_id := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  end if;
  if not v_all then
    v_filter.case_ids := array(select i.id from private.my_case_ids() as i (id) where p_case_id is null or i.id = p_case_id);
  end if;
  if p_email is not null then
    -- Users may search for their own entries only, so that they cannot probe for addresses.
    select u.id into v_filter.user_id from auth.users as u
    where u.email = lower(btrim(p_email)) and (v_all or u.id = auth.uid());
    if not found then
      return;
    end if;
  end if;
  return query
  with line as materialized (
    select l.* from (
      select a.* from private.find_acts(v_filter) as a where p_action_type is distinct from 'ocr_completed'
      union all
      select r.* from private.find_results(v_filter) as r
      where p_email is null and coalesce(p_action_type, 'ocr_completed') = 'ocr_completed'
    ) as l
    order by l.created_at desc, l.id desc
    limit p_limit
  )
  select l.id, l.created_at, l.user_id,
    (select u.email::text from auth.users as u where u.id = l.user_id and (v_all or u.id = auth.uid())),
    l.action_type, l.action_description, l.case_id, (select c.name from public.cases as c where c.id = l.case_id),
    l.document_id, (select d.name::text from public.documents as d where d.id = l.document_id),
    l.field_changed, l.old_value, l.new_value,
    (
      select u.email::text from auth.users as u
      where v_all and u.id = case
        when l.metadata ->> 'user_id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then (l.metadata ->> 'user_id')::uuid
      end
    )
  from line as l
  order by l.created_at desc, l.id desc;
end;
$$;
comment on function private.list_acts(
  text, text, uuid, uuid, timestamptz, timestamptz, timestamptz, uuid, integer
) is 'See public.list_acts.';
grant execute on function private.list_acts(
  text, text, uuid, uuid, timestamptz, timestamptz, timestamptz, uuid, integer
) to authenticated, service_role;

create function private.list_action_types()
returns setof text
language sql
stable
security definer          -- only the few action types
set search_path = pg_catalog, pg_temp
as $$
  -- A loose index scan: one step for each action type instead of one for each entry.
  with recursive word as (
    (select a.action_type from public.hac_acts as a order by a.action_type limit 1)
    union all
    select (
      select a.action_type from public.hac_acts as a where a.action_type > w.action_type order by a.action_type limit 1
    )
    from word as w where w.action_type is not null
  )
  select w.action_type from word as w where w.action_type is not null
  union
  select 'ocr_completed'
  order by 1;
$$;
comment on function private.list_action_types() is 'See public.list_action_types.';
grant execute on function private.list_action_types() to authenticated, service_role;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.list_acts(
  p_email text default null,
  p_action_type text default null,
  p_case_id uuid default null,
  p_document_id uuid default null,
  p_since timestamptz default null,
  p_until timestamptz default null,
  p_before timestamptz default null,
  p_before_id uuid default null,
  p_limit integer default 50
)
returns setof public.listed_act
language sql stable security invoker set search_path = ''
as $$ select * from private.list_acts(p_email, p_action_type, p_case_id, p_document_id, p_since, p_until, p_before, p_before_id, p_limit) $$;
comment on function public.list_acts(
  text, text, uuid, uuid, timestamptz, timestamptz, timestamptz, uuid, integer
) is
  'The hac_logs entries that the caller may see, newest first, filtered by user address, action, case, document and '
  'time, using indexes. Continues after the entry p_before_id, created at p_before. Only HAC sees the addresses of '
  'other users.';
grant execute on function public.list_acts(
  text, text, uuid, uuid, timestamptz, timestamptz, timestamptz, uuid, integer
) to authenticated, service_role;

create function public.list_action_types()
returns setof text
language sql stable security invoker set search_path = ''
as $$ select private.list_action_types() $$;
comment on function public.list_action_types() is 'All action types in the audit log, for use in filters.';
grant execute on function public.list_action_types() to authenticated, service_role;
