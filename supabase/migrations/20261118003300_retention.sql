-- Retention: removal of old rows and files, and the archive of single documents.
--
-- apply_retention removes only data with a configured retention period, in batches; callers repeat it. Erasing a
-- document lists its files in private.file_removals; a service removes them from the store and confirms
-- with files_removed. Staged uploads and exports for download are listed in private.temporary_files before they
-- are written; a service removes those whose time is over (expired_files, expired_files_removed). unknown_files
-- finds files that neither a document nor that list names; these are reported, never removed, because the
-- database may be a restored one and the file the only copy.
--
-- document_archive is the text that `pagewarden archive` stores. erase_archived_document erases a document
-- only while that text is still current: it compares the SHA-256 under the lock of the document.
--
-- private.erase is in 01400_document_actions; the retention of check jobs is in 02300_checks.

create type public.file_to_remove as (
  id bigint,
  path text
);
comment on type public.file_to_remove is
  'A file of an erased document, or a temporary one. files_removed and expired_files_removed take its id.';

create function public.files_to_remove(p_after bigint default 0, p_limit integer default 100)
returns setof public.file_to_remove
language plpgsql
stable
security definer          -- services have no privileges on the private table
set search_path = pg_catalog, pg_temp
as $$
begin
  if (p_limit between 1 and 1000) is not true then
    raise exception 'p_limit must be between 1 and 1000' using errcode = '22023', hint = 'Use smaller batches.';
  end if;
  return query
  select f.id, f.path
  from private.file_removals as f
  where f.id > coalesce(p_after, 0)
  order by f.id
  limit p_limit;
end;
$$;
comment on function public.files_to_remove(bigint, integer) is
  'Files of erased documents that are still stored, ordered by id, starting after p_after.';
grant execute on function public.files_to_remove(bigint, integer) to service_role;

create function public.files_removed(p_ids bigint[])
returns integer
language plpgsql
volatile
security definer          -- services have no privileges on the private table
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
begin
  if p_ids is null then
    raise exception 'p_ids must not be null' using errcode = '22023', hint = 'List the ids of the removed files.';
  end if;
  delete from private.file_removals as f where f.id = any (p_ids);
  get diagnostics v_count = row_count;
  return v_count;
end;
$$;
comment on function public.files_removed(bigint[]) is
  'Confirm that files returned by files_to_remove were removed from the store. Returns the number that were still '
  'listed.';
grant execute on function public.files_removed(bigint[]) to service_role;

create function public.add_temporary_file(p_path text, p_seconds integer, p_now timestamptz default now())
returns void
language plpgsql
volatile
security definer          -- services have no privileges on the private table
set search_path = pg_catalog, pg_temp
as $$
begin
  if (p_seconds between 60 and 604800 and p_path ~ '^exports/[0-9a-f-]{36}/[^/]+$') is not true then
    raise exception 'p_path must be exports/<uuid>/<name>, and p_seconds between 60 and 604800' using errcode = '22023',
      hint = 'Staged uploads are recorded by request_upload.';
  end if;
  insert into private.temporary_files (path, expires_at) values (p_path, p_now + make_interval(secs => p_seconds));
exception
  when unique_violation then
    raise exception 'the file % is already recorded', p_path using errcode = '22023', hint = 'Use a new uuid.';
end;
$$;
comment on function public.add_temporary_file(text, integer, timestamptz) is
  'Record an export before it is written to the store; it is removed after p_seconds.';
grant execute on function public.add_temporary_file(text, integer, timestamptz) to service_role;

create function public.expired_files(p_after bigint default 0, p_limit integer default 100, p_now timestamptz default now())
returns setof public.file_to_remove
language plpgsql
stable
security definer          -- services have no privileges on the private table
set search_path = pg_catalog, pg_temp
as $$
begin
  if (p_limit between 1 and 1000) is not true then
    raise exception 'p_limit must be between 1 and 1000' using errcode = '22023', hint = 'Use smaller batches.';
  end if;
  return query
  select f.id, f.path
  from private.temporary_files as f
  where f.id > coalesce(p_after, 0) and f.expires_at <= p_now
  order by f.id
  limit p_limit;
end;
$$;
comment on function public.expired_files(bigint, integer, timestamptz) is
  'Staged uploads and exports whose time is over, ordered by id, starting after p_after.';
