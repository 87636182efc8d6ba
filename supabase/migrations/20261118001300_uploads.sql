-- Uploads: create documents and versions of documents, route files of unknown type, requeue a
-- document to be read again.
--
-- An upload under an existing name creates a new version and soft-deletes the old one. Identical bytes
-- (same SHA-256) return the existing document. An advisory lock on case and name serializes uploads of
-- one name. add_documents inserts up to 10,000 new files with three statements.
--
-- A file that is too large for one request is uploaded in two steps. request_upload records what the caller
-- intends to upload (pending_uploads) and lists the staged file for removal (private.temporary_files); the API
-- signs an address for the file. confirm_upload creates the document, in the transaction that marks the upload
-- as confirmed. A staged file whose time is over is removed, whether it was confirmed or not: a confirmed one
-- was copied into the folder of its case first.
--
-- A file of unknown type stays pending, with a task for HAC (the people with the role admin), until
-- HAC routes it to a lane or refuses it. private.requeue() is the only way back to the queue; dead
-- letters and corrections use it as well. The files themselves are stored by the API, not here.

create function private.upload_lane(p_lane text, p_ocr_status text, p_file_extension text)
returns text
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if p_ocr_status not in ('pending', 'queued', 'queued_for_pdf') then
    raise exception 'invalid upload status %', p_ocr_status
      using errcode = '22023', hint = 'Valid statuses are pending, queued and queued_for_pdf.';
  end if;
  if p_ocr_status = 'pending' then
    return null;
  end if;
  return coalesce(
    p_lane,
    case p_ocr_status when 'queued_for_pdf' then 'pdf' when 'queued' then 'image' end,
    case
      when lower(p_file_extension) = 'pdf' then 'pdf'
      when lower(p_file_extension) in ('jpg', 'jpeg', 'png', 'heic', 'heif', 'webp', 'tif', 'tiff', 'bmp', 'gif')
        then 'image'
    end
  );
end;
$$;
comment on function private.upload_lane(text, text, text) is
  'The lane for an upload; null if the file type is unknown and HAC must route it.';

-- Services and HAC are trusted. For any other caller the path must be in the folder of the case, because a
-- document allows reading and removing its file; and the priority must not be above 0.
create function private.require_uploader(p_case_id uuid, p_priority integer, p_files jsonb)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  if not private.is_service() and not private.is_admin() then
    perform private.require_case_rank(p_case_id, 2);
    if p_priority > 0 then
      raise exception 'priorities above 0 require the "admin" role (HAC)' using errcode = '42501', hint = 'Omit p_priority.';
    end if;
    if exists (
      select 1 from jsonb_array_elements(p_files) as f
      where not starts_with(ltrim(f ->> 'dropbox_path', '/'), p_case_id::text || '/') or f ->> 'dropbox_path' like '%..%'
    ) then
      raise exception 'the file is not in the case folder' using errcode = '42501',
        hint = 'Store it in the folder named after the case id.';
    end if;
  end if;
  perform private.require_live_case(p_case_id);
end;
$$;
comment on function private.require_uploader(uuid, integer, jsonb) is
  'Reject a case that does not exist (22023) or a caller who may not upload to it (42501).';

