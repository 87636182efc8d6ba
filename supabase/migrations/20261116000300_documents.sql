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
  recovered_at timestamptz,
  outage_document_id uuid,
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
comment on column public.lanes.recovered_at is 'When a probe last succeeded, which showed that an outage was over or never was.';
comment on column public.lanes.outage_document_id is
  'The only document that reported an outage since recovered_at: its failure. A second one makes it an outage of the lane.';
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

-- Rules for a single column are domains: Postgres keeps those ready, while a check of the table is
-- parsed anew for every statement (with all rules as checks a claim of one document took half as long again).
create domain public.document_lane as text
  constraint document_lane_is_known check (value in ('image', 'pdf', 'index', 'acte', 'check'));
create domain public.document_status as text
  constraint document_status_is_known check (value in (
    'pending', 'awaiting_file', 'extracting', 'extraction_failed', 'queued', 'queued_for_pdf',
    'processing', 'completed', 'dead_letter', 'pending_review', 'failed', 'cancelled'
  ));
create domain public.document_name as text
  constraint document_name_has_sensible_length check (octet_length(value) between 1 and 1024 and btrim(value) <> '');
create domain public.document_priority as integer
  constraint document_priority_has_sensible_size check (value between -1000 and 1000);
create domain public.counter as integer
  constraint counter_is_not_negative check (value >= 0);
create domain public.share as numeric
  constraint share_is_between_none_and_all check (value between 0 and 1);
create domain public.sha256_hex as text
  constraint sha256_hex_is_hex check (octet_length(value) = 64 and value !~ '[^0-9a-f]');
create domain public.short_text as text
  constraint short_text_has_sensible_length check (octet_length(value) <= 200);
create domain public.label as text
  constraint label_has_sensible_length check (octet_length(value) between 1 and 200);
create domain public.file_path as text
  constraint file_path_has_sensible_length check (octet_length(value) between 1 and 4096);
create domain public.file_size as bigint
  constraint file_size_is_not_negative check (value >= 0);
comment on domain public.short_text is 'A word or two, or none.';
comment on domain public.label is 'A name, such as that of an engine.';
comment on domain public.file_path is 'Where a file is stored.';
comment on domain public.file_size is 'Bytes.';
comment on domain public.document_lane is 'Which workers take a document.';
comment on domain public.document_status is 'Where a document stands; see docs/state-machine.md.';
comment on domain public.document_name is 'Name of a file, unique in its case.';
comment on domain public.document_priority is 'Higher is more urgent.';
comment on domain public.counter is 'How often something happened.';
comment on domain public.share is 'From 0, none, to 1, all.';
comment on domain public.sha256_hex is 'SHA-256 of a file, in lower case.';

create table public.documents (
  id uuid not null default gen_random_uuid(),
  case_id uuid not null,
  name public.document_name not null,
  lane public.document_lane not null default 'image',
  ocr_status public.document_status not null default 'pending',
  file_extension public.short_text,
  dropbox_path public.file_path,
  mime_type public.short_text,
  sha256 public.sha256_hex,
  size_bytes public.file_size,
  document_version public.counter not null default 1,
  version public.counter not null default 1,
  -- How it is to be read.
  engine public.label,
  language public.label,
  profile public.label,
  reading public.counter not null default 1,
  page_count public.counter,
  run_id bigint,
  open_run_id bigint,
  -- Its place in the queue.
  listed_in text,
  priority public.document_priority not null default 0,
  turn bigint not null default 0,
  retry_at timestamptz,
  -- What happened so far.
  attempts public.counter not null default 0,
  retry_count public.counter not null default 0,
  rescues public.counter not null default 0,
  max_attempts public.counter not null default 3,
  -- Who has it now.
  locked_by text,
  locked_at timestamptz,
  lock_token uuid,
  lock_expires_at timestamptz,
  claimed_by text,
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
  constraint documents_lock_is_whole check (
    num_nonnulls(lock_token, locked_by, locked_at, lock_expires_at, attempt_deadline) % 5 = 0   -- all or none
  ),
  constraint documents_lock_only_while_processing check (
    lock_token is null or ocr_status = 'processing'
  )
)
-- No index names the status, a lock or a time, so claim, heartbeat and completion are HOT updates: they
-- touch no index. They need room on the page for it: a claimed document is nearly twice as long as a new one,
-- and a batch claims whole pages at once (with 50, every fourth update of batches of 100 had to go elsewhere).
with (
  fillfactor = 30,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.02
);
comment on table public.documents is
  'Every file to be read, whatever its origin, and the truth about it. Kept narrow: text lives in ocr_pages.';
