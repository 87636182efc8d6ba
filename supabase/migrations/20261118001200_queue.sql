-- The queue, in the order of a document's life: claim, heartbeat, save, complete, fail, release, sweep, dead letter.
--
-- A document waits in private.queue until a worker claims it. From then on the document is processing,
-- and the claim is described by columns of its row: who (locked_by), a lock token, when the lock expires
-- (lock_expires_at) and when the attempt must end (attempt_deadline). Each of the worker's later calls
-- carries the token. A call with any other token changes nothing and returns LOCK_LOST, so a worker that
-- was declared dead, or a second copy of it, cannot overwrite anything.
--
--     queued ──claim──▶ processing ──complete──▶ completed
--       ▲                   │
--       ├── fail, failures left: after a backoff            (retry_count + 1)
--       ├── lock expired, found by the sweep: at once       (rescues + 1, unless pages were saved)
--       ├── release, because the worker stops or a service is away: not counted
--       └───────────────────┤
--                           └── permanent, or a count used up ──▶ dead_letter, with a task for HAC
--
-- claim    claim_documents takes the next documents of some lanes; acquire_document_lock takes one known
--          document. Both write one row into private.claims, so the sweep finds what is being read.
-- alive    extend_document_lock is the heartbeat. There are two timeouts: that of the lock (is the worker
--          alive?) and the attempt's deadline (does the work end?).
-- save     save_document_pages keeps pages as they are read; the next attempt continues after them.
-- complete process_ocr_atomic and complete_documents write result, status and text in one transaction.
-- fail     fail_document counts a failed attempt; release_documents returns documents without counting.
-- sweep    sweep_documents reclaims what dead workers held. Cron runs it every 5 seconds, and a claim that finds
--          no work runs it too, so recovery does not depend on a scheduler.
-- end      move_to_dead_letter_queue hands a document over to HAC immediately.
--
-- Expected outcomes are return values: {"success": false, "error": "LOCK_LOST", …}. Only invalid arguments raise.
-- Public functions are security definers, as workers have no privileges on tables. The hot ones turn planner methods off:
-- they read a handful of rows by index, in the order of ids, and are planned once, whatever the statistics say
-- (jit too: before PostgreSQL 18 the cost of a disabled scan is high enough to trigger it).
-- Not here: the waiting lists, fair scheduling, refusals and the error history (queue_tables), paused lanes
-- (outages), how saved pages become the text (pages), HAC's decisions about dead letters (dead_letters).

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
  priority integer
);
comment on type public.claimed_document is
  'A document that a worker holds, with its lock token. Documents claimed together share a token. '
  'Nullable: dropbox_path, mime_type, sha256, size_bytes, engine, language, profile, page_count.';

create function public.claim_documents(
  p_worker_id text,
  p_lanes text[] default null,
  p_limit integer default 1,
  p_lock_timeout integer default 20,
  p_now timestamptz default now()
)
returns setof public.claimed_document
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
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
  -- Few expressions, because plpgsql prepares each of them again in every transaction.
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
    -- Also lanes that the claim may not come to: a call with a mistake in it has no effect in part.
    perform private.require_lane(u.lane) from unnest(v_lanes) as u (lane)
    where not exists (select 1 from public.lanes as l where l.lane = u.lane);
  end if;

  loop
    foreach v_name in array v_lanes loop
      select l.paused_at is not null as is_paused, l.paused_at, l.pause_kind, l.probe_at, l.probe_token, l.attempt_seconds,
        l.is_disabled,
        exists (select 1 from private.queue_delayed as k where k.lane = v_name and k.retry_at <= p_now) as has_due,
        exists (select 1 from private.queue as k where k.lane = v_name) as has_any
      into v_lane
      from public.lanes as l where l.lane = v_name;
      if not found then
        perform private.require_lane(v_name);
      end if;
      -- Checked first, because most claims find nothing.
      continue when not v_lane.has_any and not v_lane.has_due or v_lane.is_disabled;
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
        -- What has waited long enough for its next attempt rejoins the queue, at its old place.
        with due as (
          delete from private.queue_delayed as l
          where l.ctid = any (array(
            select k.ctid from private.queue_delayed as k
            where k.lane = v_name and k.retry_at <= p_now
            order by k.retry_at
            limit 1000
            for update skip locked
          ))
          returning l.document_id
        )
        update public.documents as d set retry_at = null
        from due where d.id = due.document_id and d.listed_in = 'queue';
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
        -- Checked again, because this may have waited for a transaction that cancelled the document.
        where d.id = any (v_ids) and d.listed_in = 'queue'
        returning d.id, d.lock_token, d.lock_expires_at, d.attempt_deadline, d.case_id, d.name::text, d.lane::text,
          d.dropbox_path::text, d.mime_type::text, d.sha256::text, d.size_bytes::bigint, d.document_version::integer,
          d.engine::text, d.language::text, d.profile::text, d.reading::integer, d.page_count::integer,
          d.attempts::integer, d.retry_count::integer, d.max_attempts::integer, d.priority::integer;
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
        -- Once is enough, unless some of what was taken had been cancelled.
        exit when v_found = cardinality(v_ids);
        v_take := v_take - v_found;
      end loop;
      if v_left = 0 then
        return;
      end if;
    end loop;

    -- A claim that finds no work reclaims expired locks, so recovery does not depend on a scheduler.
    exit when v_left < p_limit or v_swept;
    exit when exists (select 1 from private.sweep_state as s where s.swept_at > p_now - interval '1 second');
    v_swept := true;
    exit when public.sweep_documents(p_now) = 0;
  end loop;
