-- The land registry's queue: extraction_queue, an updatable view of documents.
--
-- It shows the documents of the lanes index and acte with the columns and status ids of the registry's
-- extractors: 1 EN_ATTENTE (awaiting_file), 2 EN_TRAITEMENT (extracting), 3 COMPLETE (queued),
-- 4 OCR_PROCESSING, 5 EXTRACTION_COMPLETE, 6 ERREUR. Updates go through the same functions as those of any
-- other caller. The trigger re-checks the state under the document's lock and returns no row if another
-- caller was faster.
--
--     1 ──extractor──▶ 2 ──file──▶ 3 ──worker──▶ 4 ──ocr_text──▶ 5
--     ▲                │           ▲             │
--     ├─ lease expired ┤           └── queue ────┤
--     └── 6 backoff ◀──┴─ failed                 └──▶ 6 dead letter
--
-- Extraction: a claim (1 → 2) is a lease, which every update of the document renews. The sweep returns expired
-- leases to 1 and failed extractions to 1 after a backoff. Both are counted, and after
-- lanes.max_extraction_failures the document is a dead letter with a task. OCR: a claim (3 → 4, or 3 → 2 by pool
-- workers) is that of claim_documents, for ten minutes. A trigger does not see the WHERE of a statement, so
-- statements name their claim in claim_token.

create view public.extraction_queue
with (security_invoker = true)
as
select
  d.id,
  d.case_id,
  d.lane::text as document_source,
  d.name::text as document_name,
  case d.ocr_status
    when 'awaiting_file' then 1
    when 'extracting' then 2
    when 'queued' then 3
    when 'processing' then 4
    when 'completed' then 5
    else 6
  end as status_id,
  d.priority::integer as priority,
  d.worker_id,
  d.extracted_by,
  d.extraction_started_at,
  d.extraction_due_at,
  d.extraction_failures::integer as extraction_failures,
  d.dropbox_path::text as dropbox_path,
  d.file_extension::text as file_extension,
  d.sha256::text as sha256,
  d.locked_by as ocr_worker_id,
  d.lock_token,
  null::uuid as claim_token,
  d.claimed_at as ocr_started_at,
  d.ocr_completed_at,
  d.attempts::integer as ocr_attempts,
  d.max_attempts::integer as ocr_max_attempts,
  d.error_message,
  d.ocr_error,
  case d.ocr_status when 'completed' then (
    select string_agg(t.text, E'\f' order by t.page_number) from public.page_texts as t where t.document_id = d.id
  ) end as ocr_text,
  case d.ocr_status when 'completed' then (
    select r.confidence_score::numeric from public.ocr_processing_logs as r
    where r.document_id = d.id
    order by r.created_at desc
    limit 1
  ) end as ocr_confidence,
  d.engine::text as engine,
  d.language::text as language,
  d.created_at,
  d.updated_at
from public.documents as d
where d.lane in ('index', 'acte') and d.deleted_at is null;
comment on view public.extraction_queue is
  'Documents of the registry: 1 EN_ATTENTE, 2 EN_TRAITEMENT, 3 COMPLETE, 4 OCR_PROCESSING, '
  '5 EXTRACTION_COMPLETE, 6 ERREUR. Changing status_id changes the state of a document, unless another caller has changed it first. '
  'ocr_text has the pages, separated by form feeds; set together with status 5, it is the result. claim_token is always '
  'null; set it to the lock_token of a claim to name the claim that an update belongs to. '
  'Nullable: worker_id, extracted_by, extraction_started_at, extraction_due_at, dropbox_path, file_extension, sha256, '
  'ocr_worker_id, lock_token, claim_token, ocr_started_at, ocr_completed_at, error_message, ocr_error, ocr_text, '
  'ocr_confidence, engine, language.';
grant select on public.extraction_queue to authenticated;
grant select, insert, update on public.extraction_queue to service_role;

create function private.registry_case()
returns uuid
language plpgsql
volatile
security definer          -- the extractor has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_case_id uuid;
begin
  -- All services share one registry case. The second turn of the loop finds a case that was created
  -- while this call waited for the lock.
  for v_turn in 1..2 loop
    select c.id into v_case_id from public.cases as c
    where c.kind = 'registry' and c.user_id is not distinct from auth.uid() and c.deleted_at is null
    order by c.created_at
    limit 1;
    if found then
      return v_case_id;
    end if;
    perform pg_advisory_xact_lock(hashtextextended(coalesce(auth.uid()::text, 'registry'), 3));
  end loop;
  insert into public.cases as c (user_id, kind, name, is_inbox)
  values (auth.uid(), 'registry', 'Registry', auth.uid() is not null)
  on conflict (user_id, kind) where is_inbox do update set updated_at = now(), deleted_at = null
  returning c.id into v_case_id;
  return v_case_id;
