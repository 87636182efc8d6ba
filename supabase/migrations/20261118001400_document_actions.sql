-- Actions on documents: cancel, delete, restore, erase, release from a stuck worker;
-- the history of a document.
--
-- delete_document is a soft delete that restore_document undoes. erase_document deletes the row with
-- its pages, text, errors and tasks; an audit entry remains. The file of an erased document is recorded in
-- private.file_removals in the same transaction, and retention removes it from the store afterwards.
--
-- Each function checks the caller's role in the case (editor, owner) or HAC (the role admin). Actions on
-- whole cases are in case_actions, and decisions about dead letters in dead_letters.

create function private.lock_document(p_document_id uuid, p_rank integer)
returns public.documents
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_document public.documents;
begin
  select d.* into v_document from public.documents as d where d.id = p_document_id for update;
  perform private.require_case_rank(v_document.case_id, p_rank);
  return v_document;
end;
$$;
comment on function private.lock_document(uuid, integer) is
  'Lock a document for a caller with at least this rank in its case. Raises 42501 otherwise, even for an unknown id, '
  'so that ids cannot be probed.';

create function private.cancel(p_document public.documents, p_reason text, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  perform private.end_probe(p_document.lock_token, p_now);
  update public.documents as d
  set ocr_status = 'cancelled', retry_at = null,
      locked_by = null, locked_at = null, lock_token = null, lock_expires_at = null, attempt_deadline = null,
      updated_at = p_now
  where d.id = p_document.id;
  perform private.close_dead_letter_and_tasks(p_document.id);
  perform private.log_act(
    p_document.case_id, p_document.id, 'cancelled', coalesce(p_reason, p_document.name),
    p_document.ocr_status, 'cancelled'
  );
end;
$$;
comment on function private.cancel(public.documents, text, timestamptz) is
  'Cancel a document; a worker that has claimed it loses its lock.';

create type public.document_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  ocr_status text
);
comment on type public.document_answer is
  'Whether an action on a document was carried out; if not, why. ocr_status is set if the action leaves the document '
  'in its previous state. Nullable: error, message, ocr_status.';

create function private.cancel_document(p_document_id uuid, p_reason text, p_now timestamptz default now())
returns public.document_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents := private.lock_document(p_document_id, 2);
  v_answer public.document_answer;
begin
  perform private.require_optional_text('p_reason', nullif(p_reason, ''), 10000);
  if v_document.id is null then
    return private.refused(v_answer, 'DOCUMENT_NOT_FOUND', p_document_id);
  end if;
  if v_document.ocr_status in ('completed', 'cancelled', 'failed') then
    return private.refused(v_answer, 'WRONG_STATE', p_document_id);
  end if;
  perform private.cancel(v_document, p_reason, p_now);
  v_answer.success := true;
  v_answer.document_id := p_document_id;
  return v_answer;
end;
$$;
comment on function private.cancel_document(uuid, text, timestamptz) is 'See public.cancel_document.';
grant execute on function private.cancel_document(uuid, text, timestamptz) to authenticated, service_role;

create function private.delete_document(p_document_id uuid, p_now timestamptz default now())
returns public.document_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents := private.lock_document(p_document_id, 3);
  v_answer public.document_answer;
begin
  if v_document.id is null then
    return private.refused(v_answer, 'DOCUMENT_NOT_FOUND', p_document_id);
  end if;
  if v_document.deleted_at is not null then
    return private.refused(v_answer, 'WRONG_STATE', p_document_id);
  end if;
  if v_document.ocr_status not in ('completed', 'cancelled', 'failed') then
    perform private.cancel(v_document, 'deleted', p_now);
  end if;
  update public.documents as d set deleted_at = clock_timestamp(), updated_at = p_now where d.id = p_document_id;
  perform private.close_dead_letter_and_tasks(p_document_id);
  perform private.log_act(v_document.case_id, p_document_id, 'deleted', v_document.name);
  v_answer.success := true;
  v_answer.document_id := p_document_id;
  return v_answer;
end;
$$;
comment on function private.delete_document(uuid, timestamptz) is 'See public.delete_document.';
grant execute on function private.delete_document(uuid, timestamptz) to authenticated, service_role;

create function private.restore_document(p_document_id uuid, p_now timestamptz default now())
returns public.document_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents := private.lock_document(p_document_id, 3);
  v_answer public.document_answer;
