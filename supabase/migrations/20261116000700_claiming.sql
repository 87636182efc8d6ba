-- Purpose:  who has a document: claim, heartbeat, giving back, and what to do when nobody answers.
-- Affects:  creates claim_documents, acquire_document_lock, extend_document_lock,
--           release_documents, fail_document, sweep_documents, recover_stuck_documents.
-- Locks:    none that anybody could notice.

create type public.claimed_document as (
  id uuid,
  lock_token uuid,
  lock_expires_at timestamptz,
  attempt_deadline timestamptz,
  case_id uuid,
  name text,
  lane text,
  dropbox_path text,
  mime_type text,
  sha256 text,
  size_bytes bigint,
  document_version integer,
  engine text,
  language text,
  profile text,
  reading integer,
  page_count integer,
  attempts integer,
  retry_count integer,
  max_attempts integer,
  priority integer,
  refusal text,
  missing integer[]
);
comment on type public.claimed_document is
  'A document in the hands of a worker, with the token that proves it. Documents claimed together share a token. '
  'With a refusal it is one that a call could not do its work on; missing are the pages of PAGES_MISSING.';

create table private.sweep_state (
  is_one boolean not null default true,
  swept_at timestamptz,
  resumed_at timestamptz,
  constraint sweep_state_pkey primary key (is_one),
  constraint sweep_state_is_one_row check (is_one)
);
comment on table private.sweep_state is 'When locks were last looked through, and when the database was last found to have been away.';
alter table private.sweep_state enable row level security;
insert into private.sweep_state default values;

-- The sweep ---------------------------------------------------------------------------------

create function private.sweep(p_now timestamptz default now())
returns integer
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
-- A handful of rows by index, in the order of ids, planned once: whatever the statistics say.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set jit = off              -- before PostgreSQL 18 a scan that is off counts as dear enough for it
as $$
declare
  v_state private.sweep_state;
  v_document public.documents;
  v_count integer := 0;
begin
  -- One sweep at a time; whoever comes second has nothing to add.
  select s.* into v_state from private.sweep_state as s for update skip locked;
  if not found then
    return 0;
  end if;
  -- While the database was away nobody could send a heartbeat. Give every worker one whole lock
  -- period to be heard again, or an outage would look like a massacre.
  v_state.resumed_at := greatest(v_state.resumed_at, pg_postmaster_start_time());
  if p_now - v_state.swept_at > interval '30 seconds' then
    v_state.resumed_at := p_now;
  end if;
  update private.sweep_state as s set swept_at = p_now, resumed_at = v_state.resumed_at;

  for v_document in
    select d.* from public.documents as d
    where d.id = any (private.claimed_ids())
      and d.ocr_status = 'processing'
      and (
        (
          -- Without a lock somebody set it to processing by hand; a lock period is enough for that too.
          coalesce(d.lock_expires_at, d.updated_at + interval '20 seconds') < p_now
          and v_state.resumed_at
            + coalesce(d.lock_expires_at - d.locked_at, interval '20 seconds') <= p_now
        )
        or d.attempt_deadline < p_now
      )
    order by d.id
    limit 1000
    for update skip locked
  loop
    v_count := v_count + 1;
    if v_document.attempt_deadline < p_now then
      perform private.fail(
        v_document, 'deadline',
        format('the attempt did not end in %s', v_document.attempt_deadline - v_document.claimed_at),
        '{}', 'transient', null, p_now
      );
    else
      perform private.rescue(
        v_document, format('worker %s was not heard of again', coalesce(v_document.locked_by, 'unknown')), p_now
      );
    end if;
  end loop;
  delete from private.claims as c
  where not exists (
    select 1 from public.documents as d
    where d.id = any (c.document_ids) and d.ocr_status = 'processing' and coalesce(d.lock_token, c.id) = c.id
  );
  perform private.close_hours(p_now);
  return v_count;
end;
$$;
comment on function private.sweep(timestamptz) is
  'Take documents back from workers that died or overran their deadline. Returns how many.';
