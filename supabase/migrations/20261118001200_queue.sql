-- The queue: claim, heartbeat, save pages, complete, fail, release, sweep, dead letters.
--
-- A document waits in private.queue until a worker claims it. From then on the document is processing,
-- and the claim is described by columns of its row: who (locked_by), a lock token, when the lock expires
-- (lock_expires_at) and when the attempt must end (attempt_deadline). Each of the worker's later calls
-- carries the token. A call whose token is not the document's changes nothing and answers LOCK_LOST, so
-- a worker that was declared dead, or a second copy of one, cannot overwrite anything.
--
--     queued ──claim──▶ processing ──complete──▶ completed
--       ▲                   │
--       ├── fail, failures left: after a backoff            (retry_count + 1)
--       ├── lock expired, found by the sweep: at once       (rescues + 1)
--       ├── release, because the worker stops or a service is away: not counted
--       └───────────────────┤
--                           └── permanent, or a count used up ──▶ dead_letter, with a task for HAC
--
-- claim    claim_documents takes the next documents of some lanes; acquire_document_lock takes one known
--          document. Both write one row into private.claims, so the sweep finds what is being read.
-- alive    extend_document_lock is the heartbeat. Two clocks run: the lock (is the worker alive?) and the
--          attempt's deadline (does the work end?).
-- save     save_document_pages keeps pages as they are read; the next attempt goes on after them.
-- complete process_ocr_atomic and complete_documents write result, status and text in one transaction.
-- fail     fail_document counts a failed attempt; release_documents gives back without counting.
-- sweep    sweep_documents takes back what dead workers held. Cron calls it every 5 seconds, and so does a
--          claim that finds no work, so recovery does not depend on a scheduler.
-- end      move_to_dead_letter_queue gives a document to HAC at once.
--
-- Expected outcomes are values: {"success": false, "error": "LOCK_LOST", …}. Only invalid arguments raise.
-- The waiting lists and fair scheduling are in queue_tables, outages in outages, pages in pages.

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

create function private.server_since()
returns timestamptz
language sql
stable
security invoker
set search_path = ''
as $$
  -- After a crash of one process the server recovers without a start; its statistics begin anew then.
  select greatest(pg_catalog.pg_postmaster_start_time(), b.stats_reset) from pg_catalog.pg_stat_bgwriter as b;
$$;
comment on function private.server_since() is
  'Another one after each start and each recovery of the server. Not the moment from which on it answers: recovery takes time.';

create table private.sweep_state (
  is_one boolean not null default true,
  swept_at timestamptz,
  resumed_at timestamptz,
  server_since timestamptz,
  constraint sweep_state_pkey primary key (is_one),
  constraint sweep_state_is_one_row check (is_one)
);
comment on table private.sweep_state is 'When locks were last looked through, and when the database was last found to have been away.';
alter table private.sweep_state enable row level security;
insert into private.sweep_state (server_since) values (private.server_since());
comment on column private.sweep_state.server_since is 'private.server_since() when somebody last looked.';

create function private.lock_refusal(p_document public.documents, p_lock_token uuid)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select case
    when (p_document).id is null then 'DOCUMENT_NOT_FOUND'
    when p_lock_token is not null and (p_document).lock_token is distinct from p_lock_token then 'LOCK_LOST'
    when p_lock_token is null and (p_document).lock_token is not null then 'DOCUMENT_LOCKED'
  end;
$$;
comment on function private.lock_refusal(public.documents, uuid) is
  'Why a call with this token may not touch the document; null when it may.';

create function private.completion_refusal(p_document public.documents, p_lock_token uuid)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select coalesce(
    private.lock_refusal(p_document, p_lock_token),
    case when (p_document).ocr_status not in ('processing', 'queued', 'queued_for_pdf', 'pending', 'pending_review')
      then 'WRONG_STATE' end
  );
$$;
comment on function private.completion_refusal(public.documents, uuid) is
  'Why a result for the document is not taken; null when it is.';

