-- Purpose:  what is written down: results, errors, dead letters, tasks for people, the audit log.
-- Affects:  creates ocr_processing_logs, ocr_errors, ocr_dead_letter, tasks, hac_acts and hac_logs,
--           edge_function_config, private.file_removals.
-- Locks:    none that anybody could notice.

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
  'Results, one for each claim that finished. Written only by the statement that completes the document, so it '
  'has no foreign key, whose check would cost as much as the row.';
comment on column public.ocr_processing_logs.id is
  'The lock token of the claim that finished: the primary key keeps a claim from finishing twice.';
comment on column public.ocr_processing_logs.seconds_to_text is 'From upload to text.';
-- Rows come in the order of time, so the coarsest index finds the newest, and costs nothing.
create index ocr_processing_logs_created_idx on public.ocr_processing_logs using brin (created_at)
  with (autosummarize = on, pages_per_range = 16);

alter table public.ocr_processing_logs enable row level security;
create policy "Results are visible to the people of the case and to HAC"
  on public.ocr_processing_logs for select to authenticated
  using (exists (select 1 from public.documents as d where d.id = ocr_processing_logs.document_id));
grant select on public.ocr_processing_logs to authenticated, service_role;

-- Errors ------------------------------------------------------------------------------------

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
  'The message without what differs between two cases of the same fault: ids, texts, paths, numbers.';

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
comment on table public.ocr_errors is 'Everything that ever went wrong with a document, in order.';
comment on column public.ocr_errors.kind is
  'failure: its worker said so. lock_expired: its worker died. deadline: the attempt took too long. '
  'outage: a service was away, not counted. conflict: two changed the same thing. extraction: the extractor said so.';
create index ocr_errors_document_idx on public.ocr_errors (document_id, id);
create index ocr_errors_created_idx on public.ocr_errors (created_at);

alter table public.ocr_errors enable row level security;
create policy "Errors are visible to the people of the case and to HAC"
  on public.ocr_errors for select to authenticated
  using ((select private.is_admin()) or case_id in (select private.my_case_ids()));
grant select on public.ocr_errors to authenticated, service_role;

-- Dead letters ------------------------------------------------------------------------------

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
  -- Our own messages begin with the name of the file, which would make each a group of its own.
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
comment on table public.ocr_dead_letter is 'Documents machines gave up on, until HAC decides.';
create index idx_ocr_dlq_status on public.ocr_dead_letter (error_group) where status in ('pending', 'investigating');
create index idx_ocr_dlq_case on public.ocr_dead_letter (case_id);
create index ocr_dead_letter_created_idx on public.ocr_dead_letter (created_at);
create index ocr_dead_letter_reviewed_by_idx on public.ocr_dead_letter (reviewed_by) where reviewed_by is not null;

alter table public.ocr_dead_letter enable row level security;
create policy "Dead letters are visible to the people of the case and to HAC"
  on public.ocr_dead_letter for select to authenticated
  using ((select private.is_admin()) or case_id in (select private.my_case_ids()));
grant select on public.ocr_dead_letter to authenticated, service_role;

-- Tasks for people --------------------------------------------------------------------------

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
  constraint tasks_pkey primary key (id),
  constraint tasks_kind_is_known check (kind in ('dead_letter', 'review', 'routing', 'outage', 'other')),
  constraint tasks_status_is_known check (status in ('pending', 'in_progress', 'done', 'cancelled')),
  constraint tasks_priority_is_known check (priority in ('low', 'normal', 'high', 'urgent')),
  constraint tasks_ended_has_a_time check ((status in ('done', 'cancelled')) = (done_at is not null))
);
comment on table public.tasks is 'What waits for a person.';
create unique index tasks_one_open_of_a_kind on public.tasks (document_id, kind)
  where status in ('pending', 'in_progress') and document_id is not null;
create index tasks_document_idx on public.tasks (document_id);
create index tasks_case_idx on public.tasks (case_id);
create index tasks_open_idx on public.tasks (created_at) where status in ('pending', 'in_progress');
create index tasks_assigned_to_idx on public.tasks (assigned_to) where assigned_to is not null;
create index tasks_done_by_idx on public.tasks (done_by) where done_by is not null;

alter table public.tasks enable row level security;
create policy "Tasks are visible to HAC"
  on public.tasks for select to authenticated
  using ((select private.is_admin()));
grant select on public.tasks to authenticated, service_role;

-- The audit log -----------------------------------------------------------------------------

