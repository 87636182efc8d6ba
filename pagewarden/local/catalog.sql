-- What is in a database: a kind, a name and a definition for each object of ours (catalog.py).
--
-- schemas and roles are ours; only is null, or names the objects to list, functions as "schema.name()".
-- Objects of extensions are left out. What Postgres 15 to 18 write differently is made equal here.
with ours as (
  select n.oid, n.nspname from pg_namespace as n where n.nspname = any ({schemas})
), extension as (
  select d.classid, d.objid from pg_depend as d where d.deptype = 'e'
), relation as (
  select c.*, format('%I.%I', n.nspname, c.relname) as name
  from pg_class as c join ours as n on n.oid = c.relnamespace
  left join pg_index as i on i.indexrelid = c.oid
  left join pg_class as t on t.oid = i.indrelid
  where not exists (select from extension as e where e.classid = 'pg_class'::regclass and e.objid = c.oid)
    and ({names}::text[] is null or format('%I.%I', n.nspname, coalesce(t.relname, c.relname)) = any ({names}))
), routine as (
  select p.*, p.oid::regprocedure::text as name
  from pg_proc as p join ours as n on n.oid = p.pronamespace
  where not exists (select from extension as e where e.classid = 'pg_proc'::regclass and e.objid = p.oid)
    and ({names}::text[] is null or format('%I.%I()', n.nspname, p.proname) = any ({names}))
), free_type as (
  select t.*, t.oid::regtype::text as name from pg_type as t join ours as n on n.oid = t.typnamespace
  where t.typtype in ('d', 'e', 'r')
    and not exists (select from extension as e where e.classid = 'pg_type'::regclass and e.objid = t.oid)
    and ({names}::text[] is null or format('%I.%I', n.nspname, t.typname) = any ({names}))
), acl as (
  select 'relation' as kind, r.name, a.* from relation as r,
    aclexplode(coalesce(r.relacl, acldefault(case r.relkind when 'S' then 's'::"char" else 'r'::"char" end, r.relowner))) as a
  where r.relkind in ('r', 'v', 'S') and a.privilege_type <> 'MAINTAIN'
  union all
  select 'column', format('%s.%I', r.name, t.attname), a.*
  from relation as r join pg_attribute as t on t.attrelid = r.oid, aclexplode(t.attacl) as a
  union all
  select 'function', r.name, a.* from routine as r, aclexplode(coalesce(r.proacl, acldefault('f', r.proowner))) as a
  union all
  select 'schema', n.nspname, a.* from pg_namespace as n join ours as o on o.oid = n.oid, aclexplode(n.nspacl) as a
)
select 'schema', n.nspname, '' from ours as n
union all
select case r.relkind when 'v' then 'view' else 'table' end, r.name,
  concat_ws(' ', r.relpersistence, case when r.relrowsecurity then 'rls' end, array_to_string(r.reloptions, ','))
from relation as r where r.relkind in ('r', 'v')
union all
-- Postgres 15 qualifies columns that later versions do not.
select 'view body', r.name, regexp_replace(pg_get_viewdef(r.oid), '\m\w+\.(?=\w)', '', 'g') from relation as r where r.relkind = 'v'
union all
select 'type', r.name, '' from relation as r where r.relkind = 'c'
union all
select 'column', format('%s.%I', r.name, a.attname), concat_ws(' ',
  row_number() over (partition by r.oid order by a.attnum), format_type(a.atttypid, a.atttypmod),
  case when a.attnotnull then 'not null' end, nullif(a.attidentity, ''), nullif(a.attgenerated, ''),
  pg_get_expr(d.adbin, d.adrelid))
from relation as r
join pg_attribute as a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
left join pg_attrdef as d on d.adrelid = r.oid and d.adnum = a.attnum
where r.relkind in ('r', 'v', 'c')
union all
select 'constraint', format('%s.%I', r.name, c.conname), pg_get_constraintdef(c.oid)
from pg_constraint as c join relation as r on r.oid = c.conrelid where c.contype not in ('t', 'n')
union all
select 'index', r.name, pg_get_indexdef(r.oid) || coalesce(' ' || array_to_string(r.reloptions, ','), '')
from relation as r where r.relkind = 'i'
union all
select 'sequence', r.name, format('%s %s', q.seqincrement, q.seqstart)
from relation as r join pg_sequence as q on q.seqrelid = r.oid
union all
select 'enum', t.name, string_agg(e.enumlabel, ',' order by e.enumsortorder)
from free_type as t join pg_enum as e on e.enumtypid = t.oid group by t.name
union all
select 'domain', t.name, concat_ws(' ', format_type(t.typbasetype, t.typtypmod),
  case when t.typnotnull then 'not null' end, t.typdefault,
  (select string_agg(format('%s %s', c.conname, pg_get_constraintdef(c.oid)), ' ' order by c.conname)
   from pg_constraint as c where c.contypid = t.oid and c.contype = 'c'))
