-- Fill a database as after months of use, by writing directly to the tables.
-- bench.documents is the number of documents. Run as a superuser on a new database.
set session_replication_role = replica;

insert into auth.users (id, email, raw_app_meta_data, raw_user_meta_data, created_at, updated_at)
select md5('user' || n)::uuid, format('user-%s@example.org', n), '{}', '{}', now(), now()
from generate_series(1, 200) as n;

insert into public.cases (id, name, user_id)
select md5('case' || n)::uuid, format('case %s', n), md5('user' || n + 1)::uuid
from generate_series(0, 200 - 1) as n;

-- Of a hundred documents five are dead letters, five wait, one needs routing, one review, one was cancelled;
-- of five thousand one is processing. The rest is completed.
insert into public.documents (
  id, case_id, name, lane, ocr_status, listed_in, file_extension, dropbox_path, mime_type, size_bytes, turn,
  attempts, retry_count, max_attempts, page_count, run_id, locked_by, locked_at, lock_token, lock_expires_at,
  claimed_by, claimed_at, attempt_deadline, created_at, updated_at, ocr_completed_at, ocr_error
)
select md5('document' || n)::uuid, c.id, format('scan %s.png', n), 'image', s.status, private.list_of(s.status),
  'png', format('/%s/%s/scan.png', c.id, n), 'image/png', 100000, n,
  (s.status <> 'queued')::integer, 0, 3, 1, case when s.status = 'completed' then n end,
  x.worker, x.locked_at, x.token, x.locked_at + interval '1 day', 'worker-1', x.locked_at,
  x.locked_at + interval '1 day', t.created_at, t.created_at,
  case when s.status = 'completed' then t.created_at + interval '4 seconds' end,
  case when s.status = 'dead_letter' then format('engine %s failed on page %s', n % 40, n) end
from generate_series(1, current_setting('bench.documents')::integer) as n
cross join lateral (select case
  when n % 100 < 5 then 'dead_letter' when n % 100 = 5 then 'pending' when n % 100 = 6 then 'pending_review'
  when n % 100 between 7 and 11 then 'queued' when n % 100 = 12 then 'cancelled'
  when n % 5000 = 13 then 'processing' else 'completed' end as status) as s
cross join lateral (
  select now() - (current_setting('bench.documents')::integer - n) * interval '600000 seconds' / current_setting('bench.documents')::integer as created_at
) as t
cross join lateral (
  select case when s.status = 'processing' then 'worker-1' end as worker,
    case when s.status = 'processing' then now() - interval '1 minute' end as locked_at,
    case when s.status = 'processing' then md5('claim')::uuid end as token
) as x
join lateral (select md5('case' || n % 200)::uuid as id) as c on true;

insert into private.queue (lane, urgency, turn, document_id)
select lane, -priority, turn, id from public.documents where listed_in = 'queue';

insert into private.queue_parked (ocr_status, document_id)
select ocr_status, id from public.documents where listed_in = 'aside';

insert into private.claims (id, claimed_at, document_ids)
select md5('claim')::uuid, now(), array_agg(id) from public.documents where ocr_status = 'processing'
having count(*) > 0;

insert into public.ocr_runs (id, document_id, reading, engine, engine_version, profile, created_at)
overriding system value
select run_id, id, 1, 'cascade', '1', 'balanced', ocr_completed_at from public.documents
where run_id is not null;

insert into public.ocr_pages (
  run_id, page_number, document_id, case_id, text, confidence, width, height, text_search
)
select d.run_id, 1, d.id, d.case_id, t.text, 0.5 + d.run_id % 50 / 100.0, 1654, 2339,
  private.search_vector(t.text, 'en')
from public.documents as d
cross join lateral (
  select string_agg('word' || (d.run_id * 7919 + i * 104729) % 20011, ' ') as text
  from generate_series(1, 60) as i
) as t
where d.run_id is not null;

insert into public.page_corrections (document_id, page_number, version, case_id, run_id, text, approved, text_search)
select document_id, 1, 1, case_id, run_id, text, true, text_search from public.ocr_pages where run_id % 20 = 0;

insert into public.page_doubts (document_id, page_number, case_id, status, confidence, created_at)
select o.document_id, 1, o.case_id, o.status, o.confidence, d.ocr_completed_at
from public.ocr_pages as o join public.documents as d on d.id = o.document_id
where private.is_doubtful(o.status, o.confidence) and o.run_id % 20 <> 0;

