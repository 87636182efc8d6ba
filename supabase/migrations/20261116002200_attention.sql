-- Purpose:  what waits for a person: dead letters in groups, stuck documents, files to route, tasks.
-- Affects:  creates list_dead_letters, dead_letter_groups, count_dead_letters, document_history, stuck_documents,
--           give_back_documents, route_documents, refuse_documents, list_tasks, create_task, assign_task,
--           set_task_priority, end_task; replaces private.settle_dead_letter, require_filter, resolve_dead_letters;
--           other indexes on ocr_dead_letter and tasks, column tasks.urgency.
-- Locks:    tasks and ocr_dead_letter while they are indexed: a moment, they are small.

-- Who did it --------------------------------------------------------------------------------

create function private.name_of(p_user_id uuid)
returns text
language sql
stable
security invoker
set search_path = ''
as $$
  select coalesce(
    (select coalesce(u.email::text, u.id::text) from auth.users as u where u.id = p_user_id), 'an operator or a machine'
  );
$$;
comment on function private.name_of(uuid) is 'What HAC calls somebody: the address; machines have none.';

create function private.moment(p_at timestamptz)
returns text
language sql
stable
security invoker
set search_path = ''
as $$
  select to_char(p_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI "UTC"');
$$;
comment on function private.moment(timestamptz) is 'A time as messages write it.';

create function private.overtaken(p_document public.documents)
returns jsonb
language sql
stable
security invoker
set search_path = ''
as $$
  select private.refusal('WRONG_STATE', (p_document).id) || jsonb_build_object(
    'name', (p_document).name,
    'message', format('it is %s now', replace((p_document).ocr_status, '_', ' ')) || coalesce(
      (
        select format('; last act: %s, by %s at %s', replace(h.action_type, '_', ' '), private.name_of(h.user_id), private.moment(h.created_at))
        from public.hac_acts as h
        where h.case_id = (p_document).case_id and h.document_id = (p_document).id
        order by h.created_at desc limit 1
      ),
      ''
    )
  );
$$;
comment on function private.overtaken(public.documents) is
  'The refusal of an act that came too late: what became of the document, by whom and when.';

-- Dead letters ------------------------------------------------------------------------------

drop index public.idx_ocr_dlq_status;
create index idx_ocr_dlq_status on public.ocr_dead_letter (status, last_failed_at, id);
drop index public.idx_ocr_dlq_case;
create index idx_ocr_dlq_case on public.ocr_dead_letter (case_id, last_failed_at, id);
create index ocr_dead_letter_open_idx on public.ocr_dead_letter (last_failed_at, id)
  where status in ('pending', 'investigating');
create index ocr_dead_letter_group_idx on public.ocr_dead_letter (error_group, last_failed_at, id);

create function private.require_known_filter(p_filter jsonb)
returns void
language plpgsql
stable
security invoker
set search_path = ''
as $$
declare
  v_unknown text;
begin
  if jsonb_typeof(p_filter) is distinct from 'object' then
    raise exception 'the filter is no object' using errcode = '22023', hint = 'Send {"error_category": "permanent"}, or {}.';
  end if;
  select k into v_unknown from jsonb_object_keys(p_filter) as k
  where k not in ('ids', 'case_id', 'lane', 'error_category', 'error_group', 'status', 'failed_before', 'name') limit 1;
  if found then
    raise exception 'the filter knows no "%"', v_unknown using errcode = '22023',
      hint = 'It knows ids, case_id, lane, error_category, error_group, status, failed_before, name.';
  end if;
  if jsonb_typeof(p_filter -> 'ids') <> 'array' then
    raise exception 'the ids of the filter must be a list' using errcode = '22023', hint = 'Send {"ids": ["…"]}.';
  end if;
  if p_filter ->> 'status' not in ('pending', 'investigating', 'requeued', 'manual', 'abandoned') then
    raise exception 'no dead letter is %', p_filter ->> 'status' using errcode = '22023',
      hint = 'It is pending, investigating, requeued, manual or abandoned.';
  end if;
  perform private.require_optional_text('the name of the filter', p_filter ->> 'name', 1000);
  if p_filter ? 'lane' then
    perform private.require_lane(p_filter ->> 'lane');
  end if;
  if p_filter ? 'error_category' then
    perform private.require_category(p_filter ->> 'error_category');
  end if;
end;
$$;
comment on function private.require_known_filter(jsonb) is 'Refuse a filter that makes no sense (22023).';

create or replace function private.require_filter(p_filter jsonb)
returns void
language plpgsql
stable
security invoker
set search_path = ''
as $$
begin
  if (jsonb_typeof(p_filter) = 'object' and p_filter <> '{}') is not true then
    raise exception 'the filter is empty' using errcode = '22023',
      hint = 'Name at least one of ids, case_id, lane, error_category, error_group, status, failed_before, name.';
  end if;
  perform private.require_known_filter(p_filter);
end;
$$;
comment on function private.require_filter(jsonb) is 'Refuse a filter that is empty or makes no sense (22023).';

create function private.matching_dead_letters(
  p_filter jsonb,
  p_before timestamptz default null,
  p_before_id uuid default null,
  p_limit integer default null
)
returns setof public.ocr_dead_letter
language plpgsql
stable
security invoker
rows 50                                   -- a page of them
set search_path = ''
set plan_cache_mode = force_custom_plan   -- what is not asked for must not be in the way of an index
set enable_seqscan = off                  -- open letters are few among those that were settled
as $$
declare
  v_all boolean := private.is_service() or private.is_admin();
  v_mine uuid[] := array(select private.my_case_ids());
  v_ids uuid[] := array(
    select i::uuid from jsonb_array_elements_text(p_filter -> 'ids') as i
    where i ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'
  );
  v_by_id boolean := p_filter -> 'ids' is not null;
  v_case_id uuid := p_filter ->> 'case_id';
  v_lane text := p_filter ->> 'lane';
  v_category text := p_filter ->> 'error_category';
  v_group text := p_filter ->> 'error_group';
  v_status text := p_filter ->> 'status';
  v_name text := lower(p_filter ->> 'name');
  v_failed_before timestamptz := p_filter ->> 'failed_before';
begin
  return query
  select l.* from public.ocr_dead_letter as l
  where (l.last_failed_at, l.id) < (
      coalesce(p_before, 'infinity'), coalesce(p_before_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    )
    and (v_all or l.case_id = any (v_mine))   -- what the policy of the table says
    and (not v_by_id or l.id = any (v_ids))
    and (v_case_id is null or l.case_id = v_case_id)
    and (v_lane is null or exists (select 1 from public.documents as d where d.id = l.document_id and d.lane = v_lane))
    and (v_category is null or l.error_category = v_category)
    and (v_group is null or l.error_group = v_group)
    and (v_failed_before is null or l.last_failed_at < v_failed_before)
    and (v_name is null or position(v_name in lower(l.document_name)) > 0)
    -- By name everything is tried, so that what was skipped is told; by property only what is open.
    and case
      when v_status is not null then l.status = v_status
      when v_by_id then true
      else l.status in ('pending', 'investigating')
    end
  order by l.last_failed_at desc, l.id desc
  limit p_limit;
end;
$$;
comment on function private.matching_dead_letters(jsonb, timestamptz, uuid, integer) is
  'The dead letters that match a filter and that the caller may see, the last failed first; without a status, open ones.';

create function private.list_dead_letters(p_filter jsonb, p_before timestamptz, p_before_id uuid, p_limit integer)
returns table (
  dlq_id uuid,
  document_id uuid,
  document_name text,
  case_id uuid,
  case_name text,
  lane text,
  ocr_status text,
  page_count integer,
  status text,
  error_category text,
  error_group text,
  last_error_message text,
  failure_count integer,
  first_failed_at timestamptz,
  last_failed_at timestamptz,
  reviewed_by text,
  reviewed_at timestamptz,
  resolution_notes text
)
language plpgsql
stable
security definer          -- asks who the caller is; names of people are not the caller's to read
set search_path = pg_catalog, pg_temp
set enable_seqscan = off  -- a page of them, by their ids
as $$
declare
  v_hac boolean := private.is_service() or private.is_admin();
begin
  perform private.require_page_size(p_limit);
  perform private.require_known_filter(jsonb_strip_nulls(p_filter));
  return query
  select l.id, l.document_id, l.document_name, l.case_id, c.name::text, d.lane::text, d.ocr_status::text,
    d.page_count::integer, l.status, l.error_category, l.error_group, l.last_error_message, l.failure_count,
    l.first_failed_at, l.last_failed_at,
    case when v_hac and l.reviewed_at is not null then private.name_of(l.reviewed_by) end, l.reviewed_at, l.resolution_notes
  from private.matching_dead_letters(jsonb_strip_nulls(p_filter), p_before, p_before_id, p_limit) as l
  join public.documents as d on d.id = l.document_id
  join public.cases as c on c.id = l.case_id
  order by l.last_failed_at desc, l.id desc;
end;
$$;
comment on function private.list_dead_letters(jsonb, timestamptz, uuid, integer) is 'See public.list_dead_letters.';
grant execute on function private.list_dead_letters(jsonb, timestamptz, uuid, integer) to authenticated, service_role;

create function public.list_dead_letters(
  p_filter jsonb default '{}',
  p_before timestamptz default null,
  p_before_id uuid default null,
  p_limit integer default 50
)
returns table (
  dlq_id uuid,
  document_id uuid,
  document_name text,
  case_id uuid,
  case_name text,
  lane text,
  ocr_status text,
  page_count integer,
  status text,
  error_category text,
  error_group text,
  last_error_message text,
  failure_count integer,
  first_failed_at timestamptz,
  last_failed_at timestamptz,
  reviewed_by text,
  reviewed_at timestamptz,
  resolution_notes text
)
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.list_dead_letters(p_filter, p_before, p_before_id, p_limit);
$$;
comment on function public.list_dead_letters(jsonb, timestamptz, uuid, integer) is
  'Dead letters the caller may see that match a filter as of resolve_dead_letters (an empty one: all that are open), '
  'the last failed first. Goes on after the one of p_before_id, which failed at p_before. Who decided is told to HAC only.';
grant execute on function public.list_dead_letters(jsonb, timestamptz, uuid, integer) to authenticated, service_role;

create function private.dead_letter_groups(p_filter jsonb, p_limit integer, p_offset integer)
returns table (
  error_group text,
  letters bigint,
  error_categories text[],
  cases bigint,
  first_failed_at timestamptz,
  last_failed_at timestamptz
)
language plpgsql
stable
security definer          -- asks who the caller is
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_page_size(p_limit);
  if (p_offset >= 0) is not true then
    raise exception 'p_offset must not be negative' using errcode = '22023', hint = 'Read the groups page by page.';
  end if;
  perform private.require_known_filter(jsonb_strip_nulls(p_filter));
  return query
  select l.error_group, count(*), array_agg(distinct l.error_category), count(distinct l.case_id),
    min(l.first_failed_at), max(l.last_failed_at)
  from private.matching_dead_letters(jsonb_strip_nulls(p_filter)) as l
  group by l.error_group
  order by 2 desc, 6 desc, 1
  limit p_limit offset p_offset;
end;
$$;
comment on function private.dead_letter_groups(jsonb, integer, integer) is 'See public.dead_letter_groups.';
grant execute on function private.dead_letter_groups(jsonb, integer, integer) to authenticated, service_role;

create function public.dead_letter_groups(p_filter jsonb default '{}', p_limit integer default 50, p_offset integer default 0)
returns table (
  error_group text,
  letters bigint,
  error_categories text[],
  cases bigint,
  first_failed_at timestamptz,
  last_failed_at timestamptz
)
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.dead_letter_groups(p_filter, p_limit, p_offset);
$$;
comment on function public.dead_letter_groups(jsonb, integer, integer) is
  'The same dead letters as list_dead_letters, by what went wrong: how many, since when, when last; the largest groups first.';
grant execute on function public.dead_letter_groups(jsonb, integer, integer) to authenticated, service_role;

create function private.count_dead_letters(p_filter jsonb)
returns bigint
language plpgsql
stable
security definer          -- asks who the caller is
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_known_filter(jsonb_strip_nulls(p_filter));
  return (select count(*) from private.matching_dead_letters(jsonb_strip_nulls(p_filter)));
end;
$$;
comment on function private.count_dead_letters(jsonb) is 'See public.count_dead_letters.';
grant execute on function private.count_dead_letters(jsonb) to authenticated, service_role;

create function public.count_dead_letters(p_filter jsonb default '{}')
returns bigint
language sql
stable
security invoker
set search_path = ''
as $$
  select private.count_dead_letters(p_filter);
$$;
comment on function public.count_dead_letters(jsonb) is
  'How many dead letters match a filter as of resolve_dead_letters; ask before acting on all of them.';
grant execute on function public.count_dead_letters(jsonb) to authenticated, service_role;

create function private.already_settled(p_letter public.ocr_dead_letter, p_ocr_status text)
returns jsonb
language sql
stable
security invoker
set search_path = ''
as $$
  select jsonb_build_object(
    'success', false, 'dlq_id', (p_letter).id, 'document_id', (p_letter).document_id, 'name', (p_letter).document_name,
    'status', (p_letter).status, 'resolved_by', private.name_of((p_letter).reviewed_by), 'resolved_at', (p_letter).reviewed_at
  ) || case (p_letter).status
    when 'investigating' then jsonb_build_object(
      'error', 'BEING_INVESTIGATED',
      'message', format(
        '%s has been investigating it since %s', private.name_of((p_letter).reviewed_by), private.moment((p_letter).reviewed_at)
      )
    )
    else jsonb_build_object(
      'error', 'ALREADY_RESOLVED',
      'message', format(
        '%s by %s at %s; its document is %s',
        case (p_letter).status when 'manual' then 'sent to be typed' else (p_letter).status end,
        private.name_of((p_letter).reviewed_by), private.moment((p_letter).reviewed_at), replace(p_ocr_status, '_', ' ')
      )
    )
  end;
$$;
comment on function private.already_settled(public.ocr_dead_letter, text) is
  'The answer to a decision that came second: who decided what, and when.';

create or replace function private.settle_dead_letter(p_dlq_id uuid, p_action text, p_notes text, p_now timestamptz)
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
  if v_letter.status not in ('pending', 'investigating') or v_document.ocr_status <> 'dead_letter'
    or (p_action = 'investigate' and v_letter.status = 'investigating' and v_letter.reviewed_by <> auth.uid()) then
    return private.already_settled(v_letter, v_document.ocr_status);
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
      where t.document_id = v_document.id and t.kind = 'dead_letter' and t.status in ('pending', 'in_progress');
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
  return jsonb_strip_nulls(jsonb_build_object(
    'success', true, 'dlq_id', p_dlq_id, 'document_id', v_document.id,
    'investigated_by', case when v_letter.status = 'investigating' and v_letter.reviewed_by <> auth.uid()
      then private.name_of(v_letter.reviewed_by) end
  ));
end;
$$;
comment on function private.settle_dead_letter(uuid, text, text, timestamptz) is
  'Carry out one decision about one dead letter; who decides second is told who was first. investigated_by: somebody '
  'else was still looking into it.';

create or replace function private.resolve_dead_letters(
  p_filter jsonb,
  p_action text,
  p_notes text,
  p_now timestamptz default now()
)
returns jsonb
language plpgsql
volatile
security definer          -- HAC holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_filter jsonb := jsonb_strip_nulls(p_filter);   -- a null in it asks for nothing
  v_id uuid;
  v_answer jsonb;
  v_resolved jsonb[] := '{}';   -- not one jsonb, which would be copied for each of thousands
  v_skipped jsonb[] := '{}';
begin
  perform private.require_action(p_action, p_notes);
  perform private.require_filter(v_filter);
  for v_id in
    select l.id from private.matching_dead_letters(v_filter) as l order by l.document_id
  loop
    v_answer := private.settle_dead_letter(v_id, p_action, p_notes, p_now);
    if (v_answer ->> 'success')::boolean then
      v_resolved := v_resolved || v_answer;
    else
      v_skipped := v_skipped || v_answer;
    end if;
  end loop;
  v_skipped := v_skipped || array(
    select jsonb_build_object(
      'success', false, 'error', 'DEAD_LETTER_NOT_FOUND', 'dlq_id', i, 'message', 'there is no such dead letter'
    )
    from jsonb_array_elements_text(v_filter -> 'ids') as i
    where not exists (select 1 from public.ocr_dead_letter as l where l.id::text = lower(i))
  );
  return jsonb_build_object(
    'success', true, 'resolved', cardinality(v_resolved), 'documents', to_jsonb(v_resolved), 'skipped', to_jsonb(v_skipped)
  );
end;
$$;
comment on function private.resolve_dead_letters(jsonb, text, text, timestamptz) is 'See public.resolve_dead_letters.';

-- What happened to a document ---------------------------------------------------------------

create function private.document_history(p_document_id uuid, p_limit integer)
returns table (
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
)
language plpgsql
stable
security definer          -- names of people are not the caller's to read
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
      case when a.user_id is null then null when v_hac or a.user_id = auth.uid() then private.name_of(a.user_id) else 'HAC or a member' end
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

create function public.document_history(p_document_id uuid, p_limit integer default 100)
returns table (
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
)
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.document_history(p_document_id, p_limit);
$$;
comment on function public.document_history(uuid, integer) is
  'For the people of its case and HAC: every error, act and result of a document, newest first. An act without a person '
  'was a machine''s or an operator''s; addresses are shown to HAC only.';
grant execute on function public.document_history(uuid, integer) to authenticated, service_role;

-- Stuck documents ---------------------------------------------------------------------------

create function private.stuck_documents(p_limit integer, p_now timestamptz default now())
returns table (
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
  max_rescues integer
)
language plpgsql
stable
security definer          -- nobody else sees the claims
set search_path = pg_catalog, pg_temp
set enable_seqscan = off  -- a handful, by their ids
as $$
begin
  perform private.require_admin();
  perform private.require_page_size(p_limit);
  return query
  select d.id, d.name::text, d.case_id, c.name::text, d.lane::text, d.locked_by, d.claimed_at,
    extract(epoch from p_now - coalesce(d.claimed_at, d.updated_at))::double precision,
    extract(epoch from p_now - d.locked_at)::double precision,
    d.lock_expires_at, d.attempt_deadline, s.swept_at,
    -- As private.sweep() says: when the lock is over, but not before everybody could be heard again.
    greatest(
      coalesce(d.lock_expires_at, d.updated_at + interval '20 seconds'),
      s.resumed_at + coalesce(d.lock_expires_at - d.locked_at, interval '20 seconds')
    ),
    (
      select count(*) from public.ocr_pages as o where o.run_id = d.open_run_id and o.status <> 'failed'
    ),
    d.page_count::integer, d.retry_count::integer, d.max_attempts::integer, d.rescues::integer, l.max_rescues
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

create function public.stuck_documents(p_limit integer default 100)
returns table (
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
  max_rescues integer
)
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.stuck_documents(p_limit);
$$;
comment on function public.stuck_documents(integer) is
  'HAC: documents in the hands of a worker for more than ten minutes, or of one that has not been heard of for five, '
  'the longest held first. sweep_due_at: when the sweep takes it back if its worker stays silent; at attempt_deadline '
  'it does so in any case.';
grant execute on function public.stuck_documents(integer) to authenticated, service_role;

create function private.give_back_documents(p_documents jsonb, p_now timestamptz default now())
returns jsonb
language plpgsql
volatile
security definer          -- HAC holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_item record;
  v_document public.documents;
  v_status text;
  v_done jsonb := '[]';
  v_skipped jsonb := '[]';
begin
  perform private.require_admin();
  perform private.require_list('p_documents', p_documents);
  for v_item in
    select i.document_id, i.claimed_at
    from jsonb_to_recordset(p_documents) as i (document_id uuid, claimed_at timestamptz)
    order by i.document_id
  loop
    select d.* into v_document from public.documents as d where d.id = v_item.document_id for update;
    if not found then
      v_skipped := v_skipped || private.refusal('DOCUMENT_NOT_FOUND', v_item.document_id);
    elsif v_document.ocr_status <> 'processing' then
      v_skipped := v_skipped || private.overtaken(v_document);
    elsif v_document.claimed_at is distinct from v_item.claimed_at then
      v_skipped := v_skipped || (private.refusal('DOCUMENT_LOCKED', v_document.id) || jsonb_build_object(
        'name', v_document.name,
        'message', format('%s has it since %s', v_document.locked_by, private.moment(v_document.claimed_at))
      ));
    else
      v_status := private.rescue(v_document, 'given back by HAC as stuck', p_now);
      perform private.log_act(
        v_document.case_id, v_document.id, 'recover_stuck', format('"%s" given back as stuck', v_document.name),
        'processing', v_status
      );
      v_done := v_done || jsonb_build_object('document_id', v_document.id, 'name', v_document.name, 'ocr_status', v_status);
    end if;
  end loop;
  return jsonb_build_object(
    'success', true, 'done', jsonb_array_length(v_done), 'documents', v_done, 'skipped', v_skipped
  );
end;
$$;
comment on function private.give_back_documents(jsonb, timestamptz) is 'See public.give_back_documents.';
grant execute on function private.give_back_documents(jsonb, timestamptz) to authenticated, service_role;

create function public.give_back_documents(p_documents jsonb)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.give_back_documents(p_documents);
$$;
comment on function public.give_back_documents(jsonb) is
  'HAC: take these documents from whoever claimed them then: [{"document_id", "claimed_at"}, …]. One that somebody else '
  'has by now is left alone. Says how many, and what was skipped and why.';
grant execute on function public.give_back_documents(jsonb) to authenticated, service_role;

-- Files to route ----------------------------------------------------------------------------

create function private.settle_pending(p_document_ids uuid[], p_lane text, p_notes text, p_now timestamptz)
returns jsonb
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_id uuid;
  v_document public.documents;
  v_done uuid[] := '{}';
  v_skipped jsonb := '[]';
begin
  if (cardinality(p_document_ids) between 1 and 1000) is not true then
    raise exception 'p_document_ids must be 1 to 1000 ids' using errcode = '22023', hint = 'Send smaller lists.';
  end if;
  for v_id in
    select distinct i.id from unnest(p_document_ids) as i (id) order by i.id
  loop
    select d.* into v_document from public.documents as d where d.id = v_id for update;
    if not found then
      v_skipped := v_skipped || private.refusal('DOCUMENT_NOT_FOUND', v_id);
    elsif v_document.ocr_status <> 'pending' then
      v_skipped := v_skipped || private.overtaken(v_document);
    else
      if p_lane is null then
        perform private.cancel(v_document, p_notes, p_now);
      else
        perform private.route_document(v_id, p_lane, p_notes, p_now);
      end if;
      v_done := v_done || v_id;
    end if;
  end loop;
  return jsonb_build_object(
    'success', true, 'done', cardinality(v_done), 'documents', to_jsonb(v_done), 'skipped', v_skipped
  );
end;
$$;
comment on function private.settle_pending(uuid[], text, text, timestamptz) is
  'Send files of unknown type to a lane, or without one refuse them.';

create function private.route_documents(p_document_ids uuid[], p_lane text, p_notes text)
returns jsonb
language plpgsql
volatile
security definer          -- HAC holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_admin();
  perform private.require_lane(p_lane);
  perform private.require_optional_text('p_notes', nullif(p_notes, ''), 10000);
  return private.settle_pending(p_document_ids, p_lane, p_notes, now());
end;
$$;
comment on function private.route_documents(uuid[], text, text) is 'See public.route_documents.';
grant execute on function private.route_documents(uuid[], text, text) to authenticated, service_role;

create function public.route_documents(p_document_ids uuid[], p_lane text, p_notes text default null)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.route_documents(p_document_ids, p_lane, p_notes);
$$;
comment on function public.route_documents(uuid[], text, text) is
  'HAC: send files of unknown type to a lane. Says how many, and what was skipped and why.';
grant execute on function public.route_documents(uuid[], text, text) to authenticated, service_role;

create function private.refuse_documents(p_document_ids uuid[], p_reason text)
returns jsonb
language plpgsql
volatile
security definer          -- HAC holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_admin();
  perform private.require_text('p_reason', p_reason, 10000);
  return private.settle_pending(p_document_ids, null, p_reason, now());
end;
$$;
comment on function private.refuse_documents(uuid[], text) is 'See public.refuse_documents.';
grant execute on function private.refuse_documents(uuid[], text) to authenticated, service_role;

create function public.refuse_documents(p_document_ids uuid[], p_reason text)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.refuse_documents(p_document_ids, p_reason);
$$;
comment on function public.refuse_documents(uuid[], text) is
  'HAC: cancel files of unknown type unread, and say why. What was routed meanwhile is left alone, and told.';
grant execute on function public.refuse_documents(uuid[], text) to authenticated, service_role;

-- Tasks -------------------------------------------------------------------------------------

create function private.urgency_of(p_priority text)
returns integer
language sql
immutable
security invoker
set search_path = ''
as $$
  select case p_priority when 'urgent' then 1 when 'high' then 2 when 'normal' then 3 when 'low' then 4 end;
$$;
comment on function private.urgency_of(text) is 'Priorities of tasks as numbers, the most urgent first.';

alter table public.tasks add column urgency integer not null generated always as (private.urgency_of(priority)) stored;
comment on column public.tasks.urgency is 'Its priority as a number, to sort by: 1 is urgent.';

drop index public.tasks_open_idx;
create index tasks_open_idx on public.tasks (urgency, created_at, id) where status in ('pending', 'in_progress');
create index tasks_open_kind_idx on public.tasks (kind, urgency, created_at, id) where status in ('pending', 'in_progress');
create index tasks_open_assigned_idx on public.tasks (assigned_to, urgency, created_at, id)
  where status in ('pending', 'in_progress');

create function private.require_priority(p_priority text)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if private.urgency_of(p_priority) is null then
    raise exception 'there is no priority %', coalesce(p_priority, 'null')
      using errcode = '22023', hint = 'Priorities are low, normal, high, urgent.';
  end if;
end;
$$;
comment on function private.require_priority(text) is 'Refuse an unknown priority of a task (22023).';

create function private.require_one_of_hac(p_user_id uuid)
returns void
language plpgsql
stable
security invoker
set search_path = ''
as $$
begin
  if p_user_id is not null and not private.has_role(p_user_id, 'admin') then
    raise exception '% is not one of HAC', p_user_id
      using errcode = '22023', hint = 'Give the task to somebody of list_people(p_admin => true).';
  end if;
end;
$$;
comment on function private.require_one_of_hac(uuid) is 'Refuse to give work to whoever could not do it (22023).';

create function private.list_tasks(
  p_kind text,
  p_whose text,
  p_priority text,
  p_after_urgency integer,
  p_after timestamptz,
  p_after_id uuid,
  p_limit integer
)
returns table (
  task_id uuid,
  kind text,
  title text,
  description text,
  priority text,
  urgency integer,
  status text,
  assigned_to uuid,
  assigned_email text,
  created_at timestamptz,
  metadata jsonb,
  document_id uuid,
  document_name text,
  ocr_status text,
  lane text,
  file_extension text,
  mime_type text,
  size_bytes bigint,
  page_count integer,
  case_id uuid,
  case_name text
)
language plpgsql
stable
security definer          -- names of people are not the caller's to read
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan   -- what is not asked for must not be in the way of an index
as $$
declare
  v_me uuid := auth.uid();
  v_urgency integer := private.urgency_of(p_priority);
begin
  perform private.require_admin();
  perform private.require_page_size(p_limit);
  if p_kind not in ('dead_letter', 'review', 'routing', 'outage', 'other') then
    raise exception 'there is no task of kind %', p_kind
      using errcode = '22023', hint = 'Kinds are dead_letter, review, routing, outage, other.';
  end if;
  if (p_whose in ('all', 'mine', 'unassigned')) is not true then
    raise exception 'p_whose must be all, mine or unassigned' using errcode = '22023', hint = 'Leave it out to see all.';
  end if;
  if p_priority is not null then
    perform private.require_priority(p_priority);
  end if;
  return query
  select t.id, t.kind, t.title, t.description, t.priority, t.urgency, t.status, t.assigned_to,
    case when t.assigned_to is not null then private.name_of(t.assigned_to) end, t.created_at, t.metadata,
    t.document_id, d.name::text, d.ocr_status::text, d.lane::text, d.file_extension::text, d.mime_type::text,
    d.size_bytes::bigint, d.page_count::integer, t.case_id, c.name::text
  from public.tasks as t
  left join public.documents as d on d.id = t.document_id
  left join public.cases as c on c.id = t.case_id
  where t.status in ('pending', 'in_progress')
    and (t.urgency, t.created_at, t.id) > (
      coalesce(p_after_urgency, 0), coalesce(p_after, '-infinity'),
      coalesce(p_after_id, '00000000-0000-0000-0000-000000000000')
    )
    and (p_kind is null or t.kind = p_kind)
    and (v_urgency is null or t.urgency = v_urgency)
    and case p_whose when 'mine' then t.assigned_to = v_me when 'unassigned' then t.assigned_to is null else true end
  order by t.urgency, t.created_at, t.id
  limit p_limit;
end;
$$;
comment on function private.list_tasks(text, text, text, integer, timestamptz, uuid, integer) is 'See public.list_tasks.';
grant execute on function private.list_tasks(text, text, text, integer, timestamptz, uuid, integer)
  to authenticated, service_role;

create function public.list_tasks(
  p_kind text default null,
  p_whose text default 'all',
  p_priority text default null,
  p_after_urgency integer default null,
  p_after timestamptz default null,
  p_after_id uuid default null,
  p_limit integer default 50
)
returns table (
  task_id uuid,
  kind text,
  title text,
  description text,
  priority text,
  urgency integer,
  status text,
  assigned_to uuid,
  assigned_email text,
  created_at timestamptz,
  metadata jsonb,
  document_id uuid,
  document_name text,
  ocr_status text,
  lane text,
  file_extension text,
  mime_type text,
  size_bytes bigint,
  page_count integer,
  case_id uuid,
  case_name text
)
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.list_tasks(p_kind, p_whose, p_priority, p_after_urgency, p_after, p_after_id, p_limit);
$$;
comment on function public.list_tasks(text, text, text, integer, timestamptz, uuid, integer) is
  'HAC: open tasks, the most urgent first, then the oldest, with the document they are about. Goes on after the task of '
  'p_after_id, of that urgency and made at p_after. p_whose is all, mine or unassigned.';
grant execute on function public.list_tasks(text, text, text, integer, timestamptz, uuid, integer)
  to authenticated, service_role;

create function private.create_task(p_title text, p_description text, p_priority text, p_assigned_to uuid)
returns jsonb
language plpgsql
volatile
security definer          -- HAC holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_id uuid;
begin
  perform private.require_admin();
  perform private.require_text('p_title', p_title, 500);
  perform private.require_optional_text('p_description', nullif(p_description, ''), 10000);
  perform private.require_priority(p_priority);
  perform private.require_one_of_hac(p_assigned_to);
  insert into public.tasks (title, description, priority, assigned_to, status)
  values (
    p_title, nullif(p_description, ''), p_priority, p_assigned_to,
    case when p_assigned_to is null then 'pending' else 'in_progress' end
  )
  returning id into v_id;
  perform private.log_act(
    null, null, 'task_created', p_title, null, null, jsonb_build_object('task_id', v_id, 'assigned_to', p_assigned_to)
  );
  return jsonb_build_object('success', true, 'task_id', v_id);
end;
$$;
comment on function private.create_task(text, text, text, uuid) is 'See public.create_task.';
grant execute on function private.create_task(text, text, text, uuid) to authenticated, service_role;

create function public.create_task(
  p_title text,
  p_description text default null,
  p_priority text default 'normal',
  p_assigned_to uuid default null
)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.create_task(p_title, p_description, p_priority, p_assigned_to);
$$;
comment on function public.create_task(text, text, text, uuid) is 'HAC: note something that somebody of HAC is to do.';
grant execute on function public.create_task(text, text, text, uuid) to authenticated, service_role;

create function private.lock_task(p_task_id uuid)
returns public.tasks
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_task public.tasks;
begin
  perform private.require_admin();
  select t.* into v_task from public.tasks as t where t.id = p_task_id for update;
  return v_task;
end;
$$;
comment on function private.lock_task(uuid) is 'The task, locked, for one of HAC (42501 otherwise).';

create function private.task_refusal(p_task public.tasks, p_task_id uuid)
returns jsonb
language sql
stable
security invoker
set search_path = ''
as $$
  select case
    when (p_task).id is null then jsonb_build_object(
      'success', false, 'error', 'TASK_NOT_FOUND', 'task_id', p_task_id, 'message', 'there is no such task'
    )
    when (p_task).done_at is not null then jsonb_build_object(
      'success', false, 'error', 'TASK_ENDED', 'task_id', p_task_id,
      'message', format(
        'it is %s already, by %s at %s', (p_task).status, private.name_of((p_task).done_by), private.moment((p_task).done_at)
      )
    )
  end;
$$;
comment on function private.task_refusal(public.tasks, uuid) is
  'Why nothing can be done with a task any more: it is gone, or somebody ended it; null when something can.';

create function private.assign_task(p_task_id uuid, p_user_id uuid, p_from uuid)
returns jsonb
language plpgsql
volatile
security definer          -- HAC holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task public.tasks := private.lock_task(p_task_id);
begin
  perform private.require_one_of_hac(p_user_id);
  if v_task.id is null or v_task.done_at is not null then
    return private.task_refusal(v_task, p_task_id);
  end if;
  if v_task.assigned_to is distinct from p_from then
    return jsonb_build_object(
      'success', false, 'error', 'TASK_TAKEN', 'task_id', p_task_id,
      'message', case
        when v_task.assigned_to is null then format('it was given back at %s', private.moment(v_task.updated_at))
        else format('%s has had it since %s', private.name_of(v_task.assigned_to), private.moment(v_task.updated_at))
      end
    );
  end if;
  update public.tasks as t
  set assigned_to = p_user_id, status = case when p_user_id is null then 'pending' else 'in_progress' end, updated_at = now()
  where t.id = p_task_id;
  perform private.log_act(
    v_task.case_id, v_task.document_id, case when p_user_id is null then 'task_given_back' else 'task_assigned' end,
    v_task.title, null, null, jsonb_build_object('task_id', p_task_id, 'assigned_to', p_user_id, 'from', p_from)
  );
  return jsonb_build_object('success', true, 'task_id', p_task_id);
end;
$$;
comment on function private.assign_task(uuid, uuid, uuid) is 'See public.assign_task.';
grant execute on function private.assign_task(uuid, uuid, uuid) to authenticated, service_role;

create function public.assign_task(p_task_id uuid, p_user_id uuid default null, p_from uuid default null)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.assign_task(p_task_id, p_user_id, p_from);
$$;
comment on function public.assign_task(uuid, uuid, uuid) is
  'HAC: give a task to one of HAC, or back to all (null). p_from is who had it; if that is no longer so, nothing changes.';
grant execute on function public.assign_task(uuid, uuid, uuid) to authenticated, service_role;

create function private.set_task_priority(p_task_id uuid, p_priority text)
returns jsonb
language plpgsql
volatile
security definer          -- HAC holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task public.tasks := private.lock_task(p_task_id);
begin
  perform private.require_priority(p_priority);
  if v_task.id is null or v_task.done_at is not null then
    return private.task_refusal(v_task, p_task_id);
  end if;
  update public.tasks as t set priority = p_priority, updated_at = now() where t.id = p_task_id;
  perform private.log_act(
    v_task.case_id, v_task.document_id, 'task_priority', v_task.title, null, null,
    jsonb_build_object('task_id', p_task_id, 'from', v_task.priority, 'to', p_priority)
  );
  return jsonb_build_object('success', true, 'task_id', p_task_id);
end;
$$;
comment on function private.set_task_priority(uuid, text) is 'See public.set_task_priority.';
grant execute on function private.set_task_priority(uuid, text) to authenticated, service_role;

create function public.set_task_priority(p_task_id uuid, p_priority text)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.set_task_priority(p_task_id, p_priority);
$$;
comment on function public.set_task_priority(uuid, text) is 'HAC: make a task low, normal, high or urgent.';
grant execute on function public.set_task_priority(uuid, text) to authenticated, service_role;

create function private.end_task(p_task_id uuid, p_status text, p_notes text)
returns jsonb
language plpgsql
volatile
security definer          -- HAC holds no rights to write tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ocr_status text;
  v_task public.tasks;
begin
  -- The document first, as everywhere.
  select d.ocr_status into v_ocr_status from public.documents as d
  where d.id = (select t.document_id from public.tasks as t where t.id = p_task_id)
  for share;
  v_task := private.lock_task(p_task_id);
  if (p_status in ('done', 'cancelled')) is not true then
    raise exception 'a task cannot end as %', coalesce(p_status, 'null')
      using errcode = '22023', hint = 'It ends as done or cancelled.';
  end if;
  perform private.require_optional_text('p_notes', nullif(p_notes, ''), 10000);
  if v_task.id is null or v_task.done_at is not null then
    return private.task_refusal(v_task, p_task_id);
  end if;
  if not (v_task.kind = 'other' or (v_task.kind = 'review' and v_ocr_status = 'completed')) then
    return jsonb_build_object(
      'success', false, 'error', 'NOT_BY_HAND', 'task_id', p_task_id,
      'message', 'this task ends by itself when the thing it is about is done'
    );
  end if;
  update public.tasks as t
  set status = p_status, done_at = now(), done_by = auth.uid(), updated_at = now()
  where t.id = p_task_id;
  perform private.log_act(
    v_task.case_id, v_task.document_id, 'task_' || p_status, coalesce(nullif(p_notes, ''), v_task.title), null, null,
    jsonb_build_object('task_id', p_task_id)
  );
  return jsonb_build_object('success', true, 'task_id', p_task_id);
end;
$$;
comment on function private.end_task(uuid, text, text) is 'See public.end_task.';
grant execute on function private.end_task(uuid, text, text) to authenticated, service_role;

create function public.end_task(p_task_id uuid, p_status text default 'done', p_notes text default null)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.end_task(p_task_id, p_status, p_notes);
$$;
comment on function public.end_task(uuid, text, text) is
  'HAC: end a task as done or cancelled that nothing else ends: one made by hand, or a look at pages that proved fine.';
grant execute on function public.end_task(uuid, text, text) to authenticated, service_role;
