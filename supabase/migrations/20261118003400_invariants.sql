-- Invariants: private.invariant_violations() returns a row for each violated invariant; none is the norm.
--
-- Tests call it after every scenario, `pagewarden doctor` and operators on a running system. Each part
-- covers one topic: documents and lanes, check jobs, volumes, alerts. The name of an invariant is the sentence
-- that should hold.
--
-- A violation is a bug or the result of a manual change. Nothing here repairs anything. The queries read
-- whole tables, so the function is for diagnosis, not for a schedule.

create type private.violation as (
  invariant text,
  document_id uuid,
  detail text
);
comment on type private.violation is
  'A violated invariant, with the document (for check jobs, also the job) and details, if any. Nullable: document_id, '
  'detail.';

create function private.document_violations()
returns setof private.violation
language sql
stable
security definer          -- reads all tables; only services may call it
set search_path = pg_catalog, pg_temp
as $$
  select 'a lock belongs to a document that is being read', d.id, d.ocr_status
  from public.documents as d
  where d.lock_token is not null and (d.ocr_status <> 'processing' or d.locked_by is null)
  union all
  select 'a queued document can be claimed, now or at its next attempt', d.id, d.lane::text
  from public.documents as d
  where d.ocr_status in ('queued', 'queued_for_pdf')
    and not exists (
      select 1 from private.queue as q
      where q.lane = d.lane and q.urgency = -d.priority and q.turn = d.turn and q.document_id = d.id
        and d.retry_at is null
    )
    and not exists (
      select 1 from private.queue_delayed as l
      where l.lane = d.lane and l.retry_at = d.retry_at and l.document_id = d.id
    )
  union all
  select 'a document is in the queue table that listed_in names', d.id, format('%s, %s', d.ocr_status, d.listed_in)
  from public.documents as d
  where d.listed_in is distinct from private.list_of(d.ocr_status)
    or (d.listed_in = 'aside') <> exists (
      select 1 from private.queue_parked as a where a.ocr_status = d.ocr_status and a.document_id = d.id
    )
  union all
  select 'the sweep can find a document that is being read', d.id, d.locked_by
  from public.documents as d
  where d.ocr_status = 'processing' and not exists (
    select 1 from private.claims as c where d.id = any (c.document_ids) and coalesce(d.lock_token, c.id) = c.id
  )
  union all
  select 'a completed document has a result', d.id, null
  from public.documents as d
  where d.ocr_status = 'completed'
    and not exists (select 1 from public.ocr_processing_logs as r where r.document_id = d.id)
  union all
  select 'a result belongs to a document', r.document_id, null
  from public.ocr_processing_logs as r
  where not exists (select 1 from public.documents as d where d.id = r.document_id)
  union all
  select 'a document in status dead_letter has an open dead letter', d.id, null
  from public.documents as d
  where d.ocr_status = 'dead_letter' and not exists (
    select 1 from public.ocr_dead_letter as l
    where l.document_id = d.id and l.status in ('pending', 'investigating')
  )
  union all
  select 'an open dead letter belongs to a document in status dead_letter', d.id, d.ocr_status
  from public.ocr_dead_letter as l
  join public.documents as d on d.id = l.document_id
  where l.status in ('pending', 'investigating') and d.ocr_status <> 'dead_letter'
  union all
  select 'a dead letter has an open task', d.id, null
  from public.documents as d
  where d.ocr_status = 'dead_letter' and not exists (
    select 1 from public.tasks as t
    where t.document_id = d.id and t.kind = 'dead_letter' and t.status in ('pending', 'in_progress')
  )
  union all
  select 'a document waiting for a person has an open task', d.id, d.ocr_status
  from public.documents as d
  where d.ocr_status in ('pending', 'pending_review') and not exists (
    select 1 from public.tasks as t
    where t.document_id = d.id and t.kind in ('routing', 'review') and t.status in ('pending', 'in_progress')
  )
  union all
  select 'an open task still has a reason to be open', t.document_id, t.kind
  from public.tasks as t
  join public.documents as d on d.id = t.document_id
  where t.status in ('pending', 'in_progress') and (
    (t.kind = 'dead_letter' and d.ocr_status <> 'dead_letter')
    or (t.kind = 'routing' and d.ocr_status <> 'pending')
    or (t.kind = 'review' and d.ocr_status not in ('completed', 'pending_review'))
  )
  union all
  select 'a document without attempts left is not queued', d.id, format('%s of %s', d.retry_count, d.max_attempts)
  from public.documents as d
  where d.ocr_status in ('queued', 'queued_for_pdf') and d.retry_count >= d.max_attempts
  union all
  select 'an extraction has an end', d.id, d.ocr_status
  from public.documents as d
  where (d.ocr_status in ('extracting', 'extraction_failed')) <> (d.extraction_due_at is not null)
  union all
  select 'worker_id is an extractor of a document without its file', d.id, format('%s, %s', d.ocr_status, d.worker_id)
  from public.documents as d
  where d.worker_id is not null and d.ocr_status not in ('awaiting_file', 'extracting', 'extraction_failed')
  union all
  select 'failures and rescues do not exceed claims', d.id, format('%s claims, %s failures, %s rescues', d.attempts, d.retry_count, d.rescues)
  from public.documents as d
  where d.attempts < d.retry_count + d.rescues + (d.lock_token is not null)::integer
  union all
  select 'the run of a document belongs to that document', d.id, null
  from public.documents as d
  where d.run_id is not null
    and not exists (select 1 from public.ocr_runs as r where r.id = d.run_id and r.document_id = d.id)
  union all
  select 'a completed document has all its pages', d.id, format('%s pages', d.page_count)
  from public.documents as d
  left join public.ocr_runs as r on r.id = d.run_id
  where d.ocr_status = 'completed' and r.is_whole is not true and d.page_count > (
    select count(*) from public.ocr_pages as o where o.run_id = d.run_id and o.page_number <= d.page_count
  )
  union all
  select 'a page belongs to the document and case of its run', o.document_id, format('page %s', o.page_number)
  from public.ocr_pages as o
  join public.ocr_runs as r on r.id = o.run_id
  left join public.documents as d on d.id = o.document_id
  where r.document_id <> o.document_id or d.case_id is distinct from o.case_id
  union all
  select 'a probe is claimed by a worker', null, l.lane
  from public.lanes as l
  where l.probe_token is not null
    and not exists (select 1 from public.documents as d where d.lock_token = l.probe_token)
  union all
  select 'an outage has an open task', null, l.lane
  from public.lanes as l
  where l.pause_kind = 'outage' and not exists (
    select 1 from public.tasks as t
    where t.kind = 'outage' and t.metadata ->> 'lane' = l.lane and t.status in ('pending', 'in_progress')
  );
