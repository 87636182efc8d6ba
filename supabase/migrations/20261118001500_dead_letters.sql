-- Dead letters, as HAC sees them: lists, groups by cause, decisions.
--
-- The queue moves documents here (move_to_dead_letter in queue). HAC investigates a dead letter, requeues
-- it (counts reset, history kept), has its text typed by hand (manual), or abandons it; each decision is
-- an audit entry. Bulk decisions take a filter, which must not be empty, and report what they skipped. Of
-- two decisions about one dead letter the second is refused, with the name of the user who made the first.

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
    raise exception 'unknown action %', coalesce(p_action, 'null')
      using errcode = '22023', hint = 'Valid actions are investigate, requeue, manual, abandon.';
  end if;
  perform private.require_optional_text('p_notes', nullif(p_notes, ''), 10000);
end;
$$;
comment on function private.require_action(text, text) is
  'Reject callers other than HAC (42501), unknown actions and overlong notes (22023).';

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
    raise exception 'the filter must be an object' using errcode = '22023', hint = 'For example {"error_category": "permanent"} or {}.';
  end if;
  select k into v_unknown from jsonb_object_keys(p_filter) as k
  where k not in ('ids', 'case_id', 'lane', 'error_category', 'error_group', 'status', 'failed_before', 'name') limit 1;
  if found then
    raise exception 'unknown key "%" in the filter', v_unknown using errcode = '22023',
      hint = 'Valid keys are ids, case_id, lane, error_category, error_group, status, failed_before, name.';
  end if;
  if jsonb_typeof(p_filter -> 'ids') <> 'array' then
    raise exception 'the ids in the filter must be a list' using errcode = '22023', hint = 'For example {"ids": ["…"]}.';
  end if;
  if p_filter ->> 'status' not in ('pending', 'investigating', 'requeued', 'manual', 'abandoned') then
    raise exception 'unknown status % in the filter', p_filter ->> 'status' using errcode = '22023',
      hint = 'Valid statuses are pending, investigating, requeued, manual, abandoned.';
  end if;
  perform private.require_optional_text('the name in the filter', p_filter ->> 'name', 1000);
  if p_filter ? 'lane' then
    perform private.require_lane(p_filter ->> 'lane');
  end if;
  if p_filter ? 'error_category' then
    perform private.require_category(p_filter ->> 'error_category');
  end if;
end;
$$;
comment on function private.require_known_filter(jsonb) is 'Reject an invalid filter (22023).';

create function private.require_filter(p_filter jsonb)
returns void
language plpgsql
stable
security invoker
set search_path = ''
as $$
begin
  if (jsonb_typeof(p_filter) = 'object' and p_filter <> '{}') is not true then
    raise exception 'the filter is empty' using errcode = '22023',
      hint = 'Set at least one of ids, case_id, lane, error_category, error_group, status, failed_before, name.';
  end if;
  perform private.require_known_filter(p_filter);
end;
$$;
comment on function private.require_filter(jsonb) is 'Reject an empty or invalid filter (22023).';

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
rows 50                                   -- reads one page of them
set search_path = ''
set plan_cache_mode = force_custom_plan   -- filters that are null must not prevent an index scan
set enable_seqscan = off                  -- few dead letters are open, many are settled
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
    -- By name everything is tried, so that skipped ones are reported; by property only what is open.
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
  'The dead letters that match a filter and that the caller may see, latest failures first; only open ones if the '
  'filter has no status.';

create type public.dead_letter_answer as (
  success boolean,
  error text,
  message text,
  dlq_id text,
  document_id uuid,
  name text,
  status text,
  resolved_by text,
  resolved_at timestamptz,
  investigated_by text
);
comment on type public.dead_letter_answer is
  'A decision about a dead letter (dlq_id as passed by the caller). A second decision is rejected, and the result '
  'contains the first decision with its user and time. investigated_by: another user who was still investigating it. '
  'Nullable: error, message, document_id, name, status, resolved_by, resolved_at, investigated_by.';

create function private.dead_letter_not_found(p_dlq_id text)
returns public.dead_letter_answer
language plpgsql
immutable
security invoker
set search_path = ''
as $$
declare
  v_answer public.dead_letter_answer;
begin
  v_answer.success := false;
  v_answer.error := 'DEAD_LETTER_NOT_FOUND';
  v_answer.message := 'there is no such dead letter';
  v_answer.dlq_id := p_dlq_id;
  return v_answer;
end;
$$;
comment on function private.dead_letter_not_found(text) is
  'The result of a decision about a dead letter that does not exist.';

create function private.already_resolved(p_letter public.ocr_dead_letter, p_ocr_status text)
returns public.dead_letter_answer
language plpgsql
stable
security invoker
set search_path = ''
as $$
declare
  v_answer public.dead_letter_answer;
