-- Dispatch: documents that a worker function claims and hands to invocations of ocr-universal and pdf-extract.
--
-- The dispatcher claims a document and passes its id and lock token to an invocation. Until the invocation
-- begins, the dispatcher renews the lock with extend_dispatch. The first thing that an invocation does is
-- begin_dispatch; from then on it sends its own heartbeats under the same token, and extend_dispatch tells
-- the dispatcher to stop. A second invocation with the token is refused (ALREADY_BEGUN).
--
--     dispatcher   claim ── extend_dispatch … ──▶ begun: true        never begun: release_documents (p_unless_begun)
--     invocation                     begin_dispatch ── heartbeat, save, complete or fail
--
-- The mark stays after the attempt has ended, so a dispatcher that asks late learns that the document was
-- read, and not that the lock was lost.

create table private.begun_dispatches (
  document_id uuid not null references public.documents (id) on delete cascade,
  lock_token uuid not null,
  invocation_id uuid not null,
  begun_at timestamptz not null,
  constraint begun_dispatches_pkey primary key (document_id)
);
comment on table private.begun_dispatches is
  'The last invocation that began to read a document, and the lock token under which it did.';
alter table private.begun_dispatches enable row level security;

create function private.has_begun(p_document_id uuid, p_lock_token uuid)
returns boolean
language sql
stable
security invoker
set search_path = ''
as $$
  select exists (
    select 1 from private.begun_dispatches as b
    where b.document_id = p_document_id and b.lock_token = p_lock_token
  );
$$;
comment on function private.has_begun(uuid, uuid) is
  'Whether an invocation has begun to read the document under this lock token.';

create type public.dispatch_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  begun boolean
);
comment on type public.dispatch_answer is
  'Whether an invocation has begun to read the document, or why the call was refused. Nullable: error, message, begun.';

create function public.begin_dispatch(
  p_document_id uuid,
  p_lock_token uuid,
  p_invocation_id uuid,
  p_worker_id text,
  p_lock_timeout integer default 20,
  p_now timestamptz default now()
)
returns public.dispatch_answer
language plpgsql
volatile
security definer          -- workers have no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_refusal text;
  v_answer public.dispatch_answer;
begin
  perform private.require_claim_arguments(p_worker_id, p_lock_timeout);
  if p_lock_token is null or p_invocation_id is null then
    raise exception 'p_lock_token and p_invocation_id must not be null'
      using errcode = '22023', hint = 'Pass the token of the claim, and a new UUID for each invocation.';
  end if;
  select d.* into v_document from public.documents as d where d.id = p_document_id for update;
  v_refusal := coalesce(
    private.lock_refusal(v_document, p_lock_token),
    case when v_document.attempt_deadline < p_now then 'DEADLINE_EXCEEDED' end,
    case when exists (
      select 1 from private.begun_dispatches as b
      where b.document_id = p_document_id and b.lock_token = p_lock_token and b.invocation_id <> p_invocation_id
    ) then 'ALREADY_BEGUN' end
  );
  if v_refusal is not null then
    return private.refused(v_answer, v_refusal, p_document_id);
  end if;
  insert into private.begun_dispatches as b (document_id, lock_token, invocation_id, begun_at)
  values (p_document_id, p_lock_token, p_invocation_id, p_now)
  on conflict on constraint begun_dispatches_pkey do update
  set lock_token = excluded.lock_token, invocation_id = excluded.invocation_id, begun_at = excluded.begun_at;
  update public.documents as d
  set version = d.version + 1,
      locked_by = p_worker_id,
      locked_at = greatest(d.locked_at, p_now),
      lock_expires_at = greatest(d.lock_expires_at, p_now + make_interval(secs => p_lock_timeout))
  where d.id = p_document_id;
  v_answer.success := true;
  v_answer.document_id := p_document_id;
  v_answer.begun := true;
  return v_answer;
end;
$$;
comment on function public.begin_dispatch(uuid, uuid, uuid, text, integer, timestamptz) is
  'An invocation begins to read a claimed document and renews its lock. Only one invocation can begin under a lock token; '
  'the same one may repeat the call.';
grant execute on function public.begin_dispatch(uuid, uuid, uuid, text, integer, timestamptz) to service_role, pagewarden_worker;

create function public.extend_dispatch(
  p_document_id uuid,
  p_lock_token uuid,
  p_lock_timeout integer default 20,
  p_now timestamptz default now()
)
returns public.dispatch_answer
language plpgsql
volatile
security definer          -- workers have no privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_extended public.extend_document_lock_answer;
  v_answer public.dispatch_answer;
begin
  if private.has_begun(p_document_id, p_lock_token) then
    v_answer.success := true;
    v_answer.document_id := p_document_id;
    v_answer.begun := true;
    return v_answer;
  end if;
  v_extended := public.extend_document_lock(p_document_id, p_lock_token, p_lock_timeout, p_now);
  v_answer.success := v_extended.success;
  v_answer.error := v_extended.error;
  v_answer.message := v_extended.message;
  v_answer.document_id := p_document_id;
  v_answer.begun := false;
  return v_answer;
end;
$$;
comment on function public.extend_dispatch(uuid, uuid, integer, timestamptz) is
  'Heartbeat of a dispatcher: renew the lock of a document until an invocation has begun to read it (begun).';
grant execute on function public.extend_dispatch(uuid, uuid, integer, timestamptz) to service_role, pagewarden_worker;
