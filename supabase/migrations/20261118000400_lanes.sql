-- Lanes: which workers take a document, with the limits of each.
--
-- Pausing and outages are in outages, claiming in queue.

-- Constraints on a single column are domains: Postgres caches those, while a table constraint is parsed
-- for every statement (with table constraints only, claiming one document took 50% longer).
create domain public.document_lane as text
  constraint document_lane_is_known check (value in ('image', 'pdf', 'index', 'acte', 'check'));
comment on domain public.document_lane is 'Determines which workers process a document.';

create table public.lanes (
  lane text not null,
  description text not null,
  paused_at timestamptz,
  pause_kind text,
  pause_reason text,
  paused_by uuid references auth.users (id) on delete set null,
  probe_at timestamptz,
  probe_token uuid,
  recovered_at timestamptz,
  outage_document_id uuid,
  max_attempts integer not null default 3,
  max_rescues integer not null default 3,
  backoff_seconds integer not null default 30,
  backoff_cap_seconds integer not null default 3600,
  attempt_seconds integer not null default 900,
  probe_seconds integer not null default 30,
  failed_pages_allowed numeric not null default 0.1,
  functions text[] not null,
  is_disabled boolean not null default false,
  extraction_seconds integer not null default 600,
  max_extraction_failures integer not null default 3,
  updated_at timestamptz not null default now(),
  constraint lanes_pkey primary key (lane),
  constraint lanes_pause_is_explained check (
    (paused_at is null) = (pause_kind is null) and (paused_at is null) = (pause_reason is null)
  ),
  constraint lanes_pause_kind_is_known check (pause_kind in ('manual', 'outage')),
  constraint lanes_only_an_outage_is_probed check (
    (pause_kind is not distinct from 'outage') = (probe_at is not null)
    and (probe_token is null or probe_at is not null)
  ),
  constraint lanes_limits_make_sense check (
    max_attempts > 0 and max_rescues >= 0 and backoff_seconds >= 0 and backoff_cap_seconds >= 0
    and attempt_seconds > 0 and probe_seconds >= 0 and failed_pages_allowed between 0 and 1
  ),
  constraint lanes_extraction_limits_make_sense check (
    extraction_seconds between 1 and 86400 and max_extraction_failures > 0
  )
);
comment on table public.lanes is 'One row for each lane: whether and why it is paused, and its limits.';
comment on column public.lanes.pause_kind is
  'manual: until HAC resumes the lane. outage: one probe document at a time tests whether the outage is over.';
comment on column public.lanes.probe_at is 'Earliest time at which the next probe document may be handed out.';
comment on column public.lanes.probe_token is 'Lock token of the current probe.';
comment on column public.lanes.recovered_at is
  'When a probe last succeeded, that is, when the outage was over or there had been none.';
comment on column public.lanes.outage_document_id is
  'The only document that has reported an outage since recovered_at; the outage counts as a failure of that document. '
  'If a second document reports one, the whole lane is affected.';
comment on column public.lanes.max_rescues is
  'How many locks on a document may expire without a new page. If one more expires, the document becomes a dead letter, '
  'because it probably crashes its workers.';
comment on column public.lanes.attempt_seconds is 'Hard time limit for one attempt, even if its worker is still alive.';
comment on column public.lanes.failed_pages_allowed is 'Share of pages that may fail without failing the document.';
comment on column public.lanes.functions is
  'The functions that read its documents: images ocr-universal, PDFs pdf-extract.';
comment on column public.lanes.is_disabled is
  'Whether all of these functions are disabled in edge_function_config; its documents are then not claimed.';
comment on column public.lanes.extraction_seconds is
  'Lease of an extractor (registry lanes); each of its updates renews it.';
comment on column public.lanes.max_extraction_failures is
  'A registry document becomes a dead letter when its failed and expired extractions reach this number.';
insert into public.lanes (lane, description, attempt_seconds, failed_pages_allowed, functions)
values
  ('image', 'Single images, read by ocr-worker', 900, 0.1, '{ocr-universal}'),
  ('pdf', 'PDFs, read by pdf-worker on the GPU service', 7200, 0.1, '{pdf-extract}'),
  ('index', 'Land-registry index pages', 3600, 0.1, '{ocr-universal,pdf-extract}'),
  ('acte', 'Land-registry acts', 3600, 0.1, '{ocr-universal,pdf-extract}'),
  ('check', 'Screenshots from the localization checker', 300, 0, '{ocr-universal}');
alter table public.lanes enable row level security;
create policy "Lanes are visible to everybody who is signed in"
  on public.lanes for select to authenticated
  using ((select auth.uid()) is not null);
grant select on public.lanes to authenticated, service_role;
-- An operator's settings; pausing goes through pause_lane and resume_lane.
grant update (
  max_attempts, max_rescues, backoff_seconds, backoff_cap_seconds, attempt_seconds, probe_seconds,
  failed_pages_allowed, extraction_seconds, max_extraction_failures
) on public.lanes to service_role;

create function private.require_lane(p_lane text)
returns public.lanes
language plpgsql
stable
security invoker
set search_path = ''
as $$
declare
  v_lane public.lanes;
begin
  select l.* into v_lane from public.lanes as l where l.lane = p_lane;
  if not found then
    raise exception 'unknown lane %', coalesce(p_lane, 'null')
      using errcode = '22023',
        hint = 'Valid lanes are ' || (select string_agg(l.lane, ', ' order by l.lane) from public.lanes as l) || '.';
  end if;
  return v_lane;
end;
$$;
comment on function private.require_lane(text) is 'Return the lane with this name; 22023 if there is none.';

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
comment on function private.backoff(text, integer) is 'How long to wait before a retry after p_times failures.';
