-- Check jobs: pictures whose text is compared with the expected text.
--
-- A job is a case of kind `check`, with the same id. Its pictures are documents of lane `check`, and are
-- claimed, read and retried like all others. check_images has the names and the expected strings;
-- pictures with the same bytes share a document, which is read once.
--
-- Life of a job:
--   submit_check_job   creates case, job and documents; idempotent with an idempotency key
--   get_check          returns the expected text of a picture to the worker
--   complete_check     stores the results and completes the document in one transaction
--   (trigger)          a job ends with its documents: SUCCEEDED when all are completed, FAILED when one
--                      failed, CANCELLED when one was cancelled; the rest is cancelled
--   expire_check_jobs  part of the sweep: fails jobs after their deadline
--   cancel_check_job, rerun_check_job, decide_check   actions of users
--   purge_check_jobs   removes results, and later the whole job
--
-- Lock order: documents by id, then the job. If a job ends first, locked documents are skipped
-- (cancel_pending), and the sweep cancels them.
--
-- Answers use the names of the HTTP API (jobId, createdAt, …). Not here: the comparison itself
-- (pagewarden/checks) and webhooks (webhooks).

create domain public.web_address as text
  constraint web_address_is_http check (octet_length(value) <= 2000 and value ~ '^https?://[^[:space:]/?#]+[^[:space:]]*$');
comment on domain public.web_address is 'An HTTP or HTTPS URL.';

create table public.check_jobs (
  id uuid not null references public.cases (id) on delete cascade,
  language public.label,
  allowed text[] not null default '{}',
  run public.counter not null default 1,
  outcome text,
  error text,
  ended_at timestamptz,
  deadline timestamptz not null,
  seconds integer not null,
  cancel_pending boolean not null default false,
  submitted_by uuid references auth.users (id) on delete set null,
  idempotency_key public.label,
  request_digest public.sha256_hex,
  purged_at timestamptz,
  created_at timestamptz not null default now(),
  constraint check_jobs_pkey primary key (id),
  constraint check_jobs_outcome_is_known check (outcome in ('SUCCEEDED', 'FAILED', 'CANCELLED')),
  constraint check_jobs_end_has_an_outcome check ((outcome is null) = (ended_at is null)),
  constraint check_jobs_failed_has_an_error check ((outcome is not distinct from 'FAILED') = (error is not null)),
  constraint check_jobs_key_has_a_digest check ((idempotency_key is null) = (request_digest is null)),
  constraint check_jobs_seconds_is_positive check (seconds > 0)
);
comment on table public.check_jobs is 'Check jobs; each is a case with the same id.';
comment on column public.check_jobs.language is
  'The expected language of the text; null if the language is not checked.';
comment on column public.check_jobs.allowed is 'Words and texts that are allowed in any language.';
comment on column public.check_jobs.run is 'Number of runs, from 1.';
comment on column public.check_jobs.outcome is 'How the last run ended; null while it runs.';
comment on column public.check_jobs.deadline is 'When the run fails unless it has ended.';
comment on column public.check_jobs.seconds is 'Time limit of each run.';
comment on column public.check_jobs.cancel_pending is 'Some documents were locked when the job ended; the sweep cancels them.';
comment on column public.check_jobs.idempotency_key is 'A submission with the same key returns this job.';
comment on column public.check_jobs.request_digest is
  'Digest of the request sent with the key; another request with the same key is rejected.';
comment on column public.check_jobs.purged_at is 'When its results were removed; the pictures are kept longer.';
create unique index check_jobs_idempotency_idx on public.check_jobs (submitted_by, idempotency_key) nulls not distinct
  where idempotency_key is not null;
-- For lists: all jobs or those of one user, with any outcome or one. Purged jobs are never listed.
create index check_jobs_created_idx on public.check_jobs (created_at, id) where purged_at is null;
create index check_jobs_outcome_idx on public.check_jobs (outcome, created_at, id) where purged_at is null;
create index check_jobs_submitted_idx on public.check_jobs (submitted_by, created_at, id);
create index check_jobs_own_outcome_idx on public.check_jobs (submitted_by, outcome, created_at, id)
  where purged_at is null;
create index check_jobs_open_idx on public.check_jobs (deadline) where outcome is null;
create index check_jobs_cancel_pending_idx on public.check_jobs (id) where cancel_pending;
create index check_jobs_ended_idx on public.check_jobs (ended_at) where ended_at is not null;
alter table public.check_jobs enable row level security;
create policy "Jobs are visible to the people of their case and to HAC"
  on public.check_jobs for select to authenticated
  using ((select private.is_admin()) or id in (select private.my_case_ids()));
grant select on public.check_jobs to authenticated, service_role;

create table public.check_images (
  job_id uuid not null references public.check_jobs (id) on delete cascade,
  position integer not null,
  name public.document_name not null,
  document_id uuid not null references public.documents (id) on delete cascade,
  reference text[],
  constraint check_images_pkey primary key (job_id, position),
  constraint check_images_name_is_unique unique (job_id, name),
  constraint check_images_position_starts_at_one check (position > 0)
);
comment on table public.check_images is 'Pictures of jobs. Pictures with the same bytes share a document.';
comment on column public.check_images.reference is 'The strings expected in the picture; null if none are compared.';
create index check_images_document_idx on public.check_images (document_id);
alter table public.check_images enable row level security;
create policy "Pictures of jobs are visible to the people of the case and to HAC"
  on public.check_images for select to authenticated
  using ((select private.is_admin()) or job_id in (select private.my_case_ids()));
grant select on public.check_images to authenticated, service_role;

