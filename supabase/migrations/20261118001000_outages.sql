-- Outages: lanes that pause while an engine, the GPU service or the file store is away.
--
-- An outage is not counted against a document. release_documents (queue) reports it with p_outage, and
-- the lane pauses. From then on claims hand out one document of the lane at a time, the probe; its token is
-- lanes.probe_token. A completed probe resumes the lane; if it reports the outage again, or is lost, the
-- next probe is handed out probe_seconds later.
--
-- If other documents of the lane are read and only one reports the outage, this counts as a failed
-- attempt at that document (fail_own_outage). HAC pauses and resumes lanes by hand with pause_lane and
-- resume_lane; a lane paused by hand hands out nothing.

create function private.pause_for_outage(p_lane text, p_reason text, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  update public.lanes as l
  set paused_at = p_now, pause_kind = 'outage', pause_reason = p_reason,
      probe_at = p_now + make_interval(secs => l.probe_seconds), probe_token = null, updated_at = p_now
  where l.lane = p_lane and l.paused_at is null;
  if found then
    perform private.open_task(
      null, null, 'outage', format('Lane %s is paused', p_lane),
      format('%s. It resumes automatically when a probe succeeds.', p_reason), 'urgent',
      jsonb_build_object('lane', p_lane)
    );
    perform private.log_act(
      null, null, 'lane_paused', format('lane %s paused: %s', p_lane, p_reason), null, null,
      jsonb_build_object('lane', p_lane, 'kind', 'outage')
    );
  else
    update public.lanes as l set pause_reason = p_reason, updated_at = p_now
    where l.lane = p_lane and l.pause_kind = 'outage';
  end if;
end;
$$;
comment on function private.pause_for_outage(text, text, timestamptz) is
  'Pause a lane whose engine or store is unavailable, until a probe succeeds.';

create function private.resume(p_lane text, p_reason text, p_now timestamptz, p_recovered boolean default true)
returns boolean
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  update public.lanes as l
  set paused_at = null, pause_kind = null, pause_reason = null, paused_by = null, probe_at = null,
      probe_token = null, updated_at = p_now,
      recovered_at = case when p_recovered then p_now else l.recovered_at end,
      outage_document_id = case when not p_recovered then l.outage_document_id end
  where l.lane = p_lane and l.paused_at is not null;
  if not found then
    return false;
  end if;
  update public.tasks as t
  set status = 'done', done_at = now(), done_by = auth.uid(), updated_at = now()
  where t.kind = 'outage' and t.metadata ->> 'lane' = p_lane and t.status in ('pending', 'in_progress');
  perform private.log_act(
    null, null, 'lane_resumed', format('lane %s resumed: %s', p_lane, p_reason), null, null,
    jsonb_build_object('lane', p_lane)
  );
  return true;
end;
$$;
comment on function private.resume(text, text, timestamptz, boolean) is
  'Resume a lane after a successful probe (p_recovered) or manually; returns false if it was not paused.';

create function private.fail_own_outage(p_document public.documents, p_reason text, p_now timestamptz)
returns boolean
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  -- It reported an outage, another document was read as a probe, and it reports one again, as the only one so far.
  update public.lanes as l set outage_document_id = p_document.id
  where l.lane = p_document.lane and l.paused_at is null
    and coalesce(l.outage_document_id, p_document.id) = p_document.id
    and exists (
      select 1 from public.ocr_errors as e
      where e.document_id = p_document.id and e.kind = 'outage' and e.created_at < l.recovered_at
        and e.created_at > coalesce(p_document.ocr_completed_at, '-infinity')
    );
  if not found then
    return false;
  end if;
  -- Ten probes later, so that two outages in a row, shorter than that, do not use up its attempts.
  perform private.fail_attempt(
    p_document, 'failure',
    format(
      '%s (other documents in lane %s are being read, only %s is not; check this file, then requeue it)',
      p_reason, p_document.lane, coalesce(p_document.dropbox_path, p_document.name)
    ),
    '{"type": "OnlyThisDocument"}', 'configuration',
    (select 10 * make_interval(secs => l.probe_seconds) from public.lanes as l where l.lane = p_document.lane), p_now
  );
  return true;
end;
$$;
comment on function private.fail_own_outage(public.documents, text, timestamptz) is
  'If an outage that a document reports does not affect other documents in its lane, count it as a failure of the '
  'document and record the document''s id. Returns false if the whole lane may be affected.';

create function private.put_probe_first(p_lane text, p_paused_at timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  update private.queue as q set urgency = -2147483647, turn = 0
  where q.ctid = any (array(
    select k.ctid from private.queue as k
    where k.lane = p_lane and not exists (
      select 1 from public.ocr_errors as e
      where e.document_id = k.document_id and e.kind = 'outage' and e.created_at >= p_paused_at
    )
    order by k.urgency, k.turn, k.document_id
    limit 1
    for update of k skip locked
  ));
  if not found then
    -- All have reported it: the one whose report is the oldest goes again.
    update private.queue as q set urgency = -2147483647, turn = 0
    where q.ctid = any (array(
      select k.ctid from private.queue as k
      where k.lane = p_lane
      order by (select max(e.id) from public.ocr_errors as e where e.document_id = k.document_id and e.kind = 'outage')
      limit 1
      for update of k skip locked
    ));
  end if;
end;
$$;
comment on function private.put_probe_first(text, timestamptz) is
  'Move a document that has not reported the outage to the head of a paused lane, if there is such a document.';

-- A probe is the document that tests whether an outage is over.
create function private.end_probe(p_lock_token uuid, p_now timestamptz)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  update public.lanes as l
  set probe_token = null, probe_at = p_now + make_interval(secs => l.probe_seconds)
  where l.probe_token = p_lock_token;
$$;
comment on function private.end_probe(uuid, timestamptz) is
  'Allow another probe later if the document was the probe and its attempt ended without a result.';

create type public.pause_lane_answer as (
  success boolean,
  lane text
);
comment on type public.pause_lane_answer is 'The lane that is paused.';

create function private.pause_lane(p_lane text, p_reason text, p_now timestamptz default now())
returns public.pause_lane_answer
language plpgsql
volatile
security definer          -- HAC has no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_admin();
  perform private.require_lane(p_lane);
  perform private.require_text('p_reason', p_reason, 1000);
  update public.lanes as l
  set paused_at = coalesce(l.paused_at, p_now), pause_kind = 'manual', pause_reason = p_reason,
      paused_by = auth.uid(), probe_at = null, probe_token = null, updated_at = p_now
  where l.lane = p_lane;
  perform private.log_act(
    null, null, 'lane_paused', format('lane %s paused: %s', p_lane, p_reason), null, null,
    jsonb_build_object('lane', p_lane, 'kind', 'manual')
  );
  return (true, p_lane);
end;
$$;
comment on function private.pause_lane(text, text, timestamptz) is 'See public.pause_lane.';
grant execute on function private.pause_lane(text, text, timestamptz) to authenticated, service_role;

create type public.resume_lane_answer as (
  success boolean,
  lane text,
  was_paused boolean
);
comment on type public.resume_lane_answer is 'The lane that was resumed, and whether it was paused.';

create function private.resume_lane(p_lane text, p_now timestamptz default now())
returns public.resume_lane_answer
language plpgsql
volatile
security definer          -- HAC has no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_admin();
  perform private.require_lane(p_lane);
  return (true, p_lane, private.resume(p_lane, 'manually', p_now, false));
end;
$$;
comment on function private.resume_lane(text, timestamptz) is 'See public.resume_lane.';
grant execute on function private.resume_lane(text, timestamptz) to authenticated, service_role;

create type public.listed_lane as (
  lane text,
  description text,
  queued bigint,
  later bigint,
  processing bigint,
  paused_at timestamptz,
  pause_kind text,
  pause_reason text,
  paused_by text,
  probe_at timestamptz,
  max_attempts integer,
  max_rescues integer,
  backoff_seconds integer,
  backoff_cap_seconds integer,
  attempt_seconds integer,
  failed_pages_allowed numeric
);
comment on type public.listed_lane is
  'A lane: the numbers of its documents (later: waiting for the next attempt; queued and later are counted up to '
  '10,000), whether it is paused, why and by whom, and its limits. Nullable: paused_at, pause_kind, pause_reason, '
  'paused_by, probe_at.';

create function private.list_lanes()
returns setof public.listed_lane
language plpgsql
stable
security definer          -- checks the caller, then reads tables the caller may not
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off   -- a bitmap scan reads all rows before the limit applies
as $$
begin
  perform private.require_admin();
  return query
  with held as materialized (
    select d.lane, count(*) as documents
    from public.documents as d
    where d.id = any (private.claimed_ids()) and d.ocr_status = 'processing'
    group by d.lane
  )
  select l.lane, l.description,
    (select count(*) from (select 1 from private.queue as q where q.lane = l.lane limit 10000) as k),
    (select count(*) from (select 1 from private.queue_delayed as q where q.lane = l.lane limit 10000) as k),
    coalesce(h.documents, 0),
    l.paused_at, l.pause_kind, l.pause_reason, (select u.email::text from auth.users as u where u.id = l.paused_by),
    l.probe_at, l.max_attempts, l.max_rescues, l.backoff_seconds, l.backoff_cap_seconds, l.attempt_seconds,
    l.failed_pages_allowed
  from public.lanes as l
  left join held as h on h.lane = l.lane
  order by l.lane;
end;
$$;
comment on function private.list_lanes() is 'See public.list_lanes.';
grant execute on function private.list_lanes() to authenticated, service_role;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.pause_lane(p_lane text, p_reason text)
returns public.pause_lane_answer
language sql volatile security invoker set search_path = ''
as $$ select * from private.pause_lane(p_lane, p_reason) $$;
comment on function public.pause_lane(text, text) is
  'HAC: pause a lane; its documents cannot be claimed until it is resumed. Documents already being read are finished.';
grant execute on function public.pause_lane(text, text) to authenticated, service_role;

create function public.resume_lane(p_lane text)
returns public.resume_lane_answer
language sql volatile security invoker set search_path = ''
as $$ select * from private.resume_lane(p_lane) $$;
comment on function public.resume_lane(text) is 'HAC: resume a paused lane.';
grant execute on function public.resume_lane(text) to authenticated, service_role;

create function public.list_lanes()
returns setof public.listed_lane
language sql stable security invoker set search_path = ''
as $$ select * from private.list_lanes() $$;
comment on function public.list_lanes() is
  'HAC: each lane with the numbers of its documents that are queued, waiting for a retry or being read, its pause and '
  'its limits.';
grant execute on function public.list_lanes() to authenticated, service_role;
