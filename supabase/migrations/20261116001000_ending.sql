-- Purpose:  what people decide about documents: dead letters, cancelling, deleting, erasing.
-- Affects:  creates resolve_dead_letter, resolve_dead_letters, cancel_document, delete_document,
--           restore_document, erase_document, delete_case, erase_case.
-- Locks:    none that anybody could notice.

-- Dead letters ------------------------------------------------------------------------------

create function private.settle_dead_letter(p_dlq_id uuid, p_action text, p_notes text, p_now timestamptz)
returns jsonb
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_document public.documents;
  v_letter public.ocr_dead_letter;
  v_status text;
begin
  -- The document first, as everywhere; then the letter, which may have changed while we waited.
  select d.* into v_document from public.documents as d
  join public.ocr_dead_letter as l on l.document_id = d.id
  where l.id = p_dlq_id
  for update of d;
  select l.* into v_letter from public.ocr_dead_letter as l where l.id = p_dlq_id for update;
  if v_letter.id is null then
    return jsonb_build_object(
      'success', false, 'error', 'DEAD_LETTER_NOT_FOUND', 'dlq_id', p_dlq_id, 'message', 'there is no such dead letter'
    );
  end if;
  if v_letter.status not in ('pending', 'investigating') or v_document.ocr_status <> 'dead_letter' then
    return jsonb_build_object(
      'success', false, 'error', 'ALREADY_RESOLVED', 'dlq_id', p_dlq_id, 'document_id', v_document.id,
      'message', format('it is %s and its document %s', v_letter.status, v_document.ocr_status)
    );
  end if;
  if p_action = 'requeue' then
    perform private.requeue(v_document, coalesce(p_notes, 'by HAC'), p_now);
  else
    v_status := case p_action when 'manual' then 'pending_review' when 'abandon' then 'failed' else 'dead_letter' end;
    update public.documents as d set ocr_status = v_status, updated_at = p_now where d.id = v_document.id;
    perform private.log_act(
      v_document.case_id, v_document.id, 'dead_letter_' || p_action, coalesce(p_notes, v_document.name),
      v_document.ocr_status, v_status
    );
    if p_action = 'investigate' then
      update public.tasks as t set status = 'in_progress', assigned_to = auth.uid(), updated_at = p_now
      where t.document_id = v_document.id and t.kind = 'dead_letter' and t.status = 'pending';
    else
      perform private.close_tasks(v_document.id, 'done', array['dead_letter']);
    end if;
    if p_action = 'manual' then
      perform private.open_task(
        v_document.case_id, v_document.id, 'review', 'To be typed by hand',
        format('"%s" could not be read by machine', v_document.name), 'high',
        jsonb_build_object('dlq_id', p_dlq_id, 'document_id', v_document.id)
      );
    end if;
  end if;
  update public.ocr_dead_letter as l
  set status = case p_action
        when 'investigate' then 'investigating' when 'requeue' then 'requeued'
        when 'manual' then 'manual' else 'abandoned' end,
      reviewed_by = auth.uid(), reviewed_at = p_now, updated_at = p_now,
      resolution_notes = coalesce(p_notes, l.resolution_notes)
  where l.id = p_dlq_id;
  return jsonb_build_object('success', true, 'dlq_id', p_dlq_id, 'document_id', v_document.id);
end;
$$;
comment on function private.settle_dead_letter(uuid, text, text, timestamptz) is
  'Carry out one decision about one dead letter.';

create function private.require_action(p_action text, p_notes text)
returns void
language plpgsql
stable
security invoker
set search_path = ''
as $$
begin
  perform private.require_admin();
  if (p_action in ('investigate', 'requeue', 'manual', 'abandon')) is not true then
    raise exception 'a dead letter cannot be treated as %', coalesce(p_action, 'null')
      using errcode = '22023', hint = 'Actions are investigate, requeue, manual, abandon.';
  end if;
  perform private.require_optional_text('p_notes', nullif(p_notes, ''), 10000);
end;
$$;
comment on function private.require_action(text, text) is
  'Refuse strangers (42501), unknown actions and overlong notes (22023).';