end;
$$;
comment on function public.claim_documents(text, text[], integer, integer, timestamptz) is
  'Claim up to p_limit due documents, most urgent first, from the lanes in the given order (null: all lanes). Each is '
  'returned with a lock token valid for p_lock_timeout seconds. Returns no rows if no document is due.';
grant execute on function public.claim_documents(text, text[], integer, integer, timestamptz) to service_role, pagewarden_worker;

create function private.claim_document(
  p_document public.documents,
  p_worker_id text,
  p_lock_timeout integer,
  p_now timestamptz
)
returns public.claimed_document
language plpgsql volatile security invoker set search_path = ''
as $$
declare
  v_claimed public.claimed_document;
begin
  -- Locked, so that it is not paused meanwhile.
  perform 1 from public.lanes as l
  where l.lane = p_document.lane and l.paused_at is null and not l.is_disabled
  for share;
  if found then
    -- The claim finds it at the head of the queue, where no other transaction sees it yet.
    perform private.leave_list(p_document);
    insert into private.queue (lane, urgency, turn, document_id) values (p_document.lane, -2147483647, 0, p_document.id);
    select * into v_claimed from public.claim_documents(
      p_worker_id, array[p_document.lane::text], 1, p_lock_timeout, p_now
    );
  end if;
  return v_claimed;
end;
$$;
comment on function private.claim_document(public.documents, text, integer, timestamptz) is
  'Assign a queued document, which the caller has locked, to a worker; returns null if its lane is paused or disabled.';

create type public.acquire_document_lock_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  lock_token uuid,
  document public.claimed_document
);
comment on type public.acquire_document_lock_answer is
  'The schema of the answer of acquire_document_lock; null fields are omitted. '
  'Nullable: error, message, lock_token, document.';

create function public.acquire_document_lock(
  p_document_id uuid,
  p_worker_id text,
  p_lock_timeout integer default 20,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_refusal text;
  v_claimed public.claimed_document;
begin
  perform private.require_claim_arguments(p_worker_id, p_lock_timeout);
  select d.* into v_document from public.documents as d where d.id = p_document_id for update;
  v_refusal := coalesce(
    private.lock_refusal(v_document, null),
    case when v_document.ocr_status not in ('queued', 'queued_for_pdf') then 'WRONG_STATE' end
  );
  if v_refusal is not null then
    return private.refusal(v_refusal, p_document_id);
  end if;
  v_claimed := private.claim_document(v_document, p_worker_id, p_lock_timeout, p_now);
  if v_claimed.id is null then
    return private.refusal('LANE_PAUSED', p_document_id);
  end if;
  return jsonb_build_object(
    'success', true, 'document_id', p_document_id, 'lock_token', v_claimed.lock_token, 'document', v_claimed
  );
end;
$$;
comment on function public.acquire_document_lock(uuid, text, integer, timestamptz) is
  'Claim a specific document, even before its retry is due. Returns the reason if it cannot be claimed.';
grant execute on function public.acquire_document_lock(uuid, text, integer, timestamptz) to service_role, pagewarden_worker;

create function public.acquire_document_lock_v7(
  p_document_id uuid,
  p_worker_id text,
  p_lock_timeout integer default 20,
  p_now timestamptz default now()
)
returns jsonb
language sql volatile security invoker set search_path = ''
as $$ select public.acquire_document_lock(p_document_id, p_worker_id, p_lock_timeout, p_now) $$;
comment on function public.acquire_document_lock_v7(uuid, text, integer, timestamptz) is
  'Alias of acquire_document_lock, for existing callers.';
grant execute on function public.acquire_document_lock_v7(uuid, text, integer, timestamptz) to service_role, pagewarden_worker;

create type public.extend_document_lock_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  lock_expires_at timestamptz
);
comment on type public.extend_document_lock_answer is
  'The new expiry time of the lock, or why the lock was lost. Nullable: error, message, lock_expires_at.';

create function public.extend_document_lock(
  p_document_id uuid,
  p_lock_token uuid,
  p_lock_timeout integer default 20,
  p_now timestamptz default now()
)
returns public.extend_document_lock_answer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_answer public.extend_document_lock_answer;
begin
  perform private.require_claim_arguments('heartbeat', p_lock_timeout);
  -- locked_at never goes back: two heartbeats of one worker may overtake each other.
  update public.documents as d
  set version = d.version + 1,
      locked_at = greatest(d.locked_at, p_now),
      lock_expires_at = greatest(d.lock_expires_at, p_now + make_interval(secs => p_lock_timeout))
  where d.id = p_document_id and d.lock_token = p_lock_token and d.attempt_deadline >= p_now
  returning true, d.id, d.lock_expires_at into v_answer.success, v_answer.document_id, v_answer.lock_expires_at;
  if found then
    return v_answer;
  end if;
  return private.refused(
    v_answer,
    coalesce((
      select case when d.lock_token = p_lock_token then 'DEADLINE_EXCEEDED' else 'LOCK_LOST' end
      from public.documents as d where d.id = p_document_id
    ), 'DOCUMENT_NOT_FOUND'),
    p_document_id
  );
