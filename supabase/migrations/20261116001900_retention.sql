-- Purpose:  files that nobody needs any more can be found and removed.
-- Affects:  creates files_to_remove, files_removed, unknown_files; switches and schedules of documents, retention and webhooks.
-- Locks:    none that anybody could notice.

create function private.files_to_remove(p_after bigint, p_limit integer)
returns setof jsonb
language plpgsql
stable
security definer          -- nobody else sees the list
set search_path = pg_catalog, pg_temp
as $$
begin
  if (p_limit between 1 and 1000) is not true then
    raise exception 'p_limit must be 1 to 1000' using errcode = '22023', hint = 'Take them in smaller batches.';
  end if;
  return query
  select jsonb_build_object('id', f.id, 'path', f.path)
  from private.file_removals as f
  where f.id > coalesce(p_after, 0)
  order by f.id
  limit p_limit;
end;
$$;
comment on function private.files_to_remove(bigint, integer) is 'See public.files_to_remove.';
grant execute on function private.files_to_remove(bigint, integer) to service_role;

create function public.files_to_remove(p_after bigint default 0, p_limit integer default 100)
returns setof jsonb
language sql
stable
security invoker
set search_path = ''
as $$
  select private.files_to_remove(p_after, p_limit);
$$;
comment on function public.files_to_remove(bigint, integer) is
  'Files of erased documents that are still stored: {id, path}, in order of id, from the one behind p_after on.';
grant execute on function public.files_to_remove(bigint, integer) to service_role;

create function private.files_removed(p_ids bigint[])
returns integer
language plpgsql
volatile
security definer          -- nobody else may write the list
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
begin
  if p_ids is null then
    raise exception 'p_ids must not be null' using errcode = '22023', hint = 'Name what was removed.';
  end if;
  delete from private.file_removals as f where f.id = any (p_ids);
  get diagnostics v_count = row_count;
  return v_count;
end;
$$;
comment on function private.files_removed(bigint[]) is 'See public.files_removed.';
grant execute on function private.files_removed(bigint[]) to service_role;

create function public.files_removed(p_ids bigint[])
returns integer
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.files_removed(p_ids);
$$;
comment on function public.files_removed(bigint[]) is
  'Say that these files of files_to_remove are gone from the store. Returns how many were still on the list.';
grant execute on function public.files_removed(bigint[]) to service_role;

create function private.unknown_files(p_paths text[])
returns setof text
language plpgsql
stable
security definer          -- looks at all documents
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_paths is null or cardinality(p_paths) > 10000 then
    raise exception 'p_paths must be a list of at most 10000 paths'
      using errcode = '22023', hint = 'Ask in smaller batches.';
  end if;
  if exists (select 1 from unnest(p_paths) as t (path) where t.path !~ '^[0-9a-f-]{36}/' or t.path is null) then
    raise exception 'a path of p_paths does not begin with the id of a case'
      using errcode = '22023', hint = 'Only files of uploads can be asked for: <case>/<upload>/<name>.';
  end if;
  return query
  with asked as materialized (
    select distinct left(t.path, 36)::uuid as case_id, t.path from unnest(p_paths) as t (path)
  )
  select a.path
  from asked as a
  where not exists (
    select 1 from public.documents as d
    where d.case_id = a.case_id and ltrim(d.dropbox_path, '/') = a.path
  );
end;
$$;
comment on function private.unknown_files(text[]) is 'See public.unknown_files.';
grant execute on function private.unknown_files(text[]) to service_role;

create function public.unknown_files(p_paths text[])
returns setof text
language sql
stable
security invoker
set search_path = ''
as $$
  select private.unknown_files(p_paths);
$$;
comment on function public.unknown_files(text[]) is
  'Which of these files of uploads no document names. One that was stored a moment ago may be about to get its document.';
grant execute on function public.unknown_files(text[]) to service_role;

insert into public.edge_function_config (function_name, schedule, description)
values
  ('documents', null, 'Tells how far a document is, hands out its text, cancels, reads again, deletes'),
  ('retention', '17 * * * *', 'Removes files that nobody needs any more'),
  ('webhooks', '10 seconds', 'Tells callers'' servers that their documents have ended');