from free_type as t where t.typtype = 'd'
union all
select 'function', r.name, concat_ws(' ', 'returns', pg_get_function_result(r.oid), l.lanname,
  r.provolatile, case when r.prosecdef then 'definer' end, case when r.proisstrict then 'strict' end,
  array_to_string(r.proconfig, ';'), pg_get_function_arguments(r.oid), 'cost', r.procost, 'rows', r.prorows)
from routine as r join pg_language as l on l.oid = r.prolang
union all
select 'function body', r.name, coalesce(pg_get_function_sqlbody(r.oid), r.prosrc) from routine as r
union all
select 'trigger', format('%s.%I', r.name, t.tgname), pg_get_triggerdef(t.oid)
from pg_trigger as t join relation as r on r.oid = t.tgrelid where not t.tgisinternal
union all
select 'policy', format('%s.%I', r.name, p.polname), concat_ws(' ', p.polcmd, p.polpermissive,
  (select string_agg(u::regrole::text, ',' order by u::regrole::text) from unnest(p.polroles) as u),
  'using', pg_get_expr(p.polqual, p.polrelid), 'check', pg_get_expr(p.polwithcheck, p.polrelid))
from pg_policy as p join relation as r on r.oid = p.polrelid
union all
select 'text search', format('%I.%I', n.nspname, c.cfgname), string_agg(
  format('%s:%s', m.maptokentype, m.mapdict::regdictionary), ',' order by m.maptokentype, m.mapseqno)
from pg_ts_config as c join ours as n on n.oid = c.cfgnamespace join pg_ts_config_map as m on m.mapcfg = c.oid
where c.cfgname = 'simple'  -- the others are those that the server has
group by n.nspname, c.cfgname
union all
select 'role', r.rolname, concat_ws(' ', case when r.rolcanlogin then 'login' end,
  case when r.rolsuper then 'superuser' end, case when r.rolbypassrls then 'bypassrls' end,
  case when r.rolcreatedb then 'createdb' end, case when r.rolcreaterole then 'createrole' end,
  case when r.rolreplication then 'replication' end,
  (select 'member of ' || string_agg(m.roleid::regrole::text, ',' order by m.roleid::regrole::text)
   from pg_auth_members as m where m.member = r.oid))
from pg_roles as r where r.rolname = 'pagewarden_worker'
union all
select 'extension', e.extname, '' from pg_extension as e where e.extname in ('unaccent', 'pg_trgm')
union all
select 'grant ' || a.kind, a.name, format('%s to %s%s', a.privilege_type,
  case a.grantee when 0 then 'public' else a.grantee::regrole::text end,
  case when a.is_grantable then ' with grant option' end)
from acl as a
where a.grantee <> a.grantor
  and (a.grantee = 0 and (a.kind, a.name) <> ('schema', 'public')
    or a.grantee in (select r.oid from pg_roles as r where r.rolname = any ({roles})))
union all
select 'comment', case
    when d.classoid = 'pg_class'::regclass and d.objsubid = 0 then (select r.name from relation as r where r.oid = d.objoid)
    when d.classoid = 'pg_class'::regclass
      then (select format('%s.%I', r.name, a.attname) from relation as r join pg_attribute as a on a.attrelid = r.oid
            where r.oid = d.objoid and a.attnum = d.objsubid)
    when d.classoid = 'pg_proc'::regclass then (select r.name from routine as r where r.oid = d.objoid)
    when d.classoid = 'pg_type'::regclass then
      (select t.name from free_type as t where t.oid = d.objoid
       union all select r.name from relation as r where r.reltype = d.objoid)
    when d.classoid = 'pg_namespace'::regclass then (select o.nspname from ours as o where o.oid = d.objoid)
  end, d.description
from pg_description as d
