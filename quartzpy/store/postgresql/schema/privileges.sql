-- name: missing
-- Tables that do not exist are reported by another check.
SELECT w.name, w.verb
  FROM unnest(:'kinds'::text[], :'names'::text[], :'verbs'::text[], :'columns'::text[])
       AS w(kind, name, verb, columns)
  JOIN pg_catalog.pg_class c
    ON c.relname = w.name
   -- In the schema in which the statements find the tables.
   AND c.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = to_regclass(:'table'))
 WHERE CASE w.kind WHEN 'table' THEN NOT has_table_privilege(c.oid, w.verb)
                   WHEN 'columns' THEN EXISTS (
                       SELECT FROM pg_catalog.pg_attribute a
                        WHERE a.attrelid = c.oid AND a.attname = ANY(string_to_array(w.columns, ', '))
                          AND NOT has_column_privilege(c.oid, a.attnum, split_part(w.verb, ' ', 1)))
                   ELSE NOT has_sequence_privilege(c.oid, w.verb) END
 ORDER BY w.name, w.verb;