begin
  if v_document.id is null then
    return private.refused(v_answer, 'DOCUMENT_NOT_FOUND', p_document_id);
  end if;
  perform pg_advisory_xact_lock(hashtextextended(v_document.case_id::text || v_document.name, 2));
  if v_document.deleted_at is null or exists (
    select 1 from public.documents as d
    where d.case_id = v_document.case_id and d.name = v_document.name and d.deleted_at is null
  ) then
    return private.refused(v_answer, 'WRONG_STATE', p_document_id);
  end if;
  update public.documents as d set deleted_at = null, updated_at = p_now where d.id = p_document_id;
  perform private.log_act(v_document.case_id, p_document_id, 'restored', v_document.name);
  v_answer.success := true;
  v_answer.document_id := p_document_id;
  v_answer.ocr_status := v_document.ocr_status;
  return v_answer;
end;
$$;
comment on function private.restore_document(uuid, timestamptz) is 'See public.restore_document.';
grant execute on function private.restore_document(uuid, timestamptz) to authenticated, service_role;

create table private.file_removals (
  id bigint generated always as identity,
  document_id uuid not null,
  path text not null,
  created_at timestamptz not null default now(),
  constraint file_removals_pkey primary key (id)
);
comment on table private.file_removals is
  'Files of erased documents, recorded in the transaction that erases the documents; retention deletes each file and '
  'then its row.';
alter table private.file_removals enable row level security;

create function private.erase(p_case_id uuid, p_document_ids uuid[])
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_files jsonb; -- the document of each path
begin
  perform private.end_probe(d.lock_token, now()) from public.documents as d
  where d.id = any (p_document_ids) and d.lock_token is not null;
  select jsonb_object_agg(d.dropbox_path, d.id) into v_files from public.documents as d
  where d.id = any (p_document_ids) and d.dropbox_path is not null;
  -- Audit lines stay, without what they say about the content.
  update public.hac_acts as h
  set action_description = null, metadata = null
  where h.case_id = p_case_id and h.document_id = any (p_document_ids);
  delete from public.ocr_processing_logs as r where r.document_id = any (p_document_ids);
  delete from public.documents as d where d.id = any (p_document_ids);
  -- Several documents may share one stored file; it is removed with the last one. The paths that are still in use are
  -- read once, whatever the planner expects: a correlated subquery took time by the square of the case.
  insert into private.file_removals (document_id, path)
  select f.value::uuid, f.key from jsonb_each_text(v_files) as f
  -- A leading slash makes no difference to the store.
  where ltrim(f.key, '/') not in (
    select ltrim(o.dropbox_path, '/') from public.documents as o
    where o.case_id = p_case_id and o.dropbox_path is not null
  );
  perform private.log_act(p_case_id, i.id, 'erased', null) from unnest(p_document_ids) as i (id);
end;
$$;
comment on function private.erase(uuid, uuid[]) is
  'Erase documents of a case that the caller has locked, with their pages, text, errors and tasks. Their files are '
  'listed for removal; audit entries are kept.';

create function private.erase_document(p_document_id uuid)
returns public.document_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents := private.lock_document(p_document_id, 3);
  v_answer public.document_answer;
begin
  if v_document.id is null then
    return private.refused(v_answer, 'DOCUMENT_NOT_FOUND', p_document_id);
  end if;
  perform private.erase(v_document.case_id, array[v_document.id]);
  v_answer.success := true;
  v_answer.document_id := p_document_id;
  return v_answer;
end;
$$;
comment on function private.erase_document(uuid) is 'See public.erase_document.';
grant execute on function private.erase_document(uuid) to authenticated, service_role;

create type public.recover_stuck_documents_answer as (
  success boolean,
  recovered integer,
  documents uuid[]
);
comment on type public.recover_stuck_documents_answer is
  'The stuck documents that were released from their workers, and their number.';

create function private.recover_stuck_documents(
  p_stuck_minutes integer,
  p_document_ids uuid[],
  p_now timestamptz default now()
)
returns public.recover_stuck_documents_answer
language plpgsql
volatile
security definer          -- HAC has no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_answer public.recover_stuck_documents_answer;
begin
  perform private.require_admin();
  if (p_stuck_minutes >= 0) is not true then
    raise exception 'p_stuck_minutes must not be negative, got %', coalesce(p_stuck_minutes::text, 'null')
      using errcode = '22023', hint = 'HAC considers a document stuck after ten minutes.';
  end if;
  v_answer.documents := '{}';
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
      v_document.case_id, v_document.id, 'recover_stuck', format('"%s" released as stuck', v_document.name),
      'processing', private.reclaim(v_document, 'released by HAC as stuck', p_now)
    );
    v_answer.documents := v_answer.documents || v_document.id;
  end loop;
  v_answer.success := true;
  v_answer.recovered := cardinality(v_answer.documents);
  return v_answer;
