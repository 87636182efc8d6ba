-- Schedules: installs pg_cron where the server has it, and creates its jobs.
--
-- The jobs are those of edge_function_config and the SQL jobs of private.apply_schedules (02000_functions):
-- the sweep, the evaluation of alerts and others. Without pg_cron the local scheduler of `pagewarden up`
-- does the same.
--
-- This file comes last because the jobs call functions of all other files.

do $$
begin
  create extension if not exists pg_cron;
exception
  when feature_not_supported then
    null;   -- not on this server
  when insufficient_privilege or undefined_object or raise_exception or object_not_in_prerequisite_state then
    raise warning 'pg_cron is unavailable: %', sqlerrm
      using hint = 'pagewarden schedule does the same. To use pg_cron, add it to shared_preload_libraries, set '
        'cron.database_name, create the extension as a superuser, and run "select private.apply_schedules()".';
end;
$$;

select private.apply_schedules();
