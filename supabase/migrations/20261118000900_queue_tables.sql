-- The queue's tables, and fair scheduling between cases.
--
-- A waiting document is in exactly one list: queue (can be claimed now), later (waits for its next
-- attempt) or set_aside (waits for a person or an extractor, or is not to be read). documents.listed_in says which; a
-- trigger on documents keeps the lists in step, so no function has to. The lists are narrow tables of
-- their own, because updating one index entry of a wide table costs several times as much
-- (docs/decisions/0001).
--
-- Fairness: each document gets a turn number when it is queued, and a claim takes the lowest. A case's
-- documents get n, n+1, n+2, …, where n is the case's next turn, or the lane's clock if that is higher
-- (an idle case saves nothing up). The clock is about the turn being served. So ten cases with work
-- are served in turn, however many documents each has, a new case starts level with the others, and
-- the claim stays one index scan.

-- What may be claimed now, in the very order of the claim; a claim deletes its rows. It holds the
-- waiting documents only, so it stays small and hot however many documents there are.
create table private.queue (
  lane text not null,
  urgency integer not null,
  turn bigint not null,
  document_id uuid not null,
  constraint queue_pkey primary key (lane, urgency, turn, document_id)
)
with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
comment on table private.queue is 'Documents that may be claimed, in order: most urgent first (urgency is minus priority), then by turn.';
alter table private.queue enable row level security;

create table private.later (
  lane text not null,
  retry_at timestamptz not null,
  document_id uuid not null,
  constraint later_pkey primary key (lane, retry_at, document_id)
);
comment on table private.later is 'Documents that wait for their next attempt.';
alter table private.later enable row level security;

create table private.set_aside (
  ocr_status text not null,
  document_id uuid not null,
  constraint set_aside_pkey primary key (ocr_status, document_id)
);
comment on table private.set_aside is 'Documents that wait for a person, an extractor, or for nobody any more, by status.';
alter table private.set_aside enable row level security;

create table private.claims (
  id uuid not null,
  claimed_at timestamptz not null,
  document_ids uuid[] not null,
  constraint claims_pkey primary key (id)
);
comment on table private.claims is
  'Which documents were claimed together, under which token, so that the sweep finds what is in hand. '
  'It removes a row when none of its documents is.';
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
comment on function private.claimed_ids() is 'Every document that may be in hand, and some that no longer are.';

create table private.turns (
  case_id uuid not null references public.cases (id) on delete cascade,
  lane text not null,
  priority integer not null,
  next_turn bigint not null,
  constraint turns_pkey primary key (case_id, lane, priority)
)
with (fillfactor = 50);
comment on table private.turns is 'The turn the next document of a case gets, by lane and priority.';
alter table private.turns enable row level security;

create table private.lane_clocks (
  lane text not null,
  priority integer not null,
  turn bigint not null,
  constraint lane_clocks_pkey primary key (lane, priority)
)
with (fillfactor = 10);
comment on table private.lane_clocks is 'About the turn that is being served, by lane and priority.';
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
comment on function private.start_clock(text, integer) is 'Begin to count the turns of a priority that a lane has not had yet.';

create function private.take_turns(p_case_id uuid, p_lane text, p_priority integer, p_count integer)
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
  insert into private.turns as t (case_id, lane, priority, next_turn)
  values (p_case_id, p_lane, p_priority, v_clock + p_count)
  on conflict on constraint turns_pkey
  do update set next_turn = greatest(t.next_turn, v_clock) + p_count
  returning t.next_turn into v_next;
  return v_next - p_count;
end;
$$;
comment on function private.take_turns(uuid, text, integer, integer) is
  'Reserve turns for p_count documents of a case and return the first.';

create function private.advance_clock(p_lane text, p_priority integer, p_turn bigint)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  -- Skip a locked row: somebody else is just writing nearly the same number.
  update private.lane_clocks as c
  set turn = p_turn
  where c.lane = p_lane and c.priority = p_priority
    and c.ctid = (
      select k.ctid from private.lane_clocks as k
      where k.lane = p_lane and k.priority = p_priority and k.turn < p_turn
      for update skip locked
    );
