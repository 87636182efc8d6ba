-- Lists of documents, and the progress of one document.
--
-- list_documents pages through the documents the caller may see, newest first, with keyset pagination
-- (p_before, p_before_id). It builds its query around the most selective filter, which a generic plan
-- cannot know: the queue's tables for a status with few documents, the trigram index
-- for a name, the index of the case otherwise.
--
-- document_progress estimates the remaining time from recent results of the lane. Search in the text of
-- documents is in search, and the history of a document in document_actions.

create function private.document_ids_by_status(p_status text, p_max integer)
returns uuid[]
language sql
stable
security invoker
set search_path = ''
set enable_seqscan = off   -- statistics of these tables are outdated quickly
as $$
  select array(
    select a.document_id from private.queue_parked as a where a.ocr_status = p_status
    union all
    select q.document_id from private.queue as q where p_status = 'queued'
    union all
    select l.document_id from private.queue_delayed as l where p_status = 'queued'
    union all
    select i.id from unnest(private.claimed_ids()) as i (id) where p_status = 'processing'
    limit p_max
  );
$$;
comment on function private.document_ids_by_status(text, integer) is
  'Ids of the documents with this status, from the queue tables, which do not contain completed documents.';

create type public.listed_document as (
  document_id uuid,
  case_id uuid,
  case_name text,
  name text,
  lane text,
  ocr_status text,
  page_count integer,
  created_at timestamptz,
  ocr_completed_at timestamptz
);
comment on type public.listed_document is
  'A document in a list. Nullable: page_count, ocr_completed_at.';

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
returns setof public.listed_document
language plpgsql
stable
security definer          -- users have no privileges on the queue; a policy would prevent the use of the trigram index
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  c_most constant integer := 20000;   -- with more, a scan by creation time is faster
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
    raise exception 'p_limit must be between 1 and 200' using errcode = '22023', hint = 'Use pagination.';
  end if;
  if p_deleted is null then
    raise exception 'p_deleted must be true or false' using errcode = '22023', hint = 'Pass true to list deleted documents.';
  end if;
  if length(p_name) > 1000 then
    raise exception 'p_name must be at most 1000 characters' using errcode = '22023', hint = 'Search for part of the name.';
  end if;
  if p_case_id is not null and not v_all and private.case_rank(p_case_id) < 1 then
    return;
  end if;
  if private.list_of(p_status) is not null or p_status = 'processing' then
    v_ids := private.document_ids_by_status(p_status, c_most);
  end if;
  -- The most selective condition comes first: the planner does not know the arguments.
  if cardinality(v_ids) < c_most then
    v_documents := 'select d.* from public.documents as d where d.id = any ($9) and ($7 is null or d.case_id = any ($7)) and' || v_filter;
  elsif length(p_name) >= 3 then
    v_documents := 'select d.* from public.documents as d where ($7 is null or d.case_id = any ($7)) and' || v_filter;
  elsif length(p_name) > 0 then
    -- Too short for the trigram index: search the newest documents only.
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
    p_status, p_lane, private.like_pattern(p_name), v_cases, p_limit, v_ids;
end;
$$;
comment on function private.list_documents(uuid, text, text, text, boolean, timestamptz, uuid, integer) is
  'See public.list_documents.';
grant execute on function private.list_documents(uuid, text, text, text, boolean, timestamptz, uuid, integer)
  to authenticated, service_role;

create function private.mean_processing_seconds(p_lane text, p_now timestamptz)
returns numeric
language sql
stable
security invoker
set search_path = ''
as $$
  -- The last hundred results of the last hour: recent, and enough to level out single files.
  select avg(r.processing_time_ms) / 1000.0
  from (
    select l.processing_time_ms
    from public.ocr_processing_logs as l
    join public.documents as d on d.id = l.document_id
    where l.created_at > p_now - interval '1 hour' and d.lane = p_lane
    order by l.created_at desc
    limit 100
  ) as r;
$$;
comment on function private.mean_processing_seconds(text, timestamptz) is
  'Mean processing time of recent documents in a lane; null if there are none.';

create function private.documents_ahead(p_document public.documents)
returns integer
language sql
stable
security invoker
set search_path = ''
as $$
  -- Counting stops at 10,000.
  select count(*)::integer from (
    select 1 from private.queue as q
    where q.lane = (p_document).lane
      and (q.urgency, q.turn, q.document_id) < (-(p_document).priority, (p_document).turn, (p_document).id)
    limit 10000
  ) as ahead;