-- A worker that has claimed the replaced document may finish it; no other worker claims it.
create function private.supersede(p_document public.documents, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  update public.documents as d
  set deleted_at = clock_timestamp(),   -- unique with the name, also within one transaction
      ocr_status = case
        when d.ocr_status in ('pending', 'awaiting_file', 'extracting', 'queued', 'queued_for_pdf') then 'cancelled'
        else d.ocr_status
      end,
      retry_at = null,
      updated_at = p_now
  where d.id = (p_document).id;
  perform private.close_dead_letter_and_tasks((p_document).id);
end;
$$;
comment on function private.supersede(public.documents, timestamptz) is 'Soft-delete a document in favour of a newer upload.';

create function private.close_dead_letter_and_tasks(p_document_id uuid)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  update public.documents as d set ocr_status = 'cancelled', updated_at = now()
  where d.id = p_document_id and d.ocr_status in ('dead_letter', 'pending_review');
  update public.ocr_dead_letter as l
  set status = 'abandoned', reviewed_by = auth.uid(), reviewed_at = now(), updated_at = now()
  where l.document_id = p_document_id and l.status in ('pending', 'investigating');
  perform private.close_tasks(p_document_id, 'cancelled', array['dead_letter', 'review', 'routing']);
end;
$$;
comment on function private.close_dead_letter_and_tasks(uuid) is 'Close the dead letter and the open tasks of a document.';

create function private.require_upload(p_lane text, p_priority integer, p_sha256 text, p_size_bytes bigint)
returns void
language plpgsql
stable
security invoker
set search_path = ''
as $$
begin
  if p_lane is not null then
    perform private.require_lane(p_lane);
  end if;
  if (p_priority between -1000 and 1000) is not true then
    raise exception 'p_priority must be between -1000 and 1000, got %', coalesce(p_priority::text, 'null')
      using errcode = '22023', hint = 'Higher is more urgent; the default is 0.';
  end if;
  if (octet_length(p_sha256) <> 64 or p_sha256 ~ '[^0-9a-f]') then
    raise exception 'p_sha256 must be 64 lower-case hexadecimal digits' using errcode = '22023',
      hint = 'In Python: hashlib.sha256(data).hexdigest().';
  end if;
  if p_size_bytes < 0 then
    raise exception 'p_size_bytes must not be negative' using errcode = '22023', hint = 'Send the size of the file in bytes.';
  end if;
end;
$$;
comment on function private.require_upload(text, integer, text, bigint) is 'Reject invalid arguments of an upload (22023).';

create function private.require_read_options(p_engine text, p_language text, p_profile text)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  perform private.require_optional_text('p_engine', p_engine, 200);
  perform private.require_optional_text('p_language', p_language, 200);
  perform private.require_optional_text('p_profile', p_profile, 200);
end;
$$;
comment on function private.require_read_options(text, text, text) is
  'Reject blank or overlong engine, language and profile names (22023); null lets the worker choose.';

create type public.safe_document_reupload_v2_answer as (
  success boolean,
  document_id uuid,
  version integer,
  document_version integer,
  ocr_status text,
  existing boolean
);
comment on type public.safe_document_reupload_v2_answer is
  'The schema of the answer of safe_document_reupload_v2; null fields are omitted.';

create function private.return_existing_document(p_document public.documents, p_now timestamptz)
returns public.safe_document_reupload_v2_answer
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_answer public.safe_document_reupload_v2_answer;
begin
  v_answer.success := true;
  v_answer.document_id := p_document.id;
  v_answer.version := p_document.version;
  v_answer.document_version := p_document.document_version;
  v_answer.ocr_status := p_document.ocr_status;
  v_answer.existing := true;
  if p_document.ocr_status in ('dead_letter', 'failed', 'cancelled') then
    perform private.requeue(p_document, 'uploaded again', p_now);
    v_answer.ocr_status := private.queued_status(p_document.lane);
  end if;
  return v_answer;
end;
$$;
comment on function private.return_existing_document(public.documents, timestamptz) is
  'Return the existing document for an upload of identical bytes, and requeue it if it had failed or been cancelled.';

-- Counts start at zero, the history is kept, and the document takes the next turn of its case.
create function private.requeued_status(p_document public.documents)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  -- Without its file a document of the registry has to be extracted first.
  select case
    when (p_document).dropbox_path is null and (p_document).lane in ('index', 'acte') then 'awaiting_file'
    else private.queued_status((p_document).lane)
  end;
$$;
comment on function private.requeued_status(public.documents) is 'The status of a document that is to be read again.';

create function private.requeue(p_document public.documents, p_reason text, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_status text := private.requeued_status(p_document);
begin
  update public.documents as d
  set ocr_status = v_status,
      attempts = 0, retry_count = 0, rescues = 0, extraction_failures = 0, retry_at = null, ocr_error = null,
      locked_by = null, locked_at = null, lock_token = null, lock_expires_at = null, attempt_deadline = null,
      turn = case v_status
        when 'awaiting_file' then d.turn else private.reserve_turns(d.case_id, d.lane, d.priority, 1) end,
      updated_at = p_now
  where d.id = p_document.id;
  update public.ocr_dead_letter as l
  set status = 'requeued', reviewed_by = auth.uid(), reviewed_at = p_now, updated_at = p_now
  where l.document_id = p_document.id and l.status in ('pending', 'investigating', 'manual', 'abandoned');
  perform private.close_tasks(p_document.id, 'done', array['dead_letter', 'review', 'routing']);
  perform private.log_act(
    p_document.case_id, p_document.id, 'requeued', format('"%s" queued: %s', p_document.name, p_reason),
    p_document.ocr_status, v_status
  );
end;
$$;
comment on function private.requeue(public.documents, text, timestamptz) is
  'Return a document to the queue, or, without its file, to the extractors, and reset its counts.';

create function private.safe_document_reupload_v2(
  p_case_id uuid,
  p_document_name text,
  p_new_dropbox_path text,
  p_file_extension text,
  p_ocr_status text,
  p_lane text,
  p_sha256 text,
  p_size_bytes bigint,
  p_mime_type text,
  p_priority integer,
  p_engine text,
  p_language text,
  p_profile text,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_lane text := private.upload_lane(p_lane, p_ocr_status, p_file_extension);
  v_old public.documents;
  v_new public.documents;
  v_answer public.safe_document_reupload_v2_answer;
begin
  perform private.require_text('p_document_name', p_document_name, 1024);
  perform private.require_upload(p_lane, p_priority, p_sha256, p_size_bytes);
  perform private.require_optional_text('p_new_dropbox_path', p_new_dropbox_path, 4096);
  perform private.require_optional_text('p_file_extension', nullif(p_file_extension, ''), 200);
  perform private.require_optional_text('p_mime_type', nullif(p_mime_type, ''), 200);
  perform private.require_read_options(p_engine, p_language, p_profile);
  perform private.require_uploader(
    p_case_id, p_priority, jsonb_build_array(jsonb_build_object('dropbox_path', p_new_dropbox_path))
  );
  -- Serialize uploads of one name.
  perform pg_advisory_xact_lock_shared(hashtextextended(p_case_id::text, 4));
  perform pg_advisory_xact_lock(hashtextextended(p_case_id::text || p_document_name, 2));

  select d.* into v_old from public.documents as d
  where d.case_id = p_case_id and d.name = p_document_name and d.deleted_at is null
  for update;
  if v_old.sha256 = p_sha256 then
    return to_jsonb(private.return_existing_document(v_old, p_now));
  end if;
  if v_old.id is not null then
    perform private.supersede(v_old, p_now);
  end if;

  insert into public.documents as d (
    case_id, name, lane, ocr_status, file_extension, dropbox_path, mime_type, sha256, size_bytes,
    document_version, engine, language, profile, priority, turn, max_attempts, created_at, updated_at
  )
  select p_case_id, p_document_name, l.lane,
    case when v_lane is null then 'pending' else private.queued_status(v_lane) end,
    p_file_extension, p_new_dropbox_path, p_mime_type, p_sha256, p_size_bytes,
    coalesce(
      v_old.document_version,
      (
        select max(o.document_version) from public.documents as o
        where o.case_id = p_case_id and o.name = p_document_name
      ),
      0
    ) + 1,
    p_engine, p_language, p_profile, p_priority,
    -- A pending document takes its turn when HAC routes it.
    case when v_lane is null then 0 else private.reserve_turns(p_case_id, l.lane, p_priority, 1) end,
    l.max_attempts, p_now, p_now
  from public.lanes as l
  where l.lane = coalesce(v_lane, 'image')
  returning d.* into v_new;
  if v_lane is null then
    perform private.open_task(
      p_case_id, v_new.id, 'routing', 'Choose a lane for this file',
      format('"%s" is of an unknown type', p_document_name), 'normal',
      jsonb_build_object('document_id', v_new.id)
    );
  end if;
  v_answer.success := true;
  v_answer.document_id := v_new.id;
  v_answer.version := v_new.version;
  v_answer.document_version := v_new.document_version;
  v_answer.ocr_status := v_new.ocr_status;
  v_answer.existing := false;
  return to_jsonb(v_answer);
end;
$$;
comment on function private.safe_document_reupload_v2(uuid, text, text, text, text, text, text, bigint, text, integer, text, text, text, timestamptz) is
  'See public.safe_document_reupload_v2.';
grant execute on function private.safe_document_reupload_v2(uuid, text, text, text, text, text, text, bigint, text, integer, text, text, text, timestamptz)
  to authenticated, service_role;

create table private.temporary_files (
  id bigint generated always as identity,
  path text not null,
  expires_at timestamptz not null,
  constraint temporary_files_pkey primary key (id),
  constraint temporary_files_path_is_unique unique (path),
  -- Files of documents are in the folders of their cases, so that none can ever be listed here.
  constraint temporary_files_has_no_documents check (path ~ '^(uploads/[0-9a-f-]{36}|exports/[0-9a-f-]{36}/[^/]+)$')
);
create index temporary_files_expires_idx on private.temporary_files (expires_at);
alter table private.temporary_files enable row level security;
comment on table private.temporary_files is
  'Files that the store keeps for a limited time, recorded before they are written: staged uploads, and exports for '
  'download. Retention deletes each file and then its row.';

create table public.pending_uploads (
  id uuid not null default gen_random_uuid(),
  case_id uuid not null references public.cases (id) on delete cascade,
  name public.document_name not null,
  sha256 public.sha256_hex not null,
  size_bytes public.file_size not null,
  engine public.label,
  language public.label,
  profile public.label,
  callback_url text,
  requested_by uuid references auth.users (id) on delete cascade,
  expires_at timestamptz not null,
  document_id uuid references public.documents (id) on delete cascade,
  existing boolean,
  created_at timestamptz not null default now(),
  constraint pending_uploads_pkey primary key (id),
  constraint pending_uploads_callback_url_is_short check (octet_length(callback_url) <= 2000),
  constraint pending_uploads_confirmed_has_a_result check ((document_id is null) = (existing is null))
);
comment on table public.pending_uploads is
  'Uploads in two steps. The row of an upload that was not confirmed in time is deleted with its file, the row of a '
  'confirmed one with its document.';
comment on column public.pending_uploads.requested_by is 'Null: a service.';
comment on column public.pending_uploads.expires_at is 'The upload must be confirmed before.';
comment on column public.pending_uploads.document_id is 'The document of the file; null until the upload is confirmed.';
comment on column public.pending_uploads.existing is 'Whether the case had the same file already under this name.';
create index pending_uploads_case_idx on public.pending_uploads (case_id);
create index pending_uploads_requested_by_idx on public.pending_uploads (requested_by);
create index pending_uploads_document_idx on public.pending_uploads (document_id);
alter table public.pending_uploads enable row level security;
create policy "People see the uploads that they requested"
  on public.pending_uploads for select to authenticated
  using (requested_by = (select auth.uid()));
grant select on public.pending_uploads to authenticated, service_role;

create type public.request_upload_answer as (
  upload_id uuid,
  expires_at timestamptz
);
comment on type public.request_upload_answer is 'The recorded upload, and until when it can be confirmed.';

create function private.request_upload(
  p_case_id uuid,
  p_document_name text,
  p_sha256 text,
  p_size_bytes bigint,
  p_engine text,
  p_language text,
  p_profile text,
  p_callback_url text,
  p_seconds integer,
  p_now timestamptz default now()
)
returns public.request_upload_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer public.request_upload_answer;
begin
  perform private.require_text('p_document_name', p_document_name, 1024);
  perform private.require_upload(null, 0, coalesce(p_sha256, ''), p_size_bytes);
  perform private.require_read_options(p_engine, p_language, p_profile);
  perform private.require_optional_text('p_callback_url', p_callback_url, 2000);
  if p_size_bytes is null or (p_seconds between 60 and 604800) is not true then
    raise exception 'p_size_bytes is required, and p_seconds must be between 60 and 604800' using errcode = '22023',
      hint = 'Send the size of the file in bytes.';
  end if;
  perform private.require_uploader(p_case_id, 0, '[]');
  insert into public.pending_uploads as u (
    case_id, name, sha256, size_bytes, engine, language, profile, callback_url, requested_by, expires_at, created_at
  )
  values (
    p_case_id, p_document_name, p_sha256, p_size_bytes, p_engine, p_language, p_profile, p_callback_url,
    case when not private.is_service() then auth.uid() end, p_now + make_interval(secs => p_seconds), p_now
  )
  returning u.id, u.expires_at into v_answer;
  insert into private.temporary_files (path, expires_at)
  values ('uploads/' || v_answer.upload_id, v_answer.expires_at);
  return v_answer;
end;
$$;
comment on function private.request_upload(uuid, text, text, bigint, text, text, text, text, integer, timestamptz) is
  'See public.request_upload.';
grant execute on function private.request_upload(uuid, text, text, bigint, text, text, text, text, integer, timestamptz)
  to authenticated, service_role;

create type public.uploaded_document as (
  document_id uuid,
  case_id uuid,
  name text,
  document_version integer,
  ocr_status text,
  existing boolean
);
comment on type public.uploaded_document is
  'The document of a confirmed upload. existing: the case had the same file already under this name.';

create type public.confirm_upload_answer as (
  success boolean,
  error text,
  message text,
  document public.uploaded_document
);
comment on type public.confirm_upload_answer is
  'The document of a confirmed upload, or why it was not confirmed. Nullable: error, message, document.';

create function private.confirm_upload(
  p_upload_id uuid,
  p_new_dropbox_path text,
  p_file_extension text,
  p_ocr_status text,
  p_lane text,
  p_mime_type text,
  p_now timestamptz default now()
)
returns public.confirm_upload_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_upload public.pending_uploads;
  v_created jsonb;
  v_answer public.confirm_upload_answer;
begin
  -- The lock fences concurrent confirmations: one creates the document, the others return it.
  select u.* into v_upload from public.pending_uploads as u
  where u.id = p_upload_id and (private.is_service() or u.requested_by = auth.uid())
  for update;
  if not found or (v_upload.document_id is null and v_upload.expires_at <= p_now) then
    v_answer.success := false;
    v_answer.error := 'UPLOAD_NOT_FOUND';
    v_answer.message := 'there is no such upload, or its time is over; request another address and upload the file again';
    return v_answer;
  end if;
  if v_upload.document_id is null then
    perform private.require_text('p_new_dropbox_path', p_new_dropbox_path, 4096);
    v_created := private.safe_document_reupload_v2(
      v_upload.case_id, v_upload.name, p_new_dropbox_path, p_file_extension, p_ocr_status, p_lane, v_upload.sha256,
      v_upload.size_bytes, p_mime_type, 0, v_upload.engine, v_upload.language, v_upload.profile, p_now
    );
    update public.pending_uploads as u
    set document_id = (v_created ->> 'document_id')::uuid, existing = (v_created ->> 'existing')::boolean
    where u.id = p_upload_id
    returning u.* into v_upload;
    if v_upload.callback_url is not null then
      perform private.request_webhook(v_upload.document_id, v_upload.callback_url);
    end if;
  end if;
  v_answer.success := true;
  select row(d.id, d.case_id, d.name, d.document_version, d.ocr_status, v_upload.existing)::public.uploaded_document
  into v_answer.document
  from public.documents as d
  where d.id = v_upload.document_id;
  return v_answer;
end;
$$;
comment on function private.confirm_upload(uuid, text, text, text, text, text, timestamptz) is
  'See public.confirm_upload.';
grant execute on function private.confirm_upload(uuid, text, text, text, text, text, timestamptz)
  to authenticated, service_role;

create function private.exclude_existing_names(p_case_id uuid, p_documents jsonb)
returns jsonb
language sql
stable
security invoker
set search_path = ''
as $$
  select coalesce(jsonb_agg(f.file order by f.number), '[]')
  from jsonb_array_elements(p_documents) with ordinality as f (file, number)
  where not exists (
    select 1 from public.documents as d
    where d.case_id = p_case_id and d.name = f.file ->> 'name' and d.deleted_at is null
  );
$$;
comment on function private.exclude_existing_names(uuid, jsonb) is
  'The files in a list whose names do not yet exist in the case.';

-- The hot path of uploads: three statements in all, because with one file per call each further statement or
-- helper call took 5 to 20 us of about 250. The require_ helpers run only when the quick check fails.
create function private.add_documents(p_case_id uuid, p_documents jsonb, p_lane text, p_priority integer, p_now timestamptz default now())
returns setof uuid
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan   -- planned once: it reads by primary key, whatever the statistics say
as $$
declare
  v_files jsonb := p_documents;
  v_max_attempts integer;
  v_clock bigint;
  v_again boolean := false;
begin
  if (
    jsonb_typeof(p_documents) = 'array' and jsonb_array_length(p_documents) <= 10000
    and not p_documents @? 'strict $[*] ? (@.type() <> "object")'
    and p_priority between -1000 and 1000 and private.is_service()
  ) is not true then
    perform private.require_lane(p_lane);
    perform private.require_list('p_documents', p_documents);
    perform private.require_upload(null, p_priority, null, null);
    perform private.require_uploader(p_case_id, p_priority, p_documents);
  end if;
  select l.max_attempts, k.turn into v_max_attempts, v_clock
  from public.cases as c
  cross join public.lanes as l
  left join private.lane_clocks as k on k.lane = l.lane and k.priority = p_priority
  where c.id = p_case_id and c.deleted_at is null and l.lane = p_lane
  for key share of c;
  if v_clock is null then
    perform private.require_lane(p_lane);
    perform private.require_live_case(p_case_id);
    v_clock := private.start_clock(p_lane, p_priority);
  end if;
  loop
    begin
      return query
      with turns as (   -- as private.reserve_turns does
        insert into private.fair_turns as t (case_id, lane, priority, next_turn)
        values (p_case_id, p_lane, p_priority, v_clock + jsonb_array_length(v_files))
        on conflict on constraint fair_turns_pkey
        do update set next_turn = greatest(t.next_turn, v_clock) + jsonb_array_length(v_files)
        returning t.next_turn - jsonb_array_length(v_files) - 1 as before,
          -- Ids of one call follow one another (UUID version 7), so they meet in the same pages of the index.
          to_hex(281474976710656 + (date_part('epoch', p_now) * 1000)::bigint) as millisecond,
          to_hex(1099511627776 + (random() * 1099511627775)::bigint) as noise
      ),
      added as (
        insert into public.documents as d (
          id, case_id, name, lane, ocr_status, listed_in, file_extension, dropbox_path, mime_type, sha256, size_bytes,
          engine, language, profile, priority, turn, max_attempts, created_at, updated_at
        )
        select (
            substr(t.millisecond, 2) || '7' || substr(t.noise, 2, 3) || 'b' || substr(t.noise, 5)
            || to_hex(2147483648 + i.number)
          )::uuid,
          p_case_id, i.name, p_lane,
          case p_lane when 'pdf' then 'queued_for_pdf' else 'queued' end, 'queue', i.file_extension, i.dropbox_path,
          i.mime_type, i.sha256, i.size_bytes, i.engine, i.language, i.profile, p_priority, t.before + i.number,
          v_max_attempts, p_now, p_now
        from turns as t
        cross join rows from (jsonb_to_recordset(v_files) as (
          name text, file_extension text, dropbox_path text, mime_type text, sha256 text, size_bytes bigint,
          engine text, language text, profile text
        )) with ordinality as i (
          name, file_extension, dropbox_path, mime_type, sha256, size_bytes, engine, language, profile, number
        )
        returning d.id, d.turn
      ),
      queued as (
        insert into private.queue (lane, urgency, turn, document_id)
        select p_lane, -p_priority, a.turn, a.id from added as a
      )
      select a.id from added as a;
      return;
    exception
      when unique_violation then
        -- Existing names are left out and take no turns. The lock excludes other uploads into the case, so the
        -- second try fails only if the list contains a duplicate name.
        if v_again then
          raise exception 'the list contains a duplicate name' using errcode = '22023', hint = 'Send each name once.';
        end if;
        perform pg_advisory_xact_lock(hashtextextended(p_case_id::text, 4));
        v_files := private.exclude_existing_names(p_case_id, p_documents);
        v_again := true;
      when check_violation or not_null_violation then
        raise exception 'a file in the list is invalid' using errcode = '22023',
          hint = 'A name of 1 to 1024 bytes is required; sha256 must be 64 lower-case hexadecimal digits, dropbox_path at '
            'most 4096 bytes, other fields at most 200, and size_bytes must not be negative.';
    end;
  end loop;
end;
$$;
comment on function private.add_documents(uuid, jsonb, text, integer, timestamptz) is 'See public.add_documents.';
grant execute on function private.add_documents(uuid, jsonb, text, integer, timestamptz) to authenticated, service_role;

create type public.route_document_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  lane text,
  ocr_status text
);
comment on type public.route_document_answer is
  'The lane of a routed document, or why it was skipped. Nullable: error, message, lane, ocr_status.';

create function private.route_document(p_document_id uuid, p_lane text, p_notes text, p_now timestamptz default now())
returns public.route_document_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_answer public.route_document_answer;
begin
  perform private.require_admin();
  perform private.require_lane(p_lane);
  perform private.require_optional_text('p_notes', nullif(p_notes, ''), 10000);
  select d.* into v_document from public.documents as d where d.id = p_document_id for update;
  if not found then
    return private.refused(v_answer, 'DOCUMENT_NOT_FOUND', p_document_id);
  end if;
  if v_document.ocr_status <> 'pending' then
    return private.refused(v_answer, 'WRONG_STATE', p_document_id);
  end if;
  update public.documents as d
  set lane = p_lane, max_attempts = (select l.max_attempts from public.lanes as l where l.lane = p_lane)
  where d.id = p_document_id
  returning d.* into v_document;
  perform private.requeue(v_document, coalesce(p_notes, format('routed to lane %s', p_lane)), p_now);
  v_answer.success := true;
  v_answer.document_id := p_document_id;
  v_answer.lane := p_lane;
  v_answer.ocr_status := private.queued_status(p_lane);
  return v_answer;
end;
$$;
comment on function private.route_document(uuid, text, text, timestamptz) is 'See public.route_document.';
grant execute on function private.route_document(uuid, text, text, timestamptz) to authenticated, service_role;

create type public.skipped_document as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  name text
);
comment on type public.skipped_document is
  'A document that a bulk action skipped, with the reason. success is false. Nullable: name.';

create type public.route_documents_answer as (
  success boolean,
  done integer,
  documents uuid[],
  skipped public.skipped_document[]
);
comment on type public.route_documents_answer is
  'The documents of unknown type that were routed or rejected, with their number; and those that were skipped.';

create function private.route_or_cancel_documents(p_document_ids uuid[], p_lane text, p_notes text, p_now timestamptz)
returns public.route_documents_answer
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_id uuid;
  v_document public.documents;
  v_answer public.route_documents_answer;
begin
  if (cardinality(p_document_ids) between 1 and 1000) is not true then
    raise exception 'p_document_ids must contain 1 to 1000 ids' using errcode = '22023', hint = 'Send a smaller list.';
  end if;
  v_answer.documents := '{}';
  v_answer.skipped := '{}';
  for v_id in
    select distinct i.id from unnest(p_document_ids) as i (id) order by i.id
  loop
    select d.* into v_document from public.documents as d where d.id = v_id for update;
    if not found then
      v_answer.skipped := v_answer.skipped
        || private.refused(null::public.skipped_document, 'DOCUMENT_NOT_FOUND', v_id);
    elsif v_document.ocr_status <> 'pending' then
      v_answer.skipped := v_answer.skipped || private.skip_wrong_state(v_document);
    else
      if p_lane is null then
        perform private.cancel(v_document, p_notes, p_now);
      else
        perform private.route_document(v_id, p_lane, p_notes, p_now);
      end if;
      v_answer.documents := v_answer.documents || v_id;
    end if;
  end loop;
  v_answer.success := true;
  v_answer.done := cardinality(v_answer.documents);
  return v_answer;
end;
$$;
comment on function private.route_or_cancel_documents(uuid[], text, text, timestamptz) is
  'Route files of unknown type to a lane, or cancel them if the lane is null.';

create function private.route_documents(p_document_ids uuid[], p_lane text, p_notes text)
returns public.route_documents_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_admin();
  perform private.require_lane(p_lane);
  perform private.require_optional_text('p_notes', nullif(p_notes, ''), 10000);
  return private.route_or_cancel_documents(p_document_ids, p_lane, p_notes, now());
end;
$$;
comment on function private.route_documents(uuid[], text, text) is 'See public.route_documents.';
grant execute on function private.route_documents(uuid[], text, text) to authenticated, service_role;

create function private.refuse_documents(p_document_ids uuid[], p_reason text)
returns public.route_documents_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_admin();
  perform private.require_text('p_reason', p_reason, 10000);
  return private.route_or_cancel_documents(p_document_ids, null, p_reason, now());
end;
$$;
comment on function private.refuse_documents(uuid[], text) is 'See public.refuse_documents.';
grant execute on function private.refuse_documents(uuid[], text) to authenticated, service_role;

create type public.read_again_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  reading integer,
  ocr_status text
);
comment on type public.read_again_answer is
  'The number of the requested reading, or why the request was rejected. Nullable: error, message, reading, '
  'ocr_status.';