end;
$$;
comment on function private.recover_stuck_documents(integer, uuid[], timestamptz) is
  'See public.recover_stuck_documents.';
grant execute on function private.recover_stuck_documents(integer, uuid[], timestamptz) to authenticated, service_role;

create type public.stuck_document as (
  document_id uuid,
  name text,
  case_id uuid,
  case_name text,
  lane text,
  locked_by text,
  claimed_at timestamptz,
  held_seconds double precision,
  silent_seconds double precision,
  lock_expires_at timestamptz,
  attempt_deadline timestamptz,
  swept_at timestamptz,
  sweep_due_at timestamptz,
  pages_done bigint,
  page_count integer,
  retry_count integer,
  max_attempts integer,
  rescues integer,
  max_rescues integer,
  new_pages bigint
);
comment on type public.stuck_document is
  'A document that a worker has held for too long, or whose worker has been silent for too long. new_pages: pages that '
  'its claim has saved; with any, releasing it does not count as a rescue. '
  'Nullable: locked_by, claimed_at, silent_seconds, lock_expires_at, attempt_deadline, swept_at, page_count.';

create function private.count_new_pages(p_document public.documents)
returns bigint
language sql
stable
security invoker
set search_path = ''
as $$
  select count(*) from public.ocr_pages as o
  where o.run_id = (p_document).open_run_id and o.status <> 'failed' and o.created_at >= (p_document).claimed_at;
$$;
comment on function private.count_new_pages(public.documents) is 'The pages that the current claim has saved.';

create function private.stuck_documents(p_limit integer, p_now timestamptz default now())
returns setof public.stuck_document
language plpgsql
stable
security definer          -- users have no privileges on the claims
set search_path = pg_catalog, pg_temp
set enable_seqscan = off  -- reads few rows by id
as $$
begin
  perform private.require_admin();
  perform private.require_page_size(p_limit);
  return query
  select d.id, d.name::text, d.case_id, c.name::text, d.lane::text, d.locked_by, d.claimed_at,
    extract(epoch from p_now - coalesce(d.claimed_at, d.updated_at))::double precision,
    extract(epoch from p_now - d.locked_at)::double precision,
    d.lock_expires_at, d.attempt_deadline, s.swept_at,
    -- As in public.sweep_documents(): after the lock expires, and one lock period after the database was back.
    greatest(
      coalesce(d.lock_expires_at, d.updated_at + interval '20 seconds'),
      s.resumed_at + coalesce(d.lock_expires_at - d.locked_at, interval '20 seconds')
    ),
    (
      select count(*) from public.ocr_pages as o where o.run_id = d.open_run_id and o.status <> 'failed'
    ),
    d.page_count::integer, d.retry_count::integer, d.max_attempts::integer, d.rescues::integer, l.max_rescues,
    private.count_new_pages(d)
  from public.documents as d
  join public.cases as c on c.id = d.case_id
  join public.lanes as l on l.lane = d.lane
  cross join private.sweep_state as s
  where d.id = any (private.claimed_ids()) and d.ocr_status = 'processing'
    and (d.locked_at < p_now - interval '5 minutes' or coalesce(d.claimed_at, d.updated_at) < p_now - interval '10 minutes')
  order by coalesce(d.claimed_at, d.updated_at), d.id
  limit p_limit;
end;
$$;
comment on function private.stuck_documents(integer, timestamptz) is 'See public.stuck_documents.';
grant execute on function private.stuck_documents(integer, timestamptz) to authenticated, service_role;

create type public.given_back_document as (
  document_id uuid,
  name text,
  ocr_status text
);
comment on type public.given_back_document is 'A document that was released from its worker, and its current state.';

create type public.give_back_documents_answer as (
  success boolean,
  done integer,
  documents public.given_back_document[],
  skipped public.skipped_document[]
);
comment on type public.give_back_documents_answer is
  'The documents that were released from their workers, with their number; and those that were skipped.';

