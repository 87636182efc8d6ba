-- The queue's tables, fair scheduling between cases, and what the functions of the queue share: checks of
-- arguments, refusals, the error history. The functions themselves are in queue.
--
-- A waiting document is in exactly one list: queue (can be claimed now), queue_delayed (waits for its next
-- attempt) or queue_parked (waits for a person or an extractor, or is not to be read). documents.listed_in
-- names it; a trigger on documents updates the lists, so no function has to. The lists are separate, narrow
-- tables, because updating one index entry of a wide table costs several times as much
-- (docs/decisions/0001).
--
-- Fairness: each document gets a turn number when it is queued, and a claim takes the lowest. A case's
-- documents get n, n+1, n+2, …, where n is the case's next turn, or the lane's clock if that is higher
-- (an idle case accumulates no credit). The clock is approximately the turn being served. So ten cases
-- with work are served in turn, however many documents each has, a new case starts level with the
-- others, and a claim remains a single index scan.

-- Documents that can be claimed now, in claim order; a claim deletes its rows. The table contains waiting
-- documents only, so it stays small and cached however many documents there are.
create table private.queue (
  lane text not null,
  urgency integer not null,
  turn bigint not null,
  document_id uuid not null,
  constraint queue_pkey primary key (lane, urgency, turn, document_id)
)
with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
comment on table private.queue is
  'Documents that can be claimed, most urgent first (urgency is the negated priority), then by turn.';
alter table private.queue enable row level security;

create table private.queue_delayed (
  lane text not null,
  retry_at timestamptz not null,
  document_id uuid not null,
  constraint queue_delayed_pkey primary key (lane, retry_at, document_id)
);
comment on table private.queue_delayed is 'Documents waiting for their next attempt.';
alter table private.queue_delayed enable row level security;

create table private.queue_parked (
  ocr_status text not null,
  document_id uuid not null,
  constraint queue_parked_pkey primary key (ocr_status, document_id)
);
comment on table private.queue_parked is
  'Documents that are waiting for a user or an extractor, or will not be read any further, by status.';
alter table private.queue_parked enable row level security;

create table private.claims (
  id uuid not null,
  claimed_at timestamptz not null,
  document_ids uuid[] not null,
  constraint claims_pkey primary key (id)
);
comment on table private.claims is
  'Documents claimed together, with their lock token, so that the sweep can find the documents being read. The sweep '
  'removes a row once none of its documents is being read.';
alter table private.claims enable row level security;

create function private.claimed_ids()
returns uuid[]
language sql
stable
security invoker
set search_path = ''
as $$
  select array(select distinct i.id from private.claims as c cross join lateral unnest(c.document_ids) as i (id));
$$;
comment on function private.claimed_ids() is 'Ids of all documents being read, and of some that no longer are.';

create function private.server_since()
returns timestamptz
language sql
stable
security invoker
set search_path = ''
as $$
  -- After a crash of one process the server recovers without a start; its statistics start again then.
  select greatest(pg_catalog.pg_postmaster_start_time(), b.stats_reset) from pg_catalog.pg_stat_bgwriter as b;
$$;
comment on function private.server_since() is
  'A time that changes with each start and each crash recovery of the server. The server accepts queries only later, '
  'because recovery takes time.';

create table private.sweep_state (
  is_one boolean not null default true,
  swept_at timestamptz,
  resumed_at timestamptz,
  server_since timestamptz,
  constraint sweep_state_pkey primary key (is_one),
  constraint sweep_state_is_one_row check (is_one)
);
comment on table private.sweep_state is 'When locks were last swept, and when a restart of the database was last detected.';
alter table private.sweep_state enable row level security;
insert into private.sweep_state (server_since) values (private.server_since());
comment on column private.sweep_state.server_since is 'The value of private.server_since() at the last check.';