$$;
comment on function private.documents_ahead(public.documents) is
  'The number of documents to be claimed before this one.';

create type public.document_progress_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  case_id uuid,
  name text,
  lane text,
  ocr_status text,
  document_version integer,
  pages_done integer,
  page_count integer,
  attempts integer,
  retry_at timestamptz,
  ahead integer,
  seconds_left integer,
  created_at timestamptz,
  claimed_at timestamptz,
  completed_at timestamptz
);
comment on type public.document_progress_answer is
  'The progress of a document. error is the last OCR error, or why no progress is returned. Nullable: error, message, '
  'case_id, name, lane, ocr_status, document_version, pages_done, page_count, attempts, retry_at, ahead, '
  'seconds_left, created_at, claimed_at, completed_at.';

create function private.document_progress(p_document_id uuid, p_now timestamptz default now())
returns public.document_progress_answer
language plpgsql
stable
security definer          -- users have no privileges on the queue
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_each numeric;
  v_workers integer;
  v_answer public.document_progress_answer;
begin
  select d.* into v_document from public.documents as d where d.id = p_document_id;
  perform private.require_case_rank(v_document.case_id, 1);
  if v_document.id is null then
    return private.refused(v_answer, 'DOCUMENT_NOT_FOUND', p_document_id);
  end if;
  select count(*) into v_answer.pages_done from public.ocr_pages as o
  where o.run_id = coalesce(v_document.open_run_id, v_document.run_id) and o.status <> 'failed';
  if v_document.ocr_status in ('queued', 'queued_for_pdf', 'processing') then
    v_each := private.mean_processing_seconds(v_document.lane, p_now);
    select greatest(count(*), 1) into v_workers from private.claims;
  end if;
  if v_document.ocr_status in ('queued', 'queued_for_pdf') then
    v_answer.ahead := private.documents_ahead(v_document);
  end if;
  v_answer.success := true;
  v_answer.error := v_document.ocr_error;
  v_answer.document_id := v_document.id;
  v_answer.case_id := v_document.case_id;
  v_answer.name := v_document.name;
  v_answer.lane := v_document.lane;
  v_answer.ocr_status := v_document.ocr_status;
  v_answer.document_version := v_document.document_version;
  v_answer.page_count := v_document.page_count;
  v_answer.attempts := v_document.attempts;
  v_answer.retry_at := v_document.retry_at;
  v_answer.seconds_left := case
    when v_document.ocr_status = 'processing' then round(
      greatest(v_each - extract(epoch from p_now - v_document.claimed_at), 0)
    )
    when v_answer.ahead is not null then round(v_each * (v_answer.ahead / v_workers + 1))
  end;
  v_answer.created_at := v_document.created_at;
  v_answer.claimed_at := v_document.claimed_at;
  v_answer.completed_at := v_document.ocr_completed_at;
  return v_answer;
end;
$$;
comment on function private.document_progress(uuid, timestamptz) is 'See public.document_progress.';
grant execute on function private.document_progress(uuid, timestamptz) to authenticated, service_role;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

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
returns setof public.listed_document
language sql stable security invoker set search_path = ''
as $$ select * from private.list_documents(p_case_id, p_status, p_lane, p_name, p_deleted, p_before, p_before_id, p_limit) $$;
comment on function public.list_documents(uuid, text, text, text, boolean, timestamptz, uuid, integer) is
  'Documents the caller may see, newest first, whose name contains p_name. Continues after the document '
  'p_before_id, created at p_before. The status queued includes queued_for_pdf. p_deleted lists deleted documents instead. '
  'A p_name of one or two characters searches only the newest 1000 documents.';
grant execute on function public.list_documents(uuid, text, text, text, boolean, timestamptz, uuid, integer)
  to authenticated, service_role;

create function public.document_progress(p_document_id uuid)
returns public.document_progress_answer
language sql stable security invoker set search_path = ''
as $$ select private.document_progress(p_document_id) $$;
comment on function public.document_progress(uuid) is
  'Progress of a document: status, pages read, documents ahead, estimated seconds left.';
grant execute on function public.document_progress(uuid) to authenticated, service_role;
