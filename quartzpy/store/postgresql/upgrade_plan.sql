-- name: sizes
-- The tables of a prefix in a schema, or where the search path leads: about how many rows, and how many bytes.
SELECT c.relname::text, greatest(c.reltuples, 0)::bigint, pg_total_relation_size(c.oid)
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND starts_with(c.relname::text, :'prefix')
   AND (n.nspname::text = :'schema' OR (:'schema' = '' AND pg_catalog.pg_table_is_visible(c.oid)));