create function private.detect_restart(p_now timestamptz)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  -- While the database was away no worker could send a heartbeat, however long its recovery took. From now on every
  -- worker has one whole lock period to be heard again, or the sweep would take every worker for dead.
  update private.sweep_state as s
  set server_since = private.server_since(), resumed_at = p_now
  where s.is_one and s.server_since is distinct from private.server_since();
$$;
comment on function private.detect_restart(timestamptz) is
  'Record a database restart; the first call after the restart does this.';

create table private.fair_turns (
  case_id uuid not null references public.cases (id) on delete cascade,
  lane text not null,
  priority integer not null,
  next_turn bigint not null,
  constraint fair_turns_pkey primary key (case_id, lane, priority)
)
with (fillfactor = 50);
comment on table private.fair_turns is 'The turn of the next document of a case, by lane and priority.';
alter table private.fair_turns enable row level security;

create table private.lane_clocks (
  lane text not null,
  priority integer not null,
  turn bigint not null,
  constraint lane_clocks_pkey primary key (lane, priority)
)
with (fillfactor = 10);
comment on table private.lane_clocks is 'The approximate turn being served, by lane and priority.';
alter table private.lane_clocks enable row level security;

create function private.start_clock(p_lane text, p_priority integer)
returns bigint
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  insert into private.lane_clocks (lane, priority, turn) values (p_lane, p_priority, 0)
  on conflict on constraint lane_clocks_pkey do nothing;
  return 0;
end;
$$;
comment on function private.start_clock(text, integer) is 'Start the clock for a priority that is new in the lane.';

create function private.reserve_turns(p_case_id uuid, p_lane text, p_priority integer, p_count integer)
returns bigint
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_clock bigint;
  v_next bigint;
begin
  select c.turn into v_clock from private.lane_clocks as c
  where c.lane = p_lane and c.priority = p_priority;
  if not found then
    v_clock := private.start_clock(p_lane, p_priority);
  end if;
  insert into private.fair_turns as t (case_id, lane, priority, next_turn)
  values (p_case_id, p_lane, p_priority, v_clock + p_count)
  on conflict on constraint fair_turns_pkey
  do update set next_turn = greatest(t.next_turn, v_clock) + p_count
  returning t.next_turn into v_next;
  return v_next - p_count;
end;
$$;
comment on function private.reserve_turns(uuid, text, integer, integer) is
  'Reserve turns for p_count documents of a case and return the first.';

create function private.advance_clock(p_lane text, p_priority integer, p_turn bigint)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  -- Skip a locked row: another transaction is writing nearly the same number.
  update private.lane_clocks as c
  set turn = p_turn
  where c.lane = p_lane and c.priority = p_priority
    and c.ctid = (
      select k.ctid from private.lane_clocks as k
      where k.lane = p_lane and k.priority = p_priority and k.turn < p_turn
      for update skip locked
    );
$$;
comment on function private.advance_clock(text, integer, bigint) is 'Record the turn being served.';

create function private.list_of(p_ocr_status text)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select case
    when p_ocr_status in ('queued', 'queued_for_pdf') then 'queue'
    when p_ocr_status not in ('processing', 'completed') then 'aside'
  end;
$$;
comment on function private.list_of(text) is 'The list that contains documents with this status.';

create function private.join_list(p_document public.documents)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  if p_document.listed_in = 'aside' then
    insert into private.queue_parked (ocr_status, document_id) values (p_document.ocr_status, p_document.id);
  elsif p_document.listed_in is null then
    return;
  elsif p_document.retry_at is null then
    insert into private.queue (lane, urgency, turn, document_id)
    values (p_document.lane, -p_document.priority, p_document.turn, p_document.id)
    on conflict on constraint queue_pkey do nothing;
  else
    insert into private.queue_delayed (lane, retry_at, document_id)
    values (p_document.lane, p_document.retry_at, p_document.id)
    on conflict on constraint queue_delayed_pkey do nothing;
  end if;
end;
$$;
comment on function private.join_list(public.documents) is 'Add a document to its list.';