begin
  v_answer.success := false;
  v_answer.dlq_id := p_letter.id;
  v_answer.document_id := p_letter.document_id;
  v_answer.name := p_letter.document_name;
  v_answer.status := p_letter.status;
  v_answer.resolved_by := private.display_name(p_letter.reviewed_by);
  v_answer.resolved_at := p_letter.reviewed_at;
  if p_letter.status = 'investigating' then
    v_answer.error := 'BEING_INVESTIGATED';
    v_answer.message := format(
      '%s has been investigating it since %s', v_answer.resolved_by, private.format_time(p_letter.reviewed_at)
    );
  else
    v_answer.error := 'ALREADY_RESOLVED';
    v_answer.message := format(
      '%s by %s at %s; its document is %s',
      case p_letter.status when 'manual' then 'sent for typing' else p_letter.status end,
      v_answer.resolved_by, private.format_time(p_letter.reviewed_at), replace(p_ocr_status, '_', ' ')
    );
  end if;
  return v_answer;
end;
$$;
comment on function private.already_resolved(public.ocr_dead_letter, text) is
  'Return the error for a decision about a dead letter that is already resolved: who resolved it, how and when.';

create function private.apply_decision(p_dlq_id uuid, p_action text, p_notes text, p_now timestamptz)
returns public.dead_letter_answer
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_document public.documents;
  v_letter public.ocr_dead_letter;
  v_status text;
  v_answer public.dead_letter_answer;
begin
  -- The document first, as everywhere; then the letter, which may have changed while we waited.
  select d.* into v_document from public.documents as d
  join public.ocr_dead_letter as l on l.document_id = d.id
  where l.id = p_dlq_id
  for update of d;
  select l.* into v_letter from public.ocr_dead_letter as l where l.id = p_dlq_id for update;
  if v_letter.id is null then
    return private.dead_letter_not_found(p_dlq_id::text);
  end if;
  if v_letter.status not in ('pending', 'investigating') or v_document.ocr_status <> 'dead_letter'
    or (p_action = 'investigate' and v_letter.status = 'investigating' and v_letter.reviewed_by <> auth.uid()) then
    return private.already_resolved(v_letter, v_document.ocr_status);
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
        v_document.case_id, v_document.id, 'review', 'Type the text by hand',
        format('"%s" could not be read automatically', v_document.name), 'high',
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
  v_answer.success := true;
  v_answer.dlq_id := p_dlq_id;
  v_answer.document_id := v_document.id;
  if v_letter.status = 'investigating' and v_letter.reviewed_by <> auth.uid() then
    v_answer.investigated_by := private.display_name(v_letter.reviewed_by);
  end if;
  return v_answer;
end;
$$;
comment on function private.apply_decision(uuid, text, text, timestamptz) is
  'Apply one decision to one dead letter; a second decision is rejected, naming the user who made the first.';

create function private.resolve_dead_letter(p_dlq_id uuid, p_action text, p_notes text, p_now timestamptz default now())
returns public.dead_letter_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_action(p_action, p_notes);
  return private.apply_decision(p_dlq_id, p_action, p_notes, p_now);
end;
$$;
comment on function private.resolve_dead_letter(uuid, text, text, timestamptz) is 'See public.resolve_dead_letter.';
grant execute on function private.resolve_dead_letter(uuid, text, text, timestamptz) to authenticated, service_role;

create type public.resolve_dead_letters_answer as (
  success boolean,
  resolved integer,
  documents public.dead_letter_answer[],
  skipped public.dead_letter_answer[]
);
comment on type public.resolve_dead_letters_answer is
  'The dead letters that were resolved and their count, and those that were skipped, with the reason.';

create function private.resolve_dead_letters(
  p_filter jsonb,
  p_action text,
  p_notes text,
  p_now timestamptz default now()
)
returns public.resolve_dead_letters_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_filter jsonb := jsonb_strip_nulls(p_filter);   -- a null in it asks for nothing
  v_id uuid;
  v_answer public.dead_letter_answer;
  v_resolved public.dead_letter_answer[] := '{}';
  v_skipped public.dead_letter_answer[] := '{}';
begin
  perform private.require_action(p_action, p_notes);
  perform private.require_filter(v_filter);
  for v_id in
    select l.id from private.matching_dead_letters(v_filter) as l order by l.document_id
  loop
    v_answer := private.apply_decision(v_id, p_action, p_notes, p_now);
    if v_answer.success then
      v_resolved := v_resolved || v_answer;
    else
      v_skipped := v_skipped || v_answer;
    end if;
  end loop;
  v_skipped := v_skipped || array(
    select private.dead_letter_not_found(i)
    from jsonb_array_elements_text(v_filter -> 'ids') as i
    where not exists (select 1 from public.ocr_dead_letter as l where l.id::text = lower(i))
  );
  return (true, cardinality(v_resolved), v_resolved, v_skipped);
end;
$$;
comment on function private.resolve_dead_letters(jsonb, text, text, timestamptz) is 'See public.resolve_dead_letters.';
grant execute on function private.resolve_dead_letters(jsonb, text, text, timestamptz) to authenticated, service_role;

create type public.listed_dead_letter as (
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
);
comment on type public.listed_dead_letter is
  'A dead letter with its document, its case and the decision about it, if any. Nullable: page_count, '
  'last_error_message, reviewed_by, reviewed_at, resolution_notes.';