comment on column public.documents.version is 'Goes up with every claim, heartbeat and completion, and is never reset.';
comment on column public.documents.document_version is 'Counts the uploads of this name in this case.';
comment on column public.documents.reading is 'Counts how often it was asked to be read again, from 1.';
comment on column public.documents.run_id is 'The run whose pages are the text of the document.';
comment on column public.documents.open_run_id is 'The run whose pages are being saved.';
comment on column public.documents.listed_in is 'Which list knows it: queue while it is queued, aside while it waits for somebody else or is cancelled, none while it is read and when it is completed.';
comment on column public.documents.priority is 'Higher is more urgent.';
comment on column public.documents.turn is 'Place among equals: the turn of its case at enqueue, so no case stands in the way of others.';
comment on column public.documents.retry_at is 'Waits until then; null when it may be taken at once.';
comment on column public.documents.attempts is 'Claims since it was queued; a document given back unread does not count.';
comment on column public.documents.retry_count is 'Attempts that failed.';
comment on column public.documents.rescues is 'Locks that expired: its worker died.';
comment on column public.documents.locked_at is 'Last sign of life of its worker.';
comment on column public.documents.claimed_at is 'When the last claim was made, and claimed_by by whom; both stay.';
comment on column public.documents.attempt_deadline is 'When this attempt ends, alive or not.';
comment on column public.documents.error_message is 'What the extractor met; OCR never writes here.';
comment on column public.documents.ocr_error is 'What OCR met last; the extractor never writes here.';

create index documents_registry_idx on public.documents (lane, created_at) where lane in ('index', 'acte');

-- The queue ---------------------------------------------------------------------------------
-- What may be claimed now, in the very order of the claim; a claim deletes its rows. It holds the
-- waiting documents only, so it stays small and hot however many documents there are.

create table private.queue (
  lane text not null,
  urgency integer not null,
  turn bigint not null,
  document_id uuid not null,
  constraint queue_pkey primary key (lane, urgency, turn, document_id)
)
with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
comment on table private.queue is 'Documents that may be claimed, in order: most urgent first (urgency is minus priority), then by turn.';
alter table private.queue enable row level security;

create table private.later (
  lane text not null,
  retry_at timestamptz not null,
  document_id uuid not null,
  constraint later_pkey primary key (lane, retry_at, document_id)
);
comment on table private.later is 'Documents that wait for their next attempt.';
alter table private.later enable row level security;

create table private.set_aside (
  ocr_status text not null,
  document_id uuid not null,
  constraint set_aside_pkey primary key (ocr_status, document_id)
);
comment on table private.set_aside is 'Documents that wait for a person, an extractor, or for nobody any more, by status.';
alter table private.set_aside enable row level security;

create table private.claims (
  id uuid not null,
  claimed_at timestamptz not null,
  document_ids uuid[] not null,
  constraint claims_pkey primary key (id)
);
comment on table private.claims is
  'Which documents were claimed together, under which token, so that the sweep finds what is in hand. '
  'It removes a row when none of its documents is.';
alter table private.claims enable row level security;

create function private.claimed_ids()
returns uuid[]
language sql
stable
security invoker
set search_path = ''
as $$
  select array(select distinct i.id from private.claims as c cross join lateral unnest(c.document_ids) as i (id));
$$;
comment on function private.claimed_ids() is 'Every document that may be in hand, and some that no longer are.';

create function private.list_of(p_ocr_status text)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select case
    when p_ocr_status in ('queued', 'queued_for_pdf') then 'queue'
    when p_ocr_status not in ('processing', 'completed') then 'aside'
  end;
$$;
comment on function private.list_of(text) is 'Which list a document of that status is on.';

create function private.join_list(p_document public.documents)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  if p_document.listed_in = 'aside' then
    insert into private.set_aside (ocr_status, document_id) values (p_document.ocr_status, p_document.id);
  elsif p_document.listed_in is null then
    return;
  elsif p_document.retry_at is null then
    insert into private.queue (lane, urgency, turn, document_id)
    values (p_document.lane, -p_document.priority, p_document.turn, p_document.id)
    on conflict on constraint queue_pkey do nothing;
  else
    insert into private.later (lane, retry_at, document_id)
    values (p_document.lane, p_document.retry_at, p_document.id)
    on conflict on constraint later_pkey do nothing;
  end if;
end;
$$;
comment on function private.join_list(public.documents) is 'Note a document on the list it belongs to.';

create function private.leave_list(p_document public.documents)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  delete from private.set_aside as a
  where a.ocr_status = p_document.ocr_status and a.document_id = p_document.id;
  -- A row that is locked is just being claimed. Its claimer waits for the document, which we hold, will
  -- find it no longer queued, and has then removed the row for us. Waiting for each other is no option.
  delete from private.queue as q
  where q.ctid = any (array(
    select k.ctid from private.queue as k
    where k.lane = p_document.lane and k.urgency = -p_document.priority and k.turn = p_document.turn
      and k.document_id = p_document.id
    for update skip locked
  ));
  delete from private.later as l
  where l.ctid = any (array(
    select k.ctid from private.later as k
    where k.lane = p_document.lane and k.retry_at = p_document.retry_at and k.document_id = p_document.id
    for update skip locked
  ));