create function private.give_back_documents(p_documents jsonb, p_now timestamptz default now())
returns public.give_back_documents_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_item record;
  v_document public.documents;
  v_given_back public.given_back_document;
  v_skipped public.skipped_document;
  v_answer public.give_back_documents_answer;
begin
  perform private.require_admin();
  perform private.require_list('p_documents', p_documents);
  v_answer.documents := '{}';
  v_answer.skipped := '{}';
  for v_item in
    select i.document_id, i.claimed_at
    from jsonb_to_recordset(p_documents) as i (document_id uuid, claimed_at timestamptz)
    order by i.document_id
  loop
    select d.* into v_document from public.documents as d where d.id = v_item.document_id for update;
    if not found then
      v_answer.skipped := v_answer.skipped
        || private.refused(null::public.skipped_document, 'DOCUMENT_NOT_FOUND', v_item.document_id);
    elsif v_document.ocr_status <> 'processing' then
      v_answer.skipped := v_answer.skipped || private.skip_wrong_state(v_document);
    elsif v_document.claimed_at is distinct from v_item.claimed_at then
      v_skipped := private.refused(null::public.skipped_document, 'DOCUMENT_LOCKED', v_document.id);
      v_skipped.name := v_document.name;
      v_skipped.message := format('%s has it since %s', v_document.locked_by, private.format_time(v_document.claimed_at));
      v_answer.skipped := v_answer.skipped || v_skipped;
    else
      v_given_back.document_id := v_document.id;
      v_given_back.name := v_document.name;
      v_given_back.ocr_status := private.reclaim(v_document, 'released by HAC as stuck', p_now);
      perform private.log_act(
        v_document.case_id, v_document.id, 'recover_stuck', format('"%s" released as stuck', v_document.name),
        'processing', v_given_back.ocr_status
      );
      v_answer.documents := v_answer.documents || v_given_back;
    end if;
  end loop;
  v_answer.success := true;
  v_answer.done := cardinality(v_answer.documents);
  return v_answer;
end;
$$;
comment on function private.give_back_documents(jsonb, timestamptz) is 'See public.give_back_documents.';
grant execute on function private.give_back_documents(jsonb, timestamptz) to authenticated, service_role;

create function private.skip_wrong_state(p_document public.documents)
returns public.skipped_document
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_skipped public.skipped_document := private.refused(null::public.skipped_document, 'WRONG_STATE', p_document.id);
begin
  v_skipped.name := p_document.name;
  v_skipped.message := format('its status is now %s', replace(p_document.ocr_status, '_', ' ')) || coalesce(
    (
      select format('; last act: %s, by %s at %s', replace(h.action_type, '_', ' '), private.display_name(h.user_id), private.format_time(h.created_at))
      from public.hac_acts as h
      where h.case_id = p_document.case_id and h.document_id = p_document.id
      order by h.created_at desc limit 1
    ),
    ''
  );
  return v_skipped;
end;
$$;
comment on function private.skip_wrong_state(public.documents) is
  'The error result of an action on a document that is no longer in the required state: its current state, and who '
  'changed it and when.';

create type public.document_event as (
  at timestamptz,
  source text,
  kind text,
  attempt integer,
  worker_id text,
  engine text,
  error_category text,
  message text,
  details jsonb,
  person text
);
comment on type public.document_event is
  'An error, action or result in the history of a document. Nullable: attempt, worker_id, engine, error_category, '
  'message, details, person.';

create function private.document_history(p_document_id uuid, p_limit integer)
returns setof public.document_event
language plpgsql
stable
security definer          -- users may not read the names of others
set search_path = pg_catalog, pg_temp
as $$
declare
  v_case_id uuid := (select d.case_id from public.documents as d where d.id = p_document_id);
  v_hac boolean := private.is_service() or private.is_admin();
begin
  perform private.require_case_rank(v_case_id, 1);
  perform private.require_page_size(p_limit);
  return query
  select h.* from (
    select e.created_at, 'error', e.kind, e.attempt, e.worker_id, null::text, e.error_category, e.error_message,
      e.error_details, null::text
    from public.ocr_errors as e where e.document_id = p_document_id
    union all
    select a.created_at, 'act', a.action_type, null, null, null, null, a.action_description, a.metadata,
      case when a.user_id is null then null when v_hac or a.user_id = auth.uid() then private.display_name(a.user_id) else 'HAC or a member' end
    from public.hac_acts as a where a.case_id = v_case_id and a.document_id = p_document_id
    union all
    select r.created_at, 'result', 'completed', r.attempt, r.worker_id, concat_ws(' ', r.ocr_engine, r.ocr_version), null,
      null, jsonb_build_object('confidence', r.confidence_score, 'processing_time_ms', r.processing_time_ms), null
    from public.ocr_processing_logs as r where r.document_id = p_document_id
  ) as h
  order by 1 desc, 2, 3
  limit p_limit;
