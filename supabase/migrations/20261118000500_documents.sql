-- Documents and what is read from them: the tables documents, ocr_runs, ocr_pages,
-- ocr_processing_logs (results), ocr_errors, ocr_dead_letter and tasks, with the domains of their
-- columns, their indexes and their policies.
--
-- A row of documents is one file to be read, whatever its origin. It also holds the authoritative
-- state of its queue entry: status, lock and counts. The table stays narrow: text and boxes are in
-- ocr_pages, one set of pages for each reading run (engine, version, profile).
--
-- The functions that change a document are in queue, uploads, document_actions and dead_letters; the
-- queue's own tables are in queue_tables.

create domain public.document_status as text
  constraint document_status_is_known check (value in (
    'pending', 'awaiting_file', 'extracting', 'extraction_failed', 'queued', 'queued_for_pdf',
    'processing', 'completed', 'dead_letter', 'pending_review', 'failed', 'cancelled'
  ));
comment on domain public.document_status is 'State of a document; see docs/reference/state-machine.md.';

create domain public.document_name as text
  constraint document_name_has_sensible_length check (octet_length(value) between 1 and 1024 and btrim(value) <> '');
comment on domain public.document_name is 'Name of a file, unique in its case.';

create domain public.document_priority as integer
  constraint document_priority_has_sensible_size check (value between -1000 and 1000);
comment on domain public.document_priority is 'Higher is more urgent.';

create domain public.counter as integer
  constraint counter_is_not_negative check (value >= 0);
comment on domain public.counter is 'A count.';

create domain public.share as numeric
  constraint share_is_between_none_and_all check (value between 0 and 1);
comment on domain public.share is 'A fraction from 0 to 1.';

create domain public.sha256_hex as text
  constraint sha256_hex_is_hex check (octet_length(value) = 64 and value !~ '[^0-9a-f]');
comment on domain public.sha256_hex is 'SHA-256 of a file, in lower-case hexadecimal.';

create domain public.short_text as text
  constraint short_text_has_sensible_length check (octet_length(value) <= 200);
comment on domain public.short_text is 'Text of at most 200 bytes, or an empty string.';

create domain public.label as text
  constraint label_has_sensible_length check (octet_length(value) between 1 and 200);
comment on domain public.label is 'A short name, such as an engine name.';

create domain public.file_path as text
  constraint file_path_has_sensible_length check (octet_length(value) between 1 and 4096);
comment on domain public.file_path is 'Path of a stored file.';

create domain public.file_size as bigint
  constraint file_size_is_not_negative check (value >= 0);
comment on domain public.file_size is 'File size in bytes.';

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
  -- Reading options.
  engine public.label,
  language public.label,
  profile public.label,
  reading public.counter not null default 1,
  page_count public.counter,
  run_id bigint,
  open_run_id bigint,
  -- Position in the queue.
  listed_in text,
  priority public.document_priority not null default 0,
  turn bigint not null default 0,
  retry_at timestamptz,
  -- Counts.
  attempts public.counter not null default 0,
  retry_count public.counter not null default 0,
  rescues public.counter not null default 0,
  max_attempts public.counter not null default 3,
  -- The claim.
  locked_by text,
  locked_at timestamptz,
  lock_token uuid,
  lock_expires_at timestamptz,
  claimed_by text,
  claimed_at timestamptz,
  attempt_deadline timestamptz,
  claim_lost_at timestamptz,
  -- Set by the extractor; lanes index and acte.
  worker_id text,
  extracted_by text,
  extraction_started_at timestamptz,
  extraction_due_at timestamptz,
  extraction_failures public.counter not null default 0,
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
-- No index contains the status, a lock or a time, so claim, heartbeat and completion are HOT updates, which
-- touch no index. They need free space on the page: a claimed document is nearly twice as long as a new one,
-- and a batch claims whole pages (with fillfactor 50, a quarter of the updates in batches of 100 were not HOT).
with (
  fillfactor = 30,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.02
);
comment on table public.documents is
  'Every file to be read, whatever its origin, with its authoritative state. Kept narrow; the text is in ocr_pages.';
