-- The referee of a run: it sees every change of hands as it is made, on whose connection, and
-- judges by that alone. Nothing of it asks for a lock token: that is what it keeps an eye on.
--
-- Programs of the run name their connections chaos-<process id>, and their workers begin with
-- the name of the host and that number. Whatever comes from elsewhere is HAC, and not judged.

create schema chaos;

create table chaos.events (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  document_id uuid not null,
  kind text not null,
  status text not null,
  worker text,
  caller text not null default current_setting('application_name'),
  reading integer not null,
  retries integer not null,
  rescues integer not null,
  was_heard boolean not null
);
comment on table chaos.events is 'Every change of hands or of state of a document; worker is who had or has it.';
comment on column chaos.events.was_heard is 'Whoever had it had sent a heartbeat at least once.';
create index events_document_idx on chaos.events (document_id, id);
create index events_kind_idx on chaos.events (kind);

create table chaos.pages (
  run_id bigint not null,
  page_number integer not null,
  times integer not null default 1,
  primary key (run_id, page_number)
);
comment on table chaos.pages is 'How often each page was saved that could be read.';

create table chaos.violations (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  rule text not null,
  document_id uuid,
  detail text
);
comment on table chaos.violations is 'What must not happen and did.';

create function chaos.process_of(p_worker text)
returns text
language sql
immutable
set search_path = ''
as $$
  -- The name of the host may have dashes in it; the number is what comes after.
  select split_part(substr(p_worker, {skip}), '-', 1);
$$;
comment on function chaos.process_of(text) is 'The process id in the name of a worker.';

create function chaos.caller()
returns text
language sql
stable
set search_path = ''
as $$
  select substring(current_setting('application_name') from '^chaos-([0-9]+)$');
$$;
comment on function chaos.caller() is 'The process id of the program that calls; null for HAC and everybody else.';

create function chaos.accuse(p_rule text, p_document_id uuid, p_holder text)
returns void
language sql
set search_path = ''
as $$
  insert into chaos.violations (rule, document_id, detail)
  values (
    p_rule, p_document_id,
    format('process %s did it, and %s had it', chaos.caller(), coalesce(p_holder, 'nobody'))
  );
$$;
comment on function chaos.accuse(text, uuid, text) is 'Note what a program did that had no right to.';

create function chaos.watch_document()
returns trigger
language plpgsql
security definer          -- whoever changes documents need not know of the referee
set search_path = ''
as $$
declare
  v_caller text := chaos.caller();
  v_holder text := chaos.process_of(old.locked_by);
  v_kind text := case
    when new.lock_token is not null then 'claimed'
    when new.ocr_status = 'completed' and old.ocr_status <> 'completed' then 'completed'
    when new.rescues > old.rescues then 'rescued'
    when new.retry_count > old.retry_count then 'failed'
    when new.ocr_status = 'cancelled' then 'cancelled'
    when old.lock_token is not null then 'given back'
    else 'moved'
  end;
begin
  insert into chaos.events (document_id, kind, status, worker, reading, retries, rescues, was_heard)
  values (
    new.id, v_kind, new.ocr_status, coalesce(new.locked_by, old.locked_by), new.reading, new.retry_count,
    new.rescues, coalesce(old.locked_at > old.claimed_at, false)
  );
  if v_caller is null or v_caller is not distinct from v_holder then
    return null;
  end if;
  if v_kind = 'completed' then
    perform chaos.accuse('only who has a document completes it', new.id, old.locked_by);
  elsif old.lock_token is not null and least(old.lock_expires_at, old.attempt_deadline) > now()
    and new.ocr_status <> 'cancelled' then
    perform chaos.accuse('nobody takes away a lock that has not expired', new.id, old.locked_by);
  end if;
  return null;
end;
$$;
comment on function chaos.watch_document() is 'Note a change of hands, and judge it.';
create trigger documents_chaos
  after update on public.documents
  for each row
  when (
    old.lock_token is distinct from new.lock_token or old.locked_by is distinct from new.locked_by
    or old.ocr_status <> new.ocr_status
  )
  execute function chaos.watch_document();

create function chaos.watch_page()
returns trigger
language plpgsql
security definer          -- whoever saves pages need not know of the referee
set search_path = ''
as $$
declare
  v_holder text := (select d.locked_by from public.documents as d where d.id = new.document_id);
begin
  if new.status <> 'failed' then
    insert into chaos.pages as p (run_id, page_number)
    values (new.run_id, new.page_number)
    on conflict (run_id, page_number) do update set times = p.times + 1;
  end if;
  if chaos.caller() is distinct from chaos.process_of(v_holder) and chaos.caller() is not null then
    perform chaos.accuse('only who has a document saves pages of it', new.document_id, v_holder);
  end if;
  return null;
end;
$$;
comment on function chaos.watch_page() is 'Count a page that is saved, and judge who saved it.';
create trigger ocr_pages_chaos
  after insert or update on public.ocr_pages
  for each row execute function chaos.watch_page();

create function chaos.watch_result()
returns trigger
language plpgsql
security definer          -- whoever writes results need not know of the referee
set search_path = ''
as $$
begin
  if chaos.caller() is distinct from chaos.process_of(new.worker_id) and chaos.caller() is not null then
    perform chaos.accuse('a result is written by who read it', new.document_id, new.worker_id);
  end if;
  return null;
end;
$$;
comment on function chaos.watch_result() is 'Judge who wrote a result.';
create trigger ocr_processing_logs_chaos
  after insert on public.ocr_processing_logs
  for each row execute function chaos.watch_result();