grant execute on function private.sweep(timestamptz) to service_role, pagewarden_worker;

create function public.sweep_documents()
returns integer
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.sweep();
$$;
comment on function public.sweep_documents() is
  'Take documents back from workers that died or overran their deadline. Returns how many.';
grant execute on function public.sweep_documents() to service_role, pagewarden_worker;

-- Claim -------------------------------------------------------------------------------------

create function private.require_claim_arguments(p_worker_id text, p_lock_timeout integer)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  perform private.require_text('p_worker_id', p_worker_id, 200);
  if (p_lock_timeout between 1 and 86400) is not true then
    raise exception 'p_lock_timeout must be 1 to 86400 seconds, got %', coalesce(p_lock_timeout::text, 'null')
      using errcode = '22023', hint = 'Locks are renewed by heartbeat; 20 seconds is a good length.';
  end if;
end;
$$;
comment on function private.require_claim_arguments(text, integer) is 'Refuse senseless arguments of a claim (22023).';

create function private.rejoin_due(p_lane text, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  -- What waited for its next attempt long enough rejoins the others, at its old place.
  with due as (
    delete from private.later as l
    where l.ctid = any (array(
      select k.ctid from private.later as k
      where k.lane = p_lane and k.retry_at <= p_now
      order by k.retry_at
      limit 1000
      for update skip locked
    ))
    returning l.document_id
  )
  update public.documents as d set retry_at = null
  from due where d.id = due.document_id and d.listed_in = 'queue';
end;
$$;
comment on function private.rejoin_due(text, timestamptz) is 'Let documents whose pause is over be claimed.';

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
    -- All have reported it: the one whose report is the oldest asks again.
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
  'Let the next claim of a paused lane find a document that has not reported the outage itself, while there is one.';

create function private.claim_documents(
  p_worker_id text,
  p_lanes text[],
  p_limit integer,
  p_lock_timeout integer,
  p_now timestamptz default now()
)
returns setof public.claimed_document
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
-- A handful of rows by index, in the order of ids, planned once: whatever the statistics say.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set jit = off              -- before PostgreSQL 18 a scan that is off counts as dear enough for it
as $$
declare
  v_lanes text[] := p_lanes;
  v_name text;
  v_lane record;
  v_left integer := p_limit;
  v_take integer;
  v_ids uuid[];
  v_found integer;
  v_first integer;
  v_last integer;
  v_turn bigint;
  v_token uuid;
  v_swept boolean := false;
begin
  -- Few expressions, because plpgsql prepares each of them anew in every transaction.
  if (
    octet_length(p_worker_id) between 1 and 200 and btrim(p_worker_id) <> '' and p_lock_timeout between 1 and 86400
    and p_limit between 1 and 1000
  ) is not true then   -- null too: LIMIT null is no limit
    perform private.require_claim_arguments(p_worker_id, p_lock_timeout);
    raise exception 'p_limit must be between 1 and 1000, got %', coalesce(p_limit::text, 'null')
      using errcode = '22023', hint = 'Claim in smaller batches.';
  end if;
  if cardinality(v_lanes) is distinct from 1 then
    v_lanes := coalesce(v_lanes, array(select l.lane from public.lanes as l order by l.lane));
    -- Also those it may not come to: an order with a mistake in it is not carried out in part.
    perform private.require_lane(u.lane) from unnest(v_lanes) as u (lane)
    where not exists (select 1 from public.lanes as l where l.lane = u.lane);
  end if;

  loop
    foreach v_name in array v_lanes loop
      select l.paused_at is not null as is_paused, l.paused_at, l.pause_kind, l.probe_at, l.probe_token, l.attempt_seconds,
        exists (select 1 from private.later as k where k.lane = v_name and k.retry_at <= p_now) as has_due,
        exists (select 1 from private.queue as k where k.lane = v_name) as has_any
      into v_lane
      from public.lanes as l where l.lane = v_name;
      if not found then
        perform private.require_lane(v_name);
      end if;
      -- Asked first, because most workers that wait for documents ask in vain.
      continue when not v_lane.has_any and not v_lane.has_due;
      v_take := v_left;
      if v_lane.is_paused or v_lane.has_due then
        if v_lane.is_paused then
          continue when v_lane.pause_kind = 'manual' or v_lane.probe_at > p_now or v_lane.probe_token is not null;
          -- Lock the lane, so that only one of many claimers gets the probe.
          perform 1 from public.lanes as l
          where l.lane = v_name and l.probe_at <= p_now and l.probe_token is null
          for update skip locked;
          continue when not found;
          v_take := 1;
        end if;
        perform private.rejoin_due(v_name, p_now);
        if v_lane.is_paused then
          perform private.put_probe_first(v_name, v_lane.paused_at);
        end if;
      end if;
      loop
        with taken as (
          delete from private.queue as q
          where q.ctid = any (array(
            select k.ctid from private.queue as k
            where k.lane = v_name
            order by k.urgency, k.turn, k.document_id
            limit v_take
            for update skip locked
          ))
          returning q.document_id, q.urgency, q.turn
        )
        select array_agg(t.document_id), min(t.urgency), max(t.urgency), max(t.turn), gen_random_uuid()
        into v_ids, v_first, v_last, v_turn, v_token
        from taken as t;
        exit when v_ids is null;
        return query
        with claim as (insert into private.claims (id, claimed_at, document_ids) values (v_token, p_now, v_ids))
        update public.documents as d
        set ocr_status = 'processing',
            listed_in = null,
            attempts = d.attempts + 1,
            version = d.version + 1,
            retry_at = null,
            locked_by = p_worker_id,
            locked_at = p_now,
            lock_token = v_token,
            lock_expires_at = p_now + make_interval(secs => p_lock_timeout),
            claimed_by = p_worker_id,
            claimed_at = p_now,
            attempt_deadline = p_now + make_interval(secs => v_lane.attempt_seconds),
            updated_at = p_now
        -- Asked again, for who waited here for somebody who cancelled it.
        where d.id = any (v_ids) and d.listed_in = 'queue'
        returning d.id, d.lock_token, d.lock_expires_at, d.attempt_deadline, d.case_id, d.name::text, d.lane::text,
          d.dropbox_path::text, d.mime_type::text, d.sha256::text, d.size_bytes::bigint, d.document_version::integer,
          d.engine::text, d.language::text, d.profile::text, d.reading::integer, d.page_count::integer,
          d.attempts::integer, d.retry_count::integer, d.max_attempts::integer, d.priority::integer, null::text,
          null::integer[];
        get diagnostics v_found = row_count;
        v_left := v_left - v_found;
        if v_lane.is_paused and v_found > 0 then
          update public.lanes as l set probe_token = v_token where l.lane = v_name;
        end if;
        if v_first < v_last then
          -- A batch that reached down to a lower priority has emptied the higher ones.
          perform private.advance_clock(v_name, e.priority, e.turn)
          from (
            select d.priority, max(d.turn) as turn from public.documents as d
            where d.id = any (v_ids)
            group by d.priority
            order by d.priority
          ) as e;
        elsif v_turn / 8 > (v_turn - v_found) / 8 then
          -- The clock need not be exact: it is set when a turn divisible by 8 is passed.
          perform private.advance_clock(v_name, -v_last, v_turn);
        end if;
        -- Once is enough, unless what was taken was no longer to be had.
        exit when v_found = cardinality(v_ids);
        v_take := v_take - v_found;
      end loop;
      if v_left = 0 then
        return;
      end if;
    end loop;

    -- Who finds nothing looks for what the dead left behind, so recovery never hangs on a scheduler.
    exit when v_left < p_limit or v_swept;
    exit when exists (select 1 from private.sweep_state as s where s.swept_at > p_now - interval '1 second');
    v_swept := true;
    exit when private.sweep(p_now) = 0;
  end loop;
end;
$$;
comment on function private.claim_documents(text, text[], integer, integer, timestamptz) is
  'See public.claim_documents.';
grant execute on function private.claim_documents(text, text[], integer, integer, timestamptz)
  to service_role, pagewarden_worker;

create function public.claim_documents(
  p_worker_id text,
  p_lanes text[] default null,
  p_limit integer default 1,
  p_lock_timeout integer default 20
)
returns setof public.claimed_document
language sql
volatile
security invoker
set search_path = ''
as $$
  select * from private.claim_documents(p_worker_id, p_lanes, p_limit, p_lock_timeout);
$$;
comment on function public.claim_documents(text, text[], integer, integer) is
  'Take up to p_limit due documents, most urgent first, from the lanes in the order given (null: all). '
  'Each comes with a lock token for p_lock_timeout seconds. No rows when there is nothing to do.';
grant execute on function public.claim_documents(text, text[], integer, integer) to service_role, pagewarden_worker;

create function private.claim_known(
  p_document public.documents,
  p_worker_id text,
  p_lock_timeout integer,
  p_now timestamptz
)
returns public.claimed_document
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_claimed public.claimed_document;
begin
  -- Locked, so that it is not paused meanwhile.
  perform 1 from public.lanes as l where l.lane = p_document.lane and l.paused_at is null for share;
  if found then
    -- At the head of the queue, where nobody else sees it yet, the claim finds it.
    perform private.leave_list(p_document);
    insert into private.queue (lane, urgency, turn, document_id) values (p_document.lane, -2147483647, 0, p_document.id);
    select * into v_claimed from private.claim_documents(
      p_worker_id, array[p_document.lane::text], 1, p_lock_timeout, p_now
    );
  end if;
  return v_claimed;
end;
$$;
comment on function private.claim_known(public.documents, text, integer, timestamptz) is
  'Hand a queued document, which the caller has locked, to a worker; null when its lane is paused.';

create function private.acquire_document_lock(
  p_document_id uuid,
  p_worker_id text,
  p_lock_timeout integer,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_claimed public.claimed_document;
begin
  perform private.require_claim_arguments(p_worker_id, p_lock_timeout);
  select d.* into v_document from public.documents as d where d.id = p_document_id for update;
  if not found then
    return private.refusal('DOCUMENT_NOT_FOUND', p_document_id);
  end if;
  if v_document.lock_token is not null then
    return private.refusal('DOCUMENT_LOCKED', p_document_id);
  end if;
  if v_document.ocr_status not in ('queued', 'queued_for_pdf') then
    return private.refusal('WRONG_STATE', p_document_id);
  end if;
  v_claimed := private.claim_known(v_document, p_worker_id, p_lock_timeout, p_now);
  if v_claimed.id is null then
    return private.refusal('LANE_PAUSED', p_document_id);
  end if;
  return jsonb_build_object(
    'success', true, 'document_id', p_document_id, 'lock_token', v_claimed.lock_token,
    'document', to_jsonb(v_claimed) - array['refusal', 'missing']
  );
end;
$$;
comment on function private.acquire_document_lock(uuid, text, integer, timestamptz) is
  'See public.acquire_document_lock.';
grant execute on function private.acquire_document_lock(uuid, text, integer, timestamptz)
  to service_role, pagewarden_worker;

create function public.acquire_document_lock(
  p_document_id uuid,
  p_worker_id text,
  p_lock_timeout integer default 20
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.acquire_document_lock(p_document_id, p_worker_id, p_lock_timeout);
$$;
comment on function public.acquire_document_lock(uuid, text, integer) is
  'Claim one known document, also before its next attempt is due. Says why when it cannot be had.';
grant execute on function public.acquire_document_lock(uuid, text, integer) to service_role, pagewarden_worker;

-- Heartbeat ---------------------------------------------------------------------------------

create function private.extend_document_lock(
  p_document_id uuid,
  p_lock_token uuid,
  p_lock_timeout integer,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
-- A handful of rows by index, in the order of ids, planned once: whatever the statistics say.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set jit = off              -- before PostgreSQL 18 a scan that is off counts as dear enough for it
as $$
declare
  v_document public.documents;
begin
  perform private.require_claim_arguments('heartbeat', p_lock_timeout);
  -- locked_at never goes back: two heartbeats of one worker may overtake each other.
  update public.documents as d
  set version = d.version + 1,
      locked_at = greatest(d.locked_at, p_now),
      lock_expires_at = greatest(d.lock_expires_at, p_now + make_interval(secs => p_lock_timeout))
  where d.id = p_document_id and d.lock_token = p_lock_token and d.attempt_deadline >= p_now
  returning d.* into v_document;
  if found then
    return jsonb_build_object(
      'success', true, 'document_id', p_document_id, 'lock_expires_at', v_document.lock_expires_at
    );
  end if;
  select d.* into v_document from public.documents as d where d.id = p_document_id;
  return private.refusal(
    case
      when v_document.id is null then 'DOCUMENT_NOT_FOUND'
      when v_document.lock_token = p_lock_token then 'DEADLINE_EXCEEDED'
      else 'LOCK_LOST'
    end,
    p_document_id
  );
end;
$$;
comment on function private.extend_document_lock(uuid, uuid, integer, timestamptz) is
  'See public.extend_document_lock.';
grant execute on function private.extend_document_lock(uuid, uuid, integer, timestamptz)
  to service_role, pagewarden_worker;

create function public.extend_document_lock(
  p_document_id uuid,
  p_lock_token uuid,
  p_lock_timeout integer default 20
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.extend_document_lock(p_document_id, p_lock_token, p_lock_timeout);
$$;
comment on function public.extend_document_lock(uuid, uuid, integer) is
  'Heartbeat: keep the lock for p_lock_timeout seconds more, up to the deadline of the attempt.';
grant execute on function public.extend_document_lock(uuid, uuid, integer) to service_role, pagewarden_worker;

-- Failure -----------------------------------------------------------------------------------

create function private.fail_document(
  p_document_id uuid,
  p_lock_token uuid,
  p_error_message text,
  p_error_details jsonb,
  p_error_category text,
  p_retry_after integer,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_refusal text;
begin
  perform private.require_text('p_error_message', p_error_message, 100000);
  perform private.require_category(p_error_category);
  if p_retry_after not between 0 and 86400 then
    raise exception 'p_retry_after must be 0 to 86400 seconds, got %', p_retry_after
      using errcode = '22023', hint = 'Leave it out to wait as long as the lane says.';
  end if;
  select d.* into v_document from public.documents as d where d.id = p_document_id for update;
  v_refusal := coalesce(
    private.lock_refusal(v_document, p_lock_token),
    case when v_document.ocr_status <> 'processing' then 'WRONG_STATE' end
  );
  if v_refusal is not null then
    return private.refusal(v_refusal, p_document_id);
  end if;
  return private.fail(
    v_document, 'failure', p_error_message, coalesce(p_error_details, '{}'), p_error_category,
    make_interval(secs => p_retry_after), p_now
  );
end;
$$;
comment on function private.fail_document(uuid, uuid, text, jsonb, text, integer, timestamptz) is
  'See public.fail_document.';
grant execute on function private.fail_document(uuid, uuid, text, jsonb, text, integer, timestamptz)
  to service_role, pagewarden_worker;

create function public.fail_document(
  p_document_id uuid,
  p_lock_token uuid,
  p_error_message text,
  p_error_details jsonb default '{}',
  p_error_category text default 'unknown',
  p_retry_after integer default null
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.fail_document(
    p_document_id, p_lock_token, p_error_message, p_error_details, p_error_category, p_retry_after
  );
$$;
comment on function public.fail_document(uuid, uuid, text, jsonb, text, integer) is
  'The attempt failed: try again after a pause (at least p_retry_after seconds), or give it to HAC '
  'when the error is permanent or the attempts are used up.';
grant execute on function public.fail_document(uuid, uuid, text, jsonb, text, integer)
  to service_role, pagewarden_worker;

-- Giving back, and outages ------------------------------------------------------------------

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
      format('%s. It resumes by itself when a probe succeeds.', p_reason), 'urgent',
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
  'Stop a lane whose engine or store cannot be reached, until a probe finds it back.';

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
  'Let a lane run again, because a probe succeeded (p_recovered) or by hand; false when it was not paused.';

create function private.is_own_outage(p_document public.documents)
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
  return found;
end;
$$;
comment on function private.is_own_outage(public.documents) is
  'Whether the outage that a document reports is its own failure: others of its lane do not meet it. Remembers which it was.';

create function private.release_documents(
  p_documents jsonb,
  p_reason text,
  p_outage boolean,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_item record;
  v_document public.documents;
  v_refusal text;
  v_released uuid[] := '{}';
  v_failed uuid[] := '{}';
  v_lanes text[] := '{}';
  v_lost jsonb := '[]';
begin
  perform private.require_text('p_reason', p_reason, 10000);
  perform private.require_list('p_documents', p_documents);
  for v_item in
    select i.document_id, i.lock_token
    from jsonb_to_recordset(p_documents) as i (document_id uuid, lock_token uuid)
    order by i.document_id
  loop
    select d.* into v_document from public.documents as d where d.id = v_item.document_id for update;
    v_refusal := case
      when v_document.id is null then 'DOCUMENT_NOT_FOUND'
      when v_document.lock_token is distinct from v_item.lock_token or v_item.lock_token is null then 'LOCK_LOST'
    end;
    if v_refusal is not null then
      v_lost := v_lost || private.refusal(v_refusal, v_item.document_id);
      continue;
    end if;
    if p_outage and private.is_own_outage(v_document) then
      -- Ten probes later, so that two outages in a row, shorter than that, do not use up its attempts.
      perform private.fail(
        v_document, 'failure',
        format(
          '%s (others of lane %s are read, only %s is not; see to this file, then requeue it)',
          p_reason, v_document.lane, coalesce(v_document.dropbox_path, v_document.name)
        ),
        '{"type": "OnlyThisDocument"}', 'configuration',
        (select 10 * make_interval(secs => l.probe_seconds) from public.lanes as l where l.lane = v_document.lane), p_now
      );
      v_failed := v_failed || v_document.id;
      continue;
    end if;
    if p_outage then
      perform private.note_error(v_document, 'outage', p_reason, '{}', 'transient', p_now);
      v_lanes := v_lanes || v_document.lane;
    end if;
    v_document.attempts := v_document.attempts - 1;
    perform private.give_back(v_document, p_now, p_now);
    v_released := v_released || v_document.id;
  end loop;
  perform private.pause_for_outage(l.lane, p_reason, p_now)
  from (select distinct u.lane from unnest(v_lanes) as u (lane) order by u.lane) as l;
  return jsonb_build_object(
    'success', v_lost = '[]', 'released', to_jsonb(v_released), 'failed', to_jsonb(v_failed), 'lost', v_lost
  );
end;
$$;
comment on function private.release_documents(jsonb, text, boolean, timestamptz) is
  'See public.release_documents.';
grant execute on function private.release_documents(jsonb, text, boolean, timestamptz)
  to service_role, pagewarden_worker;

create function private.require_list(p_what text, p_list jsonb)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (
    jsonb_typeof(p_list) = 'array' and jsonb_array_length(p_list) <= 10000
    and not p_list @? 'strict $[*] ? (@.type() <> "object")'
  ) is not true then
    raise exception '% must be a list of at most 10000 objects', p_what
      using errcode = '22023', hint = 'Send smaller lists.';
  end if;
end;
$$;
comment on function private.require_list(text, jsonb) is 'Refuse what is not a list of objects, of sensible length (22023).';

create function public.release_documents(
  p_documents jsonb,
  p_reason text default 'the worker stops',
  p_outage boolean default false
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.release_documents(p_documents, p_reason, coalesce(p_outage, false));
$$;
comment on function public.release_documents(jsonb, text, boolean) is
  'Give documents back unread, without counting an attempt: [{"document_id", "lock_token"}, …]. '
  'p_outage: because an engine, the GPU service or the store is away; then their lanes pause. failed: documents whose '
  'outage others of the lane do not meet; the attempt counts.';
grant execute on function public.release_documents(jsonb, text, boolean) to service_role, pagewarden_worker;

-- By hand -----------------------------------------------------------------------------------

create function private.pause_lane(p_lane text, p_reason text, p_now timestamptz default now())
returns jsonb
language plpgsql
volatile
security definer          -- HAC holds no rights on tables
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
  return jsonb_build_object('success', true, 'lane', p_lane);
end;
$$;
comment on function private.pause_lane(text, text, timestamptz) is 'See public.pause_lane.';
grant execute on function private.pause_lane(text, text, timestamptz) to authenticated, service_role;

create function public.pause_lane(p_lane text, p_reason text)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.pause_lane(p_lane, p_reason);
$$;
comment on function public.pause_lane(text, text) is
  'HAC: hand out no more documents of a lane until it is resumed. What is being read goes on.';
grant execute on function public.pause_lane(text, text) to authenticated, service_role;

create function private.resume_lane(p_lane text, p_now timestamptz default now())
returns jsonb
language plpgsql
volatile
security definer          -- HAC holds no rights on tables
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_admin();
  perform private.require_lane(p_lane);
  return jsonb_build_object(
    'success', true, 'lane', p_lane, 'was_paused', private.resume(p_lane, 'by hand', p_now, false)
  );
end;
$$;
comment on function private.resume_lane(text, timestamptz) is 'See public.resume_lane.';
grant execute on function private.resume_lane(text, timestamptz) to authenticated, service_role;

create function public.resume_lane(p_lane text)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.resume_lane(p_lane);
$$;
comment on function public.resume_lane(text) is 'HAC: let a paused lane run again.';
grant execute on function public.resume_lane(text) to authenticated, service_role;

create function private.recover_stuck_documents(
  p_stuck_minutes integer,
  p_document_ids uuid[],
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- HAC holds no rights on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_recovered uuid[] := '{}';
begin
  perform private.require_admin();
  if (p_stuck_minutes >= 0) is not true then
    raise exception 'p_stuck_minutes must be 0 or more, got %', coalesce(p_stuck_minutes::text, 'null')
      using errcode = '22023', hint = 'Ten minutes is what HAC calls stuck.';
  end if;
  for v_document in
    select d.* from public.documents as d
    where d.id = any (private.claimed_ids())
      and d.ocr_status = 'processing'
      and coalesce(d.claimed_at, d.updated_at) <= p_now - make_interval(mins => p_stuck_minutes)
      and (p_document_ids is null or d.id = any (p_document_ids))
    order by d.id
    for update
  loop
    perform private.log_act(
      v_document.case_id, v_document.id, 'recover_stuck', format('"%s" given back as stuck', v_document.name),
      'processing', private.rescue(v_document, 'given back by HAC as stuck', p_now)
    );
    v_recovered := v_recovered || v_document.id;
  end loop;
  return jsonb_build_object(
    'success', true, 'recovered', cardinality(v_recovered), 'documents', to_jsonb(v_recovered)
  );
end;
$$;
comment on function private.recover_stuck_documents(integer, uuid[], timestamptz) is
  'See public.recover_stuck_documents.';
grant execute on function private.recover_stuck_documents(integer, uuid[], timestamptz) to authenticated, service_role;

create function public.recover_stuck_documents(
  p_stuck_minutes integer default 10,
  p_document_ids uuid[] default null
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.recover_stuck_documents(p_stuck_minutes, p_document_ids);
$$;
comment on function public.recover_stuck_documents(integer, uuid[]) is
  'HAC: take back documents whose reading began longer ago than p_stuck_minutes (all, or the ones named).';
grant execute on function public.recover_stuck_documents(integer, uuid[]) to authenticated, service_role;
