-- Purpose:  what is too old can go, as far as an operator wants; and can be counted before it does.
-- Affects:  creates apply_retention.
-- Locks:    none that anybody could notice; it works in batches.

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
      raise exception 'there is no term "%"', v_term.key using errcode = '22023',
        hint = 'Terms are ' || array_to_string(c_known, ', ') || '.';
    end if;
    if v_term.value <> 'null' and (jsonb_typeof(v_term.value) = 'number' and v_term.value::numeric > 0) is not true then
      raise exception 'the term "%" must be a number of days', v_term.key using errcode = '22023',
        hint = 'Leave it out to keep everything.';
    end if;
  end loop;
end;
$$;
comment on function private.require_terms(jsonb) is 'Refuse terms that make no sense (22023).';

create function private.apply_retention(p_terms jsonb, p_dry_run boolean, p_limit integer, p_now timestamptz default now())
returns jsonb
language plpgsql
volatile
security definer          -- nobody else may write the tables
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bin timestamptz;
  v_errors timestamptz;
  v_webhooks timestamptz;
  v_messages timestamptz;
  v_queue text;
  v_some integer;
  v_case record;
  v_count integer;
  v_gone jsonb := '{}';
begin
  perform private.require_terms(p_terms);
  if p_dry_run is null or (p_limit between 1 and 10000) is not true then
    raise exception 'p_dry_run must be true or false, and p_limit 1 to 10000' using errcode = '22023',
      hint = 'Call it again while it is p_limit.';
  end if;
  v_bin := p_now - make_interval(secs => ((p_terms ->> 'bin_days')::double precision * 86400));
  v_errors := p_now - make_interval(secs => ((p_terms ->> 'error_days')::double precision * 86400));
  v_webhooks := p_now - make_interval(secs => ((p_terms ->> 'webhook_days')::double precision * 86400));
  v_messages := p_now - make_interval(secs => ((p_terms ->> 'message_days')::double precision * 86400));

  -- What is in the bin, versions that newer ones took the place of among it; never what somebody still reads.
  v_count := 0;
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
    v_count := v_count + cardinality(v_case.ids);
    if not p_dry_run then
      perform 1 from public.documents as d where d.id = any (v_case.ids) order by d.id for update;
      perform private.erase(v_case.case_id, v_case.ids);
    end if;
  end loop;
  v_gone := v_gone || jsonb_build_object('documents', v_count);

  -- Errors of documents that need nobody any more.
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
  select count(*) into v_count from old;
  v_gone := v_gone || jsonb_build_object('errors', v_count);

  with old as (
    select w.id from public.webhooks as w where w.settled_at < v_webhooks order by w.settled_at limit p_limit
  ),
  gone as (
    delete from public.webhooks as w using old where w.id = old.id and not p_dry_run
  )
  select count(*) into v_count from old;
  v_gone := v_gone || jsonb_build_object('webhooks', v_count);

  -- Messages about volumes that were dealt with; what became of the volume is in volume_runs.
  v_count := 0;
  foreach v_queue in array array['line_detection', 'line_extraction', 'ocr', 'reduce'] loop
    execute format(
      'with old as (select a.msg_id from pgmq.%1$I as a where a.archived_at < $1 order by a.msg_id limit $2), '
      'gone as (delete from pgmq.%1$I as a using old where a.msg_id = old.msg_id and not $3) '
      'select count(*) from old',
      'a_ocr_' || v_queue
    ) into v_some using v_messages, p_limit - v_count, p_dry_run;
    v_count := v_count + v_some;
  end loop;
  return v_gone || jsonb_build_object('messages', v_count);
end;
$$;
comment on function private.apply_retention(jsonb, boolean, integer, timestamptz) is 'See public.apply_retention.';
grant execute on function private.apply_retention(jsonb, boolean, integer, timestamptz) to service_role;

create function public.apply_retention(p_terms jsonb, p_dry_run boolean default false, p_limit integer default 1000)
returns jsonb
language sql
volatile
security invoker
set search_path = ''
as $$
  select private.apply_retention(p_terms, p_dry_run, p_limit);
$$;
comment on function public.apply_retention(jsonb, boolean, integer) is
  'Remove what is older than {"bin_days", "error_days", "webhook_days", "message_days"}: erase documents of the bin, '
  'errors of documents that need nobody, settled webhooks, messages about volumes in their archives. Says how many; with p_dry_run it only counts. What a term does not '
  'name is kept. Audit lines stay.';
grant execute on function public.apply_retention(jsonb, boolean, integer) to service_role;