create function private.read_again(
  p_document_id uuid,
  p_engine text,
  p_language text,
  p_profile text,
  p_now timestamptz default now()
)
returns public.read_again_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_answer public.read_again_answer;
begin
  perform private.require_read_options(p_engine, p_language, p_profile);
  select d.* into v_document from public.documents as d where d.id = p_document_id for update;
  perform private.require_case_rank(v_document.case_id, 2);
  if v_document.id is null then
    return private.refused(v_answer, 'DOCUMENT_NOT_FOUND', p_document_id);
  end if;
  if v_document.deleted_at is not null
    or v_document.ocr_status not in ('completed', 'failed', 'cancelled', 'pending_review', 'dead_letter')
    -- Pictures of a check job are read again with it: rerun_check_job.
    or exists (select 1 from public.check_jobs as j where j.id = v_document.case_id) then
    return private.refused(v_answer, 'WRONG_STATE', p_document_id);
  end if;
  update public.documents as d
  set reading = d.reading + 1,
      open_run_id = null,
      engine = coalesce(p_engine, d.engine),
      language = coalesce(p_language, d.language),
      profile = coalesce(p_profile, d.profile)
  where d.id = p_document_id
  returning d.reading into v_answer.reading;
  perform private.requeue(v_document, 'to be read again', p_now);
  v_answer.success := true;
  v_answer.document_id := p_document_id;
  v_answer.ocr_status := private.requeued_status(v_document);
  return v_answer;