$$;
comment on function private.document_violations() is
  'Violated invariants of documents and lanes.';

create function private.check_job_violations()
returns setof private.violation
language sql
stable
security invoker
set search_path = ''
as $$
  select 'a check job whose pictures have all ended has ended', j.id, null::text
  from public.check_jobs as j
  where j.outcome is null and not exists (
    select 1 from public.documents as d
    where d.case_id = j.id and d.ocr_status not in ('completed', 'failed', 'dead_letter', 'cancelled')
  )
  union all
  select 'a check job that succeeded has all results', j.id, i.name::text
  from public.check_jobs as j
  join public.check_images as i on i.job_id = j.id
  where j.outcome = 'SUCCEEDED' and j.purged_at is null and not exists (
    select 1 from public.check_results as r where r.job_id = i.job_id and r.position = i.position
  )
  union all
  select 'a check result belongs to a completed picture', i.document_id, i.name::text
  from public.check_results as r
  join public.check_images as i on i.job_id = r.job_id and i.position = r.position
  join public.documents as d on d.id = i.document_id
  where d.ocr_status <> 'completed' and d.deleted_at is null
  union all
  select 'a check job that ended with open pictures is marked cancel_pending', d.id, j.outcome
  from public.check_jobs as j
  join public.documents as d on d.case_id = j.id
  where j.outcome in ('FAILED', 'CANCELLED') and not j.cancel_pending
    and d.ocr_status not in ('completed', 'failed', 'dead_letter', 'cancelled')
  union all
  select 'a picture of a check job has no open task for HAC', t.document_id, t.kind
  from public.tasks as t
  join public.check_jobs as j on j.id = t.case_id
  where t.status in ('pending', 'in_progress') and t.kind <> 'other';
$$;
comment on function private.check_job_violations() is
  'Violated invariants of check jobs.';

