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
  -- As on the web. Signs of scripts without spaces must follow one another where they were typed so:
  -- each run of them becomes a phrase, unless it stands in quotation marks already.
  select websearch_to_tsquery('private.simple', t.spelled)
    || websearch_to_tsquery(private.search_config(p_language), t.spelled)
  from (
    select private.spell_out(regexp_replace(
      translate(p_query, '“”„«»「」『』', repeat('"', 9)),
      '(' || private.unspaced_signs() || '+)(?=(?:[^"]*"[^"]*")*[^"]*$)', '"\1"', 'g'
    )) as spelled
  ) as t;
$$;
comment on function private.search_query(text, text) is 'What a person typed, as a search.';

create function private.search_headline(p_text text, p_language text, p_query tsquery)
returns text
language sql
stable
security invoker
set search_path = ''
as $$
  -- Spaces around signs and marks are set for the parser and taken away again; neighbours that were
  -- hit are marked as one. Control characters mark the hits until then, as no text has them.
  select translate(
    replace(
      regexp_replace(
        ts_headline(
          private.search_config(p_language),
          regexp_replace(left(p_text, 250000), '(' || t.single || ')', ' \1 ', 'g'),
          p_query,
          E'StartSel="\x01", StopSel="\x02", MaxFragments=2, MaxWords=25, MinWords=5, ShortWord=0'
        ),
        E' ?(\x01?(?:' || t.single || E')\x02?) ?', '\1', 'g'
      ),
      E'\x02\x01', ''
    ),
    E'\x01\x02', '«»'
  )
  from (select private.unspaced_signs() || '|' || private.marks() as single) as t;
$$;
comment on function private.search_headline(text, text, tsquery) is 'The part of a text that was found, hits marked «so».';

create function private.search_documents(
  p_query text,
  p_language text,
  p_case_id uuid,
  p_limit integer,
  p_offset integer
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
security definer          -- behind a policy the index of words cannot be used: its operator is not leakproof
set search_path = pg_catalog, pg_temp
as $$
declare
  v_query tsquery;
  v_all boolean := private.is_admin() or private.is_service();
  v_mine uuid[] := array(select private.my_case_ids());
begin
  if (length(p_query) between 1 and 1000) is not true then
    raise exception 'p_query must be 1 to 1000 characters' using errcode = '22023', hint = 'Search for fewer words.';
  end if;
  if (p_limit between 1 and 200 and p_offset >= 0) is not true then
    raise exception 'p_limit must be 1 to 200 and p_offset not negative' using errcode = '22023',
      hint = 'Read the hits page by page.';
  end if;
  v_query := private.search_query(p_query, p_language);
  return query
  with hit as materialized (
    select o.document_id, o.page_number, o.text, ts_rank_cd(o.text_search, v_query) as rank
    from public.ocr_pages as o
    join public.documents as d on d.id = o.document_id and d.run_id = o.run_id   -- the current text only
    where o.text_search @@ v_query
      and (v_all or o.case_id = any (v_mine))   -- what the policies of these tables say
      and d.deleted_at is null
      and (p_case_id is null or o.case_id = p_case_id)
    order by 4 desc, 1, 2
    limit p_limit
    offset p_offset
  )
  select d.id, d.case_id, d.name::text, h.page_number, h.rank, private.search_headline(h.text, p_language, v_query)
  from hit as h
  join public.documents as d on d.id = h.document_id
  order by h.rank desc, d.id, h.page_number;
end;
$$;
comment on function private.search_documents(text, text, uuid, integer, integer) is 'See public.search_documents.';
grant execute on function private.search_documents(text, text, uuid, integer, integer) to authenticated, service_role;

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
language sql
stable
security invoker
set search_path = ''
as $$
  select * from private.search_documents(p_query, p_language, p_case_id, p_limit, p_offset);
$$;
comment on function public.search_documents(text, text, uuid, integer, integer) is
  'Pages whose text matches, best first, hits marked «so»; accents do not matter, words match in all their forms '
  'when the language is named. Only what the caller may see.';
grant execute on function public.search_documents(text, text, uuid, integer, integer) to authenticated, service_role;
