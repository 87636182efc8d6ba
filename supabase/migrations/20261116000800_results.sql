-- Purpose:  what was read: pages as they come, and the end of a reading.
-- Affects:  creates save_document_pages, process_ocr_atomic, complete_documents.
-- Locks:    none that anybody could notice.

-- Search ------------------------------------------------------------------------------------
-- Words are stored twice: as they stand (accents off) and stemmed for the language of the page, so
-- a search finds them whether or not it knows the language.

create text search configuration private.simple (copy = pg_catalog.simple);
alter text search configuration private.simple
  alter mapping for hword, hword_part, word with extensions.unaccent, pg_catalog.simple;

do $$
declare
  v_language text;
begin
  for v_language in
    select c.cfgname from pg_catalog.pg_ts_config as c
    join pg_catalog.pg_namespace as n on n.oid = c.cfgnamespace
    where n.nspname = 'pg_catalog' and c.cfgname <> 'simple'
  loop
    execute format('create text search configuration private.%I (copy = pg_catalog.%I)', v_language, v_language);
    execute format(
      'alter text search configuration private.%I alter mapping for hword, hword_part, word '
      'with extensions.unaccent, pg_catalog.%I',
      v_language, v_language || '_stem'
    );
  end loop;
end;
$$;

create function private.search_config(p_language text)
returns regconfig
language sql
stable
security invoker
set search_path = ''
as $$
  select coalesce(
    (
      select c.oid::regconfig from pg_catalog.pg_ts_config as c
      where c.cfgnamespace = 'private'::regnamespace
        and c.cfgname = case lower(split_part(replace(coalesce(p_language, ''), '_', '-'), '-', 1))
          when 'ar' then 'arabic' when 'da' then 'danish' when 'de' then 'german' when 'el' then 'greek'
          when 'en' then 'english' when 'es' then 'spanish' when 'et' then 'estonian' when 'fi' then 'finnish'
          when 'fr' then 'french' when 'hu' then 'hungarian' when 'id' then 'indonesian' when 'it' then 'italian'
          when 'lt' then 'lithuanian' when 'nl' then 'dutch' when 'no' then 'norwegian' when 'nb' then 'norwegian'
          when 'pt' then 'portuguese' when 'ro' then 'romanian' when 'ru' then 'russian' when 'sr' then 'serbian'
          when 'sv' then 'swedish' when 'tr' then 'turkish'
          else lower(p_language)
        end
    ),
    'private.simple'::regconfig
  );
$$;
comment on function private.search_config(text) is
  'How words of a language ("fr", "fr-CA", "french") are cut and stemmed; simple when it is not known.';

create function private.unspaced_signs()
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select '[\u0e00-\u0e7f\u3005-\u3007\u3040-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]';
$$;
comment on function private.unspaced_signs() is
  'The signs of scripts that put no spaces between words (Thai, Japanese, Chinese), as a regular expression.';

create function private.marks()
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select '[\u00a0-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7\u037e\u0387\u055a-\u055f\u0589'
    '\u05be\u05c0\u05c3\u05f3\u05f4\u060c\u061b\u061f\u066a-\u066d\u06d4\u0964\u0965\u0f08-\u0f14'
    '\u2000-\u200b\u200e-\u206f\u20a0-\u20cf\u2190-\u2bff\u2e00-\u2e7f\u3000-\u3004\u3008-\u303f\u30fb'
    '\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]';
$$;
comment on function private.marks() is
  'Punctuation and symbols beyond ASCII, as a regular expression: where the locale is C, Postgres takes them for letters.';

create function private.spell_out(p_text text)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  -- Each sign becomes a word, and a search for several of them is a search for their sequence.
  select regexp_replace(
    regexp_replace(left(p_text, 250000), private.marks(), ' ', 'g'),
    '(' || private.unspaced_signs() || ')', ' \1 ', 'g'
  );
$$;
comment on function private.spell_out(text) is
  'The words of a text with spaces between them, whatever its script and the locale of the database.';