create function private.volume_violations()
returns setof private.violation
language sql
stable
security definer          -- reads all tables
set search_path = pg_catalog, pg_temp
as $$
  select 'a running volume has exactly one current message', null::uuid, format('task %s: %s messages', t.id, m.messages)
  from public.volume_tasks as t
  cross join lateral (
    select count(*) as messages from private.volume_messages() as k
    where k.stage = t.current_stage and k.message -> 'task_id' = to_jsonb(t.id)
      and k.message -> 'attempt' = to_jsonb(t.publications)
  ) as m
  where t.status = 'running' and t.published_to = 'pgmq' and m.messages <> 1
  union all
  select 'a message in the outbox is current', null, format('task %s', o.task_id)
  from private.volume_outbox as o
  join public.volume_tasks as t on t.id = o.task_id
  where (
    t.status = 'running' and t.published_to = 'sqs' and t.current_stage = o.stage
    and o.message -> 'attempt' = to_jsonb(t.publications)
  ) is not true
  union all
  select 'a claimed volume has an open run', null, format('task %s', t.id)
  from public.volume_tasks as t
  where t.token is not null and not exists (
    select 1 from public.volume_runs as r
    where r.token = t.token and r.task_id = t.id and r.stage = t.current_stage and r.ended_at is null
  )
  union all
  select 'an open run belongs to a claimed volume', null, format('task %s, run %s', r.task_id, r.id)
  from public.volume_runs as r
  where r.ended_at is null and not exists (select 1 from public.volume_tasks as t where t.token = r.token)
  union all
  select 'a completed volume has a result', null, format('task %s', t.id)
  from public.volume_tasks as t
  where t.current_stage = 'done' and not exists (select 1 from public.volume_results as r where r.task_id = t.id)
  union all
  select 'a result belongs to a volume that was completed', null, format('task %s', r.task_id)
  from public.volume_results as r
  join public.volume_tasks as t on t.id = r.task_id
  where t.done_at is null
  union all
  select 'a failed volume has a retry time if and only if attempts are left', null, format('task %s', t.id)
  from public.volume_tasks as t
  where (t.status = 'failed' and t.attempts < t.max_attempts) <> (t.retry_at is not null)
  union all
  select 'an ended volume job has no volume left to process', null, format('job %s, task %s: %s %s', j.id, t.id, t.current_stage, t.status)
  from public.volume_jobs as j
  join public.volume_tasks as t on t.job_id = j.id
  where j.status in ('completed', 'failed') and t.current_stage <> 'done'
    and (t.status <> 'failed' or t.attempts < t.max_attempts)
  union all
  select 'a cancelled volume job has no running volume', null, format('job %s, task %s', j.id, t.id)
  from public.volume_jobs as j
  join public.volume_tasks as t on t.job_id = j.id
  where j.status = 'cancelled' and t.status = 'running'
  union all
  select 'a completed volume job has no failed volume', null, format('job %s, task %s', j.id, t.id)
  from public.volume_jobs as j
  join public.volume_tasks as t on t.job_id = j.id
  where j.status = 'completed' and t.current_stage <> 'done';
$$;
comment on function private.volume_violations() is
  'Violated invariants of volumes.';

create function private.alert_violations()
returns setof private.violation
language sql
stable
security invoker
set search_path = ''
as $$
  select 'an open critical alert has an open task', null::uuid, a.rule
  from public.alerts as a
  where a.severity = 'critical' and a.resolved_at is null and not exists (
    select 1 from public.tasks as t
    where t.kind = 'alert' and t.metadata ->> 'alert_id' = a.id::text and t.status in ('pending', 'in_progress')
  )
  union all
  select 'an open alert task belongs to an open alert', null, t.title
  from public.tasks as t
  where t.kind = 'alert' and t.status in ('pending', 'in_progress') and not exists (
    select 1 from public.alerts as a where a.id::text = t.metadata ->> 'alert_id' and a.resolved_at is null
  );
$$;
comment on function private.alert_violations() is
  'Violated invariants of alerts.';

create function private.invariant_violations()
returns setof private.violation
language plpgsql
stable
security definer          -- reads all tables; only services may call it
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
  select * from private.document_violations()
  union all
  select * from private.check_job_violations()
  union all
  select * from private.volume_violations()
  union all
  select * from private.alert_violations();
end;
$$;
comment on function private.invariant_violations() is
  'All violated invariants. Returns no rows if the database is consistent.';
grant execute on function private.invariant_violations() to service_role;
