-- Purpose:  let the database itself look for dead workers, where it has a scheduler.
-- Affects:  schedules one job with pg_cron, if pg_cron can be had; elsewhere a process of ours
--           calls sweep_documents(), and every claim that finds nothing does.
-- Locks:    none that anybody could notice.

do $$
begin
  if exists (select 1 from pg_catalog.pg_available_extensions as e where e.name = 'pg_cron') then
    create extension if not exists pg_cron;
    perform cron.schedule('pagewarden-sweep', '5 seconds', 'select private.sweep()');
  end if;
end;
$$;
