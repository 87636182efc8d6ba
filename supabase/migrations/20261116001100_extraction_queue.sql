-- Purpose:  the registry's queue, as its extractors and their statements know it: a view over the
--           documents of lanes index and acte.
-- Affects:  creates view extraction_queue and its triggers.
-- Locks:    none that anybody could notice.
--
--   1 EN_ATTENTE ──▶ 2 EN_TRAITEMENT ──▶ 3 COMPLETE ──▶ 4 OCR_PROCESSING ──▶ 5 EXTRACTION_COMPLETE
--                                └───────────────▶ 6 ERREUR ◀───────┘

create view public.extraction_queue
with (security_invoker = true)
as
select
  d.id,
  d.case_id,
  d.lane as document_source,
  d.name as document_name,
  case d.ocr_status
    when 'awaiting_file' then 1
    when 'extracting' then 2
    when 'queued' then 3
    when 'processing' then 4
    when 'completed' then 5
    else 6
  end as status_id,
  d.priority,
  d.worker_id,
  d.dropbox_path,
  d.file_extension,
  d.sha256,
  d.locked_by as ocr_worker_id,
  d.lock_token,
  d.claimed_at as ocr_started_at,
  d.ocr_completed_at,
  d.attempts as ocr_attempts,
  d.max_attempts as ocr_max_attempts,
  d.error_message,
  d.ocr_error,
  d.engine,
  d.language,
  d.created_at,
  d.updated_at
from public.documents as d
where d.lane in ('index', 'acte') and d.deleted_at is null;
comment on view public.extraction_queue is
  'Documents of the registry: 1 EN_ATTENTE, 2 EN_TRAITEMENT, 3 COMPLETE, 4 OCR_PROCESSING, '
  '5 EXTRACTION_COMPLETE, 6 ERREUR. Changing status_id moves a document, if it still is where it was seen.';
grant select on public.extraction_queue to authenticated;
grant select, insert, update on public.extraction_queue to service_role;

create function private.registry_case()
returns uuid
language sql
volatile
security definer          -- the extractor holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
  -- Without a person behind it there is one registry case for all.
  with found as (
    select c.id from public.cases as c
    where c.kind = 'registry' and c.user_id is not distinct from auth.uid() and c.deleted_at is null
    order by c.created_at
    limit 1
  ),
  made as (
    insert into public.cases (user_id, kind, name, is_inbox)
    select auth.uid(), 'registry', 'Registry', auth.uid() is not null
    where not exists (select 1 from found)
    on conflict (user_id, kind) where is_inbox do update set updated_at = now()
    returning id
  )
  select f.id from found as f union all select m.id from made as m;
$$;
comment on function private.registry_case() is 'The case the extractor''s documents belong to.';

create function private.insert_extraction(p_row public.extraction_queue, p_now timestamptz default now())
returns uuid
language plpgsql
volatile
security definer          -- the extractor holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_case_id uuid := coalesce(p_row.case_id, private.registry_case());
  v_lane public.lanes := private.require_lane(p_row.document_source);
  v_priority integer := coalesce(p_row.priority, 0);
  v_id uuid;
begin
  if v_lane.lane not in ('index', 'acte') then
    raise exception 'the registry has no lane %', v_lane.lane
      using errcode = '22023', hint = 'document_source is index or acte.';
  end if;
  if coalesce(p_row.status_id, 1) not in (1, 3) then
    raise exception 'a new document has status 1, or 3 with its file'
      using errcode = '22023', hint = 'Leave status_id out.';
  end if;
  perform private.require_text('document_name', p_row.document_name, 1024);
  perform private.require_upload(v_lane.lane, v_priority, p_row.sha256, null);
  insert into public.documents as d (
    id, case_id, name, lane, ocr_status, dropbox_path, file_extension, sha256, engine, language,
    priority, turn, max_attempts, worker_id, created_at, updated_at
  )
  values (
    coalesce(p_row.id, gen_random_uuid()), v_case_id, p_row.document_name, v_lane.lane,
    case p_row.status_id when 3 then 'queued' else 'awaiting_file' end,
    p_row.dropbox_path, p_row.file_extension, p_row.sha256, p_row.engine, p_row.language, v_priority,
    private.take_turns(v_case_id, v_lane.lane, v_priority, 1),
    coalesce(p_row.ocr_max_attempts, v_lane.max_attempts), p_row.worker_id, p_now, p_now
  )
  returning d.id into v_id;
  return v_id;
