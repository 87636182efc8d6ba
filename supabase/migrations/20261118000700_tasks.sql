-- Tasks: work that waits for a user of HAC.
--
-- Workers and triggers open and close tasks through open_task() and close_tasks(); a document has at
-- most one open task of a kind. HAC lists, assigns, prioritizes and ends tasks; only tasks created by
-- hand and finished reviews are ended by hand, the others close when their cause is resolved.
--
-- The table tasks is in documents, because documents refer to it. assign_task() compares the previous
-- assignee, so of two concurrent calls one is refused (TASK_TAKEN).

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
  'Create a task, or update the open task for the same document and kind.';

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

create function private.require_priority(p_priority text)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if private.task_urgency(p_priority) is null then
    raise exception 'unknown priority %', coalesce(p_priority, 'null')
      using errcode = '22023', hint = 'Valid priorities are low, normal, high, urgent.';
  end if;
end;
$$;
comment on function private.require_priority(text) is 'Reject an unknown task priority (22023).';

create type public.listed_task as (
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
);
comment on type public.listed_task is
  'An open task with its document and case; urgency is its numeric priority, where 1 is urgent. Nullable: '
  'description, assigned_to, assigned_email, document_id, document_name, ocr_status, lane, file_extension, mime_type, '
  'size_bytes, page_count, case_id, case_name.';

create function private.list_tasks(
  p_kind text,
  p_whose text,
  p_priority text,
  p_after_urgency integer,
  p_after timestamptz,
  p_after_id uuid,
  p_limit integer
)
returns setof public.listed_task
language plpgsql
stable
security definer          -- the caller may not read names of users
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan   -- filters that are null must not prevent an index scan
as $$
declare
  v_me uuid := auth.uid();
  v_urgency integer := private.task_urgency(p_priority);
begin
  perform private.require_admin();
  perform private.require_page_size(p_limit);
  if p_kind not in ('dead_letter', 'review', 'routing', 'outage', 'alert', 'other') then
    raise exception 'unknown task kind %', p_kind
      using errcode = '22023', hint = 'Valid kinds are dead_letter, review, routing, outage, alert, other.';
  end if;
  if (p_whose in ('all', 'mine', 'unassigned')) is not true then
    raise exception 'p_whose must be all, mine or unassigned' using errcode = '22023', hint = 'Omit it to list all tasks.';
  end if;
  if p_priority is not null then
    perform private.require_priority(p_priority);
  end if;
  return query
  select t.id, t.kind, t.title, t.description, t.priority, t.urgency, t.status, t.assigned_to,
    case when t.assigned_to is not null then private.display_name(t.assigned_to) end, t.created_at, t.metadata,
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

create type public.task_answer as (
  success boolean,
  error text,
  message text,
  task_id uuid
);
comment on type public.task_answer is 'The result of changing a task. Nullable: error, message, task_id.';

create function private.task_changed(p_task_id uuid)
returns public.task_answer
language plpgsql
immutable
security invoker
set search_path = ''
as $$
declare
  v_answer public.task_answer;
begin
  v_answer.success := true;
  v_answer.task_id := p_task_id;
  return v_answer;
end;
$$;
comment on function private.task_changed(uuid) is 'The result of a call that changed a task.';

create function private.task_unchanged(p_error text, p_message text, p_task_id uuid)
returns public.task_answer
language plpgsql
immutable
security invoker
set search_path = ''
as $$
declare
  v_answer public.task_answer;
begin
  v_answer.success := false;
  v_answer.error := p_error;
  v_answer.message := p_message;
  v_answer.task_id := p_task_id;
  return v_answer;
end;
$$;
comment on function private.task_unchanged(text, text, uuid) is
  'The result of a call that changed no task, with the reason.';

