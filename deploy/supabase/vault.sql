-- Store the address of the functions and the key to call them; repeat when one of them changes.
-- Both are read from the environment, so that no process list shows them (psql 15 or newer):
--   PAGEWARDEN_URL=https://… PAGEWARDEN_SUPABASE_KEY=sb_secret_… psql "$DATABASE_URL" -f deploy/supabase/vault.sql
\set ON_ERROR_STOP on
\getenv url PAGEWARDEN_URL
\getenv key PAGEWARDEN_SUPABASE_KEY
begin;
delete from vault.secrets where name in ('pagewarden_url', 'pagewarden_key');
select vault.create_secret(:'url', 'pagewarden_url', 'Address of the Pagewarden functions') is not null as url_is_stored;
select vault.create_secret(:'key', 'pagewarden_key', 'Secret key to call the functions') is not null as key_is_stored;
commit;