create table public.check_results (
  job_id uuid not null,
  position integer not null,
  verdict text not null,
  match boolean,
  extracted_text text not null,
  issues jsonb not null,
  strings jsonb,
  width integer,
  height integer,
  decision text,
  decided_by uuid references auth.users (id) on delete set null,
  decided_at timestamptz,
  created_at timestamptz not null default now(),
  constraint check_results_pkey primary key (job_id, position),
  constraint check_results_image_fkey foreign key (job_id, position)
    references public.check_images (job_id, position) on delete cascade,
  constraint check_results_verdict_is_known check (verdict in ('PASS', 'MANUAL')),
  constraint check_results_issues_is_a_list check (jsonb_typeof(issues) = 'array'),
  constraint check_results_strings_is_a_list check (jsonb_typeof(strings) = 'array'),
  constraint check_results_decision_is_known check (decision in ('accepted', 'rejected')),
  constraint check_results_decision_has_a_time check ((decision is null) = (decided_at is null))
);
comment on table public.check_results is 'Results of checks, stored when the document is completed.';
comment on column public.check_results.match is 'True if all expected strings were found and no others; null if none were expected.';
comment on column public.check_results.decision is 'The decision of a user about the result.';
create index check_results_decided_by_idx on public.check_results (decided_by) where decided_by is not null;
alter table public.check_results enable row level security;
create policy "Results of checks are visible to the people of the case and to HAC"
  on public.check_results for select to authenticated
  using ((select private.is_admin()) or job_id in (select private.my_case_ids()));
grant select on public.check_results to authenticated, service_role;

create function private.cancel_check_documents(p_job_id uuid, p_now timestamptz)
returns boolean
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_document public.documents;
begin
  -- A transaction that has locked a document may wait for this job, so locked ones are skipped.
  for v_document in
    select d.* from public.documents as d
    where d.case_id = p_job_id and d.ocr_status not in ('completed', 'failed', 'cancelled')
    order by d.id
    for update skip locked
  loop
    perform private.cancel(v_document, 'its job has ended', p_now);
  end loop;
  return not exists (
    select 1 from public.documents as d
    where d.case_id = p_job_id and d.ocr_status not in ('completed', 'failed', 'cancelled')
  );
end;
$$;
comment on function private.cancel_check_documents(uuid, timestamptz) is
  'Cancel the unfinished documents of a job; returns false if some are locked.';