end;
$$;
comment on function private.registry_case() is 'The case of the extractor''s documents, created on first use.';

create function private.require_file(p_row public.extraction_queue)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if p_row.status_id = 3 and nullif(p_row.dropbox_path, '') is null then
    raise exception 'status 3 requires a file' using errcode = '22023',
      hint = 'Set dropbox_path together with status_id 3.';
  end if;
end;
$$;
comment on function private.require_file(public.extraction_queue) is 'Reject COMPLETE without a file (22023).';

create function private.require_extraction(p_row public.extraction_queue)
returns void
language plpgsql
stable
security invoker
set search_path = ''
as $$
begin
  perform private.require_upload(p_row.document_source, p_row.priority, p_row.sha256, null);
  perform private.require_optional_text('dropbox_path', nullif(p_row.dropbox_path, ''), 4096);
  perform private.require_optional_text('file_extension', nullif(p_row.file_extension, ''), 200);
  perform private.require_optional_text('worker_id', nullif(p_row.worker_id, ''), 200);
  perform private.require_read_options(p_row.engine, p_row.language, null);
  if (p_row.status_id between 1 and 6) is not true then
    raise exception 'unknown status_id %', coalesce(p_row.status_id::text, 'null')
      using errcode = '22023', hint = 'Valid status ids are 1 EN_ATTENTE, 2 EN_TRAITEMENT, 3 COMPLETE, 4 OCR_PROCESSING, '
        '5 EXTRACTION_COMPLETE and 6 ERREUR.';
  end if;
  if (p_row.ocr_max_attempts > 0) is not true then
    raise exception 'ocr_max_attempts must be at least 1, got %', coalesce(p_row.ocr_max_attempts::text, 'null')
      using errcode = '22023', hint = 'Omit it to use the lane''s limit.';
  end if;
end;
$$;
comment on function private.require_extraction(public.extraction_queue) is 'Reject invalid values (22023).';

create function private.insert_extraction(p_row public.extraction_queue, p_now timestamptz default now())
returns uuid
language plpgsql
volatile
security definer          -- the extractor has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_case_id uuid := coalesce(p_row.case_id, private.registry_case());
  v_lane public.lanes;
  v_id uuid;
begin
  if (p_row.document_source in ('index', 'acte')) is not true then
    raise exception 'unknown registry lane %', coalesce(p_row.document_source, 'null')
      using errcode = '22023', hint = 'document_source must be index or acte.';
  end if;
  v_lane := private.require_lane(p_row.document_source);
  p_row.status_id := coalesce(p_row.status_id, 1);
  p_row.priority := coalesce(p_row.priority, 0);
  p_row.ocr_max_attempts := coalesce(p_row.ocr_max_attempts, v_lane.max_attempts);
  perform private.require_text('document_name', p_row.document_name, 1024);
  perform private.require_extraction(p_row);
  if p_row.status_id not in (1, 3) then
    raise exception 'a new document must have status 1, or 3 with a file'
      using errcode = '22023', hint = 'Omit status_id.';
  end if;
  if num_nonnulls(p_row.ocr_text, p_row.ocr_confidence, p_row.claim_token) > 0 then
    raise exception 'a new document has no result' using errcode = '22023',
      hint = 'Omit ocr_text, ocr_confidence and claim_token.';
  end if;
  perform private.require_file(p_row);
  perform 1 from public.cases as c where c.id = v_case_id and c.deleted_at is null for key share;
  if not found then
    raise exception 'there is no case %', v_case_id
      using errcode = '22023', hint = 'Omit case_id to use the case of the registry.';
  end if;
  insert into public.documents as d (
    id, case_id, name, lane, ocr_status, dropbox_path, file_extension, sha256, engine, language,
    priority, turn, max_attempts, worker_id, extracted_by, created_at, updated_at
  )
  values (
    coalesce(p_row.id, gen_random_uuid()), v_case_id, p_row.document_name, v_lane.lane,
    case p_row.status_id when 3 then 'queued' else 'awaiting_file' end,
    p_row.dropbox_path, p_row.file_extension, p_row.sha256, p_row.engine, p_row.language, p_row.priority,
    case p_row.status_id when 3 then private.reserve_turns(v_case_id, v_lane.lane, p_row.priority, 1) else 0 end,
    p_row.ocr_max_attempts, p_row.worker_id, case p_row.status_id when 3 then p_row.worker_id end, p_now, p_now
  )
  returning d.id into v_id;
  return v_id;
