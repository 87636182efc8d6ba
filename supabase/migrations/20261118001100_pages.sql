-- Pages: saving what is read, and making a reading run the text of its document.
--
-- Pages are saved as they are read (write_pages), into the run of their engine, version and profile;
-- documents.open_run_id is the run being read. A result may also contain its pages. A run becomes
-- the document's text (documents.run_id) when the document is completed (finalize_run), if no page is
-- missing and not too many failed; otherwise the attempt fails. save_document_pages and the completions,
-- which call these functions, are in queue; corrections of pages are in corrections.

create function private.require_run(p_engine text, p_version text, p_profile text)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  perform private.require_text('p_engine', p_engine, 200);
  perform private.require_text('p_version', p_version, 200);
  perform private.require_text('p_profile', p_profile, 200);
end;
$$;
comment on function private.require_run(text, text, text) is 'Reject invalid names of an engine, version or profile (22023).';

create function private.require_pages(p_pages jsonb)
returns void
language plpgsql
stable
security invoker
set search_path = ''
as $$
declare
  v_count integer;
  v_numbers integer;
  v_sound integer;
begin
  perform private.require_list('p_pages', p_pages);
  select count(*), count(distinct p.page_number), count(*) filter (where
    p.page_number > 0
    and coalesce(p.status, 'read') in ('read', 'blank', 'unread', 'failed')
    and (p.status is not distinct from 'failed') = (p.error is not null)
    and coalesce(p.confidence, 0) between 0 and 1
    and coalesce(jsonb_typeof(p.lines), 'array') = 'array'
    and coalesce(least(p.width, p.height, p.processing_time_ms), 0) >= 0
  )
  into v_count, v_numbers, v_sound
  from jsonb_to_recordset(p_pages) as p (
    page_number integer, status text, lines jsonb, confidence numeric, width integer, height integer,
    error text, processing_time_ms integer
  );
  if v_sound < v_count or v_numbers < v_count then
    raise exception 'a page is invalid or duplicated'
      using errcode = '22023',
        hint = 'Required: page_number, from 1. status is read, blank, unread, or failed with an error; '
          'confidence is 0 to 1, lines is a list, and no number is negative.';
  end if;
end;
$$;
comment on function private.require_pages(jsonb) is 'Reject invalid pages (22023).';

create function private.write_pages(
  p_document public.documents,
  p_pages jsonb,
  p_engine text,
  p_version text,
  p_profile text,
  p_now timestamptz
)
returns bigint
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_run_id bigint;
begin
  insert into public.ocr_runs as r (document_id, reading, engine, engine_version, profile, created_at)
  values ((p_document).id, (p_document).reading, p_engine, p_version, p_profile, p_now)
  on conflict on constraint ocr_runs_one_of_a_kind do nothing
  returning r.id into v_run_id;
  if v_run_id is null then
    select r.id into v_run_id from public.ocr_runs as r
    where r.document_id = (p_document).id and r.reading = (p_document).reading and r.engine = p_engine
      and r.engine_version = p_version and r.profile = p_profile;
  end if;
  -- A page that is read replaces the same page that failed before, and never the other way round.
  insert into public.ocr_pages as o (
    run_id, page_number, document_id, case_id, status, text, language, lines, confidence, width,
    height, error, processing_time_ms, details, text_search, created_at
  )
  select v_run_id, p.page_number, (p_document).id, (p_document).case_id, coalesce(p.status, 'read'),
    coalesce(p.text, ''), coalesce(p.language, (p_document).language), coalesce(p.lines, '[]'),
    p.confidence, p.width, p.height, p.error, p.processing_time_ms, coalesce(p.details, '{}'),
    private.search_vector(coalesce(p.text, ''), coalesce(p.language, (p_document).language)), p_now
  from jsonb_to_recordset(p_pages) as p (
    page_number integer, status text, text text, language text, lines jsonb, confidence numeric,
    width integer, height integer, error text, processing_time_ms integer, details jsonb
  )
  on conflict on constraint ocr_pages_pkey do update
  set status = excluded.status, text = excluded.text, language = excluded.language,
      lines = excluded.lines, confidence = excluded.confidence, width = excluded.width,
      height = excluded.height, error = excluded.error,
      processing_time_ms = excluded.processing_time_ms, details = excluded.details,
      text_search = excluded.text_search, created_at = excluded.created_at
  where excluded.status <> 'failed' or o.status = 'failed';
  if (p_document).open_run_id is distinct from v_run_id then
    update public.documents as d set open_run_id = v_run_id where d.id = (p_document).id;
  end if;
  return v_run_id;
end;
$$;
comment on function private.write_pages(public.documents, jsonb, text, text, text, timestamptz) is
  'Save pages to the run of this engine, version and profile. The caller must have checked the lock.';

-- Text that arrives with the result instead of page by page is stored as pages too, so that search finds it.
-- In a summary "pages" may be a number instead.
create function private.inline_pages(p_ocr_data jsonb, p_confidence numeric)
returns jsonb
language sql
immutable
security invoker
set search_path = ''
as $$
  select case
    when jsonb_typeof(p_ocr_data -> 'pages') = 'array' then p_ocr_data -> 'pages'
    when jsonb_typeof(p_ocr_data -> 'text') = 'string' then jsonb_build_array(jsonb_build_object(
      'page_number', 1, 'text', p_ocr_data ->> 'text', 'confidence', p_confidence
    ))
  end;
$$;
comment on function private.inline_pages(jsonb, numeric) is 'The pages that a result contains; null if it is a summary.';

create function private.is_whole(p_ocr_data jsonb)
returns boolean
language sql
immutable
security invoker
set search_path = ''
as $$
  select jsonb_typeof(p_ocr_data -> 'pages') is distinct from 'array' or p_ocr_data -> 'whole' is not distinct from 'true';
