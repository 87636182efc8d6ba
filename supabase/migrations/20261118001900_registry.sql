-- The land registry's queue: extraction_queue, an updatable view of documents.
--
-- It shows the documents of the lanes index and acte with the columns and status ids of the registry's
-- extractors: 1 EN_ATTENTE (awaiting_file), 2 EN_TRAITEMENT (extracting), 3 COMPLETE (queued),
-- 4 OCR_PROCESSING, 5 EXTRACTION_COMPLETE, 6 ERREUR. Updates go through the same functions as those of any
-- other caller. The trigger re-checks the state under the document's lock and returns no row if another
-- caller was faster.

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
  d.dropbox_path::text as dropbox_path,
  d.file_extension::text as file_extension,
  d.sha256::text as sha256,
  d.locked_by as ocr_worker_id,
  d.lock_token,
  d.claimed_at as ocr_started_at,
  d.ocr_completed_at,
  d.attempts::integer as ocr_attempts,
  d.max_attempts::integer as ocr_max_attempts,
  d.error_message,
  d.ocr_error,
  d.engine::text as engine,
  d.language::text as language,
  d.created_at,
  d.updated_at
from public.documents as d
where d.lane in ('index', 'acte') and d.deleted_at is null;
comment on view public.extraction_queue is
  'Documents of the registry: 1 EN_ATTENTE, 2 EN_TRAITEMENT, 3 COMPLETE, 4 OCR_PROCESSING, '
  '5 EXTRACTION_COMPLETE, 6 ERREUR. Changing status_id changes the state of a document, unless another caller has changed it first. '
  'Nullable: worker_id, dropbox_path, file_extension, sha256, ocr_worker_id, lock_token, ocr_started_at, ocr_completed_at, '
  'error_message, ocr_error, engine, language.';
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
  v_lane public.lanes := private.require_lane(p_row.document_source);
  v_id uuid;
begin
  p_row.priority := coalesce(p_row.priority, 0);
  p_row.ocr_max_attempts := coalesce(p_row.ocr_max_attempts, v_lane.max_attempts);
  if v_lane.lane not in ('index', 'acte') then
    raise exception 'unknown registry lane %', v_lane.lane
      using errcode = '22023', hint = 'document_source must be index or acte.';
  end if;
  if coalesce(p_row.status_id, 1) not in (1, 3) then
    raise exception 'a new document must have status 1, or 3 with a file'
      using errcode = '22023', hint = 'Omit status_id.';
  end if;
  perform private.require_text('document_name', p_row.document_name, 1024);
  perform private.require_extraction(p_row);
  perform private.require_file(p_row);
  perform 1 from public.cases as c where c.id = v_case_id and c.deleted_at is null for key share;
  if not found then
    raise exception 'there is no case %', v_case_id
      using errcode = '22023', hint = 'Omit case_id to use the case of the registry.';
  end if;
  insert into public.documents as d (
    id, case_id, name, lane, ocr_status, dropbox_path, file_extension, sha256, engine, language,
    priority, turn, max_attempts, worker_id, created_at, updated_at
  )
  values (
    coalesce(p_row.id, gen_random_uuid()), v_case_id, p_row.document_name, v_lane.lane,
    case p_row.status_id when 3 then 'queued' else 'awaiting_file' end,
    p_row.dropbox_path, p_row.file_extension, p_row.sha256, p_row.engine, p_row.language, p_row.priority,
    case p_row.status_id when 3 then private.reserve_turns(v_case_id, v_lane.lane, p_row.priority, 1) else 0 end,
    p_row.ocr_max_attempts, p_row.worker_id, p_now, p_now
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
        when (p_old.status_id, p_new.status_id) = (3, 4) then null
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
  if (p_new.id, p_new.case_id, p_new.document_source, p_new.document_name, p_new.lock_token)
    is distinct from (p_old.id, p_old.case_id, p_old.document_source, p_old.document_name, p_old.lock_token) then
    raise exception 'the id, case, source, name and lock token of a document cannot be changed'
      using errcode = '22023', hint = 'Cancel the document and insert another.';
  end if;
  perform private.require_extraction(p_new);
  -- Wait for a concurrent change, then read the current state.
  select d.* into v_document from public.documents as d
  where d.id = p_old.id and d.deleted_at is null
  for update;
  if not exists (
    select 1 from public.extraction_queue as q
    where q.id = p_old.id and q.status_id = p_old.status_id and q.lock_token is not distinct from p_old.lock_token
  ) then
    return false;
  end if;
  case
    when p_new.status_id = p_old.status_id then
      null;
    when (p_old.status_id, p_new.status_id) in ((1, 2), (2, 1), (1, 3), (2, 3), (1, 6), (2, 6), (6, 1)) then
      if p_old.status_id = 6 and v_document.ocr_status <> 'extraction_failed' then
        return false;
      end if;
      perform private.require_file(p_new);
      update public.documents as d
      set ocr_status = case p_new.status_id
            when 1 then 'awaiting_file' when 2 then 'extracting' when 3 then 'queued' else 'extraction_failed' end,
          turn = case p_new.status_id
            when 3 then private.reserve_turns(d.case_id, d.lane, p_new.priority, 1) else d.turn end
      where d.id = p_old.id;
      if p_new.status_id = 6 then
        perform private.record_error(
          v_document, 'extraction', coalesce(p_new.error_message, 'extraction failed'), '{}', 'unknown', p_now
        );
      end if;
    when p_old.status_id = 3 and p_new.status_id = 4 then
      -- A claim through the view cannot send heartbeats, so it holds for ten minutes.
      perform private.require_text('ocr_worker_id', p_new.ocr_worker_id, 200);
      if (private.claim_document(v_document, p_new.ocr_worker_id, 600, p_now)).id is null then
        return false;
      end if;
    when p_old.status_id = 4 and p_new.status_id = 3 and p_new.ocr_error is not distinct from p_old.ocr_error then
      perform private.reclaim(v_document, 'reset through extraction_queue', p_now);
    when p_old.status_id = 4 and p_new.status_id in (3, 6) then
      perform private.fail_attempt(
        v_document, 'failure', coalesce(p_new.ocr_error, 'OCR failed'), '{}',
        case p_new.status_id when 6 then 'permanent' else 'unknown' end, null, p_now
      );
    when p_new.status_id = 5 then
      raise exception 'a document can only be completed with a result' using errcode = '22023',
        hint = 'Call process_ocr_atomic with the lock_token of your claim.';
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
  elsif private.move_extraction(old, new) then
    v_id := old.id;
  else
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
