-- Purpose:  what people look at: documents page by page, results hour by hour.
-- Affects:  creates list_documents, results_by_hour, five indexes on documents; installs pg_trgm.
-- Locks:    documents against writing while the indexes are built: seconds for a million rows.

create extension if not exists pg_trgm with schema extensions;

-- None of these columns changes while a document is read, so claims and completions still touch no index.
create index documents_created_idx on public.documents (created_at, id);
create index documents_case_created_idx on public.documents (case_id, created_at, id);
create index documents_lane_created_idx on public.documents (lane, created_at, id);
create index documents_bin_idx on public.documents (created_at, id) where deleted_at is not null;
create index documents_name_idx on public.documents using gin (lower(name) extensions.gin_trgm_ops);

create function private.listed_ids(p_status text, p_max integer)
returns uuid[]
language sql
stable
security invoker
set search_path = ''
set enable_seqscan = off   -- an empty list is a full one tomorrow
as $$
  select array(
    select a.document_id from private.set_aside as a where a.ocr_status = p_status
    union all
    select q.document_id from private.queue as q where p_status = 'queued'
    union all
    select l.document_id from private.later as l where p_status = 'queued'
    union all
    select i.id from unnest(private.claimed_ids()) as i (id) where p_status = 'processing'
    limit p_max
  );
$$;
comment on function private.listed_ids(text, integer) is
  'Documents that may have this status, from the lists that are kept of them; of completed ones there is none.';

create function private.list_documents(
  p_case_id uuid,
  p_status text,
  p_lane text,
  p_name text,
  p_deleted boolean,
  p_before timestamptz,
  p_before_id uuid,
  p_limit integer
)
returns table (
  document_id uuid,
  case_id uuid,
  case_name text,
  name text,
  lane text,
  ocr_status text,
  page_count integer,
  created_at timestamptz,
  ocr_completed_at timestamptz
)
language plpgsql
stable
security definer          -- the lists are nobody's to read, and behind a policy the index of names cannot be used
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  c_most constant integer := 20000;   -- more than that are quickly met on the way through all
  v_all boolean := private.is_admin() or private.is_service();
  v_cases uuid[] := case
    when p_case_id is not null then array[p_case_id]
    when not v_all then array(select private.my_case_ids())
  end;
  v_ids uuid[];
  v_filter text := $filter$
    (d.created_at, d.id) < ($1, $2) and (d.deleted_at is not null) = $3
    and ($4 is null or d.ocr_status = $4 or ($4 = 'queued' and d.ocr_status = 'queued_for_pdf'))
    and ($5 is null or d.lane = $5)
    and ($6 is null or lower(d.name) like $6)
  $filter$;
  v_documents text;
