-- Full-text search over the pages of documents: text search configurations, the search vector of a
-- page, the parser of queries, headlines, and search_documents.
--
-- Words are stored twice: unstemmed (without accents) and stemmed for the language of the page, so a
-- search finds them with and without a language. Scripts without spaces between words are indexed
-- character by character, and consecutive characters of a query become a phrase.
--
-- The vectors are columns of ocr_pages and page_corrections, filled by the functions that save pages and
-- corrections. A page with a correction is found by the correction only.

create text search configuration private.simple (copy = pg_catalog.simple);
alter text search configuration private.simple
  alter mapping for hword, hword_part, word with extensions.unaccent, pg_catalog.simple;

do $$
declare
  v_language text;
begin
  for v_language in
    select c.cfgname from pg_catalog.pg_ts_config as c
    join pg_catalog.pg_namespace as n on n.oid = c.cfgnamespace
    where n.nspname = 'pg_catalog' and c.cfgname <> 'simple'
  loop
    execute format('create text search configuration private.%I (copy = pg_catalog.%I)', v_language, v_language);
    execute format(
      'alter text search configuration private.%I alter mapping for hword, hword_part, word '
      'with extensions.unaccent, pg_catalog.%I',
      v_language, v_language || '_stem'
    );
  end loop;
end;
$$;

create function private.search_config(p_language text)
returns regconfig
language sql
stable
security invoker
set search_path = ''
as $$
  select coalesce(
    (
      select c.oid::regconfig from pg_catalog.pg_ts_config as c
      where c.cfgnamespace = 'private'::regnamespace
        and c.cfgname = case lower(split_part(replace(coalesce(p_language, ''), '_', '-'), '-', 1))
          when 'ar' then 'arabic' when 'da' then 'danish' when 'de' then 'german' when 'el' then 'greek'
          when 'en' then 'english' when 'es' then 'spanish' when 'et' then 'estonian' when 'fi' then 'finnish'
          when 'fr' then 'french' when 'hu' then 'hungarian' when 'id' then 'indonesian' when 'it' then 'italian'
          when 'lt' then 'lithuanian' when 'nl' then 'dutch' when 'no' then 'norwegian' when 'nb' then 'norwegian'
          when 'pt' then 'portuguese' when 'ro' then 'romanian' when 'ru' then 'russian' when 'sr' then 'serbian'
          when 'sv' then 'swedish' when 'tr' then 'turkish'
          else lower(p_language)
        end
    ),
    'private.simple'::regconfig
  );
$$;
comment on function private.search_config(text) is
  'Text search configuration for a language ("fr", "fr-CA", "french"); simple if the language is unknown.';

create function private.unspaced_characters()
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select '[\u0e00-\u0e7f\u3005-\u3007\u3040-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]';
$$;
comment on function private.unspaced_characters() is
  'Regular expression that matches characters of scripts written without spaces between words (Thai, Japanese, '
  'Chinese).';

create function private.punctuation()
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select '[\u00a0-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7\u037e\u0387\u055a-\u055f\u0589'
    '\u05be\u05c0\u05c3\u05f3\u05f4\u060c\u061b\u061f\u066a-\u066d\u06d4\u0964\u0965\u0f08-\u0f14'
    '\u2000-\u200b\u200e-\u206f\u20a0-\u20cf\u2190-\u2bff\u2e00-\u2e7f\u3000-\u3004\u3008-\u303f\u30fb'
    '\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]';
$$;
comment on function private.punctuation() is
  'Regular expression that matches non-ASCII punctuation and symbols, which Postgres treats as letters in the C '
  'locale.';

create function private.separate_words(p_text text)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  -- Each character becomes a word, and a search for several of them is a search for their sequence.
  select regexp_replace(
    regexp_replace(left(p_text, 250000), private.punctuation(), ' ', 'g'),
    '(' || private.unspaced_characters() || ')', ' \1 ', 'g'
  );
$$;
comment on function private.separate_words(text) is
  'Insert spaces between the words of a text, independently of its script and the database locale.';