create function private.end_check_job(p_job_id uuid, p_outcome text, p_error text, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_seconds double precision;
begin
  update public.check_jobs as j
  set outcome = p_outcome, error = p_error, ended_at = p_now
  where j.id = p_job_id
  returning j.seconds - extract(epoch from j.deadline - p_now) into v_seconds;   -- since the run began
  perform private.count_event('check_jobs', array[p_outcome, private.seconds_bucket(v_seconds)], v_seconds);
  if p_outcome <> 'SUCCEEDED' and not private.cancel_check_documents(p_job_id, p_now) then
    update public.check_jobs as j set cancel_pending = true where j.id = p_job_id;
  end if;
end;
$$;
comment on function private.end_check_job(uuid, text, text, timestamptz) is
  'Record the outcome of a job and cancel its unfinished documents. The caller has locked the job, which has not ended.';

create function private.update_check_job_outcome(p_job_id uuid, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_failed text;
  v_all boolean;
  v_cancelled boolean;
begin
  -- Serializes two transactions that complete the last two pictures.
  perform 1 from public.check_jobs as j where j.id = p_job_id and j.outcome is null for update;
  if not found then
    return;
  end if;
  select min(format('%s: %s', i.name, d.ocr_error)) filter (where d.ocr_status in ('failed', 'dead_letter')),
    bool_or(d.ocr_status = 'cancelled'),
    bool_and(d.ocr_status = 'completed')
  into v_failed, v_cancelled, v_all
  from public.check_images as i
  join public.documents as d on d.id = i.document_id
  where i.job_id = p_job_id;
  if v_failed is not null then
    perform private.end_check_job(p_job_id, 'FAILED', v_failed, p_now);
  elsif v_cancelled or v_all is null then
    perform private.end_check_job(p_job_id, 'CANCELLED', null, p_now);
  elsif v_all then
    perform private.end_check_job(p_job_id, 'SUCCEEDED', null, p_now);
  end if;
end;
$$;
comment on function private.update_check_job_outcome(uuid, timestamptz) is
  'End a job when all its documents have ended: the job fails if any document failed, and is cancelled if any was '
  'cancelled or there are none.';

create function private.update_check_job_of_document()
returns trigger
language plpgsql
security definer          -- roles that end documents have no privileges on jobs
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.update_check_job_outcome(old.case_id, now());
  return null;
end;
$$;
comment on function private.update_check_job_of_document() is 'Update the outcome of the job when one of its documents ends or is deleted.';
create trigger documents_update_check_job
  after update of ocr_status, deleted_at on public.documents
  for each row
  when (
    new.lane = 'check' and new.ocr_status <> old.ocr_status
    and new.ocr_status in ('completed', 'failed', 'dead_letter', 'cancelled')
  )
  execute function private.update_check_job_of_document();
-- Triggers fire by name: documents_remove_from_list runs first, so that the queue is locked before the job.
create trigger documents_removed_update_check_job
  after delete on public.documents
  for each row
  when (old.lane = 'check')
  execute function private.update_check_job_of_document();

create function private.expire_check_jobs(p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_job public.check_jobs;
begin
  for v_job in
    select j.* from public.check_jobs as j
    where j.outcome is null and j.deadline <= p_now
    order by j.deadline
    limit 100
    for update skip locked
  loop
    perform private.end_check_job(
      v_job.id, 'FAILED', format('the job did not finish within %s', make_interval(secs => v_job.seconds)), p_now
    );
  end loop;
  for v_job in
    select j.* from public.check_jobs as j where j.cancel_pending order by j.id limit 100 for update skip locked
  loop
    -- A job that was rerun needs its documents.
    if v_job.outcome is null or private.cancel_check_documents(v_job.id, p_now) then
      update public.check_jobs as j set cancel_pending = false where j.id = v_job.id;
    end if;
  end loop;
end;
$$;
comment on function private.expire_check_jobs(timestamptz) is
  'Fail jobs after their deadline, and cancel documents that were locked when their job ended. Called by the sweep.';

create function private.require_check_request(p_language text, p_images jsonb, p_allowed text[], p_seconds integer)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  perform private.require_optional_text('p_language', p_language, 200);
  perform private.require_list('p_images', p_images);
  if (jsonb_array_length(p_images) between 1 and 1000) is not true then
    raise exception 'a job must have 1 to 1000 pictures, got %', jsonb_array_length(p_images)
      using errcode = '22023', hint = 'Split larger lists into several jobs.';
  end if;
  if exists (
    select 1 from jsonb_array_elements(p_images) as i
    where (jsonb_typeof(i) = 'object' and i ->> 'name' <> '' and i ->> 'dropbox_path' <> '' and i ->> 'sha256' <> '') is not true
      or jsonb_typeof(i -> 'reference') not in ('array', 'null')
  ) then
    raise exception 'p_images contains an invalid picture' using errcode = '22023',
      hint = 'Required: name, dropbox_path and sha256. reference is a list of strings, or null.';
  end if;
  if (select count(distinct i ->> 'name') from jsonb_array_elements(p_images) as i) < jsonb_array_length(p_images) then
    raise exception 'p_images contains a duplicate name' using errcode = '22023', hint = 'Send each name once.';
  end if;
  if (p_seconds > 0) is not true then
    raise exception 'p_seconds must be positive' using errcode = '22023', hint = 'p_seconds is the time limit of the job.';
  end if;
  if cardinality(p_allowed) > 1000 or array_position(p_allowed, null) is not null then
    raise exception 'p_allowed must be a list of at most 1000 words' using errcode = '22023', hint = 'Use a shorter list.';
  end if;
end;
$$;
comment on function private.require_check_request(text, jsonb, text[], integer) is
  'Reject invalid arguments of a submission (22023).';

create function private.check_job_refused(p_answer anyelement, p_error text, p_job_id uuid, p_message text)
returns anyelement
language sql
stable
security invoker
set search_path = ''
as $$
  select jsonb_populate_record(p_answer, jsonb_build_object(
    'success', false, 'error', p_error, 'job_id', p_job_id, 'message', p_message
  ));
$$;
comment on function private.check_job_refused(anyelement, text, uuid, text) is
  'The error result of a call about a check job, in the given type.';

create function private.check_job_not_found(p_answer anyelement, p_job_id uuid)
returns anyelement
language sql
stable
security invoker
set search_path = ''
as $$
  select private.check_job_refused(p_answer, 'JOB_NOT_FOUND', p_job_id, 'the job does not exist or was removed');
$$;
comment on function private.check_job_not_found(anyelement, uuid) is
  'The error result for a job that is unknown, purged or deleted, in the given type.';

create type public.submit_check_job_answer as (
  success boolean,
  error text,
  message text,
  job_id uuid,
  existing boolean
);
comment on type public.submit_check_job_answer is
  'The submitted check job. existing: an earlier call with the same idempotency key created it. '
  'Nullable: error, message, existing.';

create function private.repeated_submission_answer(p_job public.check_jobs, p_request_digest text)
returns public.submit_check_job_answer
language plpgsql
stable
security invoker
set search_path = ''
as $$
declare
  v_answer public.submit_check_job_answer;
begin
  if (p_job.request_digest = p_request_digest) is not true then
    return private.check_job_refused(
      v_answer, 'IDEMPOTENCY_KEY_REUSED', p_job.id,
      'this idempotency key was already used with another request; use a new key for a new job'
    );
  end if;
  v_answer.success := true;
  v_answer.job_id := p_job.id;
  v_answer.existing := true;
  return v_answer;
end;
$$;
comment on function private.repeated_submission_answer(public.check_jobs, text) is
  'The result of a submission with a known idempotency key.';

create function private.add_check_images(p_job_id uuid, p_images jsonb, p_language text, p_engine text, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  -- Pictures with the same bytes are one document.
  perform private.add_documents(
    p_job_id,
    (
      select jsonb_agg(f.file || jsonb_build_object('language', p_language, 'engine', p_engine) order by f.number)
      from (
        select distinct on (i.file ->> 'sha256') i.file - 'reference' as file, i.number
        from jsonb_array_elements(p_images) with ordinality as i (file, number)
        order by i.file ->> 'sha256', i.number
      ) as f
    ),
    'check', 0, p_now
  );
  insert into public.check_images (job_id, position, name, document_id, reference)
  select p_job_id, i.number, i.file ->> 'name', d.id,
    case when jsonb_typeof(i.file -> 'reference') = 'array'
      then array(select r.text from jsonb_array_elements_text(i.file -> 'reference') with ordinality as r (text, n) order by r.n)
    end
  from jsonb_array_elements(p_images) with ordinality as i (file, number)
  join public.documents as d on d.case_id = p_job_id and d.sha256 = i.file ->> 'sha256';
end;
$$;
comment on function private.add_check_images(uuid, jsonb, text, text, timestamptz) is
  'Queue the pictures of a new job.';

create function private.submit_check_job(
  p_job_id uuid,
  p_language text,
  p_images jsonb,
  p_allowed text[],
  p_name text,
  p_reading_language text,
  p_engine text,
  p_seconds integer,
  p_callback_url text,
  p_idempotency_key text,
  p_request_digest text,
  p_now timestamptz default now()
)
returns public.submit_check_job_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_known public.check_jobs;
  v_user uuid := auth.uid();
  v_answer public.submit_check_job_answer;
begin
  if v_user is null and not private.is_service() then
    raise exception 'a job requires a user' using errcode = '42501', hint = 'Sign in.';
  end if;
  perform private.require_check_request(p_language, p_images, p_allowed, p_seconds);
  perform private.require_optional_text('p_name', p_name, 300);
  perform private.require_optional_text('p_idempotency_key', p_idempotency_key, 200);
  if p_job_id is null then
    raise exception 'p_job_id must not be null' using errcode = '22023', hint = 'Generate a UUID.';
  end if;
  if p_idempotency_key is not null then
    -- A concurrent submission with the same key waits, and finds the job.
    perform pg_advisory_xact_lock(hashtextextended(coalesce(v_user::text, '') || p_idempotency_key, 5));
    select j.* into v_known from public.check_jobs as j
    where j.submitted_by is not distinct from v_user and j.idempotency_key = p_idempotency_key;
    if found then
      return private.repeated_submission_answer(v_known, p_request_digest);
    end if;
  end if;
  begin
    insert into public.cases (id, user_id, kind, name, created_at)
    values (p_job_id, v_user, 'check', coalesce(p_name, 'Check'), p_now);
    insert into public.check_jobs (
      id, language, allowed, deadline, seconds, submitted_by, idempotency_key, request_digest, created_at
    )
    values (
      p_job_id, p_language, coalesce(p_allowed, '{}'), p_now + make_interval(secs => p_seconds), p_seconds, v_user,
      p_idempotency_key, case when p_idempotency_key is not null then p_request_digest end, p_now
    );
  exception
    when unique_violation then
      raise exception 'case % already exists', p_job_id using errcode = '22023', hint = 'Generate a new UUID.';
    when check_violation then
      raise exception 'p_request_digest must be 64 lower-case hexadecimal digits' using errcode = '22023',
        hint = 'It identifies the request that was sent with the key.';
  end;
  perform private.add_check_images(p_job_id, p_images, p_reading_language, p_engine, p_now);
  if p_callback_url is not null then
    perform private.request_job_webhook(p_job_id, p_callback_url);
  end if;
  v_answer.success := true;
  v_answer.job_id := p_job_id;
  v_answer.existing := false;
  return v_answer;
end;
$$;
comment on function private.submit_check_job(uuid, text, jsonb, text[], text, text, text, integer, text, text, text, timestamptz) is
  'See public.submit_check_job.';
grant execute on function private.submit_check_job(uuid, text, jsonb, text[], text, text, text, integer, text, text, text, timestamptz)
  to authenticated, service_role;

create type public.check_image_expectation as (
  position integer,
  image text,
  reference text[]
);
comment on type public.check_image_expectation is
  'A picture name and the strings expected in the picture; null if none are compared. Nullable: reference.';

create type public.check_image_page as (
  run_id bigint,
  page_number integer,
  document_id uuid,
  case_id uuid,
  status text,
  text text,
  language text,
  lines jsonb,
  confidence numeric,
  width integer,
  height integer,
  error text,
  processing_time_ms integer,
  details jsonb,
  created_at timestamptz
);
comment on type public.check_image_page is
  'A row of ocr_pages without its search vector. Nullable: language, confidence, width, height, error, processing_time_ms.';

create type public.get_check_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  language text,
  allowed text[],
  images public.check_image_expectation[],
  pages public.check_image_page[]
);
comment on type public.get_check_answer is
  'The expected text of a picture, and its saved pages. Nullable: error, message, document_id, language, allowed, images, pages.';

create function public.get_check(p_document_id uuid, p_lock_token uuid default null)
returns public.get_check_answer
language plpgsql
volatile                  -- volatile: it counts refusals; PostgREST calls stable functions in read-only transactions
security definer          -- workers have no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_refusal text;
  v_answer public.get_check_answer;
begin
  select d.* into v_document from public.documents as d where d.id = p_document_id;
  v_refusal := private.lock_refusal(v_document, p_lock_token);
  if v_refusal is not null then
    return private.refused(v_answer, v_refusal, p_document_id);
  end if;
  v_answer.success := true;
  select j.language, j.allowed into v_answer.language, v_answer.allowed
  from public.check_jobs as j where j.id = v_document.case_id;
  v_answer.images := array(
    select x::public.check_image_expectation
    from (
      select i.position, i.name::text, i.reference from public.check_images as i
      where i.document_id = p_document_id
      order by i.position
    ) as x
  );
  v_answer.pages := array(
    select x::public.check_image_page
    from (
      select o.run_id, o.page_number, o.document_id, o.case_id, o.status, o.text, o.language, o.lines, o.confidence,
        o.width, o.height, o.error, o.processing_time_ms, o.details, o.created_at
      from public.ocr_pages as o
      where o.run_id = v_document.open_run_id
      order by o.page_number
    ) as x
  );
  return v_answer;
end;
$$;
comment on function public.get_check(uuid, uuid) is
  'Return the expectations for a picture: language, allowed words, the strings expected for each of its names, and the '
  'saved pages. A document without a job has no images.';
grant execute on function public.get_check(uuid, uuid) to service_role, pagewarden_worker;

create type public.complete_check_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  log_id uuid,
  missing integer[]
);
comment on type public.complete_check_answer is
  'The same as the result of process_ocr_atomic. Nullable: error, message, log_id, missing.';

create function public.complete_check(
  p_document_id uuid,
  p_results jsonb,
  p_confidence numeric,
  p_processing_time_ms integer,
  p_lock_token uuid default null,
  p_engine text default null,
  p_version text default null,
  p_profile text default null,
  p_page_count integer default null,
  p_now timestamptz default now()
)
returns public.complete_check_answer
language plpgsql
volatile
security definer          -- workers have no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer public.complete_check_answer;
begin
  perform private.require_list('p_results', p_results);
  v_answer := jsonb_populate_record(v_answer, public.process_ocr_atomic(
    p_document_id, jsonb_build_object('checked', jsonb_array_length(p_results)), p_confidence, p_processing_time_ms,
    p_lock_token, p_engine, p_version, p_profile, p_page_count, p_now
  ));
  if not v_answer.success then
    return v_answer;
  end if;
  begin
    insert into public.check_results (
      job_id, position, verdict, match, extracted_text, issues, strings, width, height, created_at
    )
    select i.job_id, i.position, r.verdict, r.match, r.extracted_text, r.issues, r.strings, r.width, r.height, p_now
    from public.check_images as i
    left join jsonb_to_recordset(p_results) as r (
      position integer, verdict text, match boolean, extracted_text text, issues jsonb, strings jsonb, width integer,
      height integer
    ) on r.position = i.position
    where i.document_id = p_document_id;
  exception
    when not_null_violation or check_violation or unique_violation then
      raise exception 'p_results is invalid' using errcode = '22023',
        hint = 'Send one result for each picture returned by get_check: position, verdict, match, extracted_text, issues, strings.';
  end;
  return v_answer;
end;
$$;
comment on function public.complete_check(uuid, jsonb, numeric, integer, uuid, text, text, text, integer, timestamptz) is
  'Complete a picture of a job as process_ocr_atomic does, and store a result for each of its names. '
  'Nullable: p_confidence.';
grant execute on function public.complete_check(uuid, jsonb, numeric, integer, uuid, text, text, text, integer, timestamptz)
  to service_role, pagewarden_worker;

create function private.check_job_status(p_job public.check_jobs)
returns text
language sql
stable
security invoker
set search_path = ''
as $$
  select coalesce((p_job).outcome, case when exists (
    select 1 from public.documents as d where d.case_id = (p_job).id and d.ocr_status in ('processing', 'completed')
  ) then 'PROCESSING' else 'PENDING' end);
$$;
comment on function private.check_job_status(public.check_jobs) is
  'The status of a job: PENDING until a worker claims the first picture, then PROCESSING until it ends.';

create type public.check_job_summary as (
  "jobId" uuid,
  name text,
  status text,
  language text,
  "languageChecked" boolean,
  run integer,
  error text,
  "createdAt" timestamptz,
  "startedAt" timestamptz,
  "endedAt" timestamptz,
  images bigint,
  checked bigint,
  pass bigint,
  manual bigint,
  undecided bigint
);
comment on type public.check_job_summary is
  'A check job as returned by the API, without its results. Nullable: language, error, startedAt, endedAt.';

create function private.check_job_summary(p_job public.check_jobs)
returns public.check_job_summary
language sql
stable
security invoker
set search_path = ''
as $$
  select x::public.check_job_summary
  from (
    select (p_job).id, c.name::text, private.check_job_status(p_job), (p_job).language::text,
      (p_job).language is not null, (p_job).run::integer, (p_job).error, (p_job).created_at,
      (select min(d.claimed_at) from public.documents as d where d.case_id = (p_job).id), (p_job).ended_at,
      n.images, n.checked, n.pass, n.manual, n.undecided
    from public.cases as c
    cross join lateral (
      select count(*) as images, count(r.verdict) as checked, count(*) filter (where r.verdict = 'PASS') as pass,
        count(*) filter (where r.verdict = 'MANUAL') as manual,
        count(*) filter (where r.verdict = 'MANUAL' and r.decision is null) as undecided
      from public.check_images as i
      left join public.check_results as r on r.job_id = i.job_id and r.position = i.position
      where i.job_id = (p_job).id
    ) as n
    where c.id = (p_job).id
  ) as x;
$$;
comment on function private.check_job_summary(public.check_jobs) is
  'A job as returned by the API, without its results.';

create function private.find_check_job(p_job_id uuid, p_rank integer)
returns public.check_jobs
language plpgsql
stable
security invoker
set search_path = ''
as $$
declare
  v_job public.check_jobs;
begin
  perform private.require_case_rank(p_job_id, p_rank);
  select j.* into v_job from public.check_jobs as j
  join public.cases as c on c.id = j.id
  where j.id = p_job_id and j.purged_at is null and c.deleted_at is null;
  return v_job;
end;
$$;
comment on function private.find_check_job(uuid, integer) is
  'Return the job if the caller has at least this rank in its case; raise 42501 otherwise, even for an unknown id, so '
  'that ids cannot be probed.';

create type public.check_job_result as (
  image text,
  position integer,
  "documentId" uuid,
  reference text[],
  "extractedText" text,
  match boolean,
  verdict text,
  issues jsonb,
  strings jsonb,
  width integer,
  height integer,
  decision text,
  "languageChecked" boolean,
  error text
);
comment on type public.check_job_result is
  'The result of a picture of a check job; without a verdict it has not been checked. Nullable: reference, '
  'extractedText, match, verdict, issues, strings, width, height, decision, languageChecked, error.';

create type public.check_job_details as (
  "jobId" uuid,
  name text,
  status text,
  language text,
  "languageChecked" boolean,
  run integer,
  error text,
  "createdAt" timestamptz,
  "startedAt" timestamptz,
  "endedAt" timestamptz,
  images bigint,
  checked bigint,
  pass bigint,
  manual bigint,
  undecided bigint,
  results public.check_job_result[]
);
comment on type public.check_job_details is
  'A check job as returned by the API. Nullable: language, error, startedAt, endedAt.';

create type public.check_job_answer as (
  success boolean,
  error text,
  message text,
  job_id uuid,
  job public.check_job_details
);
comment on type public.check_job_answer is
  'A check job, or the requested id if the call was rejected. Nullable: error, message, job_id, job.';

create function private.check_job(p_job_id uuid)
returns public.check_job_answer
language plpgsql
stable
security definer          -- checks the rank of the caller first
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job public.check_jobs := private.find_check_job(p_job_id, 1);
  v_details public.check_job_details;
  v_answer public.check_job_answer;
begin
  if v_job.id is null then
    return private.check_job_not_found(v_answer, p_job_id);
  end if;
  v_details := jsonb_populate_record(v_details, to_jsonb(private.check_job_summary(v_job)));
  v_details.results := array(
    select x::public.check_job_result
    from (
      select i.name::text, i.position, d.id, i.reference, r.extracted_text, r.match, r.verdict, r.issues, r.strings,
        r.width, r.height, r.decision, case when r.verdict is not null then v_job.language is not null end,
        case when r.verdict is null and d.ocr_status in ('failed', 'dead_letter') then d.ocr_error end
      from public.check_images as i
      join public.documents as d on d.id = i.document_id
      left join public.check_results as r on r.job_id = i.job_id and r.position = i.position
      where i.job_id = p_job_id
      order by i.position
    ) as x
  );
  v_answer.success := true;
  v_answer.job := v_details;
  return v_answer;
end;
$$;
comment on function private.check_job(uuid) is 'See public.check_job.';
grant execute on function private.check_job(uuid) to authenticated, service_role;

create function private.list_check_jobs(
  p_status text,
  p_everybody boolean,
  p_before timestamptz,
  p_before_id uuid,
  p_limit integer
)
returns setof public.check_job_summary
language plpgsql
stable
security definer          -- a policy would prevent the use of the index by time
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan   -- HAC needs the index by time, others the one by user
as $$
declare
  v_all boolean := private.is_service() or (p_everybody and private.is_admin());
begin
  if (p_limit between 1 and 200) is not true then
    raise exception 'p_limit must be between 1 and 200' using errcode = '22023', hint = 'Use pagination.';
  end if;
  if p_status not in ('PENDING', 'PROCESSING', 'SUCCEEDED', 'FAILED', 'CANCELLED') then
    raise exception 'unknown job status %', p_status using errcode = '22023',
      hint = 'Valid statuses are PENDING, PROCESSING, SUCCEEDED, FAILED, CANCELLED.';
  end if;
  return query
  select h.*
  from public.check_jobs as j
  cross join lateral private.check_job_summary(j) as h
  where (v_all or j.submitted_by = auth.uid())
    and (j.created_at, j.id) < (coalesce(p_before, 'infinity'), coalesce(p_before_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    and j.purged_at is null
    -- Not a join: that would read all cases.
    and (select c.deleted_at is null from public.cases as c where c.id = j.id)
    and (
      p_status is null
      or (p_status in ('PENDING', 'PROCESSING') and j.outcome is null and private.check_job_status(j) = p_status)
      or (p_status not in ('PENDING', 'PROCESSING') and j.outcome = p_status)
    )
  order by j.created_at desc, j.id desc
  limit p_limit;
end;
$$;
comment on function private.list_check_jobs(text, boolean, timestamptz, uuid, integer) is 'See public.list_check_jobs.';
grant execute on function private.list_check_jobs(text, boolean, timestamptz, uuid, integer) to authenticated, service_role;

create function private.lock_check_job(p_job_id uuid)
returns public.check_jobs
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_job public.check_jobs := private.find_check_job(p_job_id, 2);
begin
  if v_job.id is not null then
    perform 1 from public.documents as d where d.case_id = p_job_id order by d.id for update;
    select j.* into v_job from public.check_jobs as j where j.id = p_job_id for update;
  end if;
  return v_job;
end;
$$;
comment on function private.lock_check_job(uuid) is
  'Lock the documents of a job by id, then the job, for a caller who may edit it.';

create type public.check_job_change as (
  success boolean,
  error text,
  message text,
  job_id uuid,
  status text,
  images integer
);
comment on type public.check_job_change is
  'A check job that was cancelled or rerun. images: the number of pictures to be read again. '
  'Nullable: error, message, status, images.';

create function private.cancel_check_job(p_job_id uuid, p_now timestamptz default now())
returns public.check_job_change
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job public.check_jobs := private.lock_check_job(p_job_id);
  v_answer public.check_job_change;
begin
  if v_job.id is null then
    return private.check_job_not_found(v_answer, p_job_id);
  end if;
  if v_job.outcome is not null then
    return private.check_job_refused(
      v_answer, 'JOB_HAS_ENDED', p_job_id, format('the job is already %s', v_job.outcome)
    );
  end if;
  perform private.end_check_job(p_job_id, 'CANCELLED', null, p_now);
  perform private.log_act(p_job_id, null, 'check_cancelled', 'the check job was cancelled');
  v_answer.success := true;
  v_answer.job_id := p_job_id;
  v_answer.status := 'CANCELLED';
  return v_answer;
end;
$$;
comment on function private.cancel_check_job(uuid, timestamptz) is 'See public.cancel_check_job.';
grant execute on function private.cancel_check_job(uuid, timestamptz) to authenticated, service_role;

create function private.rerun_check_job(p_job_id uuid, p_all boolean, p_now timestamptz default now())
returns public.check_job_change
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job public.check_jobs := private.lock_check_job(p_job_id);
  v_document public.documents;
  v_count integer := 0;
  v_answer public.check_job_change;
begin
  if v_job.id is null then
    return private.check_job_not_found(v_answer, p_job_id);
  end if;
  if v_job.outcome is null or (v_job.outcome = 'SUCCEEDED' and p_all is not true) then
    return private.check_job_refused(
      v_answer, 'WRONG_STATE', p_job_id,
      case when v_job.outcome is null then 'the job has not ended; cancel it first, or wait'
        else 'every picture has a result; pass p_all to read all of them again' end
    );
  end if;
  update public.check_jobs as j
  set run = j.run + 1, outcome = null, error = null, ended_at = null,
      deadline = p_now + make_interval(secs => j.seconds)
  where j.id = p_job_id;
  for v_document in
    select d.* from public.documents as d
    where d.case_id = p_job_id and d.deleted_at is null and (p_all is true or d.ocr_status <> 'completed')
    order by d.id
  loop
    v_count := v_count + 1;
    delete from public.check_results as r
    using public.check_images as i
    where i.document_id = v_document.id and r.job_id = i.job_id and r.position = i.position;
    update public.documents as d set reading = d.reading + 1, open_run_id = null where d.id = v_document.id;
    perform private.requeue(v_document, 'the job was rerun', p_now);
  end loop;
  update public.webhooks as w
  set attempts = 0, next_attempt_at = p_now, settled_at = null, delivered = null, error = null
  where w.job_id = p_job_id;
  perform private.update_check_job_outcome(p_job_id, p_now);   -- if no document was left to read
  perform private.log_act(p_job_id, null, 'check_rerun', format('the check job was rerun: %s pictures', v_count));
  v_answer.success := true;
  v_answer.job_id := p_job_id;
  v_answer.status := 'PENDING';
  v_answer.images := v_count;
  return v_answer;
end;
$$;
comment on function private.rerun_check_job(uuid, boolean, timestamptz) is 'See public.rerun_check_job.';
grant execute on function private.rerun_check_job(uuid, boolean, timestamptz) to authenticated, service_role;

create type public.decide_check_answer as (
  success boolean,
  error text,
  message text,
  job_id uuid,
  position integer,
  decision text
);
comment on type public.decide_check_answer is
  'The decision about a picture of a check job. Nullable: error, message, position, decision.';

create function private.decide_check(
  p_job_id uuid,
  p_position integer,
  p_decision text,
  p_now timestamptz default now()
)
returns public.decide_check_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job public.check_jobs := private.find_check_job(p_job_id, 2);
  v_answer public.decide_check_answer;
begin
  if p_decision not in ('accepted', 'rejected') then
    raise exception 'unknown decision %', p_decision using errcode = '22023',
      hint = 'Valid decisions are accepted and rejected; null removes the decision.';
  end if;
  if v_job.id is null then
    return private.check_job_not_found(v_answer, p_job_id);
  end if;
  update public.check_results as r
  set decision = p_decision,
      decided_by = case when p_decision is not null then auth.uid() end,
      decided_at = case when p_decision is not null then p_now end
  where r.job_id = p_job_id and r.position = p_position;
  if not found then
    return private.check_job_refused(v_answer, 'NOT_CHECKED', p_job_id, 'the picture has no result yet');
  end if;
  perform private.log_act(
    p_job_id, (select i.document_id from public.check_images as i where i.job_id = p_job_id and i.position = p_position),
    'check_' || coalesce(p_decision, 'undecided'), null, null, null, jsonb_build_object('position', p_position)
  );
  v_answer.success := true;
  v_answer.job_id := p_job_id;
  v_answer.position := p_position;
  v_answer.decision := p_decision;
  return v_answer;
end;
$$;
comment on function private.decide_check(uuid, integer, text, timestamptz) is 'See public.decide_check.';
grant execute on function private.decide_check(uuid, integer, text, timestamptz) to authenticated, service_role;

create type public.check_job_purge as (
  purged integer,
  erased integer
);
comment on type public.check_job_purge is 'Jobs whose results were removed, and jobs that were erased with their pictures.';

create function public.purge_check_jobs(
  p_result_days numeric default 7,
  p_input_days numeric default 30,
  p_limit integer default 100,
  p_now timestamptz default now()
)
returns public.check_job_purge
language plpgsql
volatile
security definer          -- the service role may not write the tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_purged uuid[];
  v_job_id uuid;
  v_answer public.check_job_purge;
begin
  if (0 < p_result_days and p_result_days <= p_input_days and p_limit between 1 and 1000) is not true then
    raise exception 'p_result_days must be positive, p_input_days must not be less, and p_limit must be between 1 and 1000'
      using errcode = '22023', hint = 'Results cannot be kept longer than their pictures.';
  end if;
  with due as (
    select j.id from public.check_jobs as j
    where j.purged_at is null and j.ended_at < p_now - make_interval(secs => (p_result_days * 86400)::double precision)
    order by j.ended_at
    limit p_limit
    for update skip locked
  ),
  purged as (
    update public.check_jobs as j set purged_at = p_now, error = case when j.error is not null then 'purged' end
    from due where j.id = due.id
    returning j.id
  ),
  results as (
    delete from public.check_results as r using purged where r.job_id = purged.id
  ),
  expected as (
    update public.check_images as i set reference = null from purged where i.job_id = purged.id
  )
  select array_agg(p.id) into v_purged from purged as p;
  -- Without a run, the invariants expect no pages.
  update public.documents as d set run_id = null, open_run_id = null, page_count = null where d.case_id = any (v_purged);
  delete from public.ocr_runs as r using public.documents as d where d.case_id = any (v_purged) and r.document_id = d.id;
  v_answer.purged := coalesce(cardinality(v_purged), 0);
  v_answer.erased := 0;
  for v_job_id in
    select j.id from public.check_jobs as j
    where j.ended_at < p_now - make_interval(secs => (p_input_days * 86400)::double precision)
    order by j.ended_at
    limit p_limit
  loop
    perform private.end_case(v_job_id, 'erase', p_now);
    v_answer.erased := v_answer.erased + 1;
  end loop;
  return v_answer;
end;
$$;
comment on function public.purge_check_jobs(numeric, numeric, integer, timestamptz) is
  'Remove the results of jobs p_result_days after they ended, and jobs with their pictures after p_input_days. '
  'Returns the number of each; repeat the call while either number equals p_limit.';
grant execute on function public.purge_check_jobs(numeric, numeric, integer, timestamptz) to service_role;

create function public.count_old_check_jobs(
  p_result_days numeric default 7,
  p_input_days numeric default 30,
  p_now timestamptz default now()
)
returns public.check_job_purge
language plpgsql
stable
security definer          -- the same as for purge_check_jobs
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer public.check_job_purge;
begin
  if (0 < p_result_days and p_result_days <= p_input_days) is not true then
    raise exception 'p_result_days must be positive, and p_input_days must not be less'
      using errcode = '22023', hint = 'Results cannot be kept longer than their pictures.';
  end if;
  select count(*) filter (where j.purged_at is null),
    count(*) filter (where j.ended_at < p_now - make_interval(secs => (p_input_days * 86400)::double precision))
  into v_answer.purged, v_answer.erased
  from public.check_jobs as j
  where j.ended_at < p_now - make_interval(secs => (p_result_days * 86400)::double precision);
  return v_answer;
end;
$$;
comment on function public.count_old_check_jobs(numeric, numeric, timestamptz) is 'How many jobs purge_check_jobs would remove.';
grant execute on function public.count_old_check_jobs(numeric, numeric, timestamptz) to service_role;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.submit_check_job(
  p_job_id uuid,
  p_language text,
  p_images jsonb,
  p_allowed text[] default '{}',
  p_name text default null,
  p_reading_language text default null,
  p_engine text default null,
  p_seconds integer default 86400,
  p_callback_url text default null,
  p_idempotency_key text default null,
  p_request_digest text default null
)
returns public.submit_check_job_answer
language sql volatile security invoker set search_path = ''
as $$ select private.submit_check_job(p_job_id, p_language, p_images, p_allowed, p_name, p_reading_language, p_engine, p_seconds, p_callback_url, p_idempotency_key, p_request_digest) $$;
comment on function public.submit_check_job(uuid, text, jsonb, text[], text, text, text, integer, text, text, text) is
  'Submit a check job. p_images is [{"name", "dropbox_path", "sha256", "reference", …}, …]; the files are in the '
  'folder of p_job_id, a new UUID. If p_language is null, the language of the text is not checked. A known '
  'idempotency key returns the existing job. Nullable: p_language.';
grant execute on function public.submit_check_job(uuid, text, jsonb, text[], text, text, text, integer, text, text, text)
  to authenticated, service_role;

create function public.check_job(p_job_id uuid)
returns public.check_job_answer
language sql stable security invoker set search_path = ''
as $$ select private.check_job(p_job_id) $$;
comment on function public.check_job(uuid) is
  'A check job with its results so far, as returned by the API. JOB_NOT_FOUND if it is unknown or purged.';
grant execute on function public.check_job(uuid) to authenticated, service_role;

create function public.list_check_jobs(
  p_status text default null,
  p_everybody boolean default false,
  p_before timestamptz default null,
  p_before_id uuid default null,
  p_limit integer default 50
)
returns setof public.check_job_summary
language sql stable security invoker set search_path = ''
as $$ select * from private.list_check_jobs(p_status, p_everybody, p_before, p_before_id, p_limit) $$;
comment on function public.list_check_jobs(text, boolean, timestamptz, uuid, integer) is
  'The check jobs of the caller without their results, newest first. Services see all jobs; with p_everybody, so does '
  'HAC.';
grant execute on function public.list_check_jobs(text, boolean, timestamptz, uuid, integer) to authenticated, service_role;

create function public.cancel_check_job(p_job_id uuid)
returns public.check_job_change
language sql volatile security invoker set search_path = ''
as $$ select private.cancel_check_job(p_job_id) $$;
comment on function public.cancel_check_job(uuid) is
  'Editor, owner or HAC: cancel a job. Workers lose their locks on its pictures immediately; existing results are '
  'kept.';
grant execute on function public.cancel_check_job(uuid) to authenticated, service_role;

create function public.rerun_check_job(p_job_id uuid, p_all boolean default false)
returns public.check_job_change
language sql volatile security invoker set search_path = ''
as $$ select private.rerun_check_job(p_job_id, p_all) $$;
comment on function public.rerun_check_job(uuid, boolean) is
  'Editor, owner or HAC: rerun an ended job for the pictures without a result, or with p_all for all pictures.';
grant execute on function public.rerun_check_job(uuid, boolean) to authenticated, service_role;

create function public.decide_check(p_job_id uuid, p_position integer, p_decision text)
returns public.decide_check_answer
language sql volatile security invoker set search_path = ''
as $$ select private.decide_check(p_job_id, p_position, p_decision) $$;
comment on function public.decide_check(uuid, integer, text) is
  'Editor, owner or HAC: accept or reject the result of a picture; null removes the decision. Nullable: p_decision.';
grant execute on function public.decide_check(uuid, integer, text) to authenticated, service_role;