end;
$$;
comment on function public.extend_document_lock(uuid, uuid, integer, timestamptz) is
  'Heartbeat: extend the lock to p_lock_timeout seconds from now, but not beyond the deadline of the attempt.';
grant execute on function public.extend_document_lock(uuid, uuid, integer, timestamptz) to service_role, pagewarden_worker;

create type public.save_document_pages_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  run_id bigint,
  saved integer[]
);
comment on type public.save_document_pages_answer is
  'The pages saved so far, excluding failed ones. Nullable: error, message, run_id, saved.';

create function public.save_document_pages(
  p_document_id uuid,
  p_lock_token uuid,
  p_pages jsonb,
  p_engine text,
  p_version text,
  p_profile text default 'balanced',
  p_page_count integer default null,
  p_now timestamptz default now()
)
returns public.save_document_pages_answer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_refusal text;
  v_answer public.save_document_pages_answer;
begin
  perform private.require_pages(p_pages);
  perform private.require_run(p_engine, p_version, p_profile);
  if p_page_count < 0 then
    raise exception 'p_page_count must not be negative, got %', p_page_count
      using errcode = '22023', hint = 'Omit it if the page count is unknown.';
  end if;
  select d.* into v_document from public.documents as d where d.id = p_document_id for update;
  v_refusal := coalesce(
    private.lock_refusal(v_document, p_lock_token),
    case when p_lock_token is null and v_document.ocr_status <> 'processing' then 'WRONG_STATE' end
  );
  if v_refusal is not null then
    return private.refused(v_answer, v_refusal, p_document_id);
  end if;
  v_answer.success := true;
  v_answer.document_id := p_document_id;
  v_answer.run_id := private.write_pages(v_document, p_pages, p_engine, p_version, p_profile, p_now);
  v_answer.saved := array(
    select o.page_number from public.ocr_pages as o
    where o.run_id = v_answer.run_id and o.status <> 'failed'
    order by o.page_number
  );
  if p_page_count <> coalesce(v_document.page_count, -1) then
    update public.documents as d set page_count = p_page_count where d.id = p_document_id;
  end if;
  return v_answer;
end;
$$;
comment on function public.save_document_pages(uuid, uuid, jsonb, text, text, text, integer, timestamptz) is
  'Save pages as they are read: [{"page_number", "text", "lines", "confidence", …}, …]. Returns the pages saved so '
  'far in this run, so a call with an empty list shows where to continue.';
grant execute on function public.save_document_pages(uuid, uuid, jsonb, text, text, text, integer, timestamptz)
  to service_role, pagewarden_worker;

create type public.complete_documents_answer as (
  id uuid,
  refusal text,
  missing integer[],
  claimed public.claimed_document
);
comment on type public.complete_documents_answer is
  'Either a document whose result was rejected, with the error and, for PAGES_MISSING, the missing pages; or a newly '
  'claimed document. Nullable: refusal, missing, claimed.';

-- Returns the documents whose result was refused, each with the reason; null if there are none.
create function private.complete(
  p_document_ids uuid[],
  p_lock_tokens uuid[],
  p_ocr_data jsonb[],
  p_confidences numeric[],
  p_processing_times_ms integer[],
  p_engine text,
  p_version text,
  p_profile text,
  p_page_counts integer[],
  p_now timestamptz
)
returns public.complete_documents_answer[]
language plpgsql volatile security invoker set search_path = ''
as $$
declare
  v_count integer := cardinality(p_document_ids);
  v_finalized uuid[];
  v_refusals jsonb;
  v_done uuid[];
  v_probed boolean;
  v_sound boolean := (
    v_count <= 10000
    and cardinality(p_lock_tokens) = v_count
    and cardinality(p_ocr_data) = v_count
    and coalesce(cardinality(p_confidences), v_count) = v_count
    and coalesce(cardinality(p_processing_times_ms), v_count) = v_count
    and coalesce(cardinality(p_page_counts), v_count) = v_count
    and array_position(p_document_ids, null) is null
    and array_position(p_ocr_data, null) is null and array_position(p_ocr_data, 'null') is null
    and 0 <= all (p_confidences) is not false and 1 >= all (p_confidences) is not false
    and 0 <= all (p_processing_times_ms) is not false and 0 <= all (p_page_counts) is not false
  );
