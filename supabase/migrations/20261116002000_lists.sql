-- Purpose:  what people look at: documents page by page, results hour by hour.
-- Affects:  creates list_documents, results_by_hour, two indexes on documents.
-- Locks:    documents against writing while the indexes are built: seconds for a million rows.

-- Neither column ever changes, so claims and completions still touch no index.
create index documents_created_idx on public.documents (created_at, id);
create index documents_case_created_idx on public.documents (case_id, created_at, id);

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
language plpgsql
stable
security invoker
set search_path = ''
as $$
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
  return query
  select d.id, d.case_id, c.name::text, d.name::text, d.lane::text, d.ocr_status::text, d.page_count::integer,
    d.created_at, d.ocr_completed_at
  from public.documents as d
  join public.cases as c on c.id = d.case_id
  where (d.created_at, d.id) < (
      coalesce(p_before, 'infinity'), coalesce(p_before_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    )
    and (d.deleted_at is not null) = p_deleted
    and (p_case_id is null or d.case_id = p_case_id)
    and (p_status is null or d.ocr_status = p_status or (p_status = 'queued' and d.ocr_status = 'queued_for_pdf'))
    and (p_lane is null or d.lane = p_lane)
    and (p_name is null or position(lower(p_name) in lower(d.name)) > 0)
  order by d.created_at desc, d.id desc
  limit p_limit;
end;
$$;
comment on function public.list_documents(uuid, text, text, text, boolean, timestamptz, uuid, integer) is
  'Documents the caller may see, newest first, whose name contains p_name. Goes on after the document of '
  'p_before_id, which came at p_before. The status queued finds queued_for_pdf, too. p_deleted shows the bin instead.';
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
