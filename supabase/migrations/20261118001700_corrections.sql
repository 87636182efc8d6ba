-- Corrections: versions of a page made by users, doubtful pages, text typed by hand.
--
-- A correction replaces the text of an OCR run for readers and survives when the document is read
-- again; page_texts shows the current text: the latest correction, or else what was read (version 0).
-- Each save adds a row to page_corrections. A save names the version it is based on and is refused
-- (EDITED_MEANWHILE) if another was saved since.
--
-- page_doubts lists pages of completed documents that failed, have no text or a low confidence; a row
-- is removed when a user approves the page. type_text() completes a document that OCR could not
-- read. The runs and pages themselves are in documents and pages.

create function private.is_doubtful(p_status text, p_confidence numeric)
returns boolean
language sql
immutable
security invoker
set search_path = ''
as $$
  select p_status in ('failed', 'unread') or coalesce(p_confidence < 0.8, false);
$$;
comment on function private.is_doubtful(text, numeric) is
  'Whether a page needs review: failed, without text, or with low confidence.';

create table public.page_corrections (
  document_id uuid not null references public.documents (id) on delete cascade,
  page_number integer not null,
  version integer not null,
  is_latest boolean not null default true,
  case_id uuid not null,
  run_id bigint,
  text text not null,
  lines jsonb not null default '[]',
  width integer,
  height integer,
  language text,
  approved boolean not null default false,
  text_search tsvector not null,
  author uuid references auth.users (id) on delete set null,
  created_at timestamptz not null default now(),
  constraint page_corrections_pkey primary key (document_id, page_number, version),
  constraint page_corrections_number_starts_at_one check (page_number > 0 and version > 0),
  constraint page_corrections_lines_is_a_list check (jsonb_typeof(lines) = 'array')
);
comment on table public.page_corrections is 'Every version of a page that a user saved, with author and time.';
comment on column public.page_corrections.run_id is
  'The OCR run that was corrected; a later run does not overwrite the correction.';
comment on column public.page_corrections.lines is
  'In the format of ocr_pages.lines; empty if only the text was given.';
comment on column public.page_corrections.width is 'With height: the size of the image that the boxes of lines refer to.';
comment on column public.page_corrections.approved is 'Whether the author approved the page as correct.';
create unique index page_corrections_latest_idx on public.page_corrections (document_id, page_number) where is_latest;
create index page_corrections_search_idx on public.page_corrections using gin (text_search) where is_latest;
create index page_corrections_case_idx on public.page_corrections (case_id);
create index page_corrections_author_idx on public.page_corrections (author);
alter table public.page_corrections enable row level security;
create policy "Corrections are visible to the people of the case and to HAC"
  on public.page_corrections for select to authenticated
  using ((select private.is_admin()) or case_id in (select private.my_case_ids()));
grant select on public.page_corrections to authenticated, service_role;

create table public.page_doubts (
  document_id uuid not null references public.documents (id) on delete cascade,
  page_number integer not null,
  case_id uuid not null,
  status text not null,
  confidence numeric,
  created_at timestamptz not null,
  constraint page_doubts_pkey primary key (document_id, page_number)
);
comment on table public.page_doubts is
  'Pages waiting for review: failed, without text, or with low confidence. Approving a page removes its row.';
comment on column public.page_doubts.created_at is 'When the document was completed: the same for all of its pages.';
create index page_doubts_created_idx on public.page_doubts (created_at, document_id);
create index page_doubts_case_idx on public.page_doubts (case_id, created_at, document_id);
alter table public.page_doubts enable row level security;
create policy "Doubts are visible to the people of the case and to HAC"
  on public.page_doubts for select to authenticated
  using ((select private.is_admin()) or case_id in (select private.my_case_ids()));
grant select on public.page_doubts to authenticated, service_role;
insert into public.page_doubts (document_id, page_number, case_id, status, confidence, created_at)
select o.document_id, o.page_number, o.case_id, o.status, o.confidence, coalesce(d.ocr_completed_at, o.created_at)
from public.documents as d
join public.ocr_pages as o on o.run_id = d.run_id
where private.is_doubtful(o.status, o.confidence);