comment on column public.documents.version is 'Incremented by every claim, heartbeat and completion, and never reset.';
comment on column public.documents.document_version is 'Counts the uploads of this name in this case.';
comment on column public.documents.reading is 'Number of the requested reading, from 1; read_again increments it.';
comment on column public.documents.run_id is 'The run whose pages make up the document''s text.';
comment on column public.documents.open_run_id is 'The run whose pages are being saved.';
comment on column public.documents.listed_in is 'Which queue table lists the document: queue while it is queued, aside while it waits for a user or an extractor or is cancelled, null while it is being read and after it is completed.';
comment on column public.documents.priority is 'Higher is more urgent.';
comment on column public.documents.turn is 'Order among documents of equal priority: the turn of its case at enqueue. Used for fair scheduling between cases.';
comment on column public.documents.retry_at is 'Earliest time of the next claim; null if it can be claimed immediately.';
comment on column public.documents.attempts is
  'Number of claims since the document was queued; claims returned unread do not count.';
comment on column public.documents.retry_count is 'Number of failed attempts.';
comment on column public.documents.rescues is
  'Number of locks that expired because the worker died, and of resets, without a new page.';
comment on column public.documents.locked_at is 'Time of the worker''s last heartbeat.';
comment on column public.documents.claimed_at is 'Time of the last claim; claimed_by is its worker. Both are kept after the claim ends.';
comment on column public.documents.attempt_deadline is
  'Hard deadline for the attempt, even if its worker is still alive.';
comment on column public.documents.claim_lost_at is
  'When a claim last ended without a report of its worker: its lock expired, or the document was reset or cancelled. That '
  'worker may still be alive, so from then on extraction_queue accepts results of a claim only with its token.';
comment on column public.documents.worker_id is 'The extractor, while it extracts the document, and after it has failed.';
comment on column public.documents.extracted_by is 'The extractor that delivered the file.';
comment on column public.documents.extraction_due_at is
  'extracting: when the lease of the extractor expires. extraction_failed: when the document awaits its file again.';
comment on column public.documents.extraction_failures is
  'Number of failed or expired extractions since the document was inserted or requeued.';
comment on column public.documents.error_message is 'Last error reported by the extractor; OCR never sets it.';
comment on column public.documents.ocr_error is 'Last OCR error; the extractor never sets it.';
create index documents_registry_idx on public.documents (lane, created_at) where lane in ('index', 'acte');
create index documents_extraction_due_idx on public.documents (extraction_due_at) where extraction_due_at is not null;
alter table public.documents enable row level security;
create policy "Documents are visible to the people of their case and to HAC"
  on public.documents for select to authenticated
  using ((select private.is_admin()) or case_id in (select private.my_case_ids()));
grant select on public.documents to authenticated, service_role;
-- None of these columns changes while a document is being read, so claims and completions still update no index.
create index documents_created_idx on public.documents (created_at, id);
create index documents_case_created_idx on public.documents (case_id, created_at, id);
create index documents_lane_created_idx on public.documents (lane, created_at, id);
create index documents_bin_idx on public.documents (created_at, id) where deleted_at is not null;
create index documents_name_idx on public.documents using gin (lower(name) extensions.gin_trgm_ops);

create function private.queued_status(p_lane text)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select case p_lane when 'pdf' then 'queued_for_pdf' else 'queued' end;
$$;
comment on function private.queued_status(text) is 'The status of queued documents in a lane.';

create function private.prevent_case_deletion()
returns trigger
language plpgsql
security definer          -- a caller with the right to delete cases may lack the right to see documents
set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select 1 from public.documents as d where d.case_id = old.id) then
    raise exception 'case % has documents', old.id using errcode = '23503', hint = 'Call erase_case instead.';
  end if;
  return old;
end;
$$;
comment on function private.prevent_case_deletion() is 'Prevent deletion of a case that has documents (23503).';
create trigger cases_prevent_deletion
  before delete on public.cases
  for each row execute function private.prevent_case_deletion();

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
  'One reading of a document by one engine, version and profile. Pages from different runs are never mixed.';
comment on column public.ocr_runs.is_whole is
  'True if the text was sent with the result rather than page by page; otherwise the run contains every page of the '
  'document.';
alter table public.ocr_runs enable row level security;
create policy "Runs are visible to the people of the case and to HAC"
  on public.ocr_runs for select to authenticated
  using (exists (select 1 from public.documents as d where d.id = ocr_runs.document_id));
grant select on public.ocr_runs to authenticated, service_role;

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
comment on table public.ocr_pages is 'The text of each page, with lines, boxes and confidence.';
comment on column public.ocr_pages.page_number is 'Page number, starting at 1.';
comment on column public.ocr_pages.status is 'read; blank: an empty page; unread: ink, but no text found; failed: the page could not be read.';
comment on column public.ocr_pages.lines is
  'Boxes are in pixels of the page image, with the origin at the top left; confidence ranges from 0 to 1.';