grant execute on function public.expired_files(bigint, integer, timestamptz) to service_role;

create function public.expired_files_removed(p_ids bigint[], p_now timestamptz default now())
returns integer
language plpgsql
volatile
security definer          -- services have no privileges on the private table
set search_path = pg_catalog, pg_temp
as $$
declare
  v_paths text[];
begin
  if p_ids is null then
    raise exception 'p_ids must not be null' using errcode = '22023', hint = 'List the ids of the removed files.';
  end if;
  with gone as (
    delete from private.temporary_files as f where f.id = any (p_ids) and f.expires_at <= p_now returning f.path
  )
  select coalesce(array_agg(g.path), '{}') into v_paths from gone as g;
  -- A confirmation in progress holds the lock of its row; if it succeeds, the row stays.
  delete from public.pending_uploads as u
  where u.id in (select substr(p.path, 9)::uuid from unnest(v_paths) as p (path) where p.path like 'uploads/%')
    and u.document_id is null;
  return cardinality(v_paths);
end;
$$;
comment on function public.expired_files_removed(bigint[], timestamptz) is
  'Confirm that files returned by expired_files were removed from the store; uploads that were never confirmed are '
  'forgotten. Returns the number of files that were still listed.';
grant execute on function public.expired_files_removed(bigint[], timestamptz) to service_role;

create function public.unknown_files(p_paths text[])
returns setof text
language plpgsql
stable
security definer          -- reads documents of all cases
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_paths is null or cardinality(p_paths) > 10000 then
    raise exception 'p_paths must be a list of at most 10000 paths'
      using errcode = '22023', hint = 'Use smaller batches.';
  end if;
  if exists (
    select 1 from unnest(p_paths) as t (path) where t.path !~ '^([0-9a-f-]{36}|uploads|exports)/' or t.path is null
  ) then
    raise exception 'a path in p_paths does not begin with a case id, uploads or exports'
      using errcode = '22023', hint = 'Pass paths of uploads only: <case>/<upload>/<name>.';
  end if;
  return query
  with asked as materialized (
    select distinct case when t.path ~ '^[0-9a-f-]{36}/' then left(t.path, 36)::uuid end as case_id, t.path
    from unnest(p_paths) as t (path)
  )
  select a.path
  from asked as a
  where not exists (
    select 1 from public.documents as d
    where d.case_id = a.case_id and ltrim(d.dropbox_path, '/') = a.path
  )
  and not exists (select 1 from private.temporary_files as f where f.path = a.path);
end;
$$;
comment on function public.unknown_files(text[]) is
  'The given uploaded files that no document refers to and that are not temporary. The document for a recent file may '
  'still be added.';
grant execute on function public.unknown_files(text[]) to service_role;

create function private.require_terms(p_terms jsonb)
returns void
language plpgsql
immutable
security invoker
set search_path = ''
as $$
declare
  c_known constant text[] := array['bin_days', 'error_days', 'webhook_days', 'message_days'];
  v_term record;
begin
  if (jsonb_typeof(p_terms) = 'object') is not true then
    raise exception 'p_terms must be an object' using errcode = '22023', hint = 'Send {"bin_days": 30}.';
  end if;
  for v_term in select t.key, t.value from jsonb_each(p_terms) as t loop
    if v_term.key <> all (c_known) then
      raise exception 'unknown term "%"', v_term.key using errcode = '22023',
        hint = 'Valid terms are ' || array_to_string(c_known, ', ') || '.';
    end if;
    if v_term.value <> 'null' and (jsonb_typeof(v_term.value) = 'number' and v_term.value::numeric > 0) is not true then
      raise exception 'the term "%" must be a positive number of days', v_term.key using errcode = '22023',
        hint = 'Omit it to keep this data forever.';
    end if;
  end loop;
end;
$$;
comment on function private.require_terms(jsonb) is 'Reject invalid retention terms (22023).';

create type public.apply_retention_answer as (
  documents integer,
  errors integer,
  webhooks integer,
  messages integer
);
comment on type public.apply_retention_answer is
  'The number of each that was removed, or with p_dry_run, that would be removed.';

create function public.apply_retention(
  p_terms jsonb,
  p_dry_run boolean default false,
  p_limit integer default 1000,
  p_now timestamptz default now()
)
returns public.apply_retention_answer
language plpgsql
volatile
security definer          -- services have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bin timestamptz;
  v_errors timestamptz;
  v_webhooks timestamptz;
  v_messages timestamptz;
  v_queue text;
  v_count integer;
  v_case record;
  v_removed public.apply_retention_answer;