create function private.create_task(p_title text, p_description text, p_priority text, p_assigned_to uuid)
returns public.task_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_id uuid;
begin
  perform private.require_admin();
  perform private.require_text('p_title', p_title, 500);
  perform private.require_optional_text('p_description', nullif(p_description, ''), 10000);
  perform private.require_priority(p_priority);
  perform private.require_admin_user(p_assigned_to);
  insert into public.tasks (title, description, priority, assigned_to, status)
  values (
    p_title, nullif(p_description, ''), p_priority, p_assigned_to,
    case when p_assigned_to is null then 'pending' else 'in_progress' end
  )
  returning id into v_id;
  perform private.log_act(
    null, null, 'task_created', p_title, null, null, jsonb_build_object('task_id', v_id, 'assigned_to', p_assigned_to)
  );
  return private.task_changed(v_id);
end;
$$;
comment on function private.create_task(text, text, text, uuid) is 'See public.create_task.';
grant execute on function private.create_task(text, text, text, uuid) to authenticated, service_role;

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
comment on function private.lock_task(uuid) is 'Lock a task and return it; 42501 for callers other than HAC.';

create function private.task_refusal(p_task public.tasks, p_task_id uuid)
returns public.task_answer
language sql
stable
security invoker
set search_path = ''
as $$
  select case
    when (p_task).id is null then private.task_unchanged('TASK_NOT_FOUND', 'there is no such task', p_task_id)
    when (p_task).done_at is not null then private.task_unchanged('TASK_ENDED', format(
      'the task was already %s by %s at %s', (p_task).status, private.display_name((p_task).done_by), private.format_time((p_task).done_at)
    ), p_task_id)
  end;
$$;
comment on function private.task_refusal(public.tasks, uuid) is
  'The error result for a missing or closed task; null if the task is open.';

create function private.assign_task(p_task_id uuid, p_user_id uuid, p_from uuid)
returns public.task_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task public.tasks := private.lock_task(p_task_id);
begin
  perform private.require_admin_user(p_user_id);
  if v_task.id is null or v_task.done_at is not null then
    return private.task_refusal(v_task, p_task_id);
  end if;
  if v_task.assigned_to is distinct from p_from then
    return private.task_unchanged('TASK_TAKEN', case
      when v_task.assigned_to is null then format('the task was unassigned at %s', private.format_time(v_task.updated_at))
      else format('the task has been assigned to %s since %s', private.display_name(v_task.assigned_to), private.format_time(v_task.updated_at))
    end, p_task_id);
  end if;
  update public.tasks as t
  set assigned_to = p_user_id, status = case when p_user_id is null then 'pending' else 'in_progress' end, updated_at = now()
  where t.id = p_task_id;
  perform private.log_act(
    v_task.case_id, v_task.document_id, case when p_user_id is null then 'task_given_back' else 'task_assigned' end,
    v_task.title, null, null, jsonb_build_object('task_id', p_task_id, 'assigned_to', p_user_id, 'from', p_from)
  );
  return private.task_changed(p_task_id);
end;
$$;
comment on function private.assign_task(uuid, uuid, uuid) is 'See public.assign_task.';
grant execute on function private.assign_task(uuid, uuid, uuid) to authenticated, service_role;

create function private.set_task_priority(p_task_id uuid, p_priority text)
returns public.task_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
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
  return private.task_changed(p_task_id);
end;
$$;
comment on function private.set_task_priority(uuid, text) is 'See public.set_task_priority.';
grant execute on function private.set_task_priority(uuid, text) to authenticated, service_role;

create function private.end_task(p_task_id uuid, p_status text, p_notes text)
returns public.task_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ocr_status text;
  v_task public.tasks;