create function private.refusal(p_error text, p_document_id uuid)
returns jsonb
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  if p_error = 'LOCK_LOST' then
    insert into private.conflicts default values;
  end if;
  return jsonb_build_object(
    'success', false, 'error', p_error, 'document_id', p_document_id,
    'message', case p_error
      when 'DOCUMENT_NOT_FOUND' then 'there is no such document'
      when 'LOCK_LOST' then 'the document was taken away from this worker; drop what was read'
      when 'DOCUMENT_LOCKED' then 'a worker has the document; call again with its lock token'
      when 'WRONG_STATE' then 'the document is not in a state that allows this'
      when 'DEADLINE_EXCEEDED' then 'the attempt took too long; stop reading'
      when 'LANE_PAUSED' then 'the lane is paused'
      when 'ARCHIVE_OUTDATED' then 'the document has changed since it was archived; archive it again'
      when 'TOO_MANY_FAILED_PAGES' then 'more pages failed than the lane allows; if it was being read, the attempt counts as failed'
      when 'PAGES_MISSING' then 'pages are missing; if it was being read, the attempt counts as failed, and they are read next'
    end
  );
end;
$$;
comment on function private.refusal(text, uuid) is
  'The answer to a call that changed nothing, with its reason; those that came too late are counted.';

create function private.refused(p_answer anyelement, p_error text, p_document_id uuid)
returns anyelement
language sql
volatile
security invoker
set search_path = ''
as $$
  select jsonb_populate_record(p_answer, private.refusal(p_error, p_document_id));
$$;
comment on function private.refused(anyelement, text, uuid) is 'private.refusal() as an answer of the given type.';

create function private.require_category(p_category text)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (p_category in ('transient', 'permanent', 'resource', 'configuration', 'unknown')) is not true then
    raise exception 'there is no error category %', coalesce(p_category, 'null')
      using errcode = '22023', hint = 'Categories are transient, permanent, resource, configuration, unknown.';
  end if;
end;
$$;
comment on function private.require_category(text) is 'Refuse an unknown error category (22023).';

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