end;
$$;
comment on function private.insert_extraction(public.extraction_queue, timestamptz) is 'Insert a registry document.';
grant execute on function private.insert_extraction(public.extraction_queue, timestamptz) to service_role;

-- Only the columns that the statement changed: the rest of its row may be outdated.
create function private.write_extraction(
  p_old public.extraction_queue,
  p_new public.extraction_queue,
  p_now timestamptz
)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  update public.documents as d
  set priority = case when p_new.priority <> p_old.priority then p_new.priority else d.priority end,
      -- Turns of different priorities do not compare.
      turn = case
        when p_new.priority <> p_old.priority and p_old.status_id in (3, 4)
          then private.reserve_turns(d.case_id, d.lane, p_new.priority, 1)
        else d.turn
      end,
      worker_id = case when p_new.worker_id is distinct from p_old.worker_id then p_new.worker_id else d.worker_id end,
      error_message = case
        when p_new.error_message is distinct from p_old.error_message then p_new.error_message else d.error_message end,
      ocr_error = case
        -- A claim starts without an error, so that the same one twice differs from a reset.
        when p_old.status_id = 3 and p_new.status_id in (2, 4) then null
        when p_new.ocr_error is distinct from p_old.ocr_error then p_new.ocr_error
        else d.ocr_error
      end,
      dropbox_path = case
        when p_new.dropbox_path is distinct from p_old.dropbox_path then p_new.dropbox_path else d.dropbox_path end,
      file_extension = case
        when p_new.file_extension is distinct from p_old.file_extension then p_new.file_extension
        else d.file_extension
      end,
      sha256 = case when p_new.sha256 is distinct from p_old.sha256 then p_new.sha256 else d.sha256 end,
      engine = case when p_new.engine is distinct from p_old.engine then p_new.engine else d.engine end,
      language = case when p_new.language is distinct from p_old.language then p_new.language else d.language end,
      max_attempts = case
        when p_new.ocr_max_attempts is distinct from p_old.ocr_max_attempts then p_new.ocr_max_attempts
        else d.max_attempts
      end,
      updated_at = p_now
  where d.id = p_old.id;
$$;
comment on function private.write_extraction(public.extraction_queue, public.extraction_queue, timestamptz) is
  'Write the columns that an update of extraction_queue changed. The caller has locked the row.';

create function private.require_unchanged(p_old public.extraction_queue, p_new public.extraction_queue)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (p_new.id, p_new.case_id, p_new.document_source, p_new.document_name, p_new.lock_token)
    is distinct from (p_old.id, p_old.case_id, p_old.document_source, p_old.document_name, p_old.lock_token) then
    raise exception 'the id, case, source, name and lock token of a document cannot be changed'
      using errcode = '22023', hint = 'Cancel the document and insert another.';
  end if;
  if p_old.status_id >= 3 and p_old.dropbox_path is not null and (
    p_new.dropbox_path is distinct from p_old.dropbox_path or p_new.sha256 is distinct from coalesce(p_old.sha256, p_new.sha256)
  ) then
    raise exception 'the file of this document was delivered before'
      using errcode = '22023', hint = 'Nothing has changed. Insert a document for another file.';
  end if;
  if p_old.status_id = 2 and p_new.worker_id <> p_old.worker_id then
    raise exception 'extractor % holds this document', p_old.worker_id using errcode = '22023',
      hint = 'Wait until its lease expires, or set status_id 1 and worker_id null to end its extraction.';
  end if;
  if (p_old.status_id, p_new.status_id) = (3, 3) and p_new.worker_id is not null then
    raise exception 'worker_id belongs to the extractor'
      using errcode = '22023', hint = 'Set status_id 2 together with worker_id to claim a document for OCR.';
  end if;
  if p_new.status_id <> 5
    and (p_new.ocr_text, p_new.ocr_confidence) is distinct from (p_old.ocr_text, p_old.ocr_confidence)
    or p_old.status_id = 5 and p_new.ocr_text is distinct from p_old.ocr_text then
    raise exception 'ocr_text and ocr_confidence are the result of a claim'
      using errcode = '22023', hint = 'Set them in the update from status 4 to 5. correct_page corrects a completed document.';
  end if;
