-- Purpose:  find documents by what they say.
-- Affects:  creates search_documents.
-- Locks:    none that anybody could notice.

create function private.search_query(p_query text, p_language text)
returns tsquery
language sql
stable
security invoker
set search_path = ''
as $$
  -- Signs of scripts without spaces must follow one another; everything else is as on the web.
  select case
    when s.spelled <> p_query then phraseto_tsquery('private.simple', s.spelled)
    else websearch_to_tsquery('private.simple', p_query)
      || websearch_to_tsquery(private.search_config(p_language), p_query)
  end
  from (select private.spell_out(p_query) as spelled) as s;
$$;
comment on function private.search_query(text, text) is 'What a person typed, as a search.';
grant execute on function private.search_query(text, text) to authenticated, service_role;

create function public.search_documents(
  p_query text,
  p_language text default null,
  p_case_id uuid default null,
  p_limit integer default 20,
  p_offset integer default 0
)
returns table (
  document_id uuid,
  case_id uuid,
  name text,
  page_number integer,
  rank real,
  headline text
)
language plpgsql
stable
security invoker          -- row level security decides what is found
set search_path = ''
as $$
declare
  v_query tsquery := private.search_query(p_query, p_language);
begin
  if (length(p_query) between 1 and 1000) is not true then
    raise exception 'p_query must be 1 to 1000 characters' using errcode = '22023', hint = 'Search for fewer words.';
  end if;
  if (p_limit between 1 and 200 and p_offset >= 0) is not true then
    raise exception 'p_limit must be 1 to 200 and p_offset not negative' using errcode = '22023',
      hint = 'Read the hits page by page.';
  end if;
  return query
  with hit as materialized (
    select o.document_id, o.page_number, o.text, ts_rank_cd(o.text_search, v_query) as rank
    from public.ocr_pages as o
    join public.documents as d on d.id = o.document_id and d.run_id = o.run_id   -- the current text only
    where o.text_search @@ v_query
      and d.deleted_at is null
      and (p_case_id is null or o.case_id = p_case_id)
    order by 4 desc, 1, 2
    limit p_limit
    offset p_offset
  )
  select d.id, d.case_id, d.name, h.page_number, h.rank,
    ts_headline('private.simple', private.spell_out(h.text), v_query, 'StartSel=«, StopSel=», MaxFragments=2, MaxWords=20, MinWords=5')
  from hit as h
  join public.documents as d on d.id = h.document_id
  order by h.rank desc, d.id, h.page_number;
end;
$$;
comment on function public.search_documents(text, text, uuid, integer, integer) is
  'Pages whose text matches, best first, hits marked «so»; accents do not matter, words match in all their forms '
  'when the language is named. Only what the caller may see.';
grant execute on function public.search_documents(text, text, uuid, integer, integer) to authenticated, service_role;
grant execute on function private.spell_out(text) to authenticated, service_role;
grant execute on function private.search_config(text) to authenticated, service_role;