insert into public.ocr_processing_logs (
  id, document_id, ocr_data, confidence_score, processing_time_ms, ocr_engine, ocr_version, run_id,
  worker_id, attempt, seconds_to_text, created_at
)
select md5('result' || run_id)::uuid, id, '{}', 0.9, 900, 'cascade', '1', run_id, 'worker-1', 1, 4,
  ocr_completed_at
from public.documents where run_id is not null order by ocr_completed_at;

insert into public.ocr_errors (
  document_id, case_id, lane, kind, attempt, worker_id, error_category, error_message, created_at
)
select d.id, d.case_id, d.lane, 'failure', a, 'worker-1', 'permanent', d.ocr_error, d.created_at
from public.documents as d cross join generate_series(1, 3) as a where d.ocr_status = 'dead_letter';

insert into public.ocr_dead_letter (
  document_id, case_id, document_name, failure_count, first_failed_at, last_failed_at,
  last_error_message, error_category, created_at
)
select id, case_id, name, 3, created_at, created_at, ocr_error,
  (array['transient', 'permanent', 'resource', 'unknown'])[1 + turn % 4], created_at
from public.documents where ocr_status = 'dead_letter';

insert into public.tasks (case_id, document_id, kind, title, priority, created_at)
select case_id, id, case ocr_status when 'dead_letter' then 'dead_letter' when 'pending' then 'routing'
  else 'review' end, format('Review "%s"', name), 'normal', created_at
from public.documents where ocr_status in ('dead_letter', 'pending', 'pending_review');

insert into public.hac_acts (
  case_id, document_id, user_id, action_type, action_description, created_at
)
select d.case_id, d.id, md5('user' || 1 + i % 200)::uuid,
  (array['read_again', 'cancelled', 'restored', 'deleted', 'lane_paused'])[1 + i % 5], 'an act', d.created_at
from generate_series(1, 10) as i cross join public.documents as d;

-- A check job of two images for every tenth document: of a hundred jobs two have failed, two run and one
-- was cancelled, and half of them are purged. The first two hundred belong to user-1.
insert into public.cases (id, name, kind, user_id, created_at)
select md5('job' || n)::uuid, format('Release %s', n), 'check', md5('user' || case when n <= 200 then 1 else 2 + n % 199 end)::uuid,
  now() - n * interval '1 minute'
from generate_series(1, current_setting('bench.documents')::integer / 10) as n;

insert into public.check_jobs (id, language, outcome, error, ended_at, deadline, seconds, submitted_by, purged_at, created_at)
select c.id, 'fr', x.outcome, case when x.outcome = 'FAILED' then 'a.png: damaged' end,
  case when x.outcome is not null then c.created_at + interval '9 seconds' end, c.created_at + interval '1 day', 86400,
  c.user_id, case when n % 2 = 0 and x.outcome is not null then now() end, c.created_at
from generate_series(1, current_setting('bench.documents')::integer / 10) as n
cross join lateral (select case when n % 100 in (1, 51) then 'FAILED' when n % 100 = 3 then 'CANCELLED'
  when n % 100 not in (5, 55) then 'SUCCEEDED' end as outcome) as x
join public.cases as c on c.id = md5('job' || n)::uuid;

insert into public.documents (
  id, case_id, name, lane, ocr_status, listed_in, file_extension, dropbox_path, turn, attempts, created_at, updated_at
)
select md5(j.id || i.name)::uuid, j.id, i.name, 'check', s.status, private.list_of(s.status), 'png',
  format('/%s/%s', j.id, i.name), 0, 1, j.created_at, j.created_at
from public.check_jobs as j
cross join (values ('a.png'), ('b.png')) as i (name)
cross join lateral (select case j.outcome when 'SUCCEEDED' then 'completed' when 'FAILED' then 'failed'
  when 'CANCELLED' then 'cancelled' else 'queued' end as status) as s;

insert into public.check_images (job_id, position, name, document_id)
select d.case_id, case d.name when 'a.png' then 1 else 2 end, d.name, d.id from public.documents as d where d.lane = 'check';

insert into public.check_results (job_id, position, verdict, extracted_text, issues)
select j.id, i.position, case i.position when 1 then 'PASS' else 'MANUAL' end, 'Bonjour', '[]'
from public.check_jobs as j join public.check_images as i on i.job_id = j.id
where j.outcome = 'SUCCEEDED' and j.purged_at is null;

insert into private.queue (lane, urgency, turn, document_id)
select lane, -priority, turn, id from public.documents where lane = 'check' and listed_in = 'queue';

select private.aggregate_finished_hours();

select setval(pg_get_serial_sequence('public.ocr_runs', 'id'), (select max(id) from public.ocr_runs));

reset session_replication_role;