create view public.page_texts
with (security_invoker = true)
as
select
  d.id as document_id,
  d.case_id,
  o.page_number,
  o.run_id,
  case when c.version is null then o.status else 'read' end as status,
  coalesce(c.text, o.text) as text,
  case when c.lines <> '[]' then c.lines else o.lines end as lines,
  o.confidence,
  case when c.lines <> '[]' then c.width else o.width end as width,
  case when c.lines <> '[]' then c.height else o.height end as height,
  o.language,
  case when c.version is null then o.error end as error,
  o.details,
  coalesce(c.version, 0) as version,
  coalesce(c.approved, false) as approved,
  c.author as corrected_by,
  c.created_at as corrected_at
from public.documents as d
join public.ocr_pages as o on o.run_id = d.run_id
left join public.page_corrections as c
  on c.document_id = d.id and c.page_number = o.page_number and c.is_latest
union all
select d.id, d.case_id, c.page_number, d.run_id, 'read', c.text, c.lines, null, c.width, c.height, c.language, null,
  '{}', c.version, c.approved, c.author, c.created_at
from public.documents as d
join public.page_corrections as c on c.document_id = d.id and c.is_latest
where not exists (
  select 1 from public.ocr_pages as o where o.run_id = d.run_id and o.page_number = c.page_number
);
comment on view public.page_texts is
  'The current text of each page: the latest correction, or else the text that was read (version 0). '
  'Nullable: run_id, confidence, width, height, language, error, corrected_by, corrected_at.';
grant select on public.page_texts to authenticated, service_role;

create function private.record_doubtful_pages(p_document public.documents, p_run_id bigint, p_now timestamptz)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  delete from public.page_doubts as w where w.document_id = p_document.id;
  insert into public.page_doubts (document_id, page_number, case_id, status, confidence, created_at)
  select o.document_id, o.page_number, o.case_id, o.status, o.confidence, p_now
  from public.ocr_pages as o
  where o.run_id = p_run_id and private.is_doubtful(o.status, o.confidence)
    and p_document.lane <> 'check'   -- a check has a review of its own
    and not exists (
      select 1 from public.page_corrections as c
      where c.document_id = o.document_id and c.page_number = o.page_number and c.is_latest and c.approved
    );
end;
$$;
comment on function private.record_doubtful_pages(public.documents, bigint, timestamptz) is
  'Record the pages of a run that need review, except those already approved.';

create type public.doubtful_document as (
  document_id uuid,
  case_id uuid,
  case_name text,
  name text,
  pages bigint,
  unread bigint,
  first_page integer,
  confidence numeric,
  created_at timestamptz
);
comment on type public.doubtful_document is
  'A document with pages waiting for review: their number, the number without text (unread), the first of them, and '
  'the lowest confidence. Nullable: confidence.';

create function private.list_doubts(p_case_id uuid, p_after timestamptz, p_after_id uuid, p_limit integer)
returns setof public.doubtful_document
language plpgsql
stable
security definer          -- a policy would prevent the use of the index by case
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan   -- HAC needs the index by time, others the one by case
as $$
declare
  v_all boolean := private.is_admin() or private.is_service();
  v_mine uuid[] := array(select private.my_case_ids());
begin
  if (p_limit between 1 and 200) is not true then
    raise exception 'p_limit must be between 1 and 200' using errcode = '22023', hint = 'Use pagination.';
  end if;
  return query
  select w.document_id, d.case_id, c.name::text, d.name::text, w.pages, w.unread, w.first_page, w.confidence, w.created_at
  from (
    select p.created_at, p.document_id, count(*) as pages, count(*) filter (where p.status <> 'read') as unread,
      min(p.page_number) as first_page, min(p.confidence) as confidence
    from public.page_doubts as p
    where (p.created_at, p.document_id) > (
        coalesce(p_after, '-infinity'), coalesce(p_after_id, '00000000-0000-0000-0000-000000000000')
      )
      and (v_all or p.case_id = any (v_mine))   -- what the policy says
      and (p_case_id is null or p.case_id = p_case_id)
    group by p.created_at, p.document_id
  ) as w
  join public.documents as d on d.id = w.document_id
  join public.cases as c on c.id = d.case_id
  where d.deleted_at is null
  order by w.created_at, w.document_id
  limit p_limit;