begin
  if (p_limit between 1 and 200) is not true then
    raise exception 'p_limit must be 1 to 200' using errcode = '22023', hint = 'Read the list page by page.';
  end if;
  if p_deleted is null then
    raise exception 'p_deleted must be true or false' using errcode = '22023', hint = 'Look into the bin, or not.';
  end if;
  if length(p_name) > 1000 then
    raise exception 'p_name must be at most 1000 characters' using errcode = '22023', hint = 'Look for a part of the name.';
  end if;
  if p_case_id is not null and not v_all and private.case_rank(p_case_id) < 1 then
    return;
  end if;
  if private.list_of(p_status) is not null or p_status = 'processing' then
    v_ids := private.listed_ids(p_status, c_most);
  end if;
  -- What narrows most comes first: the planner, who does not know the arguments, would not find out.
  if cardinality(v_ids) < c_most then
    v_documents := 'select d.* from public.documents as d where d.id = any ($9) and ($7 is null or d.case_id = any ($7)) and' || v_filter;
  elsif length(p_name) >= 3 then
    v_documents := 'select d.* from public.documents as d where ($7 is null or d.case_id = any ($7)) and' || v_filter;
  elsif length(p_name) > 0 then
    -- No index knows so little: the newest will do.
    v_documents := 'select d.* from (select d.* from public.documents as d where ($7 is null or d.case_id = any ($7))'
      || ' and (d.created_at, d.id) < ($1, $2) order by d.created_at desc, d.id desc limit 1000) as d where' || v_filter;
  elsif v_cases is not null then
    v_documents := 'select d.* from unnest($7) as c (id) cross join lateral (select d.* from public.documents as d where d.case_id = c.id and'
      || v_filter || 'order by d.created_at desc, d.id desc limit $8) as d';
  else
    v_documents := 'select d.* from public.documents as d where' || v_filter;
  end if;
  return query execute format(
    'select d.id, d.case_id, c.name::text, d.name::text, d.lane::text, d.ocr_status::text, d.page_count::integer,
       d.created_at, d.ocr_completed_at
     from (%s order by created_at desc, id desc limit $8) as d join public.cases as c on c.id = d.case_id
     order by d.created_at desc, d.id desc',
    v_documents
  )
  using coalesce(p_before, 'infinity'), coalesce(p_before_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'), p_deleted,
    p_status, p_lane, private.like_part(p_name), v_cases, p_limit, v_ids;
end;
$$;
comment on function private.list_documents(uuid, text, text, text, boolean, timestamptz, uuid, integer) is
  'See public.list_documents.';
grant execute on function private.list_documents(uuid, text, text, text, boolean, timestamptz, uuid, integer)
  to authenticated, service_role;

create function private.like_part(p_text text)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select '%' || regexp_replace(lower(p_text), '([\\%_])', '\\\1', 'g') || '%';
$$;
comment on function private.like_part(text) is 'The pattern of what contains this text, in lower case.';

create function public.list_documents(
  p_case_id uuid default null,
  p_status text default null,
  p_lane text default null,
  p_name text default null,
  p_deleted boolean default false,
  p_before timestamptz default null,
  p_before_id uuid default null,
  p_limit integer default 50
)
returns table (
  document_id uuid,
  case_id uuid,
  case_name text,
  name text,
  lane text,
  ocr_status text,
  page_count integer,
  created_at timestamptz,
  ocr_completed_at timestamptz
)
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.list_documents(p_case_id, p_status, p_lane, p_name, p_deleted, p_before, p_before_id, p_limit);
$$;
comment on function public.list_documents(uuid, text, text, text, boolean, timestamptz, uuid, integer) is
  'Documents the caller may see, newest first, whose name contains p_name. Goes on after the document of '
  'p_before_id, which came at p_before. The status queued finds queued_for_pdf, too. p_deleted shows the bin instead. '
  'A name of one or two characters is looked for among the newest 1000 documents.';
grant execute on function public.list_documents(uuid, text, text, text, boolean, timestamptz, uuid, integer)
  to authenticated, service_role;

create function private.results_by_hour(p_hours integer, p_now timestamptz default now())
returns table (
  hour timestamptz,
  completed bigint,
  dead_lettered bigint,
  retries bigint,
  avg_seconds_to_text double precision
)
language plpgsql
stable
security definer          -- reads what the caller may not, after asking who it is
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  v_from timestamptz := date_trunc('hour', p_now) - make_interval(hours => p_hours - 1);
  v_closed timestamptz := coalesce(
    (select max(h.hour) + interval '1 hour' from private.hourly_results as h), p_now - interval '8 days'
  );
begin
  if auth.role() is not null and not private.is_service() and not private.is_admin() then
    raise exception 'the results of the system are for HAC only'
      using errcode = '42501', hint = 'Ask an administrator to give you the role "admin".';
  end if;
  if (p_hours between 1 and 720) is not true then
    raise exception 'p_hours must be 1 to 720' using errcode = '22023', hint = 'Ask for the last month at most.';
  end if;
  return query
  with result as materialized (
    select * from private.hourly_results as h where h.hour >= v_from
    union all
    select * from private.sum_up_results(greatest(v_closed, v_from), 'infinity')
  ),
  dead as materialized (
    select date_trunc('hour', l.created_at) as hour, count(*) as letters
    from public.ocr_dead_letter as l where l.created_at >= v_from group by 1
  )
  select s.hour, coalesce(r.completed, 0), coalesce(x.letters, 0), coalesce(r.retries, 0),
    r.seconds_to_text / nullif(r.completed, 0)
  from generate_series(v_from, date_trunc('hour', p_now), interval '1 hour') as s (hour)
  left join result as r on r.hour = s.hour
  left join dead as x on x.hour = s.hour
  order by s.hour;
end;
$$;
comment on function private.results_by_hour(integer, timestamptz) is 'See public.results_by_hour.';
grant execute on function private.results_by_hour(integer, timestamptz) to authenticated, service_role;

create function public.results_by_hour(p_hours integer default 24)
returns table (
  hour timestamptz,
  completed bigint,
  dead_lettered bigint,
  retries bigint,
  avg_seconds_to_text double precision
)
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.results_by_hour(p_hours);
$$;
comment on function public.results_by_hour(integer) is
  'For HAC: what was completed and given up in each of the last hours, the present one included, oldest first.';
grant execute on function public.results_by_hour(integer) to authenticated, service_role;