create index ocr_pages_document_idx on public.ocr_pages (document_id);
create index ocr_pages_case_idx on public.ocr_pages (case_id);
create index ocr_pages_text_search_idx on public.ocr_pages using gin (text_search);
alter table public.ocr_pages enable row level security;
create policy "Pages are visible to the people of the case and to HAC"
  on public.ocr_pages for select to authenticated
  using ((select private.is_admin()) or case_id in (select private.my_case_ids()));
grant select on public.ocr_pages to authenticated, service_role;

create table public.ocr_processing_logs (
  id uuid not null default gen_random_uuid(),
  document_id uuid not null,
  ocr_data jsonb not null,
  confidence_score public.share,
  processing_time_ms public.counter,
  ocr_engine text,
  ocr_version text,
  run_id bigint,
  worker_id text,
  attempt integer not null default 0,
  retry_count integer not null default 0,
  seconds_to_text real,
  created_at timestamptz not null default now(),
  constraint ocr_processing_logs_pkey primary key (document_id, id)
);
comment on table public.ocr_processing_logs is
  'Results, one for each claim that completed its document. Only the statement that completes the document writes '
  'them, so there is no foreign key: checking it would cost as much as inserting the row.';
comment on column public.ocr_processing_logs.id is
  'The claim''s lock token; as the primary key, it prevents a claim from completing twice.';
comment on column public.ocr_processing_logs.seconds_to_text is 'From upload to text.';
alter table public.ocr_processing_logs enable row level security;
create policy "Results are visible to the people of the case and to HAC"
  on public.ocr_processing_logs for select to authenticated
  using (exists (select 1 from public.documents as d where d.id = ocr_processing_logs.document_id));
grant select on public.ocr_processing_logs to authenticated, service_role;
create index ocr_processing_logs_created_idx on public.ocr_processing_logs (created_at, id);

create function private.normalise_error(p_message text)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  -- Order matters: the longer kinds first, or their digits are eaten by the shorter.
  select left(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
    coalesce(p_message, ''),
    '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}|\m(0x)?[0-9a-fA-F]{12,}\M', '<id>', 'g'),
    '"[^"]*"|''[^'']*''', '<text>', 'g'),
    '(/[^\s/:]+){2,}', '<path>', 'g'),
    '[0-9]+([.,][0-9]+)*', '<n>', 'g'), 300);
$$;
comment on function private.normalise_error(text) is
  'The error message without the parts that vary between occurrences: ids, texts, paths, numbers.';

create table public.ocr_errors (
  id bigint generated always as identity,
  document_id uuid references public.documents (id) on delete cascade,
  case_id uuid,
  lane text,
  kind text not null,
  attempt integer not null default 0,
  worker_id text,
  error_category text not null default 'unknown',
  error_message text not null,
  error_group text not null generated always as (private.normalise_error(error_message)) stored,
  error_details jsonb not null default '{}',
  created_at timestamptz not null default now(),
  constraint ocr_errors_pkey primary key (id),
  constraint ocr_errors_kind_is_known check (
    kind in ('failure', 'lock_expired', 'deadline', 'outage', 'conflict', 'extraction')
  ),
  constraint ocr_errors_category_is_known check (
    error_category in ('transient', 'permanent', 'resource', 'configuration', 'unknown')
  )
);
comment on table public.ocr_errors is 'All errors of a document, in order.';
comment on column public.ocr_errors.kind is
  'failure: reported by the worker. lock_expired: the worker died. deadline: the attempt took too long. outage: a '
  'service was unavailable (not counted). conflict: a concurrent change. extraction: reported by the extractor.';
create index ocr_errors_document_idx on public.ocr_errors (document_id, id);
create index ocr_errors_created_idx on public.ocr_errors (created_at);
alter table public.ocr_errors enable row level security;
create policy "Errors are visible to the people of the case and to HAC"
  on public.ocr_errors for select to authenticated
  using ((select private.is_admin()) or case_id in (select private.my_case_ids()));
grant select on public.ocr_errors to authenticated, service_role;