create function private.list_dead_letters(p_filter jsonb, p_before timestamptz, p_before_id uuid, p_limit integer)
returns setof public.listed_dead_letter
language plpgsql
stable
security definer          -- checks the caller; callers may not read the names of users
set search_path = pg_catalog, pg_temp
set enable_seqscan = off  -- reads one page of them by id
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
    case when v_hac and l.reviewed_at is not null then private.display_name(l.reviewed_by) end, l.reviewed_at, l.resolution_notes
  from private.matching_dead_letters(jsonb_strip_nulls(p_filter), p_before, p_before_id, p_limit) as l
  join public.documents as d on d.id = l.document_id
  join public.cases as c on c.id = l.case_id
  order by l.last_failed_at desc, l.id desc;
end;
$$;
comment on function private.list_dead_letters(jsonb, timestamptz, uuid, integer) is 'See public.list_dead_letters.';
grant execute on function private.list_dead_letters(jsonb, timestamptz, uuid, integer) to authenticated, service_role;

create type public.dead_letter_group as (
  error_group text,
  letters bigint,
  error_categories text[],
  cases bigint,
  first_failed_at timestamptz,
  last_failed_at timestamptz
);
comment on type public.dead_letter_group is
  'Dead letters in one error group: their number, and when the first and the last of them failed.';

create function private.dead_letter_groups(p_filter jsonb, p_limit integer, p_offset integer)
returns setof public.dead_letter_group
language plpgsql
stable
security definer          -- checks the caller
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

create function private.count_dead_letters(p_filter jsonb)
returns bigint
language plpgsql
stable
security definer          -- checks the caller
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_known_filter(jsonb_strip_nulls(p_filter));
  return (select count(*) from private.matching_dead_letters(jsonb_strip_nulls(p_filter)));
end;
$$;
comment on function private.count_dead_letters(jsonb) is 'See public.count_dead_letters.';
grant execute on function private.count_dead_letters(jsonb) to authenticated, service_role;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.resolve_dead_letter(p_dlq_id uuid, p_action text, p_notes text default null)
returns public.dead_letter_answer
language sql volatile security invoker set search_path = ''
as $$ select * from private.resolve_dead_letter(p_dlq_id, p_action, p_notes) $$;
comment on function public.resolve_dead_letter(uuid, text, text) is
  'HAC: apply an action to a dead letter: investigate, requeue (counts are reset, history is kept), manual (a user '
  'types the text) or abandon.';
grant execute on function public.resolve_dead_letter(uuid, text, text) to authenticated, service_role;

create function public.resolve_dead_letters(p_filter jsonb, p_action text, p_notes text default null)
returns public.resolve_dead_letters_answer
language sql volatile security invoker set search_path = ''
as $$ select * from private.resolve_dead_letters(p_filter, p_action, p_notes) $$;
comment on function public.resolve_dead_letters(jsonb, text, text) is
  'HAC: apply an action to all dead letters that match a filter, which must not be empty. Returns the number '
  'resolved, and the skipped ones with the reason.';
grant execute on function public.resolve_dead_letters(jsonb, text, text) to authenticated, service_role;

create function public.list_dead_letters(
  p_filter jsonb default '{}',
  p_before timestamptz default null,
  p_before_id uuid default null,
  p_limit integer default 50
)
returns setof public.listed_dead_letter
language sql stable security invoker set search_path = ''
as $$ select * from private.list_dead_letters(p_filter, p_before, p_before_id, p_limit) $$;
comment on function public.list_dead_letters(jsonb, timestamptz, uuid, integer) is
  'Dead letters that the caller may see and that match a filter (see resolve_dead_letters; an empty filter matches '
  'all open ones), latest failures first. Continues after the dead letter p_before_id, which failed at p_before. Only '
  'HAC sees who made a decision.';
grant execute on function public.list_dead_letters(jsonb, timestamptz, uuid, integer) to authenticated, service_role;

create function public.dead_letter_groups(
  p_filter jsonb default '{}',
  p_limit integer default 50,
  p_offset integer default 0
)
returns setof public.dead_letter_group
language sql stable security invoker set search_path = ''
as $$ select * from private.dead_letter_groups(p_filter, p_limit, p_offset) $$;
comment on function public.dead_letter_groups(jsonb, integer, integer) is
  'The dead letters of list_dead_letters, grouped by error: their number, and when the first and the last failed; '
  'largest groups first.';
grant execute on function public.dead_letter_groups(jsonb, integer, integer) to authenticated, service_role;

create function public.count_dead_letters(p_filter jsonb default '{}')
returns bigint
language sql stable security invoker set search_path = ''
as $$ select private.count_dead_letters(p_filter) $$;
comment on function public.count_dead_letters(jsonb) is
  'The number of dead letters that match a filter (see resolve_dead_letters), to check before acting on all of them.';
grant execute on function public.count_dead_letters(jsonb) to authenticated, service_role;