end;
$$;
comment on function private.read_again(uuid, text, text, text, timestamptz) is 'See public.read_again.';
grant execute on function private.read_again(uuid, text, text, text, timestamptz) to authenticated, service_role;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.safe_document_reupload_v2(
  p_case_id uuid,
  p_document_name text,
  p_new_dropbox_path text,
  p_file_extension text,
  p_ocr_status text default null,
  p_lane text default null,
  p_sha256 text default null,
  p_size_bytes bigint default null,
  p_mime_type text default null,
  p_priority integer default 0,
  p_engine text default null,
  p_language text default null,
  p_profile text default null
)
returns jsonb
language sql volatile security invoker set search_path = ''
as $$ select private.safe_document_reupload_v2(p_case_id, p_document_name, p_new_dropbox_path, p_file_extension, p_ocr_status, p_lane, p_sha256, p_size_bytes, p_mime_type, p_priority, p_engine, p_language, p_profile) $$;
comment on function public.safe_document_reupload_v2(uuid, text, text, text, text, text, text, bigint, text, integer, text, text, text) is
  'Add a file as a new document, or as a new version of the document with that name; if the bytes are identical, '
  'return the existing document. The lane is determined by p_lane, p_ocr_status or the extension; files of unknown '
  'type wait for HAC.';