create function private.resolve_dead_letter(p_dlq_id uuid, p_action text, p_notes text, p_now timestamptz default now())
returns jsonb
language plpgsql
volatile
security definer          -- HAC holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_action(p_action, p_notes);
  return private.settle_dead_letter(p_dlq_id, p_action, p_notes, p_now);
end;
$$;
comment on function private.resolve_dead_letter(uuid, text, text, timestamptz) is 'See public.resolve_dead_letter.';
grant execute on function private.resolve_dead_letter(uuid, text, text, timestamptz) to authenticated, service_role;

create function public.resolve_dead_letter(p_dlq_id uuid, p_action text, p_notes text default null)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.resolve_dead_letter(p_dlq_id, p_action, p_notes);
$$;
comment on function public.resolve_dead_letter(uuid, text, text) is
  'HAC: investigate, requeue (counts at zero, history kept), manual (a person will type it) or abandon.';
grant execute on function public.resolve_dead_letter(uuid, text, text) to authenticated, service_role;

create function private.require_filter(p_filter jsonb)
returns void
language plpgsql
stable
security invoker
set search_path = ''
as $$
declare
  v_unknown text;
begin
  if (jsonb_typeof(p_filter) = 'object' and p_filter <> '{}') is not true then
    raise exception 'the filter is empty' using errcode = '22023',
      hint = 'Name at least one of ids, case_id, lane, error_category, error_group, status, failed_before.';
  end if;
  select k into v_unknown from jsonb_object_keys(p_filter) as k
  where k not in ('ids', 'case_id', 'lane', 'error_category', 'error_group', 'status', 'failed_before') limit 1;
  if found then
    raise exception 'the filter knows no "%"', v_unknown using errcode = '22023',
      hint = 'It knows ids, case_id, lane, error_category, error_group, status, failed_before.';
  end if;
  if jsonb_typeof(p_filter -> 'ids') <> 'array' then
    raise exception 'the ids of the filter must be a list' using errcode = '22023', hint = 'Send {"ids": ["…"]}.';
  end if;
  if p_filter ->> 'status' not in ('pending', 'investigating', 'requeued', 'manual', 'abandoned') then
    raise exception 'no dead letter is %', p_filter ->> 'status' using errcode = '22023',
      hint = 'It is pending, investigating, requeued, manual or abandoned.';
  end if;
  if p_filter ? 'lane' then
    perform private.require_lane(p_filter ->> 'lane');
  end if;
  if p_filter ? 'error_category' then
    perform private.require_category(p_filter ->> 'error_category');
  end if;
end;
$$;
comment on function private.require_filter(jsonb) is 'Refuse a filter that is empty or makes no sense (22023).';

create function private.resolve_dead_letters(p_filter jsonb, p_action text, p_notes text, p_now timestamptz default now())
returns jsonb
language plpgsql
volatile
security definer          -- HAC holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_filter jsonb := jsonb_strip_nulls(p_filter);   -- a null in it asks for nothing
  v_case_id uuid := v_filter ->> 'case_id';
  v_failed_before timestamptz := v_filter ->> 'failed_before';
  v_id uuid;
  v_answer jsonb;
  v_resolved jsonb := '[]';
  v_skipped jsonb := '[]';