end;
$$;
comment on function private.leave_list(public.documents) is 'Take a document off the list it is on.';

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

-- A document belongs to a case that is there. A foreign key would say the same, and its check would take a third
-- of the time of a bulk upload; so the upload locks its case once, and these two triggers see to everybody else.
create function private.require_live_case(p_case_id uuid)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  perform 1 from public.cases as c where c.id = p_case_id and c.deleted_at is null for key share;
  if not found then
    raise exception 'there is no case %', coalesce(p_case_id::text, 'null')
      using errcode = '22023', hint = 'Create it with create_case.';
  end if;
end;
$$;
comment on function private.require_live_case(uuid) is
  'Refuse a case that is not there (22023), and keep it from going away meanwhile.';

create function private.keep_case_of_documents()
returns trigger
language plpgsql
security definer          -- whoever may delete cases need not see the documents
set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select 1 from public.documents as d where d.case_id = old.id) then
    raise exception 'case % has documents', old.id using errcode = '23503', hint = 'Call erase_case.';
  end if;
  return old;
end;
$$;
comment on function private.keep_case_of_documents() is 'A case cannot go before its documents.';
create trigger cases_keep
  before delete on public.cases
  for each row execute function private.keep_case_of_documents();

-- The lists follow the documents, whoever changes them. Bulk upload, claim, heartbeat and completion, where it
-- counts, keep them themselves, and say so by listed_in or a new version; every other change comes through here.
-- It also mends what a hand-written update forgets: the word of lane pdf for "queued", and that whoever leaves
-- processing leaves its lock.
create function private.tidy_document()
returns trigger
language plpgsql
security definer          -- whoever may change documents need not know of the lists
set search_path = pg_catalog, pg_temp
as $$
begin
  if tg_op = 'INSERT' then
    perform private.require_live_case(new.case_id);
  end if;
  if new.ocr_status in ('awaiting_file', 'extracting', 'extraction_failed') and new.lane not in ('index', 'acte') then
    raise exception 'lane % has no status %', new.lane, new.ocr_status
      using errcode = '23514', hint = 'Only the registry''s lanes, index and acte, wait for an extractor.';
  end if;
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
    if tg_op = 'UPDATE' then
      perform private.end_probe(old.lock_token, now());   -- its lane would wait for ever
    end if;
    new.locked_by := null;
    new.locked_at := null;
    new.lock_token := null;
    new.lock_expires_at := null;
    new.attempt_deadline := null;
  end if;
  if new.ocr_status = 'processing' and new.lock_token is null then
    -- Nobody has it; the sweep shall find it.
    insert into private.claims (id, claimed_at, document_ids) values (gen_random_uuid(), now(), array[new.id]);
  end if;
  if new.ocr_status = 'completed' then
    new.ocr_completed_at := coalesce(new.ocr_completed_at, now());
  end if;
  new.listed_in := private.list_of(new.ocr_status);
  if tg_op = 'INSERT' then
    perform private.join_list(new);
  elsif row(new.listed_in, new.ocr_status, new.lane, new.priority, new.turn, new.retry_at)
    is distinct from row(old.listed_in, old.ocr_status, old.lane, old.priority, old.turn, old.retry_at) then
    perform private.leave_list(old);
    perform private.join_list(new);
  end if;
  return new;
end;
$$;
comment on function private.tidy_document() is 'Keep the lists and a hand-written change of a document consistent.';

create trigger documents_tidy_insert
  before insert on public.documents
  for each row
  when (new.listed_in is null)
  execute function private.tidy_document();

create trigger documents_tidy_update
  before update on public.documents
  for each row
  when (new.version = old.version)
  execute function private.tidy_document();

create function private.forget_document()
returns trigger
language plpgsql
security definer          -- whoever may delete documents need not know of the queue
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.leave_list(old);
  return null;
end;
$$;
comment on function private.forget_document() is 'Take a document that is no more off its list.';
create trigger documents_forget
  after delete on public.documents
  for each row
  when (old.listed_in is not null)
  execute function private.forget_document();

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
  is_whole boolean not null default false,
  created_at timestamptz not null default now(),
  constraint ocr_runs_pkey primary key (id),
  constraint ocr_runs_one_of_a_kind unique (document_id, reading, engine, engine_version, profile)
);
comment on table public.ocr_runs is
  'One reading of a document by one engine, version and profile. Pages of different runs never mix.';
comment on column public.ocr_runs.is_whole is
  'Its text came whole with the result, however many pages it is divided into; otherwise it has every page of the document.';

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