begin
  perform private.require_terms(p_terms);
  if p_dry_run is null or (p_limit between 1 and 10000) is not true then
    raise exception 'p_dry_run must be true or false, and p_limit between 1 and 10000' using errcode = '22023',
      hint = 'Repeat the call while a count equals p_limit.';
  end if;
  v_bin := p_now - make_interval(secs => ((p_terms ->> 'bin_days')::double precision * 86400));
  v_errors := p_now - make_interval(secs => ((p_terms ->> 'error_days')::double precision * 86400));
  v_webhooks := p_now - make_interval(secs => ((p_terms ->> 'webhook_days')::double precision * 86400));
  v_messages := p_now - make_interval(secs => ((p_terms ->> 'message_days')::double precision * 86400));

  -- Deleted documents, including replaced versions, but not while a worker still reads them.
  v_removed.documents := 0;
  for v_case in
    select b.case_id, array_agg(b.id order by b.id) as ids
    from (
      select d.case_id, d.id from public.documents as d
      where d.deleted_at < v_bin and d.ocr_status <> 'processing'
      order by d.created_at, d.id
      limit p_limit
    ) as b
    group by b.case_id
  loop
    v_removed.documents := v_removed.documents + cardinality(v_case.ids);
    if not p_dry_run then
      perform 1 from public.documents as d where d.id = any (v_case.ids) order by d.id for update;
      perform private.erase(v_case.case_id, v_case.ids);
    end if;
  end loop;

  -- Errors of documents without an open dead letter.
  with old as (
    select e.id from public.ocr_errors as e
    where e.created_at < v_errors and not exists (
      select 1 from public.ocr_dead_letter as l
      where l.document_id = e.document_id and l.status in ('pending', 'investigating', 'manual')
    )
    order by e.created_at
    limit p_limit
  ),
  gone as (
    delete from public.ocr_errors as e using old where e.id = old.id and not p_dry_run
  )
  select count(*) into v_removed.errors from old;

  with old as (
    select w.id from public.webhooks as w where w.settled_at < v_webhooks order by w.settled_at limit p_limit
  ),
  gone as (
    delete from public.webhooks as w using old where w.id = old.id and not p_dry_run
  )
  select count(*) into v_removed.webhooks from old;

  -- Archived queue messages of volumes; the history of each volume stays in volume_runs.
  v_removed.messages := 0;
  foreach v_queue in array array['line_detection', 'line_extraction', 'ocr', 'reduce'] loop
    execute format(
      'with old as (select a.msg_id from pgmq.%1$I as a where a.archived_at < $1 order by a.msg_id limit $2), '
      'gone as (delete from pgmq.%1$I as a using old where a.msg_id = old.msg_id and not $3) '
      'select count(*) from old',
      'a_ocr_' || v_queue
    ) into v_count using v_messages, p_limit - v_removed.messages, p_dry_run;
    v_removed.messages := v_removed.messages + v_count;
  end loop;
  return v_removed;
end;
$$;
comment on function public.apply_retention(jsonb, boolean, integer, timestamptz) is
  'Remove data older than {"bin_days", "error_days", "webhook_days", "message_days"}: deleted documents, errors of '
  'documents without an open dead letter, settled webhooks, and archived volume queue messages. Returns the number of '
  'each; p_dry_run only counts them. Data without a term is kept, and audit entries are always kept.';
grant execute on function public.apply_retention(jsonb, boolean, integer, timestamptz) to service_role;

create function private.archive_sha256(p_archive text)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select encode(sha256(convert_to(p_archive, 'UTF8')), 'hex');
$$;
comment on function private.archive_sha256(text) is 'The SHA-256 of an archived text, the same as that of its file.';
grant execute on function private.archive_sha256(text) to service_role;

