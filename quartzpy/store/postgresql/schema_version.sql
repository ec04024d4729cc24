-- name: table_exists
SELECT to_regclass(:'table')::text;

-- name: comment
SELECT obj_description(to_regclass(:'table'), 'pg_class');

-- name: columns
-- In the schema in which the statements find the tables, whatever schema comes first in the search path.
SELECT c.relname, a.attname
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE starts_with(c.relname, :'prefix') AND c.relkind::text = ANY(:'kinds'::text[])
   AND c.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = to_regclass(:'table'));

-- name: place
-- The schema in which the statements find a table, the one in which a new table would be made, and the search path.
SELECT (SELECT n.nspname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE c.oid = to_regclass(:'table')),
       current_schema()::text, current_setting('search_path');

-- name: schemas
-- The schemas that have a table of this name, except the temporary ones.
SELECT n.nspname::text
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relname::text = :'name' AND c.relkind IN ('r', 'p') AND NOT starts_with(n.nspname::text, 'pg_temp')
 ORDER BY 1;

-- name: hiding
-- The tables that hide rows from this role, or refuse some: row level security is active, and for one of these commands
-- (r, a, w, d as in pg_policy) there is no policy that lets everything through.
SELECT c.relname::text
  FROM pg_catalog.pg_class c
 WHERE starts_with(c.relname, :'prefix') AND c.relkind IN ('r', 'p') AND c.relrowsecurity
   AND c.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = to_regclass(:'table'))
   AND row_security_active(c.oid)
   AND EXISTS (
       SELECT FROM unnest(:'commands'::text[]) AS command(letter)
        WHERE NOT EXISTS (
               SELECT FROM pg_catalog.pg_policy p
                WHERE p.polrelid = c.oid AND p.polpermissive AND p.polcmd::text IN ('*', command.letter)
                  AND EXISTS (SELECT FROM unnest(p.polroles) AS r(oid) WHERE CASE WHEN r.oid = 0 THEN true ELSE pg_has_role(r.oid, 'USAGE') END)
                  AND coalesce(pg_get_expr(p.polqual, p.polrelid), 'true') = 'true'
                  AND coalesce(pg_get_expr(p.polwithcheck, p.polrelid), 'true') = 'true')
           OR EXISTS (
               SELECT FROM pg_catalog.pg_policy p
                WHERE p.polrelid = c.oid AND NOT p.polpermissive AND p.polcmd::text IN ('*', command.letter)
                  AND EXISTS (SELECT FROM unnest(p.polroles) AS r(oid) WHERE CASE WHEN r.oid = 0 THEN true ELSE pg_has_role(r.oid, 'USAGE') END)
                  AND (coalesce(pg_get_expr(p.polqual, p.polrelid), 'true') <> 'true'
                       OR coalesce(pg_get_expr(p.polwithcheck, p.polrelid), 'true') <> 'true')))
 ORDER BY 1;
