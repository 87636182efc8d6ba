-- Schedules: pg_cron, where it exists, and the jobs of edge_function_config.
--
-- Last, because the jobs call functions of all other files.

do $$
begin
  if exists (select 1 from pg_catalog.pg_available_extensions as e where e.name = 'pg_cron') then
    create extension if not exists pg_cron;
  end if;
end;
$$;

select private.apply_schedules();