grant execute on function public.safe_document_reupload_v2(uuid, text, text, text, text, text, text, bigint, text, integer, text, text, text)
  to authenticated, service_role;

create function public.request_upload(
  p_case_id uuid,
  p_document_name text,
  p_sha256 text,
  p_size_bytes bigint,
  p_engine text default null,
  p_language text default null,
  p_profile text default null,
  p_callback_url text default null,
  p_seconds integer default 86400
)
returns public.request_upload_answer
language sql volatile security invoker set search_path = ''
as $$ select private.request_upload(p_case_id, p_document_name, p_sha256, p_size_bytes, p_engine, p_language, p_profile, p_callback_url, p_seconds) $$;
comment on function public.request_upload(uuid, text, text, bigint, text, text, text, text, integer) is
  'Register a two-step upload, which must be confirmed within p_seconds. The file is staged at uploads/<upload_id> '
  'in the store, and removed when that period expires.';
grant execute on function public.request_upload(uuid, text, text, bigint, text, text, text, text, integer)
  to authenticated, service_role;

create function public.confirm_upload(
  p_upload_id uuid,
  p_new_dropbox_path text default null,
  p_file_extension text default null,
  p_ocr_status text default null,
  p_lane text default null,
  p_mime_type text default null
)
returns public.confirm_upload_answer
language sql volatile security invoker set search_path = ''
as $$ select private.confirm_upload(p_upload_id, p_new_dropbox_path, p_file_extension, p_ocr_status, p_lane, p_mime_type) $$;
comment on function public.confirm_upload(uuid, text, text, text, text, text) is
  'Create the document of an upload whose file was checked and copied to p_new_dropbox_path, as '
  'safe_document_reupload_v2 does. Confirming again returns the same document, and needs no path. Unknown, expired and '
  'other people''s uploads are UPLOAD_NOT_FOUND.';
