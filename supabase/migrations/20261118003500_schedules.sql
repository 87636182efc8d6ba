-- Schedules: installs pg_cron where the server has it, and creates its jobs.
--
-- The jobs are those of edge_function_config and the SQL jobs of private.apply_schedules (02000_functions):
-- the sweep, the evaluation of alerts and others. Without pg_cron the local scheduler of `pagewarden up`
-- does the same.
--
-- This file comes last because the jobs call functions of all other files.

do $$
begin
  if exists (select 1 from pg_catalog.pg_available_extensions as e where e.name = 'pg_cron') then
    create extension if not exists pg_cron;
  end if;
end;
$$;

select private.apply_schedules();