end;
$$;
comment on function private.require_unchanged(public.extraction_queue, public.extraction_queue) is
  'Reject an update of columns that cannot be changed in this state (22023).';

create function private.require_claim_token(p_document public.documents, p_claim_token uuid)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if p_claim_token is null and p_document.claim_lost_at is not null then
    raise exception 'an earlier claim of this document was lost at %', p_document.claim_lost_at using errcode = '22023',
      hint = 'Its worker may still be alive. Set claim_token to the lock_token that your claim returned.';
  end if;
end;
$$;
comment on function private.require_claim_token(public.documents, uuid) is
  'Reject an update that does not name its claim, if it could come from the worker of an earlier claim (22023).';

create function private.fail_extraction(
  p_document public.documents,
  p_message text,
  p_category text,
  p_status text,
  p_now timestamptz
)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_document public.documents := p_document;
begin
  v_document.extraction_failures := p_document.extraction_failures + 1;
  -- The history names the extractor and the number of the extraction.
  v_document.locked_by := p_document.worker_id;
  v_document.attempts := v_document.extraction_failures;
  perform private.record_error(v_document, 'extraction', p_message, '{}', p_category, p_now);
  if v_document.extraction_failures >= (select l.max_extraction_failures from public.lanes as l where l.lane = p_document.lane) then
    perform private.move_to_dead_letter(v_document, p_message, '{}', p_category, p_now);
    return;
  end if;
  update public.documents as d
  set ocr_status = p_status,
      extraction_failures = v_document.extraction_failures,
      extraction_due_at = case p_status
        when 'extraction_failed' then p_now + private.backoff(d.lane, v_document.extraction_failures) end,
      worker_id = case p_status when 'extraction_failed' then d.worker_id end,
      updated_at = p_now
  where d.id = p_document.id;
end;
$$;
comment on function private.fail_extraction(public.documents, text, text, text, timestamptz) is
  'Count a failed extraction. The document gets this status, or becomes a dead letter if it has failed too often.';

create function private.deliver_extraction(
  p_document public.documents,
  p_new public.extraction_queue,
  p_now timestamptz
)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  perform private.require_file(p_new);
  update public.documents as d set extracted_by = coalesce(p_new.worker_id, d.worker_id) where d.id = p_document.id;
  if p_document.ocr_status = 'dead_letter' then
    p_document.dropbox_path := p_new.dropbox_path;
    perform private.requeue(p_document, 'its file was delivered late', p_now);
  else
    update public.documents as d
    set ocr_status = 'queued', turn = private.reserve_turns(d.case_id, d.lane, p_new.priority, 1)
    where d.id = p_document.id;
  end if;
end;
$$;
comment on function private.deliver_extraction(public.documents, public.extraction_queue, timestamptz) is
  'Queue a document whose file was delivered, even after its extraction was given up.';

create function private.sweep_extractions(p_resumed_at timestamptz, p_now timestamptz)
returns void
language plpgsql
volatile
security definer          -- called by the sweep
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
begin
  for v_document in
    select d.* from public.documents as d
    join public.lanes as l on l.lane = d.lane
    where d.extraction_due_at < p_now
      -- While the database was away no extractor could renew its lease.
      and (d.ocr_status <> 'extracting' or p_resumed_at + make_interval(secs => l.extraction_seconds) > p_now is not true)
    order by d.extraction_due_at
    limit 1000
    for update of d skip locked
  loop
    if v_document.ocr_status = 'extraction_failed' then
      update public.documents as d set ocr_status = 'awaiting_file', worker_id = null, updated_at = p_now
      where d.id = v_document.id;
    else
      perform private.fail_extraction(
        v_document, format('extractor %s did not renew its lease', coalesce(v_document.worker_id, 'unknown')), 'transient',
        'awaiting_file', p_now
      );
    end if;
  end loop;
end;
$$;
comment on function private.sweep_extractions(timestamptz, timestamptz) is
  'Return documents to the extractors: those with an expired lease, which count as failed, and, after their backoff, '
  'those whose extraction failed. p_resumed_at: when the database was last known to have restarted.';