$$;
comment on function private.is_whole(jsonb) is
  'Whether a result that is not a summary contains the whole text, even if the document may have more pages.';

create function private.missing_pages(p_run_id bigint, p_page_count integer)
returns integer[]
language sql
stable
security invoker
set search_path = ''
as $$
  -- In the select list the series is made as far as it is wanted, whatever number a caller sent.
  select array(
    select n.page_number from (select generate_series(1, p_page_count) as page_number) as n
    where not exists (select 1 from public.ocr_pages as o where o.run_id = p_run_id and o.page_number = n.page_number)
    limit 1000
  );
$$;
comment on function private.missing_pages(bigint, integer) is
  'The first 1000 pages of a document that a run has neither read nor recorded as failed.';

create function private.finalize_run(
  p_document public.documents,
  p_page_count integer,
  p_is_whole boolean,
  p_now timestamptz
)
returns text
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_pages integer;
  v_failed integer;
  v_unread integer;
  v_count integer;
begin
  select count(*), count(*) filter (where o.status = 'failed'), greatest(p_page_count, p_document.page_count, max(o.page_number))
  into v_pages, v_failed, v_count
  from public.ocr_pages as o where o.run_id = p_document.open_run_id;
  if v_failed > (select l.failed_pages_allowed from public.lanes as l where l.lane = p_document.lane) * v_count then
    perform private.fail_attempt(
      p_document, 'failure', format('%s of %s pages failed', v_failed, v_pages), '{}', 'unknown', null, p_now
    );
    return 'TOO_MANY_FAILED_PAGES';
  end if;
  -- Each number is there once, so that many pages are all of them.
  if v_pages < v_count and not p_is_whole then
    update public.documents as d set page_count = v_count where d.id = p_document.id;
    perform private.fail_attempt(
      p_document, 'failure', format('%s of %s pages are missing', v_count - v_pages, v_count),
      jsonb_build_object('missing', private.missing_pages(p_document.open_run_id, v_count)), 'transient', null, p_now
    );
    return 'PAGES_MISSING';
  end if;
  if p_is_whole then
    update public.ocr_runs as r set is_whole = true where r.id = p_document.open_run_id;
  end if;
  update public.documents as d
  set run_id = d.open_run_id, open_run_id = null, page_count = coalesce(v_count, 0)
  where d.id = p_document.id;
  perform private.record_doubtful_pages(p_document, p_document.open_run_id, p_now);
  select count(*) filter (where w.status = 'failed'), count(*) filter (where w.status = 'unread')
  into v_failed, v_unread
  from public.page_doubts as w where w.document_id = p_document.id;
  if v_failed + v_unread > 0 then
    perform private.open_task(
      p_document.case_id, p_document.id, 'review', 'Some pages need review',
      format('"%s": %s pages could not be read, %s failed', p_document.name, v_unread, v_failed), 'normal',
      jsonb_build_object(
        'document_id', p_document.id, 'run_id', p_document.open_run_id, 'unread', v_unread, 'failed', v_failed
      )
    );
  end if;
  return null;
end;
$$;
comment on function private.finalize_run(public.documents, integer, boolean, timestamptz) is
  'Make the pages saved so far the text of a document that is about to be completed. If too many pages failed, or '
  'some are missing and the whole text was not sent, the attempt fails instead, and the error is returned.';

-- Documents with pages, or with text that becomes a page, are handled one by one.
create function private.finalize_runs(
  p_document_ids uuid[],
  p_lock_tokens uuid[],
  p_ocr_data jsonb[],
  p_confidences numeric[],
  p_engine text,
  p_version text,
  p_profile text,
  p_page_counts integer[],
  p_now timestamptz,
  out v_finalized uuid[],
  out v_refusals jsonb
)
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_document public.documents;
  v_at integer;
  v_pages jsonb;
  v_refusal text;
begin
  v_finalized := '{}';
  v_refusals := '{}';
  for v_document in
    select d.* from public.documents as d where d.id = any (p_document_ids) order by d.id for update
  loop
    v_at := array_position(p_document_ids, v_document.id);
    v_pages := private.inline_pages(p_ocr_data[v_at], p_confidences[v_at]);
    if v_pages is not null then
      perform private.require_run(
        coalesce(p_engine, 'unknown'), coalesce(p_version, 'unknown'), coalesce(p_profile, 'balanced')
      );
      perform private.require_pages(v_pages);
    end if;
    continue when private.completion_refusal(v_document, p_lock_tokens[v_at]) is not null;
    if v_pages is not null then
      v_document.open_run_id := private.write_pages(
        v_document, v_pages, coalesce(p_engine, 'unknown'), coalesce(p_version, 'unknown'),
        coalesce(p_profile, 'balanced'), p_now
      );
    end if;
    v_refusal := null;
    if v_document.open_run_id is not null or greatest(p_page_counts[v_at], v_document.page_count) > 0 then
      v_refusal := private.finalize_run(
        v_document, p_page_counts[v_at], v_pages is not null and private.is_whole(p_ocr_data[v_at]), p_now
      );
    end if;
    if v_refusal is null then
      v_finalized := v_finalized || v_document.id;
    else
      v_refusals := v_refusals || jsonb_build_object(v_document.id, v_refusal);
    end if;
  end loop;
end;
$$;
comment on function private.finalize_runs(uuid[], uuid[], jsonb[], numeric[], text, text, text, integer[], timestamptz) is
  'Make saved pages and inline texts the text of documents that are about to be completed. Returns the errors of '
  'documents that cannot be completed: {id: refusal}.';