begin
  -- Lock the document first, in the order that all functions use.
  select d.ocr_status into v_ocr_status from public.documents as d
  where d.id = (select t.document_id from public.tasks as t where t.id = p_task_id)
  for share;
  v_task := private.lock_task(p_task_id);
  if (p_status in ('done', 'cancelled')) is not true then
    raise exception 'invalid task outcome %', coalesce(p_status, 'null')
      using errcode = '22023', hint = 'Valid outcomes are done and cancelled.';
  end if;
  perform private.require_optional_text('p_notes', nullif(p_notes, ''), 10000);
  if v_task.id is null or v_task.done_at is not null then
    return private.task_refusal(v_task, p_task_id);
  end if;
  if not (v_task.kind = 'other' or (v_task.kind = 'review' and v_ocr_status = 'completed')) then
    return private.task_unchanged(
      'NOT_BY_HAND', 'this task is closed automatically when its cause is resolved', p_task_id
    );
  end if;
  update public.tasks as t
  set status = p_status, done_at = now(), done_by = auth.uid(), updated_at = now()
  where t.id = p_task_id;
  perform private.log_act(
    v_task.case_id, v_task.document_id, 'task_' || p_status, coalesce(nullif(p_notes, ''), v_task.title), null, null,
    jsonb_build_object('task_id', p_task_id)
  );
  return private.task_changed(p_task_id);
end;
$$;
comment on function private.end_task(uuid, text, text) is 'See public.end_task.';
grant execute on function private.end_task(uuid, text, text) to authenticated, service_role;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.list_tasks(
  p_kind text default null,
  p_whose text default 'all',
  p_priority text default null,
  p_after_urgency integer default null,
  p_after timestamptz default null,
  p_after_id uuid default null,
  p_limit integer default 50
)
returns setof public.listed_task
language sql stable security invoker set search_path = ''
as $$ select * from private.list_tasks(p_kind, p_whose, p_priority, p_after_urgency, p_after, p_after_id, p_limit) $$;
comment on function public.list_tasks(text, text, text, integer, timestamptz, uuid, integer) is
  'HAC: open tasks with their documents, most urgent first, then oldest first. Continues after the task p_after_id '
  'with urgency p_after_urgency, created at p_after. p_whose is all, mine or unassigned.';
grant execute on function public.list_tasks(text, text, text, integer, timestamptz, uuid, integer)
  to authenticated, service_role;

create function public.create_task(
  p_title text,
  p_description text default null,
  p_priority text default 'normal',
  p_assigned_to uuid default null
)
returns public.task_answer
language sql volatile security invoker set search_path = ''
as $$ select private.create_task(p_title, p_description, p_priority, p_assigned_to) $$;
comment on function public.create_task(text, text, text, uuid) is 'HAC: create a task.';
grant execute on function public.create_task(text, text, text, uuid) to authenticated, service_role;

create function public.assign_task(p_task_id uuid, p_user_id uuid default null, p_from uuid default null)
returns public.task_answer
language sql volatile security invoker set search_path = ''
as $$ select private.assign_task(p_task_id, p_user_id, p_from) $$;
comment on function public.assign_task(uuid, uuid, uuid) is
  'HAC: assign a task to a member of HAC, or unassign it (null). p_from is the expected current assignee; TASK_TAKEN '
  'if the task is assigned to someone else.';
grant execute on function public.assign_task(uuid, uuid, uuid) to authenticated, service_role;

create function public.set_task_priority(p_task_id uuid, p_priority text)
returns public.task_answer
language sql volatile security invoker set search_path = ''
as $$ select private.set_task_priority(p_task_id, p_priority) $$;
comment on function public.set_task_priority(uuid, text) is 'HAC: set the priority of a task: low, normal, high or urgent.';
grant execute on function public.set_task_priority(uuid, text) to authenticated, service_role;

create function public.end_task(
  p_task_id uuid,
  p_status text default 'done',
  p_notes text default null
)
returns public.task_answer
language sql volatile security invoker set search_path = ''
as $$ select private.end_task(p_task_id, p_status, p_notes) $$;
comment on function public.end_task(uuid, text, text) is
  'HAC: close a task as done or cancelled if it was created manually or is the review task of a completed document.';
grant execute on function public.end_task(uuid, text, text) to authenticated, service_role;