-- One statement gets one document, however many match: PostgREST passes all of them, without order or limit.
create function private.claim_extraction(
  p_old public.extraction_queue,
  p_new public.extraction_queue,
  p_now timestamptz default now()
)
returns boolean
language plpgsql
volatile
security definer          -- pool workers have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
begin
  if current_setting('pagewarden.extraction_claimed', true) = 'true' then
    return false;
  end if;
  perform private.require_text('worker_id', p_new.worker_id, 200);
  perform private.require_unchanged(p_old, p_new);
  select d.* into v_document from public.documents as d
  where d.id = p_old.id and d.ocr_status = 'queued' and d.deleted_at is null and coalesce(d.retry_at <= p_now, true)
    and exists (select 1 from public.lanes as l where l.lane = d.lane and l.paused_at is null)
  for update skip locked;
  if not found or (private.claim_document(v_document, p_new.worker_id, 600, p_now)).id is null then
    return false;
  end if;
  perform private.write_extraction(p_old, p_new, p_now);
  perform set_config('pagewarden.extraction_claimed', 'true', true);
  return true;
end;
$$;
comment on function private.claim_extraction(public.extraction_queue, public.extraction_queue, timestamptz) is
  'Claim a queued document for ten minutes, unless this statement has claimed one before.';
grant execute on function private.claim_extraction(public.extraction_queue, public.extraction_queue, timestamptz)
  to service_role;

create function private.begin_extraction_update()
returns trigger
language plpgsql
security invoker
set search_path = ''
as $$
begin
  perform set_config('pagewarden.extraction_claimed', 'false', true);
  return null;
end;
$$;
comment on function private.begin_extraction_update() is 'Record that this statement has not claimed a document.';
create trigger extraction_queue_begin_update
  before update on public.extraction_queue
  for each statement execute function private.begin_extraction_update();

create function private.complete_extraction(
  p_document public.documents,
  p_new public.extraction_queue,
  p_now timestamptz
)
returns boolean
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  if p_new.ocr_text is null then
    raise exception 'a document can only be completed with a result' using errcode = '22023',
      hint = 'Set ocr_text (and ocr_confidence) in the same update, or call process_ocr_atomic with the lock_token of your claim.';
  end if;
  perform private.require_claim_token(p_document, p_new.claim_token);
  return (
    public.process_ocr_atomic(
      p_document.id, jsonb_build_object('text', p_new.ocr_text), p_new.ocr_confidence,
      greatest(0, least(extract(epoch from p_now - p_document.claimed_at) * 1000, 2147483647))::integer,
      p_lock_token => p_document.lock_token, p_now => p_now
    ) ->> 'success'
  )::boolean;
end;
$$;
comment on function private.complete_extraction(public.documents, public.extraction_queue, timestamptz) is
  'Complete a document with the text that an update of extraction_queue brings.';

create function private.end_extraction_claim(
  p_document public.documents,
  p_old public.extraction_queue,
  p_new public.extraction_queue,
  p_now timestamptz
)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  if p_new.status_id = 6 or p_new.ocr_error <> coalesce(p_old.ocr_error, '') then
    perform private.require_claim_token(p_document, p_new.claim_token);
    perform private.fail_attempt(
      p_document, 'failure', coalesce(p_new.ocr_error, 'OCR failed'), '{}',
      case p_new.status_id when 6 then 'permanent' else 'unknown' end, null, p_now
    );
  elsif p_new.claim_token is null and p_new.ocr_worker_id is not null then
    -- Probably an extractor that delivers its file again: it must not take the document from its worker.
    raise exception 'a worker is reading this document' using errcode = '22023',
      hint = 'Set ocr_error to report a failure, or ocr_worker_id to null to reset the claim.';
  else
    perform private.reclaim(p_document, 'reset through extraction_queue', p_now);
  end if;
end;
$$;
comment on function private.end_extraction_claim(public.documents, public.extraction_queue, public.extraction_queue, timestamptz) is
  'End a claim without a result: a failed attempt or a reset.';

