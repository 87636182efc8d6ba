-- Counters: how often things have ended, and how long they took; for /metrics.
--
-- What ends in the database (a check job, an attempt at a volume's stage) or in a process that nothing
-- scrapes (a function on Lambda) is counted here. count_event() only inserts a row, so that transactions
-- which count the same thing do not wait for each other; the sweep adds the rows up. A total is the sum
-- of both tables.
--
-- Not here: what Prometheus sees of them (metrics).

create table private.counters (
  counter text not null,
  labels text[] not null,
  events bigint not null,
  seconds double precision not null,
  constraint counters_pkey primary key (counter, labels)
);
comment on table private.counters is 'Events counted until the last sweep, and their total duration, by labels.';
alter table private.counters enable row level security;

create unlogged table private.counter_changes (   -- a crash of the server loses the last seconds
  id bigint generated always as identity,
  counter text not null,
  labels text[] not null,
  events bigint not null,
  seconds double precision not null,
  constraint counter_changes_pkey primary key (id)
);
comment on table private.counter_changes is 'Events counted since the last sweep.';
alter table private.counter_changes enable row level security;

create function private.count_event(
  p_counter text,
  p_labels text[],
  p_seconds double precision default 0,
  p_events bigint default 1
)
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  insert into private.counter_changes (counter, labels, events, seconds)
  values (p_counter, p_labels, p_events, greatest(p_seconds, 0));
$$;
comment on function private.count_event(text, text[], double precision, bigint) is
  'Count events with these labels, and add the seconds that they took.';

create function private.add_up_counters()
returns void
language sql
volatile
security invoker
set search_path = ''
as $$
  with changed as (
    delete from private.counter_changes as c returning c.counter, c.labels, c.events, c.seconds
  )
  insert into private.counters as t (counter, labels, events, seconds)
  select c.counter, c.labels, sum(c.events), sum(c.seconds) from changed as c group by c.counter, c.labels
  on conflict on constraint counters_pkey do update
  set events = t.events + excluded.events, seconds = t.seconds + excluded.seconds;
$$;
comment on function private.add_up_counters() is 'Add the counted events to the totals. Called by the sweep.';

create function private.seconds_bucket(p_seconds double precision)
returns text
language sql
immutable
security invoker
set search_path = ''
as $$
  select coalesce(min(b.seconds)::text, '+Inf')
  from unnest(array[1, 5, 15, 60, 300, 900, 3600]) as b (seconds)
  where p_seconds <= b.seconds;
$$;
comment on function private.seconds_bucket(double precision) is
  'The upper limit of the bucket of a histogram in which this duration is counted.';