create function private.leave_list(p_document public.documents)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  delete from private.queue_parked as a
  where a.ocr_status = p_document.ocr_status and a.document_id = p_document.id;
  -- A locked row is being claimed. That claim waits for the document, which this transaction holds, will find it no
  -- longer queued, and has removed the row by then. Waiting for it here would be a deadlock.
  delete from private.queue as q
  where q.ctid = any (array(
    select k.ctid from private.queue as k
    where k.lane = p_document.lane and k.urgency = -p_document.priority and k.turn = p_document.turn
      and k.document_id = p_document.id
    for update skip locked
  ));
  delete from private.queue_delayed as l
  where l.ctid = any (array(
    select k.ctid from private.queue_delayed as k
    where k.lane = p_document.lane and k.retry_at = p_document.retry_at and k.document_id = p_document.id
    for update skip locked
  ));
end;
$$;
comment on function private.leave_list(public.documents) is 'Remove a document from its list.';

create function private.extraction_lease(p_lane text)
returns interval
language sql
stable
security invoker
set search_path = ''
as $$
  select make_interval(secs => l.extraction_seconds) from public.lanes as l where l.lane = p_lane;
$$;
comment on function private.extraction_lease(text) is 'How long an extractor holds a document without an update.';

-- Keep the lists up to date with every change of a document. Bulk upload, claim, heartbeat and completion are
-- performance-critical and update the lists themselves, which they signal by listed_in or a new version. The
-- trigger also completes hand-written updates: it sets the status that lane pdf uses for "queued", and clears
-- the lock of a document that is no longer processing.
create function private.normalize_document()
returns trigger
language plpgsql
security definer          -- callers that may change documents have no privileges on the lists
set search_path = pg_catalog, pg_temp
as $$
begin
  if tg_op = 'INSERT' then
    perform private.require_live_case(new.case_id);
  end if;
  if new.ocr_status in ('awaiting_file', 'extracting', 'extraction_failed') and new.lane not in ('index', 'acte') then
    raise exception 'lane % has no status %', new.lane, new.ocr_status
      using errcode = '23514', hint = 'Only documents in the registry lanes, index and acte, wait for an extractor.';
  end if;
  if new.deleted_at is not null
    and new.ocr_status in ('pending', 'awaiting_file', 'extracting', 'queued', 'queued_for_pdf') then
    new.ocr_status := 'cancelled';
  end if;
  if new.ocr_status in ('queued', 'queued_for_pdf') then
    new.ocr_status := private.queued_status(new.lane);
  else
    new.retry_at := null;
  end if;
  if new.ocr_status <> 'processing' or new.locked_by is null or new.locked_at is null then
    if tg_op = 'UPDATE' then
      perform private.end_probe(old.lock_token, now());   -- or its lane would stay paused
      -- The reports of a worker count a failure, uncount the attempt, or end the document. All else is a reset.
      if old.lock_token is not null and new.retry_count <= old.retry_count and new.attempts >= old.attempts
        and (new.ocr_status not in ('completed', 'dead_letter', 'failed') or new.rescues > old.rescues) then
        new.claim_lost_at := now();
      end if;
    end if;
    new.locked_by := null;
    new.locked_at := null;
    new.lock_token := null;
    new.lock_expires_at := null;
    new.attempt_deadline := null;
  end if;
  if new.ocr_status = 'processing' and new.lock_token is null then
    -- No worker holds it; the sweep has to find it.
    insert into private.claims (id, claimed_at, document_ids) values (gen_random_uuid(), now(), array[new.id]);
  end if;
  if new.ocr_status in ('extracting', 'extraction_failed') then
    new.extraction_due_at := coalesce(new.extraction_due_at, now() + private.extraction_lease(new.lane));
  else
    new.extraction_due_at := null;
    if new.ocr_status <> 'awaiting_file' then
      new.worker_id := null;   -- or claims "where worker_id is null" would not find what an extractor delivered
    end if;
  end if;
  if new.ocr_status = 'completed' then
    new.ocr_completed_at := coalesce(new.ocr_completed_at, now());
  end if;
  new.listed_in := private.list_of(new.ocr_status);
  if tg_op = 'INSERT' then
    perform private.join_list(new);
  elsif row(new.listed_in, new.ocr_status, new.lane, new.priority, new.turn, new.retry_at)
    is distinct from row(old.listed_in, old.ocr_status, old.lane, old.priority, old.turn, old.retry_at) then
    perform private.leave_list(old);
    perform private.join_list(new);
  end if;
  return new;