begin
  if v_count > 1 and v_sound then
    v_sound := v_count = (select count(distinct u.id) from unnest(p_document_ids) as u (id));
  end if;
  if v_sound is not true then
    raise exception 'the results are invalid'
      using errcode = '22023',
        hint = 'Send lists of equal length with at most 10000 entries, each document once with its ocr_data; confidence must be '
          '0 to 1, and times and page counts must not be negative.';
  end if;
  if octet_length(p_engine) > 200 or octet_length(p_version) > 200 or p_profile is not null
    or '' in (p_engine, p_version) then
    perform private.require_run(coalesce(p_engine, '-'), coalesce(p_version, '-'), coalesce(p_profile, '-'));
  end if;

  loop
    -- First those that carry no text and have no pages, as far as is known: the bulk. Everything in one statement,
    -- fenced by the token. The others, if any, once their pages are their text.
    with input as (
      select * from unnest(p_document_ids, p_lock_tokens, p_ocr_data, p_confidences, p_processing_times_ms, p_page_counts)
        as i (id, token, ocr_data, confidence, processing_time_ms, page_count)
      order by 1   -- in one order, or two callers could wait for each other
    ),
    done as (
      update public.documents as d
      set ocr_status = 'completed',
          version = d.version + (i.token is not null)::integer,   -- without a token the trigger updates the lists
          ocr_completed_at = p_now,
          ocr_error = null,
          page_count = greatest(i.page_count, d.page_count),
          retry_at = null,
          locked_by = null, locked_at = null, lock_token = null, lock_expires_at = null,
          attempt_deadline = null,
          updated_at = p_now
      from input as i
      where d.id = i.id
        and d.lock_token is not distinct from i.token
        and d.ocr_status in ('processing', 'queued', 'queued_for_pdf', 'pending', 'pending_review')
        and (
          (
            d.open_run_id is null and not i.ocr_data ?| array['text', 'pages']
            and greatest(i.page_count, d.page_count, 0) = 0
          )
          or i.id = any (v_finalized)
        )
      returning d.id, i.token, i.ocr_data, i.confidence, i.processing_time_ms, d.run_id, d.attempts,
        d.retry_count, d.created_at, d.claimed_by
    ),
    result as (
      insert into public.ocr_processing_logs (
        id, document_id, ocr_data, confidence_score, processing_time_ms, ocr_engine, ocr_version,
        run_id, worker_id, attempt, retry_count, seconds_to_text, created_at
      )
      select coalesce(d.token, gen_random_uuid()), d.id, d.ocr_data,
        -- A worker that continued after the pages of another knows only its own.
        coalesce(d.confidence, (select avg(o.confidence) from public.ocr_pages as o where o.run_id = d.run_id)),
        d.processing_time_ms, p_engine,
        p_version, d.run_id, case when d.token is not null then d.claimed_by end, d.attempts, d.retry_count,
        date_part('epoch', p_now - d.created_at), p_now
      from done as d
    )
    select v_done || array_agg(d.id), exists (select 1 from public.lanes as l where l.probe_token = any (p_lock_tokens))
    into v_done, v_probed
    from done as d;
    exit when v_finalized is not null or coalesce(cardinality(v_done), 0) = v_count;
    select t.v_finalized, t.v_refusals into v_finalized, v_refusals from private.finalize_runs(
      p_document_ids, p_lock_tokens, p_ocr_data, p_confidences, p_engine, p_version, p_profile, p_page_counts, p_now
    ) as t;
  end loop;

  if v_probed then
    -- A probe that succeeds ends the outage.
    perform private.resume(l.lane, 'the probe succeeded', p_now)
    from public.lanes as l
    where l.probe_token = any (p_lock_tokens)
      and p_document_ids[array_position(p_lock_tokens, l.probe_token)] = any (v_done);
  end if;
  if array_position(p_lock_tokens, null) is not null then
    -- A completion by hand, without a token, does what the document waited for: to be routed, or to be typed.
    update public.tasks as t
    set status = 'done', done_at = p_now, done_by = auth.uid(), updated_at = p_now
    where t.document_id = any (v_done) and t.status in ('pending', 'in_progress')
      and (t.kind = 'routing' or (t.kind = 'review' and t.metadata ? 'dlq_id'));
  end if;
  if v_finalized is null then
    return null;
  end if;
  return (
    select array_agg(jsonb_populate_record(null::public.complete_documents_answer, jsonb_build_object(
      'id', u.id,
      'refusal', coalesce(v_refusals ->> u.id::text, private.completion_refusal(d, u.token)),
      'missing', case when v_refusals ->> u.id::text = 'PAGES_MISSING'
        then private.missing_pages(d.open_run_id, d.page_count) end
    )))
    from unnest(p_document_ids, p_lock_tokens) as u (id, token)
    left join public.documents as d on d.id = u.id
    where (u.id = any (v_done)) is not true
  );
end;
$$;
comment on function private.complete(uuid[], uuid[], jsonb[], numeric[], integer[], text, text, text, integer[], timestamptz) is
  'Complete multiple documents, each fenced by its lock token: result, state and text in one transaction.';

create type public.process_ocr_atomic_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  log_id uuid,
  missing integer[]
);
comment on type public.process_ocr_atomic_answer is
  'The schema of the answer of process_ocr_atomic; null fields are omitted. '
  'Nullable: error, message, log_id, missing.';

