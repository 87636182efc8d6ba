-- Purpose:  tell a client how far its document is, and when it may be done.
-- Affects:  creates document_progress.
-- Locks:    none that anybody could notice.

create function private.seconds_for_a_document(p_lane text, p_now timestamptz)
returns numeric
language sql
stable
security invoker
set search_path = ''
as $$
  -- The last hundred results of the last hour: recent enough for today's load, many enough for one odd file.
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
comment on function private.seconds_for_a_document(text, timestamptz) is
  'How long a document of this lane took lately; null when nobody knows.';

create function private.documents_ahead(p_document public.documents)
returns integer
language sql
stable
security invoker
set search_path = ''
as $$
  -- Beyond ten thousand nobody counts on.
  select count(*)::integer from (
    select 1 from private.queue as q
    where q.lane = (p_document).lane
      and (q.urgency, q.turn, q.document_id) < (-(p_document).priority, (p_document).turn, (p_document).id)
    limit 10000
  ) as ahead;
$$;
comment on function private.documents_ahead(public.documents) is 'How many documents are claimed before this one.';

create function private.document_progress(p_document_id uuid, p_now timestamptz default now())
returns jsonb
language plpgsql
stable
security definer          -- nobody else sees the queue
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_ahead integer;
  v_pages integer;
  v_each numeric;
  v_workers integer;
begin
  select d.* into v_document from public.documents as d where d.id = p_document_id;
  perform private.require_case_rank(v_document.case_id, 1);
  if v_document.id is null then
    return private.refusal('DOCUMENT_NOT_FOUND', p_document_id);
  end if;
  select count(*) into v_pages from public.ocr_pages as o
  where o.run_id = coalesce(v_document.open_run_id, v_document.run_id) and o.status <> 'failed';
  if v_document.ocr_status in ('queued', 'queued_for_pdf', 'processing') then
    v_each := private.seconds_for_a_document(v_document.lane, p_now);
    select greatest(count(*), 1) into v_workers from private.claims;
  end if;
  if v_document.ocr_status in ('queued', 'queued_for_pdf') then
    v_ahead := private.documents_ahead(v_document);
  end if;
  return jsonb_build_object(
    'success', true,
    'document_id', v_document.id,
    'case_id', v_document.case_id,
    'name', v_document.name,
    'lane', v_document.lane,
    'ocr_status', v_document.ocr_status,
    'document_version', v_document.document_version,
    'pages_done', v_pages,
    'page_count', v_document.page_count,
    'attempts', v_document.attempts,
    'retry_at', v_document.retry_at,
    'error', v_document.ocr_error,
    'ahead', v_ahead,
    'seconds_left', case
      when v_document.ocr_status = 'processing' then round(
        greatest(v_each - extract(epoch from p_now - v_document.claimed_at), 0)
      )
      when v_ahead is not null then round(v_each * (v_ahead / v_workers + 1))
    end,
    'created_at', v_document.created_at,
    'claimed_at', v_document.claimed_at,
    'completed_at', v_document.ocr_completed_at
  );
end;
$$;
comment on function private.document_progress(uuid, timestamptz) is 'See public.document_progress.';
grant execute on function private.document_progress(uuid, timestamptz) to authenticated, service_role;

create function public.document_progress(p_document_id uuid)
returns jsonb
language sql
stable
security invoker
set search_path = ''
as $$
  select private.document_progress(p_document_id);
$$;
comment on function public.document_progress(uuid) is
  'How far a document is: status, pages read, how many wait before it, and about how many seconds are left.';
grant execute on function public.document_progress(uuid) to authenticated, service_role;
