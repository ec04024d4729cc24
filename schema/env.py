"""Alembic's environment. Run through `quartzpy db`, which hands in the connection, the schema and the tables."""

from alembic import context

from quartzpy.store.postgresql.migrations import comparison_options

given = context.config.attributes
if "metadata" not in given:
    raise SystemExit("run migrations by `quartzpy db upgrade`, not by alembic itself")

options = comparison_options(given["schema"], given["table_prefix"])
if context.is_offline_mode():
    context.configure(dialect_name="postgresql", literal_binds=True, target_metadata=given["metadata"], **options)
else:
    context.configure(connection=given["connection"], target_metadata=given["metadata"], **options)
with context.begin_transaction():
    context.run_migrations()
