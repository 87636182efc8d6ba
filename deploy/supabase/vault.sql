-- Tell the database where the functions are, and with which key it calls them; again whenever one of them
-- changes. Both come from the environment, where no list of processes shows them (psql 15 or newer):
--   PAGEWARDEN_URL=https://… PAGEWARDEN_SUPABASE_KEY=sb_secret_… psql "$DATABASE_URL" -f deploy/supabase/vault.sql
\set ON_ERROR_STOP on
\getenv url PAGEWARDEN_URL
\getenv key PAGEWARDEN_SUPABASE_KEY
begin;
delete from vault.secrets where name in ('pagewarden_url', 'pagewarden_key');
select vault.create_secret(:'url', 'pagewarden_url', 'Where the functions of Pagewarden are') is not null as url_is_kept;
select vault.create_secret(:'key', 'pagewarden_key', 'The secret key they are called with') is not null as key_is_kept;
commit;