create function private.search_vector(p_text text, p_language text)
returns tsvector
language sql
stable
security invoker
set search_path = ''
as $$
  -- One position stays empty between the two, or the last word of a page would seem to precede its first.
  select ts_delete(
    to_tsvector('private.simple', t.spelled) || ''' '':2'::tsvector
      || to_tsvector(private.search_config(p_language), t.spelled),
    ' '
  )
  from (select private.separate_words(p_text) as spelled) as t;
$$;
comment on function private.search_vector(text, text) is 'The search vector of a text: its words, unstemmed and stemmed.';

create function private.search_query(p_query text, p_language text)
returns tsquery
language sql
stable
security invoker
set search_path = ''
as $$
  -- Web search syntax. Characters of scripts without spaces must follow one another as typed:
  -- each run of them becomes a phrase, unless it stands in quotation marks already.
  select websearch_to_tsquery('private.simple', t.spelled)
    || websearch_to_tsquery(private.search_config(p_language), t.spelled)
  from (
    select private.separate_words(regexp_replace(
      translate(p_query, '“”„«»「」『』', repeat('"', 9)),
      '(' || private.unspaced_characters() || '+)(?=(?:[^"]*"[^"]*")*[^"]*$)', '"\1"', 'g'
    )) as spelled
  ) as t;
$$;
comment on function private.search_query(text, text) is 'Convert a search entered by a user into a tsquery.';

create function private.search_headline(p_text text, p_language text, p_query tsquery)
returns text
language sql
stable
security invoker
set search_path = ''
as $$
  -- Spaces around single characters and punctuation are added for the parser and removed again; adjacent
  -- hits are merged. Control characters, which no text contains, mark the hits until then.
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
  from (select private.unspaced_characters() || '|' || private.punctuation() as single) as t;
$$;
comment on function private.search_headline(text, text, tsquery) is
  'The matching excerpt of a text, with hits marked «like this».';

create type public.search_hit as (
  document_id uuid,
  case_id uuid,
  name text,
  page_number integer,
  rank real,
  headline text
);
comment on type public.search_hit is
  'A page whose text matches a search.';

create function private.search_documents(
  p_query text,
  p_language text,
  p_case_id uuid,
  p_limit integer,
  p_offset integer
)
returns setof public.search_hit
language plpgsql
stable
security definer          -- a policy would prevent the use of the index of words: its operator is not leakproof
set search_path = pg_catalog, pg_temp
as $$
declare
  v_query tsquery;
  v_all boolean := private.is_admin() or private.is_service();
  v_mine uuid[] := array(select private.my_case_ids());
begin
  if (length(p_query) between 1 and 1000) is not true then
    raise exception 'p_query must be 1 to 1000 characters long' using errcode = '22023', hint = 'Search for fewer words.';
  end if;
  if (p_limit between 1 and 200 and p_offset >= 0) is not true then
    raise exception 'p_limit must be between 1 and 200, and p_offset must not be negative' using errcode = '22023',
      hint = 'Read the hits page by page.';
  end if;
  v_query := private.search_query(p_query, p_language);
  return query
  with hit as materialized (
    select t.document_id, t.page_number, t.text, ts_rank_cd(t.text_search, v_query) as rank
    from (
      select o.document_id, o.run_id, o.page_number, o.case_id, o.text, o.text_search
      from public.ocr_pages as o
      where o.text_search @@ v_query and not exists (
        select 1 from public.page_corrections as c
        where c.document_id = o.document_id and c.page_number = o.page_number and c.is_latest
      )
      union all
      select c.document_id, null, c.page_number, c.case_id, c.text, c.text_search
      from public.page_corrections as c
      where c.text_search @@ v_query and c.is_latest
    ) as t
    join public.documents as d on d.id = t.document_id and d.run_id = coalesce(t.run_id, d.run_id)   -- the current text only
    where (v_all or t.case_id = any (v_mine))   -- what the policies of these tables say
      and d.deleted_at is null
      and (p_case_id is null or t.case_id = p_case_id)
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

-- Functions for users. Each only calls the private function of the same name, which checks the caller.

create function public.search_documents(
  p_query text,
  p_language text default null,
  p_case_id uuid default null,
  p_limit integer default 20,
  p_offset integer default 0
)
returns setof public.search_hit
language sql stable security invoker set search_path = ''
as $$ select * from private.search_documents(p_query, p_language, p_case_id, p_limit, p_offset) $$;
comment on function public.search_documents(text, text, uuid, integer, integer) is
  'Pages whose text matches and that the caller may see, best match first, with hits marked «like this». Accents are '
  'ignored; if the language is given, words match in all inflected forms.';
grant execute on function public.search_documents(text, text, uuid, integer, integer) to authenticated, service_role;