create function public.process_ocr_atomic(
  p_document_id uuid,
  p_ocr_data jsonb,
  p_confidence numeric,
  p_processing_time_ms integer,
  p_lock_token uuid default null,
  p_engine text default null,
  p_version text default null,
  p_profile text default null,
  p_page_count integer default null,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_refused public.complete_documents_answer[] := private.complete(
    array[p_document_id], array[p_lock_token], array[p_ocr_data], array[p_confidence],
    array[p_processing_time_ms], p_engine, p_version, p_profile, array[p_page_count], p_now
  );
begin
  if v_refused is not null then
    return private.refusal(v_refused[1].refusal, p_document_id)
      || jsonb_strip_nulls(jsonb_build_object('missing', v_refused[1].missing));
  end if;
  return jsonb_build_object(
    'success', true,
    'document_id', p_document_id,
    'log_id', coalesce(p_lock_token, (
      select r.id from public.ocr_processing_logs as r
      where r.document_id = p_document_id and r.created_at = p_now
      limit 1
    ))
  );
end;
$$;
comment on function public.process_ocr_atomic(uuid, jsonb, numeric, integer, uuid, text, text, text, integer, timestamptz) is
  'Complete a document: result, status and audit entry in one transaction. If pages were saved, p_ocr_data is a '
  'summary; otherwise its "text" or "pages" are saved as pages. If pages are missing, the result lists them '
  '(PAGES_MISSING), and the document is queued again; a "text", or "pages" with "whole": true, may have fewer pages '
  'than the document. Nullable: p_confidence.';
grant execute on function public.process_ocr_atomic(uuid, jsonb, numeric, integer, uuid, text, text, text, integer, timestamptz)
  to service_role, pagewarden_worker;

create function public.complete_documents(
  p_document_ids uuid[],
  p_lock_tokens uuid[],
  p_ocr_data jsonb[],
  p_confidences numeric[] default null,
  p_processing_times_ms integer[] default null,
  p_engine text default null,
  p_version text default null,
  p_profile text default null,
  p_page_counts integer[] default null,
  p_worker_id text default null,
  p_lanes text[] default null,
  p_claim_limit integer default 0,
  p_lock_timeout integer default 20,
  p_now timestamptz default now()
)
returns setof public.complete_documents_answer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_refused public.complete_documents_answer[];
begin
  if (p_claim_limit between 0 and 1000) is not true then
    raise exception 'p_claim_limit must be between 0 and 1000, got %', coalesce(p_claim_limit::text, 'null')
      using errcode = '22023', hint = 'Pass 0 to claim nothing.';
  end if;
  v_refused := private.complete(
    p_document_ids, p_lock_tokens, p_ocr_data, p_confidences, p_processing_times_ms, p_engine, p_version,
    p_profile, p_page_counts, p_now
  );
  if v_refused is not null then
    insert into private.conflicts (happened_at)
    select p_now from unnest(v_refused) as r where r.refusal = 'LOCK_LOST';
    return query select * from unnest(v_refused);
  end if;
  if p_claim_limit > 0 then
    return query
    select c.id, null::text, null::integer[], c
    from public.claim_documents(p_worker_id, p_lanes, p_claim_limit, p_lock_timeout, p_now) as c;
  end if;
end;
$$;
comment on function public.complete_documents(uuid[], uuid[], jsonb[], numeric[], integer[], text, text, text, integer[], text, text[], integer, integer, timestamptz) is
  'Complete multiple documents read by one engine, and claim up to p_claim_limit more in the same transaction. '
  'Returns the documents whose results were rejected, each with the error and any missing pages, followed by the '
  'newly claimed ones.';
grant execute on function public.complete_documents(uuid[], uuid[], jsonb[], numeric[], integer[], text, text, text, integer[], text, text[], integer, integer, timestamptz)
  to service_role, pagewarden_worker;

-- Every path back into the queue ends here. p_document has the new counts; the trigger clears the lock.
create function private.return_to_queue(p_document public.documents, p_retry_at timestamptz, p_now timestamptz)
returns text
language plpgsql volatile security invoker set search_path = ''
as $$
declare
  -- A deleted document, or an older version of one, is not read any more.
  v_status text := case
    when (p_document).deleted_at is not null then 'cancelled' else private.queued_status((p_document).lane)
  end;
begin
  perform private.end_probe((p_document).lock_token, p_now);
  update public.documents as d
  set ocr_status = v_status,
      retry_at = case when v_status = 'cancelled' or p_retry_at <= p_now then null else p_retry_at end,
      attempts = (p_document).attempts,
      retry_count = (p_document).retry_count,
      rescues = (p_document).rescues,
      ocr_error = (p_document).ocr_error,
      updated_at = p_now
  where d.id = (p_document).id;
  return v_status;
end;
$$;
comment on function private.return_to_queue(public.documents, timestamptz, timestamptz) is
  'Return a document to its queue and keep its counts; a deleted document is cancelled instead.';

create function private.move_to_dead_letter(
  p_document public.documents,
  p_message text,
  p_details jsonb,
  p_category text,
  p_now timestamptz
)
returns uuid
language plpgsql volatile security invoker set search_path = ''
as $$
declare
  v_dlq_id uuid;
  -- A picture of a check job opens no task: the job fails, and its owner runs it again.
  v_of_job boolean := exists (select 1 from public.check_jobs as j where j.id = (p_document).case_id);
  v_extraction boolean := (p_document).ocr_status in ('awaiting_file', 'extracting', 'extraction_failed');
  v_status text := case when v_of_job then 'failed' else 'dead_letter' end;
begin
  if (p_document).deleted_at is not null then
    perform private.return_to_queue(p_document, null, p_now);
    return null;
  end if;
  perform private.end_probe((p_document).lock_token, p_now);
  update public.documents as d
  set ocr_status = v_status,
      retry_count = (p_document).retry_count,
      rescues = (p_document).rescues,
      extraction_failures = (p_document).extraction_failures,
      error_message = case when v_extraction then p_message else d.error_message end,
      ocr_error = case when v_extraction then d.ocr_error else p_message end,
      updated_at = p_now
  where d.id = (p_document).id;
  insert into public.ocr_dead_letter as l (
    document_id, case_id, document_name, dropbox_path, failure_count, first_failed_at,
    last_failed_at, last_error_message, last_error_details, error_category, status
  )
  values (
    (p_document).id, (p_document).case_id, (p_document).name, coalesce((p_document).dropbox_path, ''),
    greatest(
      case when v_extraction then (p_document).extraction_failures else (p_document).retry_count + (p_document).rescues end, 1
    ),
    coalesce((select min(e.created_at) from public.ocr_errors as e where e.document_id = (p_document).id), p_now),
    p_now, p_message, p_details, p_category, case when v_of_job then 'abandoned' else 'pending' end
  )
  on conflict on constraint ocr_dead_letter_one_for_a_document do update
  -- The document's own counts continue unless it was requeued.
  set failure_count = case l.status when 'requeued' then l.failure_count else 0 end + excluded.failure_count,
      last_failed_at = excluded.last_failed_at,
      last_error_message = excluded.last_error_message,
      last_error_details = excluded.last_error_details,
      error_category = excluded.error_category,
      status = excluded.status,
      updated_at = p_now
  returning l.id into v_dlq_id;
  perform private.close_tasks((p_document).id, 'cancelled', array['routing', 'review']);
  if not v_of_job then
    perform private.open_task(
      (p_document).case_id, (p_document).id, 'dead_letter',
      case when v_extraction then 'Dead letter: extraction failed' else 'Dead letter: OCR failed' end,
      format(
        case when v_extraction then '"%s" could not be extracted: %s' else '"%s" could not be read: %s' end,
        (p_document).name, p_message
      ),
      'high',
      jsonb_build_object('dlq_id', v_dlq_id, 'document_id', (p_document).id, 'error_category', p_category)
    );
  end if;
  perform private.log_act(
    (p_document).case_id, (p_document).id, 'dead_letter', p_message, (p_document).ocr_status, v_status
  );
  return v_dlq_id;
end;
$$;
comment on function private.move_to_dead_letter(public.documents, text, jsonb, text, timestamptz) is
  'Hand a document over to HAC: dead letter, task and audit entry in one transaction. A picture in a check job fails '
  'instead.';

create type public.fail_document_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  status text,
  retry_count integer,
  retry_at timestamptz,
  dlq_id uuid
);
comment on type public.fail_document_answer is
  'The new state of the document: queued for a retry at retry_at, or a dead letter. Nullable: error, message, status, '
  'retry_count, retry_at, dlq_id.';