end;
$$;
comment on function private.insert_extraction(public.extraction_queue, timestamptz) is 'Take a registry document in.';
grant execute on function private.insert_extraction(public.extraction_queue, timestamptz) to service_role;

-- Answers whether the document was still where the caller saw it. Each branch asks again inside its
-- own update: one that trusted the row it was called with let 32 of 32 claimers win.
create function private.move_extraction(
  p_old public.extraction_queue,
  p_new public.extraction_queue,
  p_now timestamptz default now()
)
returns boolean
language plpgsql
volatile
security definer          -- the extractor holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
begin
  -- Waits for whoever is changing it; then the state is read anew.
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
      update public.documents as d
      set ocr_status = case p_new.status_id
            when 1 then 'awaiting_file' when 2 then 'extracting' when 3 then 'queued' else 'extraction_failed' end,
          turn = case when p_new.status_id = 3 then private.take_turns(d.case_id, d.lane, d.priority, 1) else d.turn end
      where d.id = p_old.id;
      if p_new.status_id = 6 then
        perform private.note_error(
          v_document, 'extraction', coalesce(p_new.error_message, 'extraction failed'), '{}', 'unknown', p_now
        );
      end if;
    when p_old.status_id = 3 and p_new.status_id = 4 then
      -- A claim through the view cannot send heartbeats, so it holds for ten minutes.
      if exists (select 1 from public.lanes as l where l.lane = v_document.lane and l.paused_at is not null) then
        return false;
      end if;
      perform private.require_text('ocr_worker_id', p_new.ocr_worker_id, 200);
      perform private.start_attempts(array[p_old.id], p_new.ocr_worker_id, 600, l.attempt_seconds, p_now)
      from public.lanes as l where l.lane = v_document.lane;
    when p_old.status_id = 4 and p_new.status_id = 3 and p_new.ocr_error is not distinct from p_old.ocr_error then
      perform private.rescue(v_document, 'reset through extraction_queue', p_now);
    when p_old.status_id = 4 and p_new.status_id in (3, 6) then
      perform private.fail(
        v_document, 'failure', coalesce(p_new.ocr_error, 'OCR failed'), '{}',
        case p_new.status_id when 6 then 'permanent' else 'unknown' end, null, p_now
      );
    when p_new.status_id = 5 then
      raise exception 'a document is completed with its result' using errcode = '22023',
        hint = 'Call process_ocr_atomic with the lock_token of your claim.';
    else
      raise exception 'status_id cannot go from % to %', p_old.status_id, p_new.status_id
        using errcode = '22023', hint = 'Read docs/state-machine.md.';
  end case;
  update public.documents as d
  set priority = p_new.priority, worker_id = p_new.worker_id, error_message = p_new.error_message,
      dropbox_path = p_new.dropbox_path, file_extension = p_new.file_extension, sha256 = p_new.sha256,
      engine = p_new.engine, language = p_new.language, max_attempts = p_new.ocr_max_attempts, updated_at = p_now
  where d.id = p_old.id;
  return true;
end;
$$;
comment on function private.move_extraction(public.extraction_queue, public.extraction_queue, timestamptz) is
  'Carry out an update of extraction_queue; false when the document had moved on meanwhile.';
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
  'Make extraction_queue writable. An update that lost its race changes nothing and returns no row.';
create trigger extraction_queue_write
  instead of insert or update on public.extraction_queue
  for each row execute function private.write_extraction_queue();