end;
$$;
comment on function private.list_doubts(uuid, timestamptz, uuid, integer) is 'See public.list_doubts.';
grant execute on function private.list_doubts(uuid, timestamptz, uuid, integer) to authenticated, service_role;

create function private.require_page_text(p_what text, p_text text)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
begin
  if octet_length(p_text) > 10000000 then
    raise exception '% must be at most 10 MB', p_what using errcode = '22023', hint = 'Split the text.';
  end if;
end;
$$;
comment on function private.require_page_text(text, text) is 'Reject a page text of more than 10 MB (22023).';

create type public.correct_page_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  page_number integer,
  version integer,
  text text,
  corrected_by uuid,
  corrected_at timestamptz
);
comment on type public.correct_page_answer is
  'The result of a correction. With EDITED_MEANWHILE, version, text, corrected_by and corrected_at are the current '
  'values of the page. Nullable: error, message, document_id, page_number, version, text, corrected_by, corrected_at.';

create function private.version_conflict(p_page public.page_texts)
returns public.correct_page_answer
language plpgsql
immutable
security invoker
set search_path = ''
as $$
declare
  v_answer public.correct_page_answer;
begin
  v_answer.success := false;
  v_answer.error := 'EDITED_MEANWHILE';
  v_answer.message := 'this page was changed in the meantime; compare the versions, and save again';
  v_answer.document_id := p_page.document_id;
  v_answer.version := p_page.version;
  v_answer.text := p_page.text;
  v_answer.corrected_by := p_page.corrected_by;
  v_answer.corrected_at := p_page.corrected_at;
  return v_answer;
end;
$$;
comment on function private.version_conflict(public.page_texts) is
  'The error result of an edit based on an outdated version, with the current text.';

create function private.page_search_vector(p_document_id uuid, p_run_id bigint, p_page_number integer)
returns tsvector
language sql
stable
security invoker
set search_path = ''
as $$
  select coalesce(
    (
      select c.text_search from public.page_corrections as c
      where c.document_id = p_document_id and c.page_number = p_page_number and c.is_latest
    ),
    (select o.text_search from public.ocr_pages as o where o.run_id = p_run_id and o.page_number = p_page_number)
  );
$$;
comment on function private.page_search_vector(uuid, bigint, integer) is 'The search vector of the current text of a page.';

-- An approval without a change reuses the search vector.
create function private.add_correction(p_page public.page_texts, p_text text, p_lines jsonb, p_approved boolean)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
declare
  v_words tsvector := case
    when p_text = (p_page).text then private.page_search_vector((p_page).document_id, (p_page).run_id, (p_page).page_number)
    else private.search_vector(p_text, (p_page).language)
  end;
begin
  update public.page_corrections as c set is_latest = false
  where c.document_id = (p_page).document_id and c.page_number = (p_page).page_number and c.is_latest;
  insert into public.page_corrections (
    document_id, page_number, version, case_id, run_id, text, lines, width, height, language, approved, text_search, author
  )
  values (
    (p_page).document_id, (p_page).page_number, (p_page).version + 1, (p_page).case_id, (p_page).run_id, p_text,
    p_lines, (p_page).width, (p_page).height, (p_page).language, p_approved, v_words, auth.uid()
  );
  if p_approved then
    delete from public.page_doubts as w
    where w.document_id = (p_page).document_id and w.page_number = (p_page).page_number;
  end if;
  perform private.log_act(
    (p_page).case_id, (p_page).document_id, case when p_approved then 'page_approved' else 'page_corrected' end,
    format('page %s', (p_page).page_number), null, null,
    jsonb_build_object('page_number', (p_page).page_number, 'version', (p_page).version + 1)
  );
end;
$$;
comment on function private.add_correction(public.page_texts, text, jsonb, boolean) is
  'Add a version of a page. The caller must have locked the document and checked permissions.';

create function private.close_review_task(p_document public.documents)
returns void
language plpgsql
volatile
security invoker
set search_path = ''
as $$
begin
  -- The task of a document in pending_review ends when its text is typed.
  if p_document.ocr_status <> 'pending_review' and not exists (
    select 1 from public.page_doubts as w where w.document_id = p_document.id and w.status in ('failed', 'unread')
  ) then
    perform private.close_tasks(p_document.id, 'done', array['review']);
  end if;