end;
$$;
comment on function private.normalize_document() is 'Keep the lists consistent with manual changes of a document.';
create trigger documents_normalize_insert
  before insert on public.documents
  for each row
  when (new.listed_in is null)
  execute function private.normalize_document();
create trigger documents_normalize_update
  before update on public.documents
  for each row
  when (new.version = old.version)
  execute function private.normalize_document();

create function private.remove_from_list()
returns trigger
language plpgsql
security definer          -- callers that may delete documents have no privileges on the lists
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.leave_list(old);
  return null;
end;
$$;
comment on function private.remove_from_list() is 'Remove a deleted document from its list.';
create trigger documents_remove_from_list
  after delete on public.documents
  for each row
  when (old.listed_in is not null)
  execute function private.remove_from_list();

-- Checks of arguments, refusals and the error history, shared by the functions of the queue.

create function private.require_category(p_category text)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (p_category in ('transient', 'permanent', 'resource', 'configuration', 'unknown')) is not true then
    raise exception 'unknown error category %', coalesce(p_category, 'null')
      using errcode = '22023', hint = 'Valid categories are transient, permanent, resource, configuration, unknown.';
  end if;
end;
$$;
comment on function private.require_category(text) is 'Reject an unknown error category (22023).';

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
    raise exception 'p_lock_timeout must be between 1 and 86400 seconds, got %', coalesce(p_lock_timeout::text, 'null')
      using errcode = '22023', hint = 'Heartbeats renew locks; 20 seconds is a reasonable value.';
  end if;
end;
$$;
comment on function private.require_claim_arguments(text, integer) is 'Reject invalid arguments of a claim (22023).';

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
  'The reason why a call with this token may not change the document; null if it may.';

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
  'The reason why a result for the document is rejected; null if it is accepted.';

create type public.refused_document as (
  success boolean,
  error text,
  message text,
  document_id uuid
);
comment on type public.refused_document is 'The error result of a rejected action on a document, with the reason.';

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
      when 'ALREADY_BEGUN' then 'another invocation has begun to read the document under this lock token'
      when 'LOCK_LOST' then 'this worker no longer holds the document; discard the pages it has read'
      when 'DOCUMENT_LOCKED' then 'a worker holds the document; pass its lock token'
      when 'WRONG_STATE' then 'the current status of the document does not allow this'
      when 'DEADLINE_EXCEEDED' then 'the attempt exceeded its deadline; stop reading'
      when 'LANE_PAUSED' then 'the lane is paused, or the function that reads it is disabled'
      when 'ARCHIVE_OUTDATED' then 'the document has changed since it was archived; archive it again'
      when 'TOO_MANY_FAILED_PAGES' then 'more pages failed than the lane allows; an attempt in progress counts as failed'
      when 'PAGES_MISSING' then 'pages are missing; an attempt in progress counts as failed, and the next attempt reads them'
    end
  );
end;
$$;
comment on function private.refusal(text, uuid) is
  'The result of a call that changed nothing, with the reason; calls with a lost lock are counted.';

create function private.refused(p_answer anyelement, p_error text, p_document_id uuid)
returns anyelement
language sql
volatile
security invoker
set search_path = ''
as $$
  select jsonb_populate_record(p_answer, private.refusal(p_error, p_document_id));
$$;
comment on function private.refused(anyelement, text, uuid) is 'private.refusal() as a result of the given type.';

create function private.record_error(
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
comment on function private.record_error(public.documents, text, text, jsonb, text, timestamptz) is
  'Add an entry to the error history of a document.';
