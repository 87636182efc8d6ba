-- Purpose:  let the database itself look for dead workers, where it has a scheduler.
-- Affects:  creates pg_cron, if it can be had; private.apply_schedules() gives it its jobs. Elsewhere a process of
--           ours calls sweep_documents(), and every claim that finds nothing does.
-- Locks:    none that anybody could notice.

do $$
begin
  if exists (select 1 from pg_catalog.pg_available_extensions as e where e.name = 'pg_cron') then
    create extension if not exists pg_cron;
  end if;
end;
$$;