end;
$$;
comment on function private.close_review_task(public.documents) is
  'Close the review task of a document once all pages that could not be read automatically are approved.';

create function private.correct_page(
  p_document_id uuid,
  p_page_number integer,
  p_base_version integer,
  p_text text,
  p_lines jsonb,
  p_approved boolean
)
returns public.correct_page_answer
language plpgsql
volatile
security definer          -- users have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents := private.lock_document(p_document_id, 2);
  v_page public.page_texts;
  v_changed boolean;
  v_answer public.correct_page_answer;
begin
  perform private.require_page_text('p_text', p_text);
  if jsonb_typeof(p_lines) <> 'array' then
    raise exception 'p_lines must be a list' using errcode = '22023', hint = 'Send lines in the format of ocr_pages, or null.';
  end if;
  if v_document.id is null or v_document.deleted_at is not null then
    return private.refused(
      null::public.correct_page_answer,
      case when v_document.id is null then 'DOCUMENT_NOT_FOUND' else 'WRONG_STATE' end, p_document_id
    );
  end if;
  select t.* into v_page from public.page_texts as t
  where t.document_id = p_document_id and t.page_number = p_page_number;
  if v_page.document_id is null then
    v_answer.success := false;
    v_answer.error := 'PAGE_NOT_FOUND';
    v_answer.message := 'the document has no such page, or the page has not been read';
    v_answer.document_id := p_document_id;
    return v_answer;
  end if;
  if p_base_version is distinct from v_page.version then
    return private.version_conflict(v_page);
  end if;
  v_changed := p_text <> v_page.text or p_lines <> v_page.lines;
  if coalesce(v_changed, false) or (p_approved and not v_page.approved) then
    perform private.add_correction(
      v_page, coalesce(p_text, v_page.text),
      coalesce(p_lines, case when p_text <> v_page.text then '[]' else v_page.lines end), coalesce(p_approved, false)
    );
    perform private.close_review_task(v_document);
    v_page.version := v_page.version + 1;
  end if;
  v_answer.success := true;
  v_answer.document_id := p_document_id;
  v_answer.page_number := p_page_number;
  v_answer.version := v_page.version;
  return v_answer;
end;
$$;
comment on function private.correct_page(uuid, integer, integer, text, jsonb, boolean) is 'See public.correct_page.';
grant execute on function private.correct_page(uuid, integer, integer, text, jsonb, boolean) to authenticated, service_role;

create type public.page_version as (
  version integer,
  author uuid,
  author_email text,
  approved boolean,
  length integer,
  created_at timestamptz
);
comment on type public.page_version is
  'A version of a page that a user saved. Nullable: author, author_email.';

create function private.page_versions(p_document_id uuid, p_page_number integer)
returns setof public.page_version
language plpgsql
stable
security definer          -- callers may not read auth.users
set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_case_rank((select d.case_id from public.documents as d where d.id = p_document_id), 1);
  return query
  select c.version, c.author, u.email::text, c.approved, length(c.text), c.created_at
  from public.page_corrections as c
  -- Members see addresses of members; only HAC sees addresses of HAC.
  left join auth.users as u on u.id = c.author and (
    private.is_admin() or private.is_service()
    or exists (select 1 from public.cases as k where k.id = c.case_id and k.user_id = c.author)
    or exists (select 1 from public.case_members as m where m.case_id = c.case_id and m.user_id = c.author)
  )
  where c.document_id = p_document_id and c.page_number = p_page_number
  order by c.version desc
  limit 200;
end;
$$;
comment on function private.page_versions(uuid, integer) is 'See public.page_versions.';
grant execute on function private.page_versions(uuid, integer) to authenticated, service_role;

create type public.type_text_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid,
  log_id uuid
);
comment on type public.type_text_answer is
  'The result of type_text; log_id is the id of the entry in ocr_processing_logs. Nullable: error, message, '
  'document_id, log_id.';

create function private.type_text(p_document_id uuid, p_pages jsonb, p_now timestamptz default now())
returns public.type_text_answer
language plpgsql
volatile
security definer          -- HAC has no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents;
  v_answer public.type_text_answer;
