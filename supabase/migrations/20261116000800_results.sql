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
  -- Not "for update": a heartbeat of the same worker must not wait while pages are written.
  select d.* into v_document from public.documents as d where d.id = p_document_id for share;
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
create function private.keep_inline_text(p_result jsonb, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_document public.documents;
  v_engine text := coalesce(p_result ->> 'engine', 'unknown');
  v_version text := coalesce(p_result ->> 'version', 'unknown');
  v_profile text := coalesce(p_result ->> 'profile', 'balanced');
  v_pages jsonb := case jsonb_typeof(p_result -> 'ocr_data' -> 'pages')
    when 'array' then p_result -> 'ocr_data' -> 'pages'
    else jsonb_build_array(jsonb_build_object(
      'page_number', 1, 'text', p_result -> 'ocr_data' ->> 'text', 'confidence', p_result -> 'confidence'
    ))
  end;
begin
  perform private.require_run(v_engine, v_version, v_profile);
  perform private.require_pages(v_pages);
  select d.* into v_document from public.documents as d
  where d.id = (p_result ->> 'document_id')::uuid
  for update;
  if private.lock_refusal(v_document, (p_result ->> 'lock_token')::uuid) is not null then
    return;
  end if;
  perform private.write_pages(v_document, v_pages, v_engine, v_version, v_profile, p_now);
end;
$$;
comment on function private.keep_inline_text(jsonb, timestamptz) is
  'Save the text of a result as pages, if the caller may.';

create function private.complete(p_results jsonb, p_now timestamptz)
returns jsonb
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_item jsonb;
  v_answers jsonb;
  v_count integer;
  v_documents integer;
  v_senseless integer;
  v_refused integer;
  v_by_hand integer;
begin
  perform private.require_list('p_results', p_results);
  if p_results @? '$[*].ocr_data.text' or p_results @? '$[*].ocr_data.pages' then
    for v_item in
      select i from jsonb_array_elements(p_results) as i
      -- In a summary "pages" may as well be their number.
      where jsonb_typeof(i -> 'ocr_data' -> 'text') = 'string' or jsonb_typeof(i -> 'ocr_data' -> 'pages') = 'array'
      order by i ->> 'document_id'
    loop
      perform private.keep_inline_text(v_item, p_now);
    end loop;
  end if;

  with verdict as materialized (
    select i.document_id, i.lock_token, i.ocr_data, i.confidence, i.processing_time_ms, i.engine, i.version,
      i.page_count, d.case_id, d.name, d.locked_by, d.attempts, d.retry_count, d.created_at,
      s.run_id, s.pages, s.failed, s.unread,
      coalesce(i.lock_token, gen_random_uuid()) as log_id,
      (
        i.document_id is null or i.ocr_data is null or i.ocr_data = 'null'
        or i.confidence not between 0 and 1 or i.processing_time_ms < 0 or i.page_count < 0
        or octet_length(i.engine) not between 1 and 200 or octet_length(i.version) not between 1 and 200
        or octet_length(i.profile) not between 1 and 200
      ) is true as senseless,
      -- private.lock_refusal written out: a call for each row would cost more than all the rest.
      case
        when d.id is null then 'DOCUMENT_NOT_FOUND'
        when i.lock_token is not null and d.lock_token is distinct from i.lock_token then 'LOCK_LOST'
        when i.lock_token is null and d.lock_token is not null then 'DOCUMENT_LOCKED'
        when d.ocr_status not in ('processing', 'queued', 'queued_for_pdf', 'pending', 'pending_review')
          then 'WRONG_STATE'
        when s.failed > (select l.failed_pages_allowed from public.lanes as l where l.lane = d.lane)
          * greatest(i.page_count, d.page_count, s.pages) then 'TOO_MANY_FAILED_PAGES'
      end as error
    from jsonb_to_recordset(p_results) as i (
      document_id uuid, lock_token uuid, ocr_data jsonb, confidence numeric,
      processing_time_ms integer, engine text, version text, profile text, page_count integer
    )
    left join (
      -- In one order, or two callers could wait for each other.
      select k.* from public.documents as k
      where k.id = any (array(select (j ->> 'document_id')::uuid from jsonb_array_elements(p_results) as j))
      order by k.id
      for update
    ) as d on d.id = i.document_id
    left join lateral (
      select r.id as run_id, count(*)::integer as pages,
        count(*) filter (where o.status = 'failed')::integer as failed,
        count(*) filter (where o.status = 'unread')::integer as unread
      from public.ocr_runs as r
      join public.ocr_pages as o on o.run_id = r.id
      where r.document_id = d.id and r.reading = d.reading
        and (i.engine is null or r.engine = i.engine)
        and (i.version is null or r.engine_version = i.version)
        and (i.profile is null or r.profile = i.profile)
      group by r.id
      order by r.id desc
      limit 1
    ) as s on true
  ),
  done as (
    update public.documents as d
    set ocr_status = 'completed',
        ocr_completed_at = p_now,
        ocr_error = null,
        run_id = coalesce(v.run_id, d.run_id),
        page_count = coalesce(v.page_count, d.page_count, v.pages),
        retry_at = null,
        locked_by = null, locked_at = null, lock_token = null, lock_expires_at = null,
        attempt_deadline = null,
        updated_at = p_now
    from verdict as v
    where v.error is null and not v.senseless
      and d.id = v.document_id and d.lock_token is not distinct from v.lock_token
  ),
  result as (
    insert into public.ocr_processing_logs (
      id, document_id, ocr_data, confidence_score, processing_time_ms, ocr_engine, ocr_version,
      run_id, worker_id, attempt, retry_count, seconds_to_text, created_at
    )
    select v.log_id, v.document_id, v.ocr_data, v.confidence, v.processing_time_ms, v.engine,
      v.version, v.run_id, v.locked_by, v.attempts, v.retry_count, extract(epoch from p_now - v.created_at), p_now
    from verdict as v
    where v.error is null and not v.senseless
  ),
  review as (
    insert into public.tasks (case_id, document_id, kind, title, description, metadata)
    select v.case_id, v.document_id, 'review', 'Some pages need a person',
      format('"%s": %s pages could not be read, %s failed', v.name, v.unread, v.failed),
      jsonb_build_object('document_id', v.document_id, 'run_id', v.run_id, 'unread', v.unread, 'failed', v.failed)
    from verdict as v
    where v.error is null and v.unread + v.failed > 0
    on conflict (document_id, kind) where status in ('pending', 'in_progress') and document_id is not null
    do nothing
  )
  select count(*), count(distinct v.document_id), count(*) filter (where v.senseless), count(v.error),
    count(*) filter (where v.lock_token is null),
    jsonb_agg(
      case when v.error is null
        then jsonb_build_object('success', true, 'document_id', v.document_id, 'log_id', v.log_id)
        else private.refusal(v.error, v.document_id)
      end
    )
  into v_count, v_documents, v_senseless, v_refused, v_by_hand, v_answers
  from verdict as v;

  if v_senseless > 0 or v_documents < v_count then
    raise exception 'a result makes no sense, or a document is named twice'
      using errcode = '22023',
        hint = 'Each needs document_id and ocr_data; confidence is 0 to 1, processing_time_ms and page_count '
          'not negative, engine, version and profile 1 to 200 bytes.';
  end if;
  perform private.after_completion(v_answers, v_refused > 0, v_by_hand > 0, p_now);
  return coalesce(v_answers, '[]');
end;
$$;
comment on function private.complete(jsonb, timestamptz) is
  'Write results, states and audit lines of many documents in one transaction, each fenced by its token.';

create function private.after_completion(p_answers jsonb, p_refused boolean, p_by_hand boolean, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_lane text;
  v_document public.documents;
begin
  -- A probe that came through ends the outage.
  for v_lane in
    select l.lane from public.lanes as l
    where l.probe_token is not null
      and p_answers @> jsonb_build_array(jsonb_build_object('success', true, 'log_id', l.probe_token))
  loop
    perform private.resume(v_lane, 'the probe succeeded', p_now);
  end loop;
  if p_refused then
    for v_document in
      select d.* from jsonb_array_elements(p_answers) as a
      join public.documents as d on d.id = (a ->> 'document_id')::uuid
      where a ->> 'error' = 'TOO_MANY_FAILED_PAGES'
      order by d.id
    loop
      perform private.fail(v_document, 'failure', 'too many pages failed', '{}', 'unknown', null, p_now);
    end loop;
  end if;
  if p_by_hand then
    -- Who completes a document by hand has done what it waited for.
    perform private.close_tasks((a ->> 'document_id')::uuid, 'done', array['routing'])
    from jsonb_array_elements(p_answers) as a
    where (a ->> 'success')::boolean;
  end if;
end;
$$;
comment on function private.after_completion(jsonb, boolean, boolean, timestamptz) is
  'What follows from completions: outages end, too many failed pages count as a failure, tasks close.';

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
language sql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
set enable_seqscan = off   -- a handful of rows by primary key, whatever the statistics say:
set enable_hashjoin = off  -- a plan made while the table was small must not outlive it
set enable_mergejoin = off
as $$
  select private.complete(
    jsonb_build_array(jsonb_build_object(
      'document_id', p_document_id, 'lock_token', p_lock_token, 'ocr_data', p_ocr_data,
      'confidence', p_confidence, 'processing_time_ms', p_processing_time_ms, 'engine', p_engine,
      'version', p_version, 'profile', p_profile, 'page_count', p_page_count
    )),
    p_now
  ) -> 0;
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
  'p_ocr_data is a summary; engine, version and profile name their run.';
grant execute on function public.process_ocr_atomic(uuid, jsonb, numeric, integer, uuid, text, text, text, integer)
  to service_role, pagewarden_worker;

create function private.complete_documents(
  p_results jsonb,
  p_worker_id text,
  p_lanes text[],
  p_claim_limit integer,
  p_lock_timeout integer,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
set enable_seqscan = off   -- a handful of rows by primary key, whatever the statistics say:
set enable_hashjoin = off  -- a plan made while the table was small must not outlive it
set enable_mergejoin = off
as $$
declare
  v_results jsonb := private.complete(p_results, p_now);
  v_claimed jsonb := '[]';
begin
  if (p_claim_limit between 0 and 1000) is not true then
    raise exception 'p_claim_limit must be between 0 and 1000, got %', coalesce(p_claim_limit::text, 'null')
      using errcode = '22023', hint = 'With 0 it claims nothing.';
  end if;
  if p_claim_limit > 0 then
    select coalesce(jsonb_agg(to_jsonb(c)), '[]') into v_claimed
    from private.claim_documents(p_worker_id, p_lanes, p_claim_limit, p_lock_timeout, p_now) as c;
  end if;
  return jsonb_build_object('results', v_results, 'claimed', v_claimed);
end;
$$;
comment on function private.complete_documents(jsonb, text, text[], integer, integer, timestamptz) is
  'See public.complete_documents.';
grant execute on function private.complete_documents(jsonb, text, text[], integer, integer, timestamptz)
  to service_role, pagewarden_worker;

create function public.complete_documents(
  p_results jsonb,
  p_worker_id text default null,
  p_lanes text[] default null,
  p_claim_limit integer default 0,
  p_lock_timeout integer default 20
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.complete_documents(p_results, p_worker_id, p_lanes, p_claim_limit, p_lock_timeout);
$$;
comment on function public.complete_documents(jsonb, text, text[], integer, integer) is
  'Complete many documents at once: [{"document_id", "lock_token", "ocr_data", "confidence", …}, …], and claim the '
  'next p_claim_limit in the same transaction. Answers {"results": […], "claimed": […]}.';
grant execute on function public.complete_documents(jsonb, text, text[], integer, integer)
  to service_role, pagewarden_worker;
