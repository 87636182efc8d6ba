-- Purpose:  documents, which are the queue; lanes; what is read from them.
-- Affects:  creates lanes, documents, ocr_runs, ocr_pages.
-- Locks:    none that anybody could notice.

-- Lanes -------------------------------------------------------------------------------------

create table public.lanes (
  lane text not null,
  description text not null,
  paused_at timestamptz,
  pause_kind text,
  pause_reason text,
  paused_by uuid references auth.users (id) on delete set null,
  probe_at timestamptz,
  probe_token uuid,
  max_attempts integer not null default 3,
  max_rescues integer not null default 3,
  backoff_seconds integer not null default 30,
  backoff_cap_seconds integer not null default 3600,
  attempt_seconds integer not null default 900,
  probe_seconds integer not null default 30,
  failed_pages_allowed numeric not null default 0.1,
  updated_at timestamptz not null default now(),
  constraint lanes_pkey primary key (lane),
  constraint lanes_pause_is_explained check (
    (paused_at is null) = (pause_kind is null) and (paused_at is null) = (pause_reason is null)
  ),
  constraint lanes_pause_kind_is_known check (pause_kind in ('manual', 'outage')),
  constraint lanes_only_an_outage_is_probed check (
    (pause_kind is not distinct from 'outage') = (probe_at is not null)
    and (probe_token is null or probe_at is not null)
  ),
  constraint lanes_limits_make_sense check (
    max_attempts > 0 and max_rescues >= 0 and backoff_seconds >= 0 and backoff_cap_seconds >= 0
    and attempt_seconds > 0 and probe_seconds >= 0 and failed_pages_allowed between 0 and 1
  )
);
comment on table public.lanes is 'One row a lane: paused or not, why, and its limits.';
comment on column public.lanes.pause_kind is 'manual: until somebody resumes it. outage: one probe document at a time finds out when it is over.';
comment on column public.lanes.probe_at is 'When the next probe document may be handed out.';
comment on column public.lanes.probe_token is 'Lock token of the probe that is out now.';
comment on column public.lanes.max_rescues is 'Expired locks a document survives; one more and it is held to kill its workers.';
comment on column public.lanes.attempt_seconds is 'Hard deadline of one attempt, however alive its worker is.';
comment on column public.lanes.failed_pages_allowed is 'Share of pages that may fail without failing the document.';

insert into public.lanes (lane, description, attempt_seconds)
values
  ('image', 'Single images, read by ocr-worker', 900),
  ('pdf', 'PDFs, read by pdf-worker on the GPU service', 7200),
  ('index', 'Land-registry index pages', 3600),
  ('acte', 'Land-registry acts', 3600),
  ('check', 'Screenshots of the localization checker', 300);

alter table public.lanes enable row level security;
create policy "Lanes are visible to everybody who is signed in"
  on public.lanes for select to authenticated
  using ((select auth.uid()) is not null);
grant select on public.lanes to authenticated, service_role;
-- An operator's settings; pausing goes through pause_lane and resume_lane.
grant update (
  max_attempts, max_rescues, backoff_seconds, backoff_cap_seconds, attempt_seconds, probe_seconds,
  failed_pages_allowed
) on public.lanes to service_role;

create function private.require_lane(p_lane text)
returns public.lanes
language plpgsql
stable
security invoker
set search_path = ''
as $$
declare
  v_lane public.lanes;
begin
  select l.* into v_lane from public.lanes as l where l.lane = p_lane;
  if not found then
    raise exception 'there is no lane %', coalesce(p_lane, 'null')
      using errcode = '22023',
        hint = 'Lanes are ' || (select string_agg(l.lane, ', ' order by l.lane) from public.lanes as l) || '.';
  end if;
  return v_lane;
end;
$$;
comment on function private.require_lane(text) is 'The lane of that name; 22023 when there is none.';

-- Documents ---------------------------------------------------------------------------------

