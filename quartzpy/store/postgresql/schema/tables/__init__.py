"""The tables: the single source of the schema. Migrations and `schema/postgresql.sql` are compared with them, and
`python -m tools.table_columns` writes their names for nodes, which do not import SQLAlchemy.

Every row has a `sched_name`: logical schedulers share a database and never affect each other. Each index serves a query
that runs; the comments name it.
"""

from quartzpy.store.postgresql.schema.tables import audit_and_incidents, history, runtime, schedule
from quartzpy.store.postgresql.schema.tables.shared import epochs, fire_ids, metadata

__all__ = ["audit_and_incidents", "epochs", "fire_ids", "history", "metadata", "runtime", "schedule"]