grant execute on function public.confirm_upload(uuid, text, text, text, text, text) to authenticated, service_role;

create function public.add_documents(
  p_case_id uuid,
  p_documents jsonb,
  p_lane text,
  p_priority integer default 0
)
returns setof uuid
language sql volatile security invoker set search_path = ''
as $$ select private.add_documents(p_case_id, p_documents, p_lane, p_priority) $$;
comment on function public.add_documents(uuid, jsonb, text, integer) is
  'Add multiple new files to one lane in one call: [{"name", "dropbox_path", "sha256", …}, …]. Returns the ids of the '
  'new documents; names that already exist in the case are skipped (use safe_document_reupload_v2 for those).';
grant execute on function public.add_documents(uuid, jsonb, text, integer) to authenticated, service_role;

create function public.route_document(p_document_id uuid, p_lane text, p_notes text default null)
returns public.route_document_answer
language sql volatile security invoker set search_path = ''
as $$ select private.route_document(p_document_id, p_lane, p_notes) $$;
comment on function public.route_document(uuid, text, text) is
  'HAC: route a file of unknown type to a lane. To reject the file, cancel it.';
grant execute on function public.route_document(uuid, text, text) to authenticated, service_role;

create function public.route_documents(p_document_ids uuid[], p_lane text, p_notes text default null)
returns public.route_documents_answer
language sql volatile security invoker set search_path = ''
as $$ select private.route_documents(p_document_ids, p_lane, p_notes) $$;
comment on function public.route_documents(uuid[], text, text) is
  'HAC: route files of unknown type to a lane. Returns the number routed, and the skipped documents with the reason.';
grant execute on function public.route_documents(uuid[], text, text) to authenticated, service_role;

create function public.refuse_documents(p_document_ids uuid[], p_reason text)
returns public.route_documents_answer
language sql volatile security invoker set search_path = ''
as $$ select private.refuse_documents(p_document_ids, p_reason) $$;
comment on function public.refuse_documents(uuid[], text) is
  'HAC: cancel files of unknown type without reading them, and give a reason. Documents routed in the meantime are '
  'skipped and listed.';
grant execute on function public.refuse_documents(uuid[], text) to authenticated, service_role;

create function public.read_again(
  p_document_id uuid,
  p_engine text default null,
  p_language text default null,
  p_profile text default null
)
returns public.read_again_answer
language sql volatile security invoker set search_path = ''
as $$ select private.read_again(p_document_id, p_engine, p_language, p_profile) $$;
comment on function public.read_again(uuid, text, text, text) is
  'Editor, owner or HAC: re-read a finished document, optionally with another engine, language or profile. The '
  'current text is kept until the new reading is complete.';
grant execute on function public.read_again(uuid, text, text, text) to authenticated, service_role;