begin
  perform private.require_action(p_action, p_notes);
  perform private.require_filter(v_filter);
  for v_id in
    select l.id from public.ocr_dead_letter as l
    join public.documents as d on d.id = l.document_id
    where (v_filter -> 'ids' is null or v_filter -> 'ids' ? l.id::text)
      and (v_case_id is null or l.case_id = v_case_id)
      and (v_filter ->> 'lane' is null or d.lane = v_filter ->> 'lane')
      and (v_filter ->> 'error_category' is null or l.error_category = v_filter ->> 'error_category')
      and (v_filter ->> 'error_group' is null or l.error_group = v_filter ->> 'error_group')
      and (v_failed_before is null or l.last_failed_at < v_failed_before)
      and (
        -- By name everything is tried, so that what was skipped is told; by property only what is open.
        l.status = v_filter ->> 'status'
        or (v_filter ->> 'status' is null and (v_filter -> 'ids' is not null or l.status in ('pending', 'investigating')))
      )
    order by l.document_id
  loop
    v_answer := private.settle_dead_letter(v_id, p_action, p_notes, p_now);
    if (v_answer ->> 'success')::boolean then
      v_resolved := v_resolved || v_answer;
    else
      v_skipped := v_skipped || v_answer;
    end if;
  end loop;
  select v_skipped || coalesce(jsonb_agg(
    jsonb_build_object(
      'success', false, 'error', 'DEAD_LETTER_NOT_FOUND', 'dlq_id', i, 'message', 'there is no such dead letter'
    )
  ), '[]')
  into v_skipped
  from jsonb_array_elements_text(coalesce(v_filter -> 'ids', '[]')) as i
  where not exists (select 1 from public.ocr_dead_letter as l where l.id::text = i);
  return jsonb_build_object(
    'success', true, 'resolved', jsonb_array_length(v_resolved), 'documents', v_resolved, 'skipped', v_skipped
  );
end;
$$;
comment on function private.resolve_dead_letters(jsonb, text, text, timestamptz) is 'See public.resolve_dead_letters.';
grant execute on function private.resolve_dead_letters(jsonb, text, text, timestamptz) to authenticated, service_role;

create function public.resolve_dead_letters(p_filter jsonb, p_action text, p_notes text default null)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.resolve_dead_letters(p_filter, p_action, p_notes);
$$;
comment on function public.resolve_dead_letters(jsonb, text, text) is
  'HAC: the same for all that match a filter (never an empty one). Says how many, and what was skipped and why.';
grant execute on function public.resolve_dead_letters(jsonb, text, text) to authenticated, service_role;

-- Cancel, delete, restore, erase ------------------------------------------------------------

create function private.lock_for_people(p_document_id uuid, p_rank integer)
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
comment on function private.lock_for_people(uuid, integer) is
  'The document, locked, for a caller of that rank (42501 otherwise; also where there is none, so nobody can probe).';

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
  perform private.close_attention(p_document.id);
  perform private.log_act(
    p_document.case_id, p_document.id, 'cancelled', coalesce(p_reason, p_document.name),
    p_document.ocr_status, 'cancelled'
  );
end;
$$;
comment on function private.cancel(public.documents, text, timestamptz) is
  'End a document unread; a worker that has it loses its lock.';

create function private.cancel_document(p_document_id uuid, p_reason text, p_now timestamptz default now())
returns jsonb
language plpgsql
volatile
security definer          -- people hold no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents := private.lock_for_people(p_document_id, 2);
begin
  perform private.require_optional_text('p_reason', nullif(p_reason, ''), 10000);
  if v_document.id is null then
    return private.refusal('DOCUMENT_NOT_FOUND', p_document_id);
  end if;
  if v_document.ocr_status in ('completed', 'cancelled', 'failed') then
    return private.refusal('WRONG_STATE', p_document_id);
  end if;
  perform private.cancel(v_document, p_reason, p_now);
  return jsonb_build_object('success', true, 'document_id', p_document_id);
end;
$$;
comment on function private.cancel_document(uuid, text, timestamptz) is 'See public.cancel_document.';
grant execute on function private.cancel_document(uuid, text, timestamptz) to authenticated, service_role;

create function public.cancel_document(p_document_id uuid, p_reason text default null)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.cancel_document(p_document_id, p_reason);
$$;
comment on function public.cancel_document(uuid, text) is
  'Editor, owner or HAC: stop a document before its end. read_again undoes it.';
grant execute on function public.cancel_document(uuid, text) to authenticated, service_role;