create table public.documents (
  id uuid not null default gen_random_uuid(),
  case_id uuid not null references public.cases (id),
  name text not null,
  lane text not null default 'image',
  ocr_status text not null default 'pending',
  file_extension text,
  dropbox_path text,
  mime_type text,
  sha256 text,
  size_bytes bigint,
  document_version integer not null default 1,
  version integer not null default 1,
  -- How it is to be read.
  engine text,
  language text,
  profile text,
  reading integer not null default 1,
  page_count integer,
  run_id bigint,
  -- Its place in the queue.
  priority integer not null default 0,
  turn bigint not null default 0,
  retry_at timestamptz,
  -- What happened so far.
  attempts integer not null default 0,
  retry_count integer not null default 0,
  rescues integer not null default 0,
  max_attempts integer not null default 3,
  -- Who has it now.
  locked_by text,
  locked_at timestamptz,
  lock_token uuid,
  lock_expires_at timestamptz,
  claimed_at timestamptz,
  attempt_deadline timestamptz,
  -- The extractor's side, lanes index and acte.
  worker_id text,
  error_message text,
  ocr_error text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  ocr_completed_at timestamptz,
  deleted_at timestamptz,
  constraint documents_pkey primary key (id),
  constraint documents_one_live_version unique nulls not distinct (case_id, name, deleted_at),
  constraint documents_lane_is_known check (lane in ('image', 'pdf', 'index', 'acte', 'check')),
  constraint documents_status_is_known check (ocr_status in (
    'pending', 'awaiting_file', 'extracting', 'extraction_failed', 'queued', 'queued_for_pdf',
    'processing', 'completed', 'dead_letter', 'pending_review', 'failed', 'cancelled'
  )),
  constraint documents_queued_for_pdf_is_lane_pdf check (
    ocr_status not in ('queued', 'queued_for_pdf')
    or (ocr_status = 'queued_for_pdf') = (lane = 'pdf')
  ),
  constraint documents_extraction_is_for_the_registry check (
    ocr_status not in ('awaiting_file', 'extracting', 'extraction_failed')
    or lane in ('index', 'acte')
  ),
  constraint documents_lock_is_whole check (
    (lock_token is null) = (locked_by is null)
    and (lock_token is null) = (locked_at is null)
    and (lock_token is null) = (lock_expires_at is null)
    and (lock_token is null) = (attempt_deadline is null)
  ),
  constraint documents_lock_only_while_processing check (
    lock_token is null or ocr_status = 'processing'
  ),
  constraint documents_retry_only_while_queued check (
    retry_at is null or ocr_status in ('queued', 'queued_for_pdf')
  ),
  constraint documents_completed_has_a_time check (
    ocr_status <> 'completed' or ocr_completed_at is not null
  ),
  constraint documents_deleted_is_not_waiting check (
    deleted_at is null
    or ocr_status not in ('pending', 'awaiting_file', 'extracting', 'queued', 'queued_for_pdf')
  ),
  constraint documents_counts_are_not_negative check (
    attempts >= 0 and retry_count >= 0 and rescues >= 0 and max_attempts > 0 and version > 0
    and document_version > 0 and reading > 0 and size_bytes >= 0 and page_count >= 0
  ),
  constraint documents_name_has_sensible_length check (octet_length(name) between 1 and 1024),
  constraint documents_priority_has_sensible_size check (priority between -1000 and 1000),
  constraint documents_sha256_is_hex check (sha256 ~ '^[0-9a-f]{64}$')
)
-- Claim, heartbeat and completion each write a new row version: leave room for them on the page,
-- and clean up by count, not by share of a table that only grows.
with (
  fillfactor = 75,
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.02
);
comment on table public.documents is
  'Every file to be read, whatever its origin; also the queue. Kept narrow: text lives in ocr_pages.';
comment on column public.documents.version is 'Goes up with every claim and is never reset.';
comment on column public.documents.document_version is 'Counts the uploads of this name in this case.';
comment on column public.documents.reading is 'Counts how often it was asked to be read again, from 1.';
comment on column public.documents.run_id is 'The run whose pages are the text of the document.';
comment on column public.documents.priority is 'Higher is more urgent.';
comment on column public.documents.turn is 'Place among equals: the turn of its case at enqueue, so no case stands in the way of others.';
comment on column public.documents.retry_at is 'Waits until then; null when it may be taken at once.';
comment on column public.documents.attempts is 'Claims since it was queued; a document given back unread does not count.';
comment on column public.documents.retry_count is 'Attempts that failed.';
comment on column public.documents.rescues is 'Locks that expired: its worker died.';
comment on column public.documents.locked_at is 'Last sign of life of its worker.';
comment on column public.documents.claimed_at is 'When the last claim was made.';
comment on column public.documents.attempt_deadline is 'When this attempt ends, alive or not.';
comment on column public.documents.error_message is 'What the extractor met; OCR never writes here.';
comment on column public.documents.ocr_error is 'What OCR met last; the extractor never writes here.';

-- The claimable set, in the very order of the claim. Predicates are literals, in the queries too.
create index documents_claim_idx on public.documents (lane, priority desc, turn, id)
  where ocr_status in ('queued', 'queued_for_pdf') and retry_at is null;
create index documents_retry_idx on public.documents (lane, retry_at)
  where ocr_status in ('queued', 'queued_for_pdf') and retry_at is not null;
-- Neither heartbeat nor expiry is in any index, so a heartbeat stays a cheap (HOT) update.
create index documents_processing_idx on public.documents (id)
  where ocr_status = 'processing';
create index documents_attention_idx on public.documents (ocr_status, lane, created_at)
  where ocr_status in (
    'pending', 'awaiting_file', 'extracting', 'extraction_failed', 'dead_letter', 'pending_review', 'failed'
  );

create function private.queued_status(p_lane text)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select case p_lane when 'pdf' then 'queued_for_pdf' else 'queued' end;
$$;
comment on function private.queued_status(text) is 'The word for "queued" in a lane.';

