-- Invariants: private.invariant_violations() returns a row for everything that must never be.

create type private.violation as (
  invariant text,
  document_id uuid,
  detail text
);
comment on type private.violation is
  'An invariant that does not hold, with the document (of check jobs also the job) and details where there are any. '
  'Nullable: document_id, detail.';

create function private.document_violations()
returns setof private.violation
language sql
stable
security definer          -- reads everything; only our services may ask
set search_path = pg_catalog, pg_temp
as $$
  select 'a lock belongs to a document that is being read', d.id, d.ocr_status
  from public.documents as d
  where d.lock_token is not null and (d.ocr_status <> 'processing' or d.locked_by is null)
  union all
  select 'a queued document can be claimed, now or later', d.id, d.lane::text
  from public.documents as d
  where d.ocr_status in ('queued', 'queued_for_pdf')
    and not exists (
      select 1 from private.queue as q
      where q.lane = d.lane and q.urgency = -d.priority and q.turn = d.turn and q.document_id = d.id
        and d.retry_at is null
    )
    and not exists (
      select 1 from private.later as l
      where l.lane = d.lane and l.retry_at = d.retry_at and l.document_id = d.id
    )
  union all
  select 'a document is on the list it says', d.id, format('%s, %s', d.ocr_status, d.listed_in)
  from public.documents as d
  where d.listed_in is distinct from private.list_of(d.ocr_status)
    or (d.listed_in = 'aside') <> exists (
      select 1 from private.set_aside as a where a.ocr_status = d.ocr_status and a.document_id = d.id
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
  select 'a dead letter has an open entry', d.id, null
  from public.documents as d
  where d.ocr_status = 'dead_letter' and not exists (
    select 1 from public.ocr_dead_letter as l
    where l.document_id = d.id and l.status in ('pending', 'investigating')
  )
  union all
  select 'an open entry belongs to a dead letter', d.id, d.ocr_status
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
  select 'a document that waits for a person has an open task', d.id, d.ocr_status
  from public.documents as d
  where d.ocr_status in ('pending', 'pending_review') and not exists (
    select 1 from public.tasks as t
    where t.document_id = d.id and t.kind in ('routing', 'review') and t.status in ('pending', 'in_progress')
  )
  union all
  select 'an open task has something to do', t.document_id, t.kind
  from public.tasks as t
  join public.documents as d on d.id = t.document_id
  where t.status in ('pending', 'in_progress') and (
    (t.kind = 'dead_letter' and d.ocr_status <> 'dead_letter')
    or (t.kind = 'routing' and d.ocr_status <> 'pending')
    or (t.kind = 'review' and d.ocr_status not in ('completed', 'pending_review'))
  )
  union all
  select 'a document that used up its attempts does not wait for another', d.id, format('%s of %s', d.retry_count, d.max_attempts)
  from public.documents as d
  where d.ocr_status in ('queued', 'queued_for_pdf') and d.retry_count >= d.max_attempts
  union all
  select 'failures and rescues were claims', d.id, format('%s claims, %s failures, %s rescues', d.attempts, d.retry_count, d.rescues)
  from public.documents as d
  where d.attempts < d.retry_count + d.rescues + (d.lock_token is not null)::integer
  union all
  select 'the text of a document is a run of its own', d.id, null
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
  select 'a probe is out with a worker', null, l.lane
  from public.lanes as l
  where l.probe_token is not null
    and not exists (select 1 from public.documents as d where d.lock_token = l.probe_token)
  union all
  select 'an outage is on the list of somebody', null, l.lane
  from public.lanes as l
  where l.pause_kind = 'outage' and not exists (
    select 1 from public.tasks as t
    where t.kind = 'outage' and t.metadata ->> 'lane' = l.lane and t.status in ('pending', 'in_progress')
  );
$$;
comment on function private.document_violations() is
  'What should be impossible and is there, of documents and their lanes. Returns no rows.';

create function private.check_job_violations()
returns setof private.violation
language sql
stable
security invoker
set search_path = ''
as $$
  select 'a job whose pictures have all ended has ended', j.id, null::text
  from public.check_jobs as j
  where j.outcome is null and not exists (
    select 1 from public.documents as d
    where d.case_id = j.id and d.ocr_status not in ('completed', 'failed', 'dead_letter', 'cancelled')
  )
  union all
  select 'a job that succeeded has all results', j.id, i.name::text
  from public.check_jobs as j
  join public.check_images as i on i.job_id = j.id
  where j.outcome = 'SUCCEEDED' and j.purged_at is null and not exists (
    select 1 from public.check_results as r where r.job_id = i.job_id and r.position = i.position
  )
  union all
  select 'a result belongs to a picture that was read', i.document_id, i.name::text
  from public.check_results as r
  join public.check_images as i on i.job_id = r.job_id and i.position = r.position
  join public.documents as d on d.id = i.document_id
  where d.ocr_status <> 'completed' and d.deleted_at is null
  union all
  select 'a picture that waits for nobody belongs to a job that has ended or will be seen to', d.id, j.outcome
  from public.check_jobs as j
  join public.documents as d on d.case_id = j.id
  where j.outcome in ('FAILED', 'CANCELLED') and not j.has_stragglers
    and d.ocr_status not in ('completed', 'failed', 'dead_letter', 'cancelled')
  union all
  select 'a picture of a job makes no work for HAC', t.document_id, t.kind
  from public.tasks as t
  join public.check_jobs as j on j.id = t.case_id
  where t.status in ('pending', 'in_progress') and t.kind <> 'other';
$$;
comment on function private.check_job_violations() is
  'What should be impossible and is there, of check jobs. Returns no rows.';

create function private.volume_violations()
returns setof private.violation
language sql
stable
security definer          -- reads everything
set search_path = pg_catalog, pg_temp
as $$
  select 'a volume under way has one message that counts', null::uuid, format('task %s: %s messages', t.id, m.messages)
  from public.volume_tasks as t
  cross join lateral (
    select count(*) as messages from private.volume_messages() as k
    where k.stage = t.current_stage and k.message -> 'task_id' = to_jsonb(t.id)
      and k.message -> 'attempt' = to_jsonb(t.publications)
  ) as m
  where t.status = 'running' and t.published_to = 'pgmq' and m.messages <> 1
  union all
  select 'a message that is to be sent counts', null, format('task %s', o.task_id)
  from private.volume_outbox as o
  join public.volume_tasks as t on t.id = o.task_id
  where (
    t.status = 'running' and t.published_to = 'sqs' and t.current_stage = o.stage
    and o.message -> 'attempt' = to_jsonb(t.publications)
  ) is not true
  union all
  select 'a volume in hand has a run that goes on', null, format('task %s', t.id)
  from public.volume_tasks as t
  where t.token is not null and not exists (
    select 1 from public.volume_runs as r
    where r.token = t.token and r.task_id = t.id and r.stage = t.current_stage and r.ended_at is null
  )
  union all
  select 'a run that goes on is in hand', null, format('task %s, run %s', r.task_id, r.id)
  from public.volume_runs as r
  where r.ended_at is null and not exists (select 1 from public.volume_tasks as t where t.token = r.token)
  union all
  select 'a volume that is done has a result', null, format('task %s', t.id)
  from public.volume_tasks as t
  where t.current_stage = 'done' and not exists (select 1 from public.volume_results as r where r.task_id = t.id)
  union all
  select 'a result belongs to a volume that was done once', null, format('task %s', r.task_id)
  from public.volume_results as r
  join public.volume_tasks as t on t.id = r.task_id
  where t.done_at is null
  union all
  select 'a volume that may try again knows when', null, format('task %s', t.id)
  from public.volume_tasks as t
  where (t.status = 'failed' and t.attempts < t.max_attempts) <> (t.retry_at is not null)
  union all
  select 'a job that ended has nothing before it', null, format('job %s, task %s: %s %s', j.id, t.id, t.current_stage, t.status)
  from public.volume_jobs as j
  join public.volume_tasks as t on t.job_id = j.id
  where j.status in ('completed', 'failed') and t.current_stage <> 'done'
    and (t.status <> 'failed' or t.attempts < t.max_attempts)
  union all
  select 'a job that was cancelled has nothing under way', null, format('job %s, task %s', j.id, t.id)
  from public.volume_jobs as j
  join public.volume_tasks as t on t.job_id = j.id
  where j.status = 'cancelled' and t.status = 'running'
  union all
  select 'a completed job has no volume that failed', null, format('job %s, task %s', j.id, t.id)
  from public.volume_jobs as j
  join public.volume_tasks as t on t.job_id = j.id
  where j.status = 'completed' and t.current_stage <> 'done';
$$;
comment on function private.volume_violations() is
  'Everything about volumes that should be impossible and is there. Returns no rows.';

create function private.alert_violations()
returns setof private.violation
language sql
stable
security invoker
set search_path = ''
as $$
  select 'a critical alert is on the list of somebody', null::uuid, a.rule
  from public.alerts as a
  where a.severity = 'critical' and a.resolved_at is null and not exists (
    select 1 from public.tasks as t
    where t.kind = 'alert' and t.metadata ->> 'alert_id' = a.id::text and t.status in ('pending', 'in_progress')
  )
  union all
  select 'a task of an alert is about one that is open', null, t.title
  from public.tasks as t
  where t.kind = 'alert' and t.status in ('pending', 'in_progress') and not exists (
    select 1 from public.alerts as a where a.id::text = t.metadata ->> 'alert_id' and a.resolved_at is null
  );
$$;
comment on function private.alert_violations() is
  'What should be impossible and is there, of alerts. Returns no rows.';

create function private.invariant_violations()
returns setof private.violation
language plpgsql
stable
security definer          -- reads everything; only our services may ask
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
  'Everything that should be impossible and is there. Returns no rows.';
grant execute on function private.invariant_violations() to service_role;
