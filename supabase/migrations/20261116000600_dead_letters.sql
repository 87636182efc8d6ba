-- Purpose:  what becomes of a document that was not read: given back, tried again, or buried.
-- Affects:  creates the helpers all functions share for it, and move_to_dead_letter_queue.
-- Locks:    none that anybody could notice.
--
-- Order of locks, everywhere: case, document, lane, dead letter, task.

create function private.open_task(
  p_case_id uuid,
  p_document_id uuid,
  p_kind text,
  p_title text,
  p_description text,
  p_priority text,
  p_metadata jsonb
)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  insert into public.tasks (case_id, document_id, kind, title, description, priority, metadata)
  values (p_case_id, p_document_id, p_kind, p_title, p_description, p_priority, p_metadata)
  on conflict (document_id, kind) where status in ('pending', 'in_progress') and document_id is not null
  do update set description = excluded.description, metadata = excluded.metadata, updated_at = now();
$$;
comment on function private.open_task(uuid, uuid, text, text, text, text, jsonb) is
  'Give people something to do; a document has one open task of a kind.';

create function private.close_tasks(p_document_id uuid, p_status text, p_kinds text[])
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  update public.tasks as t
  set status = p_status, done_at = now(), done_by = auth.uid(), updated_at = now()
  where t.document_id = p_document_id and t.kind = any (p_kinds)
    and t.status in ('pending', 'in_progress');
$$;
comment on function private.close_tasks(uuid, text, text[]) is 'End the open tasks of a document.';

-- A probe is the one document that finds out whether an outage is over.
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
  'The probe, if the document was one, came back without an answer: another may go later.';

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
begin
  if (p_document).deleted_at is not null then
    perform private.give_back(p_document, null, p_now);
    return null;
  end if;
  perform private.end_probe((p_document).lock_token, p_now);
  update public.documents as d
  set ocr_status = 'dead_letter',
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
    last_failed_at, last_error_message, last_error_details, error_category
  )
  values (
    (p_document).id, (p_document).case_id, (p_document).name, coalesce((p_document).dropbox_path, ''),
    greatest((p_document).retry_count + (p_document).rescues, 1),
    coalesce((select min(e.created_at) from public.ocr_errors as e where e.document_id = (p_document).id), p_now),
    p_now, p_message, p_details, p_category
  )
  on conflict on constraint ocr_dead_letter_one_for_a_document do update
  -- The document's own counts go on unless it was queued anew.
  set failure_count = case l.status when 'requeued' then l.failure_count else 0 end + excluded.failure_count,
      last_failed_at = excluded.last_failed_at,
      last_error_message = excluded.last_error_message,
      last_error_details = excluded.last_error_details,
      error_category = excluded.error_category,
      status = 'pending',
      updated_at = p_now
  returning l.id into v_dlq_id;
  perform private.close_tasks((p_document).id, 'cancelled', array['routing', 'review']);
  perform private.open_task(
    (p_document).case_id, (p_document).id, 'dead_letter', 'OCR failed: dead letter',
    format('"%s" could not be read: %s', (p_document).name, p_message), 'high',
    jsonb_build_object('dlq_id', v_dlq_id, 'document_id', (p_document).id, 'error_category', p_category)
  );
  perform private.log_act(
    (p_document).case_id, (p_document).id, 'dead_letter', p_message, (p_document).ocr_status, 'dead_letter'
  );
  return v_dlq_id;
end;
$$;
comment on function private.bury(public.documents, text, jsonb, text, timestamptz) is
  'Give a document to HAC: dead letter, task and audit line in one go.';

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
  v_document.retry_count := p_document.retry_count + 1;
  v_document.ocr_error := p_message;
  if p_category = 'permanent' or v_document.retry_count >= p_document.max_attempts then
    v_dlq_id := private.bury(v_document, p_message, p_details, p_category, p_now);
    v_status := case when v_dlq_id is null then 'cancelled' else 'dead_letter' end;
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
  'Count a failed attempt: try again later, or bury it when it is permanent or the attempts are used up.';

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
    return 'dead_letter';
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

-- Fencing -----------------------------------------------------------------------------------

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

create function private.refusal(p_error text, p_document_id uuid)
returns jsonb
language sql
immutable
security invoker
set search_path = ''
as $$
  select jsonb_build_object(
    'success', false, 'error', p_error, 'document_id', p_document_id,
    'message', case p_error
      when 'DOCUMENT_NOT_FOUND' then 'there is no such document'
      when 'LOCK_LOST' then 'the document was taken away from this worker; drop what was read'
      when 'DOCUMENT_LOCKED' then 'a worker has the document; call again with its lock token'
      when 'WRONG_STATE' then 'the document is not in a state that allows this'
      when 'DEADLINE_EXCEEDED' then 'the attempt took too long; stop reading'
      when 'LANE_PAUSED' then 'the lane is paused'
      when 'TOO_MANY_FAILED_PAGES' then 'more pages failed than the lane allows; counted as a failed attempt'
    end
  );
$$;
comment on function private.refusal(text, uuid) is 'The answer to a call that changed nothing, with its reason.';

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

create function private.require_text(p_what text, p_text text, p_max integer)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if (octet_length(p_text) between 1 and p_max and btrim(p_text) <> '') is not true then
    raise exception '% must be 1 to % bytes of text, got %', p_what, p_max,
      coalesce(octet_length(p_text)::text, 'null')
      using errcode = '22023', hint = 'Shorten it, or say what it is.';
  end if;
end;
$$;
comment on function private.require_text(text, text, integer) is 'Refuse null, blank and overlong text (22023).';

create function private.require_optional_text(p_what text, p_text text, p_max integer)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if p_text is not null then
    perform private.require_text(p_what, p_text, p_max);
  end if;
end;
$$;
comment on function private.require_optional_text(text, text, integer) is
  'Refuse blank and overlong text (22023); null is fine.';

create function private.move_to_dead_letter_queue(
  p_document_id uuid,
  p_error_message text,
  p_error_details jsonb,
  p_error_category text,
  p_lock_token uuid,
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
comment on function private.move_to_dead_letter_queue(uuid, text, jsonb, text, uuid, timestamptz) is
  'See public.move_to_dead_letter_queue.';
grant execute on function private.move_to_dead_letter_queue(uuid, text, jsonb, text, uuid, timestamptz)
  to service_role, pagewarden_worker;

create function public.move_to_dead_letter_queue(
  p_document_id uuid,
  p_error_message text,
  p_error_details jsonb default '{}',
  p_error_category text default 'unknown',
  p_lock_token uuid default null
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.move_to_dead_letter_queue(
    p_document_id, p_error_message, p_error_details, p_error_category, p_lock_token
  );
$$;
comment on function public.move_to_dead_letter_queue(uuid, text, jsonb, text, uuid) is
  'Give a document to HAC at once. Refused while somebody else has it.';
grant execute on function public.move_to_dead_letter_queue(uuid, text, jsonb, text, uuid)
  to service_role, pagewarden_worker;