create function private.delete_document(p_document_id uuid, p_now timestamptz default now())
returns jsonb
language plpgsql
volatile
security definer          -- people hold no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents := private.lock_for_people(p_document_id, 3);
begin
  if v_document.id is null then
    return private.refusal('DOCUMENT_NOT_FOUND', p_document_id);
  end if;
  if v_document.deleted_at is not null then
    return private.refusal('WRONG_STATE', p_document_id);
  end if;
  if v_document.ocr_status not in ('completed', 'cancelled', 'failed') then
    perform private.cancel(v_document, 'deleted', p_now);
  end if;
  update public.documents as d set deleted_at = clock_timestamp(), updated_at = p_now where d.id = p_document_id;
  perform private.close_attention(p_document_id);
  perform private.log_act(v_document.case_id, p_document_id, 'deleted', v_document.name);
  return jsonb_build_object('success', true, 'document_id', p_document_id);
end;
$$;
comment on function private.delete_document(uuid, timestamptz) is 'See public.delete_document.';
grant execute on function private.delete_document(uuid, timestamptz) to authenticated, service_role;

create function public.delete_document(p_document_id uuid)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.delete_document(p_document_id);
$$;
comment on function public.delete_document(uuid) is
  'Owner or HAC: put a document away. restore_document undoes it; erase_document is for good.';
grant execute on function public.delete_document(uuid) to authenticated, service_role;

create function private.restore_document(p_document_id uuid, p_now timestamptz default now())
returns jsonb
language plpgsql
volatile
security definer          -- people hold no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents := private.lock_for_people(p_document_id, 3);
begin
  if v_document.id is null then
    return private.refusal('DOCUMENT_NOT_FOUND', p_document_id);
  end if;
  perform pg_advisory_xact_lock(hashtextextended(v_document.case_id::text || v_document.name, 2));
  if v_document.deleted_at is null or exists (
    select 1 from public.documents as d
    where d.case_id = v_document.case_id and d.name = v_document.name and d.deleted_at is null
  ) then
    return private.refusal('WRONG_STATE', p_document_id);
  end if;
  update public.documents as d set deleted_at = null, updated_at = p_now where d.id = p_document_id;
  perform private.log_act(v_document.case_id, p_document_id, 'restored', v_document.name);
  return jsonb_build_object('success', true, 'document_id', p_document_id, 'ocr_status', v_document.ocr_status);
end;
$$;
comment on function private.restore_document(uuid, timestamptz) is 'See public.restore_document.';
grant execute on function private.restore_document(uuid, timestamptz) to authenticated, service_role;

create function public.restore_document(p_document_id uuid)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.restore_document(p_document_id);
$$;
comment on function public.restore_document(uuid) is
  'Owner or HAC: take a deleted document back, unless another of its name is there now.';
grant execute on function public.restore_document(uuid) to authenticated, service_role;

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
  -- The lines stay, what they say of the content goes.
  update public.hac_acts as h
  set action_description = null, metadata = null
  where h.case_id = p_case_id and h.document_id = any (p_document_ids);
  delete from public.ocr_processing_logs as r where r.document_id = any (p_document_ids);
  delete from public.documents as d where d.id = any (p_document_ids);
  -- Several documents may share one stored file; the last one takes it along. The paths that are still in use are
  -- read once, whatever the planner expects: a correlated subquery took time by the square of the case.
  insert into private.file_removals (document_id, path)
  select f.value::uuid, f.key from jsonb_each_text(v_files) as f
  where f.key not in (
    select o.dropbox_path from public.documents as o where o.case_id = p_case_id and o.dropbox_path is not null
  );
  perform private.log_act(p_case_id, i.id, 'erased', null) from unnest(p_document_ids) as i (id);
end;
$$;
comment on function private.erase(uuid, uuid[]) is
  'Remove documents of a case, which the caller has locked, with their pages, text, errors and tasks; their files are '
  'noted for removal and the audit lines stay.';

create function private.erase_document(p_document_id uuid)
returns jsonb
language plpgsql
volatile
security definer          -- people hold no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents := private.lock_for_people(p_document_id, 3);
begin
  if v_document.id is null then
    return private.refusal('DOCUMENT_NOT_FOUND', p_document_id);
  end if;
  perform private.erase(v_document.case_id, array[v_document.id]);
  return jsonb_build_object('success', true, 'document_id', p_document_id);