end;
$$;
comment on function private.document_history(uuid, integer) is 'See public.document_history.';
grant execute on function private.document_history(uuid, integer) to authenticated, service_role;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.cancel_document(p_document_id uuid, p_reason text default null)
returns public.document_answer
language sql volatile security invoker set search_path = ''
as $$ select private.cancel_document(p_document_id, p_reason) $$;
comment on function public.cancel_document(uuid, text) is
  'Editor, owner or HAC: cancel a document that is not finished. read_again undoes it.';
grant execute on function public.cancel_document(uuid, text) to authenticated, service_role;

create function public.delete_document(p_document_id uuid)
returns public.document_answer
language sql volatile security invoker set search_path = ''
as $$ select private.delete_document(p_document_id) $$;
comment on function public.delete_document(uuid) is
  'Owner or HAC: soft-delete a document. restore_document undoes it; erase_document is permanent.';
grant execute on function public.delete_document(uuid) to authenticated, service_role;

create function public.restore_document(p_document_id uuid)
returns public.document_answer
language sql volatile security invoker set search_path = ''
as $$ select private.restore_document(p_document_id) $$;
comment on function public.restore_document(uuid) is
  'Owner or HAC: restore a deleted document, unless its name is in use again.';
grant execute on function public.restore_document(uuid) to authenticated, service_role;

create function public.erase_document(p_document_id uuid)
returns public.document_answer
language sql volatile security invoker set search_path = ''
as $$ select private.erase_document(p_document_id) $$;
comment on function public.erase_document(uuid) is
  'Owner or HAC: permanently remove a document, its file and its text. An audit entry is kept.';
grant execute on function public.erase_document(uuid) to authenticated, service_role;

create function public.recover_stuck_documents(
  p_stuck_minutes integer default 10,
  p_document_ids uuid[] default null
)
returns public.recover_stuck_documents_answer
language sql volatile security invoker set search_path = ''
as $$ select private.recover_stuck_documents(p_stuck_minutes, p_document_ids) $$;
comment on function public.recover_stuck_documents(integer, uuid[]) is
  'HAC: release documents claimed more than p_stuck_minutes ago from their workers: all of them, or only the given '
  'ones.';
grant execute on function public.recover_stuck_documents(integer, uuid[]) to authenticated, service_role;

create function public.stuck_documents(p_limit integer default 100)
returns setof public.stuck_document
language sql stable security invoker set search_path = ''
as $$ select * from private.stuck_documents(p_limit) $$;
comment on function public.stuck_documents(integer) is
  'HAC: documents held for more than ten minutes, or whose worker is silent (no heartbeat for five minutes), longest '
  'held first. sweep_due_at is when the sweep reclaims the document if its worker stays silent; at attempt_deadline, '
  'the sweep reclaims it in any case.';
grant execute on function public.stuck_documents(integer) to authenticated, service_role;

create function public.give_back_documents(p_documents jsonb)
returns public.give_back_documents_answer
language sql volatile security invoker set search_path = ''
as $$ select private.give_back_documents(p_documents) $$;
comment on function public.give_back_documents(jsonb) is
  'HAC: release documents from their workers. p_documents is [{"document_id", "claimed_at"}, …]; a document with a '
  'later claim is skipped. Returns the released documents, and the skipped ones with the reason.';
grant execute on function public.give_back_documents(jsonb) to authenticated, service_role;

create function public.document_history(p_document_id uuid, p_limit integer default 100)
returns setof public.document_event
language sql stable security invoker set search_path = ''
as $$ select * from private.document_history(p_document_id, p_limit) $$;
comment on function public.document_history(uuid, integer) is
  'Members of the case and HAC: errors, actions and results of a document, newest first. An action without a person '
  'was performed by a service or an operator. Only HAC sees e-mail addresses.';
grant execute on function public.document_history(uuid, integer) to authenticated, service_role;
