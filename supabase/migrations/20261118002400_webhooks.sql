-- Webhooks: URLs that are called when a document or a check job has ended.
--
-- request_webhook() registers a URL for a document, submit_check_job() one for a job. The function
-- webhooks claims those that are due (claim_webhooks), sends them, and reports the result
-- (settle_webhook). A claim is a lease: next_attempt_at is its end, and the number of the attempt
-- fences late reports. Delivery stops after 15 attempts with increasing pauses (about a day).
--
-- Not here: signing and sending (pagewarden/notifications/webhooks.py).

create table public.webhooks (
  id uuid not null default gen_random_uuid(),
  document_id uuid references public.documents (id) on delete cascade,
  url public.web_address not null,
  attempts public.counter not null default 0,
  next_attempt_at timestamptz not null default now(),
  settled_at timestamptz,
  delivered boolean,
  error text,
  requested_by uuid references auth.users (id) on delete set null,
  created_at timestamptz not null default now(),
  job_id uuid,
  constraint webhooks_pkey primary key (id),
  constraint webhooks_target_is_unique unique nulls not distinct (document_id, job_id, url),
  constraint webhooks_settled_has_a_result check ((settled_at is null) = (delivered is null)),
  constraint webhooks_document_or_job check (num_nonnulls(document_id, job_id) = 1),
  constraint webhooks_job_fkey foreign key (job_id) references public.check_jobs (id) on delete cascade
);
comment on column public.webhooks.attempts is 'Number of attempts; settle_webhook passes the number of the attempt that it reports.';
comment on column public.webhooks.next_attempt_at is 'The earliest time of the next attempt; during an attempt, the end of its lease.';
comment on column public.webhooks.delivered is 'False: delivery was abandoned.';
create index webhooks_open_idx on public.webhooks (next_attempt_at) where settled_at is null;
create index webhooks_requested_by_idx on public.webhooks (requested_by);
alter table public.webhooks enable row level security;
grant select on public.webhooks to authenticated, service_role;
comment on table public.webhooks is
  'URLs that are called when a document or a check job has ended, and their delivery status.';
create index webhooks_job_idx on public.webhooks (job_id);
create policy "Webhooks are visible to the people of the case and to HAC"
  on public.webhooks for select to authenticated
  using (
    exists (select 1 from public.documents as d where d.id = webhooks.document_id)
    or exists (select 1 from public.cases as c where c.id = webhooks.job_id)
  );

create function private.document_webhook_body(p_document_id uuid)
returns jsonb
language sql
stable
security invoker
set search_path = ''
as $$
  select jsonb_build_object(
    'type', 'document.' || d.ocr_status,
    'data', jsonb_build_object(
      'document_id', d.id, 'case_id', d.case_id, 'name', d.name, 'ocr_status', d.ocr_status,
      'document_version', d.document_version, 'page_count', d.page_count, 'error', d.ocr_error,
      'completed_at', d.ocr_completed_at
    )
  )
  from public.documents as d
  where d.id = p_document_id;
$$;
comment on function private.document_webhook_body(uuid) is 'Body of the webhook for a document that has ended.';

create function private.check_job_webhook_body(p_job_id uuid)
returns jsonb
language plpgsql
stable
security invoker
set search_path = ''
as $$
begin
  return (
    select jsonb_build_object('type', 'check_job.' || lower(j.outcome), 'data', to_jsonb(private.check_job_summary(j)))
    from public.check_jobs as j
    where j.id = p_job_id
  );
end;
$$;
comment on function private.check_job_webhook_body(uuid) is 'Body of the webhook for a check job that has ended.';

create type public.request_webhook_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  webhook_id uuid
);
comment on type public.request_webhook_answer is
  'The webhook that was registered. Nullable: error, message, webhook_id.';

create function private.request_webhook(p_document_id uuid, p_url text)
returns public.request_webhook_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_answer public.request_webhook_answer;
begin
  select d.* into v_document from public.documents as d where d.id = p_document_id;
  perform private.require_case_rank(v_document.case_id, 2);
  if v_document.id is null then
    return private.refused(v_answer, 'DOCUMENT_NOT_FOUND', p_document_id);
  end if;
  begin
    insert into public.webhooks as w (document_id, url, requested_by) values (p_document_id, p_url, auth.uid())
    on conflict on constraint webhooks_target_is_unique
    do update set attempts = 0, next_attempt_at = now(), settled_at = null, delivered = null, error = null
    returning w.id into v_answer.webhook_id;
  exception
    when check_violation or not_null_violation then
      raise exception 'p_url must be a URL of at most 2000 bytes that begins with https:// or http://'
        using errcode = '22023', hint = 'For example https://example.org/pagewarden.';
  end;
  v_answer.success := true;
  v_answer.document_id := p_document_id;
  return v_answer;
