-- Purpose:  giving and taking a role is a human act, so the audit log has a line for it.
-- Affects:  creates a trigger on user_roles.
-- Locks:    user_roles, for a moment.
-- Before:   the previous code gives roles in the same way; only the lines are new.

create function private.log_role_change()
returns trigger
language plpgsql
volatile
security definer          -- whoever may give roles may not write the log
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into public.hac_acts (
    user_id, action_type, action_description, field_changed, old_value, new_value, metadata
  )
  values (
    auth.uid(),
    case when old is null then 'role_given' when new is null then 'role_taken' else 'role_changed' end,
    'Role of a person changed', 'role', old.role, new.role,
    jsonb_build_object('user_id', coalesce(new.user_id, old.user_id))
  );
  return null;
end;
$$;
comment on function private.log_role_change() is 'Write a line of the audit log for each role that is given or taken.';
revoke execute on function private.log_role_change() from public;
create trigger user_roles_log
  after insert or update or delete on public.user_roles
  for each row execute function private.log_role_change();