-- A hand-written update may forget what our functions do not: the word of lane pdf for "queued",
-- that nobody waits for a deleted document, and that whoever leaves processing leaves its lock.
create function private.tidy_document()
returns trigger
language plpgsql
security invoker
set search_path = ''
as $$
begin
  if new.deleted_at is not null
    and new.ocr_status in ('pending', 'awaiting_file', 'extracting', 'queued', 'queued_for_pdf') then
    new.ocr_status := 'cancelled';
  end if;
  if new.ocr_status in ('queued', 'queued_for_pdf') then
    new.ocr_status := private.queued_status(new.lane);
  else
    new.retry_at := null;
  end if;
  if new.ocr_status <> 'processing' or new.locked_by is null or new.locked_at is null then
    -- Its lane would wait for a probe for ever.
    perform private.end_probe(old.lock_token, now());
    new.locked_by := null;
    new.locked_at := null;
    new.lock_token := null;
    new.lock_expires_at := null;
    new.attempt_deadline := null;
  end if;
  if new.ocr_status = 'completed' then
    new.ocr_completed_at := coalesce(new.ocr_completed_at, now());
  end if;
  return new;
end;
$$;
comment on function private.tidy_document() is 'Keep a hand-written change of a document consistent.';

create trigger documents_tidy
  before insert or update on public.documents
  for each row
  when (
    (new.ocr_status = 'queued' and new.lane = 'pdf')
    or (new.ocr_status = 'queued_for_pdf' and new.lane <> 'pdf')
    or (new.ocr_status = 'completed' and new.ocr_completed_at is null)
    or (new.retry_at is not null and new.ocr_status not in ('queued', 'queued_for_pdf'))
    or (new.deleted_at is not null
      and new.ocr_status in ('pending', 'awaiting_file', 'extracting', 'queued', 'queued_for_pdf'))
    or (new.lock_token is not null
      and (new.ocr_status <> 'processing' or new.locked_by is null or new.locked_at is null))
    or (new.lock_token is null and (
      new.locked_by is not null or new.locked_at is not null
      or new.lock_expires_at is not null or new.attempt_deadline is not null
    ))
  )
  execute function private.tidy_document();

alter table public.documents enable row level security;
create policy "Documents are visible to the people of their case and to HAC"
  on public.documents for select to authenticated
  using ((select private.is_admin()) or case_id in (select private.my_case_ids()));
grant select on public.documents to authenticated, service_role;

-- What is read ------------------------------------------------------------------------------

create table public.ocr_runs (
  id bigint generated always as identity,
  document_id uuid not null references public.documents (id) on delete cascade,
  reading integer not null,
  engine text not null,
  engine_version text not null,
  profile text not null,
  created_at timestamptz not null default now(),
  constraint ocr_runs_pkey primary key (id),
  constraint ocr_runs_one_of_a_kind unique (document_id, reading, engine, engine_version, profile)
);
comment on table public.ocr_runs is
  'One reading of a document by one engine, version and profile. Pages of different runs never mix.';

create table public.ocr_pages (
  run_id bigint not null references public.ocr_runs (id) on delete cascade,
  page_number integer not null,
  document_id uuid not null,
  case_id uuid not null,
  status text not null default 'read',
  text text not null default '',
  language text,
  lines jsonb not null default '[]',
  confidence numeric,
  width integer,
  height integer,
  error text,
  processing_time_ms integer,
  details jsonb not null default '{}',
  text_search tsvector not null default '',
  created_at timestamptz not null default now(),
  constraint ocr_pages_pkey primary key (run_id, page_number),
  constraint ocr_pages_number_starts_at_one check (page_number > 0),
  constraint ocr_pages_status_is_known check (status in ('read', 'blank', 'unread', 'failed')),
  constraint ocr_pages_failed_says_why check ((status = 'failed') = (error is not null)),
  constraint ocr_pages_confidence_is_a_share check (confidence between 0 and 1),
  constraint ocr_pages_lines_is_a_list check (jsonb_typeof(lines) = 'array')
);
comment on table public.ocr_pages is 'What was read from each page: text, lines with boxes, confidence.';
comment on column public.ocr_pages.page_number is 'From 1.';
comment on column public.ocr_pages.status is 'read; blank: nothing on it; unread: ink but no text found; failed: could not be read.';
comment on column public.ocr_pages.lines is 'Boxes are pixels of the page image, origin top left; confidence is 0 to 1.';
create index ocr_pages_document_idx on public.ocr_pages (document_id);
create index ocr_pages_case_idx on public.ocr_pages (case_id);
create index ocr_pages_text_search_idx on public.ocr_pages using gin (text_search);

alter table public.ocr_runs enable row level security;
create policy "Runs are visible to the people of the case and to HAC"
  on public.ocr_runs for select to authenticated
  using (exists (select 1 from public.documents as d where d.id = ocr_runs.document_id));
grant select on public.ocr_runs to authenticated, service_role;

alter table public.ocr_pages enable row level security;
create policy "Pages are visible to the people of the case and to HAC"
  on public.ocr_pages for select to authenticated
  using ((select private.is_admin()) or case_id in (select private.my_case_ids()));
grant select on public.ocr_pages to authenticated, service_role;