end;
$$;
comment on function private.request_webhook(uuid, text) is 'See public.request_webhook.';
grant execute on function private.request_webhook(uuid, text) to authenticated, service_role;

create function private.request_job_webhook(p_job_id uuid, p_url text)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  insert into public.webhooks (job_id, url, requested_by) values (p_job_id, p_url, auth.uid());
exception
  when check_violation then
    raise exception 'p_callback_url must be a URL of at most 2000 bytes that begins with https:// or http://'
      using errcode = '22023', hint = 'For example https://example.org/pagewarden.';
end;
$$;
comment on function private.request_job_webhook(uuid, text) is 'Register a webhook for a job.';

create type public.claimed_webhook as (
  id uuid,
  url text,
  attempt integer,
  body jsonb
);
comment on type public.claimed_webhook is 'A webhook to send: its URL and its body, and the number of the attempt.';

create function public.claim_webhooks(
  p_limit integer default 10,
  p_lease_seconds integer default 60,
  p_now timestamptz default now()
)
returns setof public.claimed_webhook
language plpgsql
volatile
security definer          -- the service role may not write the table
set search_path = pg_catalog, pg_temp
as $$
begin
  if (p_limit between 1 and 1000 and p_lease_seconds between 1 and 3600) is not true then
    raise exception 'p_limit must be between 1 and 1000, and p_lease_seconds between 1 and 3600'
      using errcode = '22023', hint = 'Claim in smaller batches.';
  end if;
  return query
  with due as (
    select w.id
    from public.webhooks as w
    where w.settled_at is null and w.next_attempt_at <= p_now
      and (
        exists (
          select 1 from public.documents as d
          where d.id = w.document_id
            and d.ocr_status in ('completed', 'dead_letter', 'pending_review', 'failed', 'cancelled')
        )
        or exists (select 1 from public.check_jobs as j where j.id = w.job_id and j.outcome is not null)
      )
    order by w.next_attempt_at
    limit p_limit
    for update of w skip locked
  )
  update public.webhooks as w
  set attempts = w.attempts + 1, next_attempt_at = p_now + make_interval(secs => p_lease_seconds)
  from due
  where w.id = due.id
  returning w.id, w.url::text, w.attempts::integer,
    coalesce(private.document_webhook_body(w.document_id), private.check_job_webhook_body(w.job_id)) || jsonb_build_object('timestamp', p_now);
end;
$$;
comment on function public.claim_webhooks(integer, integer, timestamptz) is
  'Claim due webhooks for documents and jobs that have ended. A webhook that is not settled before its lease expires '
  'becomes due again.';
grant execute on function public.claim_webhooks(integer, integer, timestamptz) to service_role;

create function public.settle_webhook(
  p_id uuid,
  p_attempt integer,
  p_error text default null,
  p_final boolean default false,
  p_now timestamptz default now()
)
returns boolean
language plpgsql
volatile
security definer          -- the service role may not write the table
set search_path = pg_catalog, pg_temp
as $$
begin
  -- 15 attempts at growing intervals take about a day.
  update public.webhooks as w
  set error = left(p_error, 1000),
      delivered = case when p_error is null then true when p_final or w.attempts >= 15 then false end,
      settled_at = case when p_error is null or p_final or w.attempts >= 15 then p_now end,
      next_attempt_at = p_now + make_interval(secs => least(10 * 2 ^ w.attempts, 14400))
  where w.id = p_id and w.attempts = p_attempt and w.settled_at is null;
  return found;
end;
$$;
comment on function public.settle_webhook(uuid, integer, text, boolean, timestamptz) is
  'Report a delivery attempt: it succeeded if p_error is null; p_final prevents a retry. Returns false if the webhook '
  'was claimed again or settled in the meantime.';
grant execute on function public.settle_webhook(uuid, integer, text, boolean, timestamptz) to service_role;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.request_webhook(p_document_id uuid, p_url text)
returns public.request_webhook_answer
language sql volatile security invoker set search_path = ''
as $$ select private.request_webhook(p_document_id, p_url) $$;
comment on function public.request_webhook(uuid, text) is
  'Register a webhook for a document. Registering the same URL again sends the webhook again.';
grant execute on function public.request_webhook(uuid, text) to authenticated, service_role;