begin
  perform private.require_admin();
  perform private.require_pages(p_pages);
  if jsonb_array_length(p_pages) = 0 then
    raise exception 'p_pages must not be empty' using errcode = '22023', hint = 'Send [{"page_number": 1, "text": "…"}, …].';
  end if;
  perform private.require_page_text('text', p.text) from jsonb_to_recordset(p_pages) as p (text text);
  select d.* into v_document from public.documents as d where d.id = p_document_id for update;
  if v_document.ocr_status is distinct from 'pending_review' then
    return private.refused(
      null::public.type_text_answer,
      case when v_document.id is null then 'DOCUMENT_NOT_FOUND' else 'WRONG_STATE' end, p_document_id
    );
  end if;
  v_answer := jsonb_populate_record(null::public.type_text_answer, public.process_ocr_atomic(
    p_document_id, jsonb_build_object('whole', true, 'pages', (
      select jsonb_agg(jsonb_build_object('page_number', p.page_number, 'text', coalesce(p.text, '')))
      from jsonb_to_recordset(p_pages) as p (page_number integer, text text)
    )), 1, 0, null, 'person', '1', 'balanced', greatest(v_document.page_count, (
      select max(p.page_number) from jsonb_to_recordset(p_pages) as p (page_number integer)
    )), p_now
  ));
  -- Save them as approved versions, so that a later run does not undo them.
  perform private.add_correction(t, coalesce(p.text, ''), '[]', true)
  from jsonb_to_recordset(p_pages) as p (page_number integer, text text)
  join public.page_texts as t on t.document_id = p_document_id and t.page_number = p.page_number
  where v_answer.success;
  return v_answer;
end;
$$;
comment on function private.type_text(uuid, jsonb, timestamptz) is 'See public.type_text.';
grant execute on function private.type_text(uuid, jsonb, timestamptz) to authenticated, service_role;

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.list_doubts(
  p_case_id uuid default null,
  p_after timestamptz default null,
  p_after_id uuid default null,
  p_limit integer default 50
)
returns setof public.doubtful_document
language sql stable security invoker set search_path = ''
as $$ select * from private.list_doubts(p_case_id, p_after, p_after_id, p_limit) $$;
comment on function public.list_doubts(uuid, timestamptz, uuid, integer) is
  'Documents with pages waiting for review, longest wait first. Continues after the document p_after_id, completed at '
  'p_after.';
grant execute on function public.list_doubts(uuid, timestamptz, uuid, integer) to authenticated, service_role;

create function public.correct_page(
  p_document_id uuid,
  p_page_number integer,
  p_base_version integer,
  p_text text default null,
  p_lines jsonb default null,
  p_approved boolean default false
)
returns public.correct_page_answer
language sql volatile security invoker set search_path = ''
as $$ select private.correct_page(p_document_id, p_page_number, p_base_version, p_text, p_lines, p_approved) $$;
comment on function public.correct_page(uuid, integer, integer, text, jsonb, boolean) is
  'Owner, editor or HAC: correct the text of a page, or approve it; if p_text is null, the text is kept. '
  'p_base_version is the version that was edited; if it is not the latest, the call is rejected, and the result '
  'contains the latest. A call that changes nothing does not add a version.';
grant execute on function public.correct_page(uuid, integer, integer, text, jsonb, boolean) to authenticated, service_role;

create function public.page_versions(p_document_id uuid, p_page_number integer)
returns setof public.page_version
language sql stable security invoker set search_path = ''
as $$ select * from private.page_versions(p_document_id, p_page_number) $$;
comment on function public.page_versions(uuid, integer) is
  'The last 200 versions of a page that users saved, newest first, with author and time; their texts are in '
  'page_corrections.';
grant execute on function public.page_versions(uuid, integer) to authenticated, service_role;

create function public.type_text(p_document_id uuid, p_pages jsonb)
returns public.type_text_answer
language sql volatile security invoker set search_path = ''
as $$ select private.type_text(p_document_id, p_pages) $$;
comment on function public.type_text(uuid, jsonb) is
  'HAC: complete a document in pending_review with manually typed text: [{"page_number", "text"}, …]. A later OCR run '
  'does not overwrite it.';
grant execute on function public.type_text(uuid, jsonb) to authenticated, service_role;