create function public.claim_documents(
  p_worker_id text,
  p_lanes text[] default null,
  p_limit integer default 1,
  p_lock_timeout integer default 20,
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
    exit when public.sweep_documents(p_now) = 0;
  end loop;
end;
$$;
comment on function public.claim_documents(text, text[], integer, integer, timestamptz) is
  'Take up to p_limit due documents, most urgent first, from the lanes in the order given (null: all). '
  'Each comes with a lock token for p_lock_timeout seconds. No rows when there is nothing to do.';
grant execute on function public.claim_documents(text, text[], integer, integer, timestamptz) to service_role, pagewarden_worker;

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
    select * into v_claimed from public.claim_documents(
      p_worker_id, array[p_document.lane::text], 1, p_lock_timeout, p_now
    );
  end if;
  return v_claimed;
end;
$$;
comment on function private.claim_known(public.documents, text, integer, timestamptz) is
  'Hand a queued document, which the caller has locked, to a worker; null when its lane is paused.';

create function public.acquire_document_lock(
  p_document_id uuid,
  p_worker_id text,
  p_lock_timeout integer default 20,
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
comment on function public.acquire_document_lock(uuid, text, integer, timestamptz) is
  'Claim one known document, also before its next attempt is due. Says why when it cannot be had.';
grant execute on function public.acquire_document_lock(uuid, text, integer, timestamptz) to service_role, pagewarden_worker;

create function public.extend_document_lock(
  p_document_id uuid,
  p_lock_token uuid,
  p_lock_timeout integer default 20,
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
comment on function public.extend_document_lock(uuid, uuid, integer, timestamptz) is
  'Heartbeat: keep the lock for p_lock_timeout seconds more, up to the deadline of the attempt.';
grant execute on function public.extend_document_lock(uuid, uuid, integer, timestamptz) to service_role, pagewarden_worker;

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
returns jsonb
language plpgsql
volatile
security definer          -- workers hold no rights on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_refusal text;
  v_run_id bigint;
begin
  perform private.require_pages(p_pages);
  perform private.require_run(p_engine, p_version, p_profile);
  if p_page_count < 0 then
    raise exception 'p_page_count must not be negative, got %', p_page_count
      using errcode = '22023', hint = 'Leave it out while nobody knows.';
  end if;
  select d.* into v_document from public.documents as d where d.id = p_document_id for update;
  v_refusal := private.lock_refusal(v_document, p_lock_token);
  if v_refusal is null and (p_lock_token is null) then
    v_refusal := case when v_document.ocr_status <> 'processing' then 'WRONG_STATE' end;
  end if;
  if v_refusal is not null then
    return private.refusal(v_refusal, p_document_id);
  end if;
  v_run_id := private.write_pages(v_document, p_pages, p_engine, p_version, p_profile, p_now);
  if p_page_count is distinct from v_document.page_count and p_page_count is not null then
    update public.documents as d set page_count = p_page_count where d.id = p_document_id;
  end if;
  return jsonb_build_object(
    'success', true, 'document_id', p_document_id, 'run_id', v_run_id,
    'saved', (
      select coalesce(jsonb_agg(o.page_number order by o.page_number), '[]')
      from public.ocr_pages as o
      where o.run_id = v_run_id and o.status <> 'failed'
    )
  );
end;
$$;
comment on function public.save_document_pages(uuid, uuid, jsonb, text, text, text, integer, timestamptz) is
  'Keep pages as they are read: [{"page_number", "text", "lines", "confidence", …}, …]. Answers with the '
  'pages this run has so far, so an empty list asks where to go on.';
grant execute on function public.save_document_pages(uuid, uuid, jsonb, text, text, text, integer, timestamptz)
  to service_role, pagewarden_worker;

-- Whatever has pages, or text that becomes one, is looked at one by one.
create function private.settle_texts(
  p_document_ids uuid[],
  p_lock_tokens uuid[],
  p_ocr_data jsonb[],
  p_confidences numeric[],
  p_engine text,
  p_version text,
  p_profile text,
  p_page_counts integer[],
  p_now timestamptz,
  out v_settled uuid[],
  out v_refusals jsonb
)
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_document public.documents;
  v_at integer;
  v_pages jsonb;
  v_refusal text;
begin
  v_settled := '{}';
  v_refusals := '{}';
  for v_document in
    select d.* from public.documents as d where d.id = any (p_document_ids) order by d.id for update
  loop
    v_at := array_position(p_document_ids, v_document.id);
    v_pages := private.inline_pages(p_ocr_data[v_at], p_confidences[v_at]);
    if v_pages is not null then
      perform private.require_run(
        coalesce(p_engine, 'unknown'), coalesce(p_version, 'unknown'), coalesce(p_profile, 'balanced')
      );
      perform private.require_pages(v_pages);
    end if;
    continue when private.completion_refusal(v_document, p_lock_tokens[v_at]) is not null;
    if v_pages is not null then
      v_document.open_run_id := private.write_pages(
        v_document, v_pages, coalesce(p_engine, 'unknown'), coalesce(p_version, 'unknown'),
        coalesce(p_profile, 'balanced'), p_now
      );
    end if;
    v_refusal := null;
    if v_document.open_run_id is not null or greatest(p_page_counts[v_at], v_document.page_count) > 0 then
      v_refusal := private.settle_pages(
        v_document, p_page_counts[v_at], v_pages is not null and private.is_whole(p_ocr_data[v_at]), p_now
      );
    end if;
    if v_refusal is null then
      v_settled := v_settled || v_document.id;
    else
      v_refusals := v_refusals || jsonb_build_object(v_document.id, v_refusal);
    end if;
  end loop;
end;
$$;
comment on function private.settle_texts(uuid[], uuid[], jsonb[], numeric[], text, text, text, integer[], timestamptz) is
  'Make saved pages and inline texts the text of documents that are about to be completed, and say which may be, '
  'and of the others why not: {id: refusal}.';

-- Returns the documents whose result was not taken, each with its refusal; null when all were.
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
returns public.claimed_document[]
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_count integer := cardinality(p_document_ids);
  v_settled uuid[];
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
    raise exception 'the results make no sense'
      using errcode = '22023',
        hint = 'Lists of one length, at most 10000: each document once, with its ocr_data; confidence is 0 to 1, '
          'times and page counts are not negative.';
  end if;
  if octet_length(p_engine) > 200 or octet_length(p_version) > 200 or p_profile is not null
    or '' in (p_engine, p_version) then
    perform private.require_run(coalesce(p_engine, '-'), coalesce(p_version, '-'), coalesce(p_profile, '-'));
  end if;

  loop
    -- First those that carry no text and have no pages, as far as is known: the bulk. Everything in one statement,
    -- fenced by the token. The others, if any, once they are settled.
    with input as (
      select * from unnest(p_document_ids, p_lock_tokens, p_ocr_data, p_confidences, p_processing_times_ms, p_page_counts)
        as i (id, token, ocr_data, confidence, processing_time_ms, page_count)
      order by 1   -- in one order, or two callers could wait for each other
    ),
    done as (
      update public.documents as d
      set ocr_status = 'completed',
          version = d.version + (i.token is not null)::integer,   -- without a token the lists have to follow
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
          or i.id = any (v_settled)
        )
      returning d.id, i.token, i.ocr_data, i.confidence, i.processing_time_ms, d.run_id, d.attempts,
        d.retry_count, d.created_at, d.claimed_by
    ),
    result as (
      insert into public.ocr_processing_logs (
        id, document_id, ocr_data, confidence_score, processing_time_ms, ocr_engine, ocr_version,
        run_id, worker_id, attempt, retry_count, seconds_to_text, created_at
      )
      select coalesce(d.token, gen_random_uuid()), d.id, d.ocr_data, d.confidence, d.processing_time_ms, p_engine,
        p_version, d.run_id, case when d.token is not null then d.claimed_by end, d.attempts, d.retry_count,
        date_part('epoch', p_now - d.created_at), p_now
      from done as d
    )
    select v_done || array_agg(d.id), exists (select 1 from public.lanes as l where l.probe_token = any (p_lock_tokens))
    into v_done, v_probed
    from done as d;
    exit when v_settled is not null or coalesce(cardinality(v_done), 0) = v_count;
    select t.v_settled, t.v_refusals into v_settled, v_refusals from private.settle_texts(
      p_document_ids, p_lock_tokens, p_ocr_data, p_confidences, p_engine, p_version, p_profile, p_page_counts, p_now
    ) as t;
  end loop;

  if v_probed then
    -- A probe that came through ends the outage.
    perform private.resume(l.lane, 'the probe succeeded', p_now)
    from public.lanes as l
    where l.probe_token = any (p_lock_tokens)
      and p_document_ids[array_position(p_lock_tokens, l.probe_token)] = any (v_done);
  end if;
  if array_position(p_lock_tokens, null) is not null then
    -- Who completes a document by hand has done what it waited for: to be routed, or to be typed.
    update public.tasks as t
    set status = 'done', done_at = p_now, done_by = auth.uid(), updated_at = p_now
    where t.document_id = any (v_done) and t.status in ('pending', 'in_progress')
      and (t.kind = 'routing' or (t.kind = 'review' and t.metadata ? 'dlq_id'));
  end if;
  if v_settled is null then
    return null;
  end if;
  return (
    select array_agg(jsonb_populate_record(null::public.claimed_document, jsonb_build_object(
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
  'Complete many documents, each fenced by its token: result, state and text in one transaction.';

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
  v_refused public.claimed_document[] := private.complete(
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
  'Complete a document: result, status and audit line in one transaction. Where pages were saved, '
  'p_ocr_data is a summary; otherwise its "text" or "pages" are kept as pages. Where a page is missing, the answer names '
  'it (PAGES_MISSING), and the document is queued to be read again; a "text", or "pages" with "whole": true, may have fewer.';
grant execute on function public.process_ocr_atomic(uuid, jsonb, numeric, integer, uuid, text, text, text, integer, timestamptz)
  to service_role, pagewarden_worker;

create function private.complete_documents(
  p_document_ids uuid[],
  p_lock_tokens uuid[],
  p_ocr_data jsonb[],
  p_confidences numeric[],
  p_processing_times_ms integer[],
  p_engine text,
  p_version text,
  p_profile text,
  p_page_counts integer[],
  p_now timestamptz default now()
)
returns public.claimed_document[]
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
  v_refused public.claimed_document[] := private.complete(
    p_document_ids, p_lock_tokens, p_ocr_data, p_confidences, p_processing_times_ms, p_engine, p_version,
    p_profile, p_page_counts, p_now
  );
begin
  if v_refused is not null then
    insert into private.conflicts (happened_at)
    select p_now from unnest(v_refused) as r where r.refusal = 'LOCK_LOST';
  end if;
  return v_refused;
end;
$$;
comment on function private.complete_documents(uuid[], uuid[], jsonb[], numeric[], integer[], text, text, text, integer[], timestamptz) is
  'The first half of public.complete_documents.';
grant execute on function private.complete_documents(uuid[], uuid[], jsonb[], numeric[], integer[], text, text, text, integer[], timestamptz)
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
  p_lock_timeout integer default 20
)
returns setof public.claimed_document
language plpgsql
volatile
security invoker
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
declare
  v_refused public.claimed_document[];
begin
  if (p_claim_limit between 0 and 1000) is not true then
    raise exception 'p_claim_limit must be between 0 and 1000, got %', coalesce(p_claim_limit::text, 'null')
      using errcode = '22023', hint = 'With 0 it claims nothing.';
  end if;
  v_refused := private.complete_documents(
    p_document_ids, p_lock_tokens, p_ocr_data, p_confidences, p_processing_times_ms, p_engine, p_version,
    p_profile, p_page_counts
  );
  if v_refused is not null then
    return query select * from unnest(v_refused);
  end if;
  if p_claim_limit > 0 then
    return query select * from public.claim_documents(p_worker_id, p_lanes, p_claim_limit, p_lock_timeout);
  end if;
end;
$$;
comment on function public.complete_documents(uuid[], uuid[], jsonb[], numeric[], integer[], text, text, text, integer[], text, text[], integer, integer) is
  'Complete many documents of one engine at once, and claim the next p_claim_limit in the same transaction. '
  'Returns the documents whose result was not taken, each with its refusal and the missing pages, if any, and then the '
  'newly claimed.';
grant execute on function public.complete_documents(uuid[], uuid[], jsonb[], numeric[], integer[], text, text, text, integer[], text, text[], integer, integer)
  to service_role, pagewarden_worker;

create function private.note_error(
  p_document public.documents,
  p_kind text,
  p_message text,
  p_details jsonb,
  p_category text,
  p_now timestamptz
)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  insert into public.ocr_errors (
    document_id, case_id, lane, kind, attempt, worker_id, error_category, error_message,
    error_details, created_at
  )
  values (
    (p_document).id, (p_document).case_id, (p_document).lane, p_kind, (p_document).attempts,
    (p_document).locked_by, p_category, p_message, p_details, p_now
  );
$$;
comment on function private.note_error(public.documents, text, text, jsonb, text, timestamptz) is
  'Add to the error history of a document.';

create function private.backoff(p_lane text, p_times integer)
returns interval
language sql
volatile
security invoker
set search_path = ''
as $$
  -- Doubles each time up to the lane's cap; the jitter keeps failures of one cause from returning together.
  select make_interval(
    secs => least(l.backoff_cap_seconds, l.backoff_seconds * 2 ^ least(p_times - 1, 30)) * (0.8 + 0.4 * random())
  )
  from public.lanes as l
  where l.lane = p_lane;
$$;
comment on function private.backoff(text, integer) is 'How long to wait after the p_times-th failure.';

-- Every way back into the queue ends here. p_document carries the new counts.
create function private.give_back(p_document public.documents, p_retry_at timestamptz, p_now timestamptz)
returns text
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_status text;
begin
  perform private.end_probe((p_document).lock_token, p_now);
  -- A deleted document, or an older version of one, has nobody waiting for it.
  v_status := case
    when (p_document).deleted_at is not null then 'cancelled'
    else private.queued_status((p_document).lane)
  end;
  update public.documents as d
  set ocr_status = v_status,
      retry_at = case when v_status = 'cancelled' or p_retry_at <= p_now then null else p_retry_at end,
      attempts = (p_document).attempts,
      retry_count = (p_document).retry_count,
      rescues = (p_document).rescues,
      ocr_error = (p_document).ocr_error,
      locked_by = null, locked_at = null, lock_token = null, lock_expires_at = null,
      attempt_deadline = null,
      updated_at = p_now
  where d.id = (p_document).id;
  return v_status;
end;
$$;
comment on function private.give_back(public.documents, timestamptz, timestamptz) is
  'Put a document back into its queue with the counts it carries; a deleted one is cancelled instead.';

create function private.bury(
  p_document public.documents,
  p_message text,
  p_details jsonb,
  p_category text,
  p_now timestamptz
)
returns uuid
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_dlq_id uuid;
  -- A picture of a check job is nobody's task: the job has failed, and whoever submitted it runs it again.
  v_of_job boolean := exists (select 1 from public.check_jobs as j where j.id = (p_document).case_id);
  v_status text := case when v_of_job then 'failed' else 'dead_letter' end;
begin
  if (p_document).deleted_at is not null then
    perform private.give_back(p_document, null, p_now);
    return null;
  end if;
  perform private.end_probe((p_document).lock_token, p_now);
  update public.documents as d
  set ocr_status = v_status,
      retry_at = null,
      retry_count = (p_document).retry_count,
      rescues = (p_document).rescues,
      ocr_error = p_message,
      locked_by = null, locked_at = null, lock_token = null, lock_expires_at = null,
      attempt_deadline = null,
      updated_at = p_now
  where d.id = (p_document).id;
  insert into public.ocr_dead_letter as l (
    document_id, case_id, document_name, dropbox_path, failure_count, first_failed_at,
    last_failed_at, last_error_message, last_error_details, error_category, status
  )
  values (
    (p_document).id, (p_document).case_id, (p_document).name, coalesce((p_document).dropbox_path, ''),
    greatest((p_document).retry_count + (p_document).rescues, 1),
    coalesce((select min(e.created_at) from public.ocr_errors as e where e.document_id = (p_document).id), p_now),
    p_now, p_message, p_details, p_category, case when v_of_job then 'abandoned' else 'pending' end
  )
  on conflict on constraint ocr_dead_letter_one_for_a_document do update
  -- The document's own counts go on unless it was queued anew.
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
      (p_document).case_id, (p_document).id, 'dead_letter', 'OCR failed: dead letter',
      format('"%s" could not be read: %s', (p_document).name, p_message), 'high',
      jsonb_build_object('dlq_id', v_dlq_id, 'document_id', (p_document).id, 'error_category', p_category)
    );
  end if;
  perform private.log_act(
    (p_document).case_id, (p_document).id, 'dead_letter', p_message, (p_document).ocr_status, v_status
  );
  return v_dlq_id;
end;
$$;
comment on function private.bury(public.documents, text, jsonb, text, timestamptz) is
  'Give a document to HAC: dead letter, task and audit line in one go. One of a check job is given up at once.';

-- What every attempt that failed goes through, whoever noticed it.
create function private.fail(
  p_document public.documents,
  p_kind text,
  p_message text,
  p_details jsonb,
  p_category text,
  p_retry_after interval,
  p_now timestamptz
)
returns jsonb
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_document public.documents := p_document;
  v_retry_at timestamptz;
  v_status text;
  v_dlq_id uuid;
begin
  perform private.note_error(p_document, p_kind, p_message, p_details, p_category, p_now);
  if p_document.ocr_status <> 'processing' then
    -- Somebody wanted to complete by hand what nobody reads: no attempt failed, it waits as before.
    return jsonb_build_object('success', true, 'document_id', p_document.id, 'status', p_document.ocr_status);
  end if;
  v_document.retry_count := p_document.retry_count + 1;
  v_document.ocr_error := p_message;
  if p_category = 'permanent' or v_document.retry_count >= p_document.max_attempts then
    v_dlq_id := private.bury(v_document, p_message, p_details, p_category, p_now);
    v_status := (select d.ocr_status from public.documents as d where d.id = p_document.id);
  else
    v_retry_at := p_now + greatest(
      private.backoff(p_document.lane, v_document.retry_count), coalesce(p_retry_after, interval '0')
    );
    v_status := private.give_back(v_document, v_retry_at, p_now);
  end if;
  return jsonb_strip_nulls(jsonb_build_object(
    'success', true, 'document_id', p_document.id, 'status', v_status,
    'retry_count', v_document.retry_count, 'retry_at', v_retry_at, 'dlq_id', v_dlq_id
  ));
end;
$$;
comment on function private.fail(public.documents, text, text, jsonb, text, interval, timestamptz) is
  'Count a failed attempt, if there was one: try again later, or bury it when it is permanent or the attempts are used up.';

create function private.rescue(p_document public.documents, p_message text, p_now timestamptz)
returns text
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_document public.documents := p_document;
  v_retry_at timestamptz := p_now;
  v_max integer := (select l.max_rescues from public.lanes as l where l.lane = p_document.lane);
begin
  perform private.note_error(p_document, 'lock_expired', p_message, '{}', 'resource', p_now);
  v_document.rescues := p_document.rescues + 1;
  if v_document.rescues > v_max then
    perform private.bury(
      v_document, format('its workers died %s times while reading it', v_document.rescues), '{}',
      'resource', p_now
    );
    return (select d.ocr_status from public.documents as d where d.id = p_document.id);
  end if;
  -- The first time it is the worker's fault and nobody waits. Later it may be the document's.
  if v_document.rescues > 1 then
    v_retry_at := p_now + private.backoff(p_document.lane, v_document.rescues - 1);
  end if;
  return private.give_back(v_document, v_retry_at, p_now);
end;
$$;
comment on function private.rescue(public.documents, text, timestamptz) is
  'Take a document back from a worker that is gone; too often, and the document is held to be the killer.';

create function public.fail_document(
  p_document_id uuid,
  p_lock_token uuid,
  p_error_message text,
  p_error_details jsonb default '{}',
  p_error_category text default 'unknown',
  p_retry_after integer default null,
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
comment on function public.fail_document(uuid, uuid, text, jsonb, text, integer, timestamptz) is
  'The attempt failed: try again after a pause (at least p_retry_after seconds), or give it to HAC '
  'when the error is permanent or the attempts are used up.';
grant execute on function public.fail_document(uuid, uuid, text, jsonb, text, integer, timestamptz)
  to service_role, pagewarden_worker;

create function public.release_documents(
  p_documents jsonb,
  p_reason text default 'the worker stops',
  p_outage boolean default false,
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
comment on function public.release_documents(jsonb, text, boolean, timestamptz) is
  'Give documents back unread, without counting an attempt: [{"document_id", "lock_token"}, …]. '
  'p_outage: because an engine, the GPU service or the store is away; then their lanes pause. failed: documents whose '
  'outage others of the lane do not meet; the attempt counts.';
grant execute on function public.release_documents(jsonb, text, boolean, timestamptz) to service_role, pagewarden_worker;

create function private.notice_restart(p_now timestamptz)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  -- While the database was away nobody could send a heartbeat, however long its recovery took. From now on every
  -- worker has one whole lock period to be heard again, or an outage would look like a massacre.
  update private.sweep_state as s
  set server_since = private.server_since(), resumed_at = p_now
  where s.is_one and s.server_since is distinct from private.server_since();
$$;
comment on function private.notice_restart(timestamptz) is 'Note when the database is found to have been away; the first who asks does.';

create function public.sweep_documents(p_now timestamptz default now())
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
  perform 1 from private.sweep_state as s for update skip locked;
  if not found then
    return 0;
  end if;
  perform private.notice_restart(p_now);
  update private.sweep_state as s
  set swept_at = p_now,
    -- Nobody looked for long, so nobody knows how long the database was away.
    resumed_at = case when p_now - s.swept_at > interval '30 seconds' then p_now else s.resumed_at end
  returning s.* into v_state;

  for v_document in
    select d.* from public.documents as d
    where d.id = any (private.claimed_ids())
      and d.ocr_status = 'processing'
      and (
        (
          -- Without a lock somebody set it to processing by hand; a lock period is enough for that too.
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
  perform private.end_late_jobs(p_now);
  return v_count;
end;
$$;
comment on function public.sweep_documents(timestamptz) is
  'Take documents back from workers that died or overran their deadline. Returns how many.';
grant execute on function public.sweep_documents(timestamptz) to service_role, pagewarden_worker;

create function public.move_to_dead_letter_queue(
  p_document_id uuid,
  p_error_message text,
  p_error_details jsonb default '{}',
  p_error_category text default 'unknown',
  p_lock_token uuid default null,
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
  select d.* into v_document from public.documents as d where d.id = p_document_id for update;
  v_refusal := coalesce(
    private.lock_refusal(v_document, p_lock_token),
    case when v_document.ocr_status in ('completed', 'cancelled', 'dead_letter') or v_document.deleted_at is not null
      then 'WRONG_STATE' end
  );
  if v_refusal is not null then
    return private.refusal(v_refusal, p_document_id);
  end if;
  perform private.note_error(
    v_document, 'failure', p_error_message, coalesce(p_error_details, '{}'), p_error_category, p_now
  );
  return jsonb_build_object(
    'success', true,
    'document_id', p_document_id,
    'dlq_id', private.bury(v_document, p_error_message, coalesce(p_error_details, '{}'), p_error_category, p_now)
  );
end;
$$;
comment on function public.move_to_dead_letter_queue(uuid, text, jsonb, text, uuid, timestamptz) is
  'Give a document to HAC at once. Refused while somebody else has it.';
grant execute on function public.move_to_dead_letter_queue(uuid, text, jsonb, text, uuid, timestamptz)
  to service_role, pagewarden_worker;

