-- name: table_exists
SELECT to_regclass(:'table')::text;

-- name: comment
SELECT obj_description(to_regclass(:'table'), 'pg_class');

-- name: columns
SELECT c.relname, a.attname
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE starts_with(c.relname, :'prefix') AND c.relkind::text = ANY(:'kinds'::text[])
   AND c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace
                          WHERE nspname = coalesce(:'schema'::text, current_schema()));