create function public.document_archive(p_document_id uuid, p_known_sha256 text default null)
returns text
language plpgsql
stable
security invoker
set search_path = ''
-- The text must not depend on the settings of the session.
set timezone = 'UTC'
set extra_float_digits = 1
as $$
declare
  v_archive text := (
    with kinds (kind) as (
      values ('hac_acts'), ('ocr_dead_letter'), ('ocr_errors'), ('ocr_pages'), ('ocr_processing_logs'), ('ocr_runs'),
        ('page_corrections'), ('page_texts'), ('tasks')
    ),
    contents (kind, content) as (
      select 'hac_acts', to_jsonb(a) from public.hac_acts as a, public.documents as d
      where d.id = p_document_id and a.case_id = d.case_id and a.document_id = d.id
      union all
      select 'ocr_dead_letter', to_jsonb(l) from public.ocr_dead_letter as l where l.document_id = p_document_id
      union all
      select 'ocr_errors', to_jsonb(e) from public.ocr_errors as e where e.document_id = p_document_id
      union all
      -- Pages that page_texts does not show: those of earlier runs, and those a correction replaces.
      select 'ocr_pages', to_jsonb(o) - 'text_search' from public.ocr_pages as o
      join public.documents as d on d.id = o.document_id
      where o.document_id = p_document_id and (
        o.run_id is distinct from d.run_id
        or exists (
          select 1 from public.page_corrections as c
          where c.document_id = o.document_id and c.page_number = o.page_number
        )
      )
      union all
      select 'ocr_processing_logs', to_jsonb(r) from public.ocr_processing_logs as r where r.document_id = p_document_id
      union all
      select 'ocr_runs', to_jsonb(r) from public.ocr_runs as r where r.document_id = p_document_id
      union all
      select 'page_corrections', to_jsonb(c) - 'text_search' from public.page_corrections as c
      where c.document_id = p_document_id
      union all
      select 'page_texts', to_jsonb(t) from public.page_texts as t where t.document_id = p_document_id
      union all
      select 'tasks', to_jsonb(t) from public.tasks as t where t.document_id = p_document_id
    ),
    lists (kind, content) as (
      select k.kind, coalesce(
        string_agg(
          E'\n' || c.content::text, ','
          order by (c.content ->> 'page_number')::integer, c.content ->> 'created_at' collate "C",
            c.content::text collate "C"
        ), ''
      )
      from kinds as k
      left join contents as c on c.kind = k.kind
      group by k.kind
    )
    select format(
      E'{"document": %s,\n%s}\n', to_jsonb(d),
      (select string_agg(format('"%s": [%s]', l.kind, l.content), E',\n' order by l.kind collate "C") from lists as l)
    )
    from public.documents as d
    where d.id = p_document_id
  );
begin
  return case when private.archive_sha256(v_archive) is distinct from p_known_sha256 then v_archive end;
end;
$$;
comment on function public.document_archive(uuid, text) is
  'Everything that erasing a document removes except its file, for an archive: its texts, corrections and history, as '
  'JSON with one row per line. Returns null if the document does not exist, or if the SHA-256 of the JSON is '
  'p_known_sha256, which means that the archived copy is up to date. Nullable: the answer.';
grant execute on function public.document_archive(uuid, text) to service_role;

create type public.erase_archived_document_answer as (
  success boolean,
  error text,
  message text,
  document_id uuid
);
comment on type public.erase_archived_document_answer is
  'The document that was erased, or why it was not. Nullable: error, message.';

create function public.erase_archived_document(p_document_id uuid, p_archive_sha256 text)
returns public.erase_archived_document_answer
language plpgsql
volatile
security definer          -- services have no write privileges on tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_document public.documents := private.lock_document(p_document_id, 3);
  v_answer public.erase_archived_document_answer;
begin
  if v_document.id is null then
    return private.refused(null::public.erase_archived_document_answer, 'DOCUMENT_NOT_FOUND', p_document_id);
  end if;
  -- Compared under the lock: a concurrent correction is either archived, or finds the document gone.
  if private.archive_sha256(public.document_archive(p_document_id)) is distinct from p_archive_sha256 then
    return private.refused(null::public.erase_archived_document_answer, 'ARCHIVE_OUTDATED', p_document_id);
  end if;
  perform private.erase(v_document.case_id, array[v_document.id]);
  v_answer.success := true;
  v_answer.document_id := p_document_id;
  return v_answer;
end;
$$;
comment on function public.erase_archived_document(uuid, text) is
  'Erase a document as erase_document does, if document_archive still returns a text with this SHA-256; otherwise, '
  'nothing is erased and the error is ARCHIVE_OUTDATED.';
grant execute on function public.erase_archived_document(uuid, text) to service_role;