-- Returns whether the document was still in the state that the caller saw. The state is checked again under
-- the document's lock: a version that trusted the row it received let 32 of 32 concurrent claims succeed.
create function private.move_extraction(
  p_old public.extraction_queue,
  p_new public.extraction_queue,
  p_now timestamptz default now()
)
returns boolean
language plpgsql
volatile
security definer          -- the extractor has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
begin
  perform private.require_extraction(p_new);
  perform private.require_unchanged(p_old, p_new);
  -- Wait for a concurrent change, then read the current state.
  select d.* into v_document from public.documents as d
  where d.id = p_old.id and d.deleted_at is null
  for update;
  if not exists (
    select 1 from public.extraction_queue as q
    where q.id = p_old.id and q.status_id = p_old.status_id and q.lock_token is not distinct from p_old.lock_token
      -- Otherwise an extractor whose lease expired could end the extraction of the next one.
      and q.worker_id is not distinct from p_old.worker_id
  ) then
    return false;
  end if;
  if p_new.claim_token <> coalesce(v_document.lock_token, gen_random_uuid()) then
    insert into private.conflicts default values;
    return false;
  end if;
  case
    when (p_old.status_id, p_new.status_id) in ((1, 2), (2, 2)) then
      update public.documents as d
      set ocr_status = 'extracting',
          extraction_started_at = case p_old.status_id when 1 then p_now else d.extraction_started_at end,
          extraction_due_at = p_now + private.extraction_lease(d.lane)
      where d.id = p_old.id;
    when p_new.status_id = p_old.status_id then
      null;
    when p_old.status_id in (1, 2) and p_new.status_id = 6 or (p_old.status_id, p_new.status_id) = (2, 1)
      and p_new.error_message is not null then
      v_document.worker_id := coalesce(p_new.worker_id, v_document.worker_id);
      perform private.fail_extraction(
        v_document, coalesce(p_new.error_message, 'extraction failed'), 'unknown',
        case p_new.status_id when 6 then 'extraction_failed' else 'awaiting_file' end, p_now
      );
    when p_old.status_id in (2, 6) and p_new.status_id = 1 then
      if v_document.ocr_status not in ('extracting', 'extraction_failed') then
        return false;
      end if;
      update public.documents as d set ocr_status = 'awaiting_file', worker_id = null where d.id = p_old.id;
    when p_old.status_id in (1, 2) and p_new.status_id = 3
      or p_old.status_id = 6 and p_new.status_id = 3 and v_document.dropbox_path is null
      and v_document.ocr_status in ('extraction_failed', 'dead_letter') then
      perform private.deliver_extraction(v_document, p_new, p_now);
    when p_old.status_id = 3 and p_new.status_id = 4 then
      -- A claim through the view cannot send heartbeats, so it holds for ten minutes.
      perform private.require_text('ocr_worker_id', p_new.ocr_worker_id, 200);
      if (private.claim_document(v_document, p_new.ocr_worker_id, 600, p_now)).id is null then
        return false;
      end if;
    when p_old.status_id = 4 and p_new.status_id in (3, 6) then
      perform private.end_extraction_claim(v_document, p_old, p_new, p_now);
    when p_old.status_id = 4 and p_new.status_id = 5 then
      if not private.complete_extraction(v_document, p_new, p_now) then
        return false;
      end if;
    when p_new.status_id = 5 then
      raise exception 'only a claimed document can be completed' using errcode = '22023',
        hint = 'Claim it with status_id 4 and ocr_worker_id; then set status_id 5 and ocr_text.';
    else
      raise exception 'status_id cannot change from % to %', p_old.status_id, p_new.status_id
        using errcode = '22023', hint = 'HAC can requeue finished documents with read_again or resolve_dead_letter.';
  end case;
  perform private.write_extraction(p_old, p_new, p_now);
  return true;
end;
$$;
comment on function private.move_extraction(public.extraction_queue, public.extraction_queue, timestamptz) is
  'Apply an update of extraction_queue; returns false if the document was changed concurrently.';
grant execute on function private.move_extraction(public.extraction_queue, public.extraction_queue, timestamptz)
  to service_role;

create function private.write_extraction_queue()
returns trigger
language plpgsql
security invoker
set search_path = ''
as $$
declare
  v_id uuid;
begin
  if tg_op = 'INSERT' then
    v_id := private.insert_extraction(new);
  elsif (old.status_id, new.status_id) = (3, 2) then
    v_id := case when private.claim_extraction(old, new) then old.id end;
  else
    v_id := case when private.move_extraction(old, new) then old.id end;
  end if;
  if v_id is null then
    return null;
  end if;
  select q.* into new from public.extraction_queue as q where q.id = v_id;
  return new;
end;
$$;
comment on function private.write_extraction_queue() is
  'Make extraction_queue writable. An update that loses a race changes nothing and returns no row.';
create trigger extraction_queue_write
  instead of insert or update on public.extraction_queue
  for each row execute function private.write_extraction_queue();
