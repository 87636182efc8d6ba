-- Purpose:  what must always be true, as a query that must return no rows.
-- Affects:  creates private.invariant_violations.
-- Locks:    none that anybody could notice.

create function private.invariant_violations()
returns table (invariant text, document_id uuid, detail text)
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
comment on function private.invariant_violations() is
  'Everything that should be impossible and is there. Returns no rows.';
grant execute on function private.invariant_violations() to service_role;