create table public.ocr_dead_letter (
  id uuid not null default gen_random_uuid(),
  document_id uuid not null references public.documents (id) on delete cascade,
  case_id uuid not null references public.cases (id) on delete cascade,
  document_name text not null,
  dropbox_path text not null default '',
  failure_count integer not null default 1,
  first_failed_at timestamptz not null default now(),
  last_failed_at timestamptz not null default now(),
  last_error_message text,
  last_error_details jsonb,
  error_category text not null default 'unknown',
  -- Our messages begin with the file name, which would put each into a group of its own.
  error_group text not null generated always as (
    private.normalise_error(replace(last_error_message, document_name, '<name>'))
  ) stored,
  status text not null default 'pending',
  reviewed_by uuid references auth.users (id) on delete set null,
  reviewed_at timestamptz,
  resolution_notes text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint ocr_dead_letter_pkey primary key (id),
  constraint ocr_dead_letter_one_for_a_document unique (document_id),
  constraint ocr_dead_letter_category_is_known check (
    error_category in ('transient', 'permanent', 'resource', 'configuration', 'unknown')
  ),
  constraint ocr_dead_letter_status_is_known check (
    status in ('pending', 'investigating', 'requeued', 'manual', 'abandoned')
  )
);
comment on table public.ocr_dead_letter is 'Documents that failed permanently and await a decision by HAC.';
create index ocr_dead_letter_created_idx on public.ocr_dead_letter (created_at);
create index ocr_dead_letter_reviewed_by_idx on public.ocr_dead_letter (reviewed_by) where reviewed_by is not null;
alter table public.ocr_dead_letter enable row level security;
create policy "Dead letters are visible to the people of the case and to HAC"
  on public.ocr_dead_letter for select to authenticated
  using ((select private.is_admin()) or case_id in (select private.my_case_ids()));
grant select on public.ocr_dead_letter to authenticated, service_role;
create index idx_ocr_dlq_status on public.ocr_dead_letter (status, last_failed_at, id);
create index idx_ocr_dlq_case on public.ocr_dead_letter (case_id, last_failed_at, id);
create index ocr_dead_letter_open_idx on public.ocr_dead_letter (last_failed_at, id)
  where status in ('pending', 'investigating');
create index ocr_dead_letter_group_idx on public.ocr_dead_letter (error_group, last_failed_at, id);

create function private.task_urgency(p_priority text)
returns integer
language sql
immutable
security invoker
set search_path = ''
as $$
  select case p_priority when 'urgent' then 1 when 'high' then 2 when 'normal' then 3 when 'low' then 4 end;
$$;
comment on function private.task_urgency(text) is 'Convert a task priority to a number, from 1 (urgent) to 4 (low).';

create table public.tasks (
  id uuid not null default gen_random_uuid(),
  case_id uuid references public.cases (id) on delete cascade,
  document_id uuid references public.documents (id) on delete cascade,
  kind text not null default 'other',
  title text not null,
  description text,
  assignee_role text not null default 'admin',
  assigned_to uuid references auth.users (id) on delete set null,
  status text not null default 'pending',
  priority text not null default 'normal',
  metadata jsonb not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  done_at timestamptz,
  done_by uuid references auth.users (id) on delete set null,
  urgency integer not null generated always as (private.task_urgency(priority)) stored,
  constraint tasks_pkey primary key (id),
  constraint tasks_kind_is_known check (kind in ('dead_letter', 'review', 'routing', 'outage', 'alert', 'other')),
  constraint tasks_status_is_known check (status in ('pending', 'in_progress', 'done', 'cancelled')),
  constraint tasks_priority_is_known check (priority in ('low', 'normal', 'high', 'urgent')),
  constraint tasks_ended_has_a_time check ((status in ('done', 'cancelled')) = (done_at is not null))
);
comment on table public.tasks is 'Work items for members of HAC.';
create unique index tasks_one_open_of_a_kind on public.tasks (document_id, kind)
  where status in ('pending', 'in_progress') and document_id is not null;
create index tasks_document_idx on public.tasks (document_id);
create index tasks_case_idx on public.tasks (case_id);
create index tasks_assigned_to_idx on public.tasks (assigned_to) where assigned_to is not null;
create index tasks_done_by_idx on public.tasks (done_by) where done_by is not null;
alter table public.tasks enable row level security;
create policy "Tasks are visible to HAC"
  on public.tasks for select to authenticated
  using ((select private.is_admin()));
grant select on public.tasks to authenticated, service_role;
comment on column public.tasks.urgency is 'The priority as a number for sorting: 1 is urgent.';
create index tasks_open_idx on public.tasks (urgency, created_at, id) where status in ('pending', 'in_progress');
create index tasks_open_kind_idx on public.tasks (kind, urgency, created_at, id) where status in ('pending', 'in_progress');
create index tasks_open_assigned_idx on public.tasks (assigned_to, urgency, created_at, id)
  where status in ('pending', 'in_progress');
create index tasks_open_case_idx on public.tasks (case_id) where status in ('pending', 'in_progress');