-- Every failed attempt ends here, whether its worker, the sweep or a completion reports it.
create function private.fail_attempt(
  p_document public.documents,
  p_kind text,
  p_message text,
  p_details jsonb,
  p_category text,
  p_retry_after interval,
  p_now timestamptz
)
returns public.fail_document_answer
language plpgsql volatile security invoker set search_path = ''
as $$
declare
  v_document public.documents := p_document;
  v_answer public.fail_document_answer;
begin
  perform private.record_error(p_document, p_kind, p_message, p_details, p_category, p_now);
  v_answer.success := true;
  v_answer.document_id := p_document.id;
  if p_document.ocr_status <> 'processing' and p_kind <> 'conflict' then
    -- A completion by hand of a document that is not being read: no attempt failed, the document waits as before.
    v_answer.status := p_document.ocr_status;
    return v_answer;
  end if;
  v_document.retry_count := p_document.retry_count + 1;
  v_document.ocr_error := p_message;
  v_answer.retry_count := v_document.retry_count;
  if p_category = 'permanent' or v_document.retry_count >= p_document.max_attempts then
    v_answer.dlq_id := private.move_to_dead_letter(v_document, p_message, p_details, p_category, p_now);
    v_answer.status := (select d.ocr_status from public.documents as d where d.id = p_document.id);
  else
    v_answer.retry_at := p_now + greatest(
      private.backoff(p_document.lane, v_document.retry_count), coalesce(p_retry_after, interval '0')
    );
    v_answer.status := private.return_to_queue(v_document, v_answer.retry_at, p_now);
  end if;
  return v_answer;
end;
$$;
comment on function private.fail_attempt(public.documents, text, text, jsonb, text, interval, timestamptz) is
  'Count a failed attempt, if there was one, and schedule a retry, or create a dead letter if the error is permanent '
  'or no attempts are left.';

create function private.reclaim(p_document public.documents, p_message text, p_now timestamptz)
returns text
language plpgsql volatile security invoker set search_path = ''
as $$
declare
  v_document public.documents := p_document;
  v_retry_at timestamptz := p_now;
  v_max integer := (select l.max_rescues from public.lanes as l where l.lane = p_document.lane);