$$;
comment on function private.advance_clock(text, integer, bigint) is 'Note the turn that is being served.';

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
comment on function private.list_of(text) is 'Which list a document of that status is on.';

create function private.join_list(p_document public.documents)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  if p_document.listed_in = 'aside' then
    insert into private.set_aside (ocr_status, document_id) values (p_document.ocr_status, p_document.id);
  elsif p_document.listed_in is null then
    return;
  elsif p_document.retry_at is null then
    insert into private.queue (lane, urgency, turn, document_id)
    values (p_document.lane, -p_document.priority, p_document.turn, p_document.id)
    on conflict on constraint queue_pkey do nothing;
  else
    insert into private.later (lane, retry_at, document_id)
    values (p_document.lane, p_document.retry_at, p_document.id)
    on conflict on constraint later_pkey do nothing;
  end if;
end;
$$;
comment on function private.join_list(public.documents) is 'Note a document on the list it belongs to.';

create function private.leave_list(p_document public.documents)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  delete from private.set_aside as a
  where a.ocr_status = p_document.ocr_status and a.document_id = p_document.id;
  -- A row that is locked is just being claimed. Its claimer waits for the document, which we hold, will
  -- find it no longer queued, and has then removed the row for us. Waiting for each other is no option.
  delete from private.queue as q
  where q.ctid = any (array(
    select k.ctid from private.queue as k
    where k.lane = p_document.lane and k.urgency = -p_document.priority and k.turn = p_document.turn
      and k.document_id = p_document.id
    for update skip locked
  ));
  delete from private.later as l
  where l.ctid = any (array(
    select k.ctid from private.later as k
    where k.lane = p_document.lane and k.retry_at = p_document.retry_at and k.document_id = p_document.id
    for update skip locked
  ));
end;
$$;
comment on function private.leave_list(public.documents) is 'Take a document off the list it is on.';

-- The lists follow the documents, whoever changes them. Bulk upload, claim, heartbeat and completion, where it
-- counts, keep them themselves, and say so by listed_in or a new version; every other change comes through here.
-- It also mends what a hand-written update forgets: the word of lane pdf for "queued", and that whoever leaves
-- processing leaves its lock.
create function private.tidy_document()
returns trigger
language plpgsql
security definer          -- whoever may change documents need not know of the lists
set search_path = pg_catalog, pg_temp
as $$
begin
  if tg_op = 'INSERT' then
    perform private.require_live_case(new.case_id);
  end if;
  if new.ocr_status in ('awaiting_file', 'extracting', 'extraction_failed') and new.lane not in ('index', 'acte') then
    raise exception 'lane % has no status %', new.lane, new.ocr_status
      using errcode = '23514', hint = 'Only the registry''s lanes, index and acte, wait for an extractor.';
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
      perform private.end_probe(old.lock_token, now());   -- its lane would wait for ever
    end if;
    new.locked_by := null;
    new.locked_at := null;
    new.lock_token := null;
    new.lock_expires_at := null;
    new.attempt_deadline := null;
  end if;
  if new.ocr_status = 'processing' and new.lock_token is null then
    -- Nobody has it; the sweep shall find it.
    insert into private.claims (id, claimed_at, document_ids) values (gen_random_uuid(), now(), array[new.id]);
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
comment on function private.tidy_document() is 'Keep the lists and a hand-written change of a document consistent.';
create trigger documents_tidy_insert
  before insert on public.documents
  for each row
  when (new.listed_in is null)
  execute function private.tidy_document();
create trigger documents_tidy_update
  before update on public.documents
  for each row
  when (new.version = old.version)
  execute function private.tidy_document();

create function private.forget_document()
returns trigger
language plpgsql
security definer          -- whoever may delete documents need not know of the queue
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.leave_list(old);
  return null;
end;
$$;
comment on function private.forget_document() is 'Take a document that is no more off its list.';
create trigger documents_forget
  after delete on public.documents
  for each row
  when (old.listed_in is not null)
  execute function private.forget_document();
