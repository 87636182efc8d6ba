-- Tell the database where the functions are, and with which key it calls them. Run as postgres, again
-- whenever one of them changes:
--   psql "$DATABASE_URL" -v url=https://pagewarden.example.org -v key="$SECRET_KEY" -f deploy/supabase/vault.sql
\set ON_ERROR_STOP on
begin;
delete from vault.secrets where name in ('pagewarden_url', 'pagewarden_key');
select vault.create_secret(:'url', 'pagewarden_url', 'Where the functions of Pagewarden are') is not null as url_kept;
select vault.create_secret(:'key', 'pagewarden_key', 'The secret key they are called with') is not null as key_kept;
commit;