begin
  perform private.record_error(p_document, 'lock_expired', p_message, '{}', 'resource', p_now);
  -- A claim that saved pages made progress: the document does not kill its workers.
  if private.count_new_pages(p_document) = 0 then
    v_document.rescues := p_document.rescues + 1;
  end if;
  if v_document.rescues > greatest(v_max, p_document.rescues) then
    perform private.move_to_dead_letter(
      v_document, format('workers died %s times while reading the document', v_document.rescues), '{}',
      'resource', p_now
    );
    return (select d.ocr_status from public.documents as d where d.id = p_document.id);
  end if;
  -- The first time it is the worker's fault, and there is no backoff. Later it may be the document's.
  if v_document.rescues > greatest(p_document.rescues, 1) then
    v_retry_at := p_now + private.backoff(p_document.lane, v_document.rescues - 1);
  end if;
  return private.return_to_queue(v_document, v_retry_at, p_now);
end;
$$;
comment on function private.reclaim(public.documents, text, timestamptz) is
  'Reclaim a document from a dead worker; after too many dead workers, it becomes a dead letter.';

create function public.fail_document(
  p_document_id uuid,
  p_lock_token uuid,
  p_error_message text,
  p_error_details jsonb default '{}',
  p_error_category text default 'unknown',
  p_retry_after integer default null,
  p_now timestamptz default now()
)
returns public.fail_document_answer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_refusal text;
begin
  perform private.require_text('p_error_message', p_error_message, 100000);
  perform private.require_category(p_error_category);
  if p_retry_after not between 0 and 86400 then
    raise exception 'p_retry_after must be between 0 and 86400 seconds, got %', p_retry_after
      using errcode = '22023', hint = 'Omit it to use the lane''s backoff.';
  end if;
  select d.* into v_document from public.documents as d where d.id = p_document_id for update;
  v_refusal := coalesce(
    private.lock_refusal(v_document, p_lock_token),
    case when v_document.ocr_status not in ('processing', 'queued', 'queued_for_pdf') then 'WRONG_STATE' end
  );
  if v_refusal is not null then
    return private.refused(null::public.fail_document_answer, v_refusal, p_document_id);
  end if;
  return private.fail_attempt(
    v_document, case v_document.ocr_status when 'processing' then 'failure' else 'conflict' end, p_error_message, coalesce(p_error_details, '{}'), p_error_category,
    make_interval(secs => p_retry_after), p_now
  );
end;
$$;
comment on function public.fail_document(uuid, uuid, text, jsonb, text, integer, timestamptz) is
  'Report a failed attempt: retry after a backoff (at least p_retry_after seconds), or hand the document over to HAC '
  'if the error is permanent or no attempts are left. Without a token: the document is queued, and conflicts with '
  'other transactions kept the caller from claiming it. Nullable: p_lock_token.';
grant execute on function public.fail_document(uuid, uuid, text, jsonb, text, integer, timestamptz)
  to service_role, pagewarden_worker;

create type public.release_documents_answer as (
  success boolean,
  released uuid[],
  failed uuid[],
  lost public.refused_document[]
);
comment on type public.release_documents_answer is
  'failed: documents whose outage does not affect others in their lane, so the attempt counts. lost: documents whose '
  'lock was lost.';

create function public.release_documents(
  p_documents jsonb,
  p_reason text default 'the worker is stopping',
  p_outage boolean default false,
  p_unless_begun boolean default false,
  p_retry_after integer default 0,
  p_now timestamptz default now()
)
returns public.release_documents_answer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_item record;
  v_document public.documents;
  v_refusal text;
  v_lanes text[] := '{}';
  v_answer public.release_documents_answer := (true, '{}', '{}', '{}');
begin
  perform private.require_text('p_reason', p_reason, 10000);
  perform private.require_list('p_documents', p_documents);
  if (p_retry_after between 0 and 86400) is not true then
    raise exception 'p_retry_after must be between 0 and 86400 seconds, got %', coalesce(p_retry_after::text, 'null')
      using errcode = '22023', hint = 'Omit it to return the documents at once.';
  end if;
  for v_item in
    select i.document_id, i.lock_token
    from jsonb_to_recordset(p_documents) as i (document_id uuid, lock_token uuid)
    order by i.document_id
  loop
    select d.* into v_document from public.documents as d where d.id = v_item.document_id for update;
    v_refusal := case
      when v_document.id is null then 'DOCUMENT_NOT_FOUND'
      when p_unless_begun and private.has_begun(v_document.id, v_item.lock_token) then 'ALREADY_BEGUN'
      when v_document.lock_token is distinct from v_item.lock_token or v_item.lock_token is null then 'LOCK_LOST'
    end;
    if v_refusal is not null then
      v_answer.success := false;
      v_answer.lost := v_answer.lost
        || private.refused(null::public.refused_document, v_refusal, v_item.document_id);
      continue;
    end if;
    if p_outage is true and private.fail_own_outage(v_document, p_reason, p_now) then
      v_answer.failed := v_answer.failed || v_document.id;
      continue;
    end if;
    if p_outage then
      perform private.record_error(v_document, 'outage', p_reason, '{}', 'transient', p_now);
      v_lanes := v_lanes || v_document.lane;
    end if;
    v_document.attempts := v_document.attempts - 1;
    perform private.return_to_queue(v_document, p_now + make_interval(secs => p_retry_after), p_now);
    v_answer.released := v_answer.released || v_document.id;
  end loop;
  perform private.pause_for_outage(l.lane, p_reason, p_now)
  from (select distinct u.lane from unnest(v_lanes) as u (lane) order by u.lane) as l;
  return v_answer;