create table public.hac_acts (
  id uuid not null default gen_random_uuid(),
  case_id uuid,
  document_id uuid,
  user_id uuid,
  action_type text not null,
  action_description text,
  field_changed text,
  old_value text,
  new_value text,
  metadata jsonb,
  created_at timestamptz not null default now(),
  constraint hac_acts_pkey primary key (id)
);
comment on table public.hac_acts is
  'A line for every human act and every decision of a machine that is not a result. Outlives what it speaks of, '
  'so it references nothing. Read it through hac_logs.';
comment on column public.hac_acts.user_id is 'Who did it; null when a machine did.';
create index hac_acts_case_idx on public.hac_acts (case_id, document_id);

alter table public.hac_acts enable row level security;
create policy "Acts are visible to the people of the case and to HAC"
  on public.hac_acts for select to authenticated
  using ((select private.is_admin()) or case_id in (select private.my_case_ids()));
grant select on public.hac_acts to authenticated, service_role;

-- An automatic completion is already written down once, as a result; the log shows it as a line.
create view public.hac_logs
with (security_invoker = true)
as
select a.id, a.case_id, a.document_id, a.user_id, a.action_type, a.action_description,
  a.field_changed, a.old_value, a.new_value, a.metadata, a.created_at
from public.hac_acts as a
union all
select r.id, d.case_id, r.document_id, null, 'ocr_completed',
  format('OCR completed for %s (confidence: %s%%)', d.name, coalesce(round(r.confidence_score * 100, 2)::text, 'unknown')),
  'ocr_status', null, 'completed', null, r.created_at
from public.ocr_processing_logs as r
join public.documents as d on d.id = r.document_id;
comment on view public.hac_logs is 'The audit log: a line for every automatic completion and every human act.';
grant select on public.hac_logs to authenticated, service_role;

create function private.insert_hac_log()
returns trigger
language plpgsql
security invoker
set search_path = ''
as $$
begin
  insert into public.hac_acts (
    case_id, document_id, user_id, action_type, action_description, field_changed, old_value, new_value, metadata
  )
  values (
    new.case_id, new.document_id, coalesce(new.user_id, auth.uid()), new.action_type, new.action_description,
    new.field_changed, new.old_value, new.new_value, new.metadata
  );
  return new;
end;
$$;
comment on function private.insert_hac_log() is 'A line written by hand into the log is an act.';
create trigger hac_logs_insert
  instead of insert on public.hac_logs
  for each row execute function private.insert_hac_log();

create function private.log_act(
  p_case_id uuid,
  p_document_id uuid,
  p_action_type text,
  p_description text,
  p_old text default null,
  p_new text default null,
  p_metadata jsonb default null
)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  insert into public.hac_acts (
    case_id, document_id, user_id, action_type, action_description, field_changed, old_value,
    new_value, metadata
  )
  values (
    p_case_id, p_document_id, auth.uid(), p_action_type, p_description,
    case when coalesce(p_old, p_new) is not null then 'ocr_status' end, p_old, p_new, p_metadata
  );
$$;
comment on function private.log_act(uuid, uuid, text, text, text, text, jsonb) is
  'Write a line of the audit log; p_old and p_new are statuses.';

-- Switches and schedules of functions -------------------------------------------------------

create table public.edge_function_config (
  function_name text not null,
  enabled boolean not null default true,
  schedule text,
  description text not null default '',
  updated_at timestamptz not null default now(),
  constraint edge_function_config_pkey primary key (function_name)
);
comment on table public.edge_function_config is 'Switches any function off, and holds its schedule, without a deployment.';

insert into public.edge_function_config (function_name, schedule, description)
values
  ('upload-to-dropbox', null, 'Takes files in'),
  ('ocr-worker', '* * * * *', 'Reads images'),
  ('pdf-worker', '* * * * *', 'Hands PDFs to the GPU service'),
  ('ocr-universal', null, 'Reads one image'),
  ('pdf-extract', null, 'Reads one PDF'),
  ('stale-monitor', '5 seconds', 'Gives back what dead workers held; SQL, see private.sweep()'),
  ('ocr-worker-retry-v2', null, 'Trying again after a version conflict');

alter table public.edge_function_config enable row level security;
create policy "Switches are visible to HAC"
  on public.edge_function_config for select to authenticated
  using ((select private.is_admin()));
grant select on public.edge_function_config to authenticated;
grant select, insert, update, delete on public.edge_function_config to service_role;

-- Files that nobody needs any more ----------------------------------------------------------

create table private.file_removals (
  id bigint generated always as identity,
  document_id uuid not null,
  path text not null,
  created_at timestamptz not null default now(),
  constraint file_removals_pkey primary key (id)
);
comment on table private.file_removals is
  'Files of erased documents, written in the transaction that erased them; a row goes when its file is gone.';
alter table private.file_removals enable row level security;