create function private.search_vector(p_text text, p_language text)
returns tsvector
language sql
stable
security invoker
set search_path = ''
as $$
  -- One position stays empty between the two, or the last word of a page would seem to precede its first.
  select ts_delete(
    to_tsvector('private.simple', t.spelled) || ''' '':2'::tsvector
      || to_tsvector(private.search_config(p_language), t.spelled),
    ' '
  )
  from (select private.spell_out(p_text) as spelled) as t;
$$;
comment on function private.search_vector(text, text) is 'The words of a text, plain and stemmed.';

-- Pages -------------------------------------------------------------------------------------

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
comment on function private.require_run(text, text, text) is 'Refuse names that no run can have (22023).';

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
    raise exception 'a page makes no sense, or is named twice'
      using errcode = '22023',
        hint = 'Each needs page_number, from 1; status is read, blank, unread, or failed with its error; '
          'confidence is 0 to 1, lines a list, nothing negative.';
  end if;
end;
$$;
comment on function private.require_pages(jsonb) is 'Refuse what cannot be saved as pages (22023).';

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
  'Save pages into the run of this engine, version and profile. The caller has checked the lock.';

create function private.save_document_pages(
  p_document_id uuid,
  p_lock_token uuid,
  p_pages jsonb,
  p_engine text,
  p_version text,
  p_profile text,
  p_page_count integer,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_refusal text;
  v_run_id bigint;
begin
  perform private.require_pages(p_pages);
  perform private.require_run(p_engine, p_version, p_profile);
  if p_page_count < 0 then
    raise exception 'p_page_count must not be negative, got %', p_page_count
      using errcode = '22023', hint = 'Leave it out while nobody knows.';
  end if;
  select d.* into v_document from public.documents as d where d.id = p_document_id for update;
  v_refusal := private.lock_refusal(v_document, p_lock_token);
  if v_refusal is null and (p_lock_token is null) then
    v_refusal := case when v_document.ocr_status <> 'processing' then 'WRONG_STATE' end;
  end if;
  if v_refusal is not null then
    return private.refusal(v_refusal, p_document_id);
  end if;
  v_run_id := private.write_pages(v_document, p_pages, p_engine, p_version, p_profile, p_now);
  if p_page_count is distinct from v_document.page_count and p_page_count is not null then
    update public.documents as d set page_count = p_page_count where d.id = p_document_id;
  end if;
  return jsonb_build_object(
    'success', true, 'document_id', p_document_id, 'run_id', v_run_id,
    'saved', (
      select coalesce(jsonb_agg(o.page_number order by o.page_number), '[]')
      from public.ocr_pages as o
      where o.run_id = v_run_id and o.status <> 'failed'
    )
  );
end;
$$;
comment on function private.save_document_pages(uuid, uuid, jsonb, text, text, text, integer, timestamptz) is
  'See public.save_document_pages.';
grant execute on function private.save_document_pages(uuid, uuid, jsonb, text, text, text, integer, timestamptz)
  to service_role, pagewarden_worker;

create function public.save_document_pages(
  p_document_id uuid,
  p_lock_token uuid,
  p_pages jsonb,
  p_engine text,
  p_version text,
  p_profile text default 'balanced',
  p_page_count integer default null
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.save_document_pages(
    p_document_id, p_lock_token, p_pages, p_engine, p_version, p_profile, p_page_count
  );
$$;
comment on function public.save_document_pages(uuid, uuid, jsonb, text, text, text, integer) is
  'Keep pages as they are read: [{"page_number", "text", "lines", "confidence", …}, …]. Answers with the '
  'pages this run has so far, so an empty list asks where to go on.';
grant execute on function public.save_document_pages(uuid, uuid, jsonb, text, text, text, integer)
  to service_role, pagewarden_worker;

-- The end of a reading ----------------------------------------------------------------------

-- Text that comes with the result and not page by page is kept as pages too, so that it is found.
-- In a summary "pages" may as well be their number.
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
comment on function private.inline_pages(jsonb, numeric) is 'The pages that a result carries; null when it is a summary.';

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
  'Whether a result that is no summary brings the whole text, though the document may have more pages than it names.';

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
  'The pages of a document that a run has neither read nor failed at; the first 1000 of them.';

create function private.settle_pages(
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
    perform private.fail(
      p_document, 'failure', format('%s of %s pages failed', v_failed, v_pages), '{}', 'unknown', null, p_now
    );
    return 'TOO_MANY_FAILED_PAGES';
  end if;
  -- Each number is there once, so that many pages are all of them.
  if v_pages < v_count and not p_is_whole then
    update public.documents as d set page_count = v_count where d.id = p_document.id;
    perform private.fail(
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
  perform private.note_doubts(p_document, p_document.open_run_id, p_now);
  select count(*) filter (where w.status = 'failed'), count(*) filter (where w.status = 'unread')
  into v_failed, v_unread
  from public.page_doubts as w where w.document_id = p_document.id;
  if v_failed + v_unread > 0 then
    perform private.open_task(
      p_document.case_id, p_document.id, 'review', 'Some pages need a person',
      format('"%s": %s pages could not be read, %s failed', p_document.name, v_unread, v_failed), 'normal',
      jsonb_build_object(
        'document_id', p_document.id, 'run_id', p_document.open_run_id, 'unread', v_unread, 'failed', v_failed
      )
    );
  end if;
  return null;
end;
$$;
comment on function private.settle_pages(public.documents, integer, boolean, timestamptz) is
  'Make the pages saved so far the text of a document that is about to be completed. Where too many of them failed, or '
  'some are missing though the text did not come whole, the attempt fails instead, and the answer is the refusal.';

create function private.completion_refusal(p_document public.documents, p_lock_token uuid)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select coalesce(
    private.lock_refusal(p_document, p_lock_token),
    case when (p_document).ocr_status not in ('processing', 'queued', 'queued_for_pdf', 'pending', 'pending_review')
      then 'WRONG_STATE' end
  );
$$;
comment on function private.completion_refusal(public.documents, uuid) is
  'Why a result for the document is not taken; null when it is.';

-- Whatever has pages, or text that becomes one, is looked at one by one.
create function private.settle_texts(
  p_document_ids uuid[],
  p_lock_tokens uuid[],
  p_ocr_data jsonb[],
  p_confidences numeric[],
  p_engine text,
  p_version text,
  p_profile text,
  p_page_counts integer[],
  p_now timestamptz,
  out v_settled uuid[],
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
  v_settled := '{}';
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
      v_refusal := private.settle_pages(
        v_document, p_page_counts[v_at], v_pages is not null and private.is_whole(p_ocr_data[v_at]), p_now
      );
    end if;
    if v_refusal is null then
      v_settled := v_settled || v_document.id;
    else
      v_refusals := v_refusals || jsonb_build_object(v_document.id, v_refusal);
    end if;
  end loop;
end;
$$;
comment on function private.settle_texts(uuid[], uuid[], jsonb[], numeric[], text, text, text, integer[], timestamptz) is
  'Make saved pages and inline texts the text of documents that are about to be completed, and say which may be, '
  'and of the others why not: {id: refusal}.';

-- Returns the documents whose result was not taken, each with its refusal; null when all were.
create function private.complete(
  p_document_ids uuid[],
  p_lock_tokens uuid[],
  p_ocr_data jsonb[],
  p_confidences numeric[],
  p_processing_times_ms integer[],
  p_engine text,
  p_version text,
  p_profile text,
  p_page_counts integer[],
  p_now timestamptz
)
returns public.claimed_document[]
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_count integer := cardinality(p_document_ids);
  v_settled uuid[];
  v_refusals jsonb;
  v_done uuid[];
  v_probed boolean;
  v_sound boolean := (
    v_count <= 10000
    and cardinality(p_lock_tokens) = v_count
    and cardinality(p_ocr_data) = v_count
    and coalesce(cardinality(p_confidences), v_count) = v_count
    and coalesce(cardinality(p_processing_times_ms), v_count) = v_count
    and coalesce(cardinality(p_page_counts), v_count) = v_count
    and array_position(p_document_ids, null) is null
    and array_position(p_ocr_data, null) is null and array_position(p_ocr_data, 'null') is null
    and 0 <= all (p_confidences) is not false and 1 >= all (p_confidences) is not false
    and 0 <= all (p_processing_times_ms) is not false and 0 <= all (p_page_counts) is not false
  );
begin
  if v_count > 1 and v_sound then
    v_sound := v_count = (select count(distinct u.id) from unnest(p_document_ids) as u (id));
  end if;
  if v_sound is not true then
    raise exception 'the results make no sense'
      using errcode = '22023',
        hint = 'Lists of one length, at most 10000: each document once, with its ocr_data; confidence is 0 to 1, '
          'times and page counts are not negative.';
  end if;
  if octet_length(p_engine) > 200 or octet_length(p_version) > 200 or p_profile is not null
    or '' in (p_engine, p_version) then
    perform private.require_run(coalesce(p_engine, '-'), coalesce(p_version, '-'), coalesce(p_profile, '-'));
  end if;

  loop
    -- First those that carry no text and have no pages, as far as is known: the bulk. Everything in one statement,
    -- fenced by the token. The others, if any, once they are settled.
    with input as (
      select * from unnest(p_document_ids, p_lock_tokens, p_ocr_data, p_confidences, p_processing_times_ms, p_page_counts)
        as i (id, token, ocr_data, confidence, processing_time_ms, page_count)
      order by 1   -- in one order, or two callers could wait for each other
    ),
    done as (
      update public.documents as d
      set ocr_status = 'completed',
          version = d.version + (i.token is not null)::integer,   -- without a token the lists have to follow
          ocr_completed_at = p_now,
          ocr_error = null,
          page_count = greatest(i.page_count, d.page_count),
          retry_at = null,
          locked_by = null, locked_at = null, lock_token = null, lock_expires_at = null,
          attempt_deadline = null,
          updated_at = p_now
      from input as i
      where d.id = i.id
        and d.lock_token is not distinct from i.token
        and d.ocr_status in ('processing', 'queued', 'queued_for_pdf', 'pending', 'pending_review')
        and (
          (
            d.open_run_id is null and not i.ocr_data ?| array['text', 'pages']
            and greatest(i.page_count, d.page_count, 0) = 0
          )
          or i.id = any (v_settled)
        )
      returning d.id, i.token, i.ocr_data, i.confidence, i.processing_time_ms, d.run_id, d.attempts,
        d.retry_count, d.created_at, d.claimed_by
    ),
    result as (
      insert into public.ocr_processing_logs (
        id, document_id, ocr_data, confidence_score, processing_time_ms, ocr_engine, ocr_version,
        run_id, worker_id, attempt, retry_count, seconds_to_text, created_at
      )
      select coalesce(d.token, gen_random_uuid()), d.id, d.ocr_data, d.confidence, d.processing_time_ms, p_engine,
        p_version, d.run_id, case when d.token is not null then d.claimed_by end, d.attempts, d.retry_count,
        date_part('epoch', p_now - d.created_at), p_now
      from done as d
    )
    select v_done || array_agg(d.id), exists (select 1 from public.lanes as l where l.probe_token = any (p_lock_tokens))
    into v_done, v_probed
    from done as d;
    exit when v_settled is not null or coalesce(cardinality(v_done), 0) = v_count;
    select t.v_settled, t.v_refusals into v_settled, v_refusals from private.settle_texts(
      p_document_ids, p_lock_tokens, p_ocr_data, p_confidences, p_engine, p_version, p_profile, p_page_counts, p_now
    ) as t;
  end loop;

  if v_probed then
    -- A probe that came through ends the outage.
    perform private.resume(l.lane, 'the probe succeeded', p_now)
    from public.lanes as l
    where l.probe_token = any (p_lock_tokens)
      and p_document_ids[array_position(p_lock_tokens, l.probe_token)] = any (v_done);
  end if;
  if array_position(p_lock_tokens, null) is not null then
    -- Who completes a document by hand has done what it waited for: to be routed, or to be typed.
    update public.tasks as t
    set status = 'done', done_at = p_now, done_by = auth.uid(), updated_at = p_now
    where t.document_id = any (v_done) and t.status in ('pending', 'in_progress')
      and (t.kind = 'routing' or (t.kind = 'review' and t.metadata ? 'dlq_id'));
  end if;
  if v_settled is null then
    return null;
  end if;
  return (
    select array_agg(jsonb_populate_record(null::public.claimed_document, jsonb_build_object(
      'id', u.id,
      'refusal', coalesce(v_refusals ->> u.id::text, private.completion_refusal(d, u.token)),
      'missing', case when v_refusals ->> u.id::text = 'PAGES_MISSING'
        then private.missing_pages(d.open_run_id, d.page_count) end
    )))
    from unnest(p_document_ids, p_lock_tokens) as u (id, token)
    left join public.documents as d on d.id = u.id
    where (u.id = any (v_done)) is not true
  );
end;
$$;
comment on function private.complete(uuid[], uuid[], jsonb[], numeric[], integer[], text, text, text, integer[], timestamptz) is
  'Complete many documents, each fenced by its token: result, state and text in one transaction.';

create function private.process_ocr_atomic(
  p_document_id uuid,
  p_ocr_data jsonb,
  p_confidence numeric,
  p_processing_time_ms integer,
  p_lock_token uuid,
  p_engine text,
  p_version text,
  p_profile text,
  p_page_count integer,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
-- A handful of rows by index, in the order of ids, planned once: whatever the statistics say.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set jit = off              -- before PostgreSQL 18 a scan that is off counts as dear enough for it
as $$
declare
  v_refused public.claimed_document[] := private.complete(
    array[p_document_id], array[p_lock_token], array[p_ocr_data], array[p_confidence],
    array[p_processing_time_ms], p_engine, p_version, p_profile, array[p_page_count], p_now
  );
begin
  if v_refused is not null then
    return private.refusal(v_refused[1].refusal, p_document_id)
      || jsonb_strip_nulls(jsonb_build_object('missing', v_refused[1].missing));
  end if;
  return jsonb_build_object(
    'success', true,
    'document_id', p_document_id,
    'log_id', coalesce(p_lock_token, (
      select r.id from public.ocr_processing_logs as r
      where r.document_id = p_document_id and r.created_at = p_now
      limit 1
    ))
  );
end;
$$;
comment on function private.process_ocr_atomic(uuid, jsonb, numeric, integer, uuid, text, text, text, integer, timestamptz) is
  'See public.process_ocr_atomic.';
grant execute on function private.process_ocr_atomic(uuid, jsonb, numeric, integer, uuid, text, text, text, integer, timestamptz)
  to service_role, pagewarden_worker;

create function public.process_ocr_atomic(
  p_document_id uuid,
  p_ocr_data jsonb,
  p_confidence numeric,
  p_processing_time_ms integer,
  p_lock_token uuid default null,
  p_engine text default null,
  p_version text default null,
  p_profile text default null,
  p_page_count integer default null
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.process_ocr_atomic(
    p_document_id, p_ocr_data, p_confidence, p_processing_time_ms, p_lock_token, p_engine, p_version,
    p_profile, p_page_count
  );
$$;
comment on function public.process_ocr_atomic(uuid, jsonb, numeric, integer, uuid, text, text, text, integer) is
  'Complete a document: result, status and audit line in one transaction. Where pages were saved, '
  'p_ocr_data is a summary; otherwise its "text" or "pages" are kept as pages. Where a page is missing, the answer names '
  'it (PAGES_MISSING), and the document is queued to be read again; a "text", or "pages" with "whole": true, may have fewer.';
grant execute on function public.process_ocr_atomic(uuid, jsonb, numeric, integer, uuid, text, text, text, integer)
  to service_role, pagewarden_worker;

create function private.complete_documents(
  p_document_ids uuid[],
  p_lock_tokens uuid[],
  p_ocr_data jsonb[],
  p_confidences numeric[],
  p_processing_times_ms integer[],
  p_engine text,
  p_version text,
  p_profile text,
  p_page_counts integer[],
  p_now timestamptz default now()
)
returns public.claimed_document[]
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
-- A handful of rows by index, in the order of ids, planned once: whatever the statistics say.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set jit = off              -- before PostgreSQL 18 a scan that is off counts as dear enough for it
as $$
begin
  return private.complete(
    p_document_ids, p_lock_tokens, p_ocr_data, p_confidences, p_processing_times_ms, p_engine, p_version,
    p_profile, p_page_counts, p_now
  );
end;
$$;
comment on function private.complete_documents(uuid[], uuid[], jsonb[], numeric[], integer[], text, text, text, integer[], timestamptz) is
  'The first half of public.complete_documents.';
grant execute on function private.complete_documents(uuid[], uuid[], jsonb[], numeric[], integer[], text, text, text, integer[], timestamptz)
  to service_role, pagewarden_worker;

create function public.complete_documents(
  p_document_ids uuid[],
  p_lock_tokens uuid[],
  p_ocr_data jsonb[],
  p_confidences numeric[] default null,
  p_processing_times_ms integer[] default null,
  p_engine text default null,
  p_version text default null,
  p_profile text default null,
  p_page_counts integer[] default null,
  p_worker_id text default null,
  p_lanes text[] default null,
  p_claim_limit integer default 0,
  p_lock_timeout integer default 20
)
returns setof public.claimed_document
language plpgsql
volatile
security invoker
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
declare
  v_refused public.claimed_document[];
begin
  if (p_claim_limit between 0 and 1000) is not true then
    raise exception 'p_claim_limit must be between 0 and 1000, got %', coalesce(p_claim_limit::text, 'null')
      using errcode = '22023', hint = 'With 0 it claims nothing.';
  end if;
  v_refused := private.complete_documents(
    p_document_ids, p_lock_tokens, p_ocr_data, p_confidences, p_processing_times_ms, p_engine, p_version,
    p_profile, p_page_counts
  );
  if v_refused is not null then
    return query select * from unnest(v_refused);
  end if;
  if p_claim_limit > 0 then
    return query select * from private.claim_documents(p_worker_id, p_lanes, p_claim_limit, p_lock_timeout);
  end if;
end;
$$;
comment on function public.complete_documents(uuid[], uuid[], jsonb[], numeric[], integer[], text, text, text, integer[], text, text[], integer, integer) is
  'Complete many documents of one engine at once, and claim the next p_claim_limit in the same transaction. '
  'Returns the documents whose result was not taken, each with its refusal and the missing pages, if any, and then the '
  'newly claimed.';
grant execute on function public.complete_documents(uuid[], uuid[], jsonb[], numeric[], integer[], text, text, text, integer[], text, text[], integer, integer)
  to service_role, pagewarden_worker;