end;
$$;
comment on function private.erase_document(uuid) is 'See public.erase_document.';
grant execute on function private.erase_document(uuid) to authenticated, service_role;

create function public.erase_document(p_document_id uuid)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.erase_document(p_document_id);
$$;
comment on function public.erase_document(uuid) is
  'Owner or HAC: remove a document, its file and everything read from it, for good. An audit line stays.';
grant execute on function public.erase_document(uuid) to authenticated, service_role;

create function private.end_case(p_case_id uuid, p_how text, p_now timestamptz default now())
returns jsonb
language plpgsql
volatile
security definer          -- people hold no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_ids uuid[];
  v_count integer;
begin
  perform private.require_case_rank(p_case_id, 3);
  perform 1 from public.cases as c
  where c.id = p_case_id and (p_how <> 'cancel' or c.deleted_at is null) for update;
  if not found then
    return jsonb_build_object(
      'success', false, 'error', 'CASE_NOT_FOUND', 'case_id', p_case_id, 'message', 'there is no such case'
    );
  end if;
  v_ids := array(
    select d.id from public.documents as d
    where d.case_id = p_case_id
      and (p_how = 'erase' or d.deleted_at is null)
      and (p_how <> 'cancel' or d.ocr_status not in ('completed', 'cancelled', 'failed'))
    order by d.id
    for update
  );
  v_count := cardinality(v_ids);
  if p_how = 'erase' then
    perform private.erase(p_case_id, v_ids);
  else
    for v_document in
      select d.* from public.documents as d
      where d.id = any (v_ids) and d.ocr_status not in ('completed', 'cancelled', 'failed')
      order by d.id
    loop
      perform private.cancel(v_document, case p_how when 'cancel' then 'the case was cancelled' else 'deleted' end, p_now);
    end loop;
  end if;
  if p_how = 'delete' then
    -- All at once: one by one, a hundred thousand would take minutes.
    perform private.close_attention(t.document_id) from (
      select distinct t.document_id from public.tasks as t
      where t.case_id = p_case_id and t.document_id = any (v_ids) and t.status in ('pending', 'in_progress')
    ) as t;
    update public.documents as d set deleted_at = clock_timestamp(), updated_at = p_now where d.id = any (v_ids);
    perform private.log_act(p_case_id, d.id, 'deleted', d.name) from public.documents as d where d.id = any (v_ids);
  end if;
  -- Nothing of it waits any more; what comes later starts level with the others.
  delete from private.turns as t where t.case_id = p_case_id;
  if p_how = 'delete' then
    -- Deleted twice, it is still since the first time: by that its documents are found again.
    update public.cases as c set deleted_at = coalesce(c.deleted_at, p_now), updated_at = p_now where c.id = p_case_id;
  elsif p_how = 'erase' then
    delete from public.cases as c where c.id = p_case_id;
  end if;
  perform private.log_act(p_case_id, null, 'case_' || p_how, format('%s documents', v_count));
  return jsonb_build_object('success', true, 'case_id', p_case_id, 'documents', v_count);
end;
$$;
comment on function private.end_case(uuid, text, timestamptz) is 'Cancel, delete or erase everything in a case.';
grant execute on function private.end_case(uuid, text, timestamptz) to authenticated, service_role;

create function public.cancel_case(p_case_id uuid)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.end_case(p_case_id, 'cancel');
$$;
comment on function public.cancel_case(uuid) is 'Owner or HAC: stop every document of a case that is not at its end.';
grant execute on function public.cancel_case(uuid) to authenticated, service_role;

create function public.delete_case(p_case_id uuid)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.end_case(p_case_id, 'delete');
$$;
comment on function public.delete_case(uuid) is 'Owner or HAC: put a case and its documents away.';
grant execute on function public.delete_case(uuid) to authenticated, service_role;

create function public.erase_case(p_case_id uuid)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.end_case(p_case_id, 'erase');
$$;
comment on function public.erase_case(uuid) is
  'Owner or HAC: remove a case with its documents, files and texts, for good. Audit lines stay.';
grant execute on function public.erase_case(uuid) to authenticated, service_role;