end;
$$;
comment on function public.release_documents(jsonb, text, boolean, boolean, integer, timestamptz) is
  'Return documents to the queue unread, without counting an attempt: [{"document_id", "lock_token"}, …]. p_outage: '
  'an engine, the GPU service or the store is unavailable, so the lanes of the documents are paused. p_unless_begun: '
  'not those that an invocation has begun to read (see begin_dispatch). p_retry_after: seconds until they can be claimed.';
grant execute on function public.release_documents(jsonb, text, boolean, boolean, integer, timestamptz) to service_role, pagewarden_worker;

create function public.sweep_documents(p_now timestamptz default now())
returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_state private.sweep_state;
  v_document public.documents;
  v_count integer := 0;
begin
  -- One sweep at a time; a second one has nothing to add.
  perform 1 from private.sweep_state as s for update skip locked;
  if not found then
    return 0;
  end if;
  perform private.detect_restart(p_now);
  update private.sweep_state as s
  set swept_at = p_now,
    -- After a long time without a sweep it is not known how long the database was away. Schedulers that know no
    -- seconds sweep once a minute (fit_schedule); that is no such time.
    resumed_at = case when p_now - s.swept_at > interval '90 seconds' then p_now else s.resumed_at end
  returning s.* into v_state;

  for v_document in
    select d.* from public.documents as d
    where d.id = any (private.claimed_ids())
      and d.ocr_status = 'processing'
      and (
        (
          -- Without a lock it was set to processing by hand; it gets a lock period too.
          coalesce(d.lock_expires_at, d.updated_at + interval '20 seconds') < p_now
          and coalesce(v_state.resumed_at, '-infinity')
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
      perform private.fail_attempt(
        v_document, 'deadline',
        format('the attempt did not finish within %s', v_document.attempt_deadline - v_document.claimed_at),
        '{}', 'transient', null, p_now
      );
      update public.documents as d set claim_lost_at = p_now where d.id = v_document.id;
    else
      perform private.reclaim(
        v_document, format('worker %s stopped sending heartbeats', coalesce(v_document.locked_by, 'unknown')), p_now
      );
    end if;
  end loop;
  delete from private.claims as c
  where not exists (
    select 1 from public.documents as d
    where d.id = any (c.document_ids) and d.ocr_status = 'processing' and coalesce(d.lock_token, c.id) = c.id
  );
  perform private.sweep_extractions(v_state.resumed_at, p_now);
  perform private.aggregate_finished_hours(p_now);
  perform private.expire_check_jobs(p_now);
  perform private.add_up_counters();
  return v_count;
end;
$$;
comment on function public.sweep_documents(timestamptz) is
  'Reclaim documents from workers that died or exceeded their deadline. Returns the number reclaimed.';
grant execute on function public.sweep_documents(timestamptz) to service_role, pagewarden_worker;

create type public.move_to_dead_letter_queue_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  dlq_id uuid
);
comment on type public.move_to_dead_letter_queue_answer is
  'The schema of the answer of move_to_dead_letter_queue; null fields are omitted. '
  'Nullable: error, message, dlq_id.';

create function public.move_to_dead_letter_queue(
  p_document_id uuid,
  p_error_message text,
  p_error_details jsonb default '{}',
  p_error_category text default 'unknown',
  p_lock_token uuid default null,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_refusal text;
begin
  perform private.require_text('p_error_message', p_error_message, 100000);
  perform private.require_category(p_error_category);
  select d.* into v_document from public.documents as d where d.id = p_document_id for update;
  v_refusal := coalesce(
    private.lock_refusal(v_document, p_lock_token),
    -- The worker that holds a deleted or superseded document still ends its attempt.
    case when v_document.ocr_status in ('completed', 'cancelled', 'dead_letter')
      or (v_document.deleted_at is not null and p_lock_token is null)
      then 'WRONG_STATE' end
  );
  if v_refusal is not null then
    return private.refusal(v_refusal, p_document_id);
  end if;
  perform private.record_error(
    v_document, 'failure', p_error_message, coalesce(p_error_details, '{}'), p_error_category, p_now
  );
  if p_lock_token is not null then
    -- It ends the attempt of the worker that holds the document.
    v_document.retry_count := v_document.retry_count + 1;
  end if;
  return jsonb_build_object(
    'success', true,
    'document_id', p_document_id,
    'dlq_id', private.move_to_dead_letter(v_document, p_error_message, coalesce(p_error_details, '{}'), p_error_category, p_now)
  );
end;
$$;
comment on function public.move_to_dead_letter_queue(uuid, text, jsonb, text, uuid, timestamptz) is
  'Hand a document over to HAC immediately; with a lock token, this ends the attempt, which counts as failed. Rejected '
  'while another worker holds the document.';
grant execute on function public.move_to_dead_letter_queue(uuid, text, jsonb, text, uuid, timestamptz)
  to service_role, pagewarden_worker;

