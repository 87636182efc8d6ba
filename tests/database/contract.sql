-- One function for each thing a transport has to carry, and a table with row-level security.

create function public.next_number(p_number integer)
returns integer language sql immutable as $$ select p_number + 1 $$;

create function public.echo(
  p_text text default null,
  p_texts text[] default null,
  p_json jsonb default null,
  p_id uuid default null,
  p_number double precision default null,
  p_flag boolean default null,
  p_at timestamptz default null
)
returns jsonb language sql stable as $$
  select jsonb_build_object('text', p_text, 'texts', p_texts, 'json', p_json, 'id', p_id,
    'number', p_number, 'flag', p_flag, 'at', p_at)
$$;

create function public.same_json(p_json jsonb)
returns jsonb language sql immutable as $$ select p_json $$;

create function public.nothing()
returns void language plpgsql as $$ begin end $$;

create function public.numbers(p_count integer)
returns setof integer language sql immutable as $$ select * from generate_series(1, p_count) $$;

create function public.one_column(p_count integer)
returns table (number integer) language sql immutable as $$
  select * from generate_series(1, p_count)
$$;

create function public.every_type(p_count integer)
returns table (id uuid, at timestamptz, day date, amount numeric, share double precision,
  large bigint, flag boolean, label text, labels text[], doc jsonb, missing text)
language sql stable as $$
  select '6f0c1c9e-0000-4000-8000-000000000001'::uuid, '2026-01-02 03:04:05.678901+02'::timestamptz,
    '2026-01-02'::date, 12.50, 0.1::double precision, 9007199254740991, true, 'déjà "vu"',
    array['a', 'b,c', '{"d"}'], '{"k": [1, null]}'::jsonb, null::text
  from generate_series(1, p_count)
$$;

create type public.pair as (number integer, label text);

create function public.one_pair(p_number integer)
returns public.pair language sql immutable as $$ select p_number, 'label' $$;

create function public.two_results(p_number integer, out double integer, out half numeric)
language sql immutable as $$ select p_number * 2, p_number / 2.0 $$;

create function public.fail(p_sqlstate text)
returns void language plpgsql as $$
begin
  raise exception 'it failed' using errcode = p_sqlstate, hint = 'do it differently';
end;
$$;

create function public.whoami()
returns jsonb language sql stable as $$
  select jsonb_build_object('role', current_user, 'uid', auth.uid(), 'claim', auth.role())
$$;

create function public.forbidden()
returns void language plpgsql as $$ begin end $$;
revoke execute on function public.forbidden() from public;

create table public.notes (
  id integer primary key,
  owner uuid,
  body text not null,
  done boolean not null default false,
  created_at timestamptz not null default now()
);
alter table public.notes enable row level security;
create policy "Notes are seen by their owners" on public.notes
  for select to authenticated using (owner = (select auth.uid()));
grant select on public.notes to authenticated, service_role;

insert into public.notes (id, owner, body, done, created_at)
values
  (1, '6f0c1c9e-0000-4000-8000-00000000000a', 'first', true, '2026-01-01'),
  (2, '6f0c1c9e-0000-4000-8000-00000000000a', 'with "quotes", (brackets) and \', false, '2026-01-02'),
  (3, '6f0c1c9e-0000-4000-8000-00000000000b', 'of somebody else', false, '2026-01-03'),
  (4, null, '', false, '2026-01-04');

create table public.secrets (id integer primary key);
alter table public.secrets enable row level security;

-- Refuses at the end of the transaction, not in the statement.
create table public.promises (id integer primary key, kept_by integer);
alter table public.promises enable row level security;
alter table public.promises add constraint promises_kept
  foreign key (kept_by) references public.promises deferrable initially deferred;
grant select, insert on public.promises to service_role;

create function public.promise(p_id integer, p_kept_by integer)
returns integer language sql volatile as $$
  insert into public.promises (id, kept_by) values (p_id, p_kept_by) returning id
$$;

create table public.drafts (
  id integer primary key,
  body text,
  labels text[],
  done boolean not null default false
);
alter table public.drafts enable row level security;
grant select, insert, update on public.drafts to service_role;

create function public.forget_drafts()
returns void language sql volatile security definer set search_path = '' as $$
  delete from public.drafts
$$;
