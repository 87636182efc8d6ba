-- The monitor of a run. Triggers record every claim, release and change of status, and check it by
-- the connection that made it. They do not use lock tokens, since those are under test.
--
-- Connections of the run's programs are named chaos-<process id>; the names of their workers begin
-- with the host name and that number. Other connections belong to HAC and are not checked.

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
  had_heartbeat boolean not null
);
comment on table chaos.events is 'Claims, releases and changes of status of documents; worker is the old or new holder.';
comment on column chaos.events.had_heartbeat is 'The previous holder had sent at least one heartbeat.';
create index events_document_idx on chaos.events (document_id, id);
create index events_kind_idx on chaos.events (kind);

create table chaos.pages (
  run_id bigint not null,
  page_number integer not null,
  times integer not null default 1,
  primary key (run_id, page_number)
);
comment on table chaos.pages is 'How often each page was saved with a text.';

create table chaos.violations (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  rule text not null,
  document_id uuid,
  detail text
);
comment on table chaos.violations is 'Violated rules.';

create function chaos.process_of(p_worker text)
returns text
language sql
immutable
set search_path = ''
as $$
  -- The host name may contain dashes; the process id follows it.
  select split_part(substr(p_worker, {skip}), '-', 1);
$$;
comment on function chaos.process_of(text) is 'Return the process id in the name of a worker.';

create function chaos.caller()
returns text
language sql
stable
set search_path = ''
as $$
  select substring(current_setting('application_name') from '^chaos-([0-9]+)$');
$$;
comment on function chaos.caller() is 'Return the process id of the calling program; null for HAC.';

create function chaos.add_violation(p_rule text, p_document_id uuid, p_holder text)
returns void
language sql
set search_path = ''
as $$
  insert into chaos.violations (rule, document_id, detail)
  values (
    p_rule, p_document_id,
    format('by process %s; holder: %s', chaos.caller(), coalesce(p_holder, 'none'))
  );
$$;
comment on function chaos.add_violation(text, uuid, text) is 'Record a change by a program that did not hold the document.';

create function chaos.watch_document()
returns trigger
language plpgsql
security definer          -- callers have no rights on schema chaos
set search_path = ''
as $$
declare
  v_caller text := chaos.caller();
  v_holder text := chaos.process_of(old.locked_by);
  v_kind text := case
    when new.lock_token is not null then 'claimed'
    when new.ocr_status = 'completed' and old.ocr_status <> 'completed' then 'completed'
    -- A rescue after progress is not counted, but it leaves an error.
    when new.rescues > old.rescues or (
      old.lock_token is not null and new.lock_token is null and exists (
        select 1 from public.ocr_errors as e
        where e.document_id = new.id and e.kind = 'lock_expired' and e.created_at = now()
      )
    ) then 'rescued'
    when new.retry_count > old.retry_count then 'failed'
    when new.ocr_status = 'cancelled' then 'cancelled'
    when old.lock_token is not null then 'released'
    else 'moved'
  end;
begin
  insert into chaos.events (document_id, kind, status, worker, reading, retries, rescues, had_heartbeat)
  values (
    new.id, v_kind, new.ocr_status, coalesce(new.locked_by, old.locked_by), new.reading, new.retry_count,
    new.rescues, coalesce(old.locked_at > old.claimed_at, false)
  );
  if v_caller is null or v_caller is not distinct from v_holder then
    return null;
  end if;
  if v_kind = 'completed' then
    perform chaos.add_violation('only the holder completes a document', new.id, old.locked_by);
  elsif old.lock_token is not null and least(old.lock_expires_at, old.attempt_deadline) > now()
    and new.ocr_status <> 'cancelled' then
    perform chaos.add_violation('an unexpired lock is not taken away', new.id, old.locked_by);
  end if;
  return null;
end;
$$;
comment on function chaos.watch_document() is 'Record a change of holder or status, and check it.';
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
security definer          -- callers have no rights on schema chaos
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
    perform chaos.add_violation('only the holder saves pages of a document', new.document_id, v_holder);
  end if;
  return null;
end;
$$;
comment on function chaos.watch_page() is 'Count a saved page, and check who saved it.';
create trigger ocr_pages_chaos
  after insert or update on public.ocr_pages
  for each row execute function chaos.watch_page();

create function chaos.watch_result()
returns trigger
language plpgsql
security definer          -- callers have no rights on schema chaos
set search_path = ''
as $$
begin
  if chaos.caller() is distinct from chaos.process_of(new.worker_id) and chaos.caller() is not null then
    perform chaos.add_violation('a result is written by the worker that read the document', new.document_id, new.worker_id);
  end if;
  return null;
end;
$$;
comment on function chaos.watch_result() is 'Check who wrote a result.';
create trigger ocr_processing_logs_chaos
  after insert on public.ocr_processing_logs
  for each row execute function chaos.watch_result();
