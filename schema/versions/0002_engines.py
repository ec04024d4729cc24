"""What an execution on an engine has taken, and how it has ended there."""

import sqlalchemy as sa
from alembic import context, op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None
phase = "pre"

TABLE = "qrtz_fired_triggers"
COLUMNS = {
    "submission": sa.Integer(),
    "worker": sa.Text(),
    "worker_since": sa.DateTime(timezone=True),
    "worker_seen": sa.DateTime(timezone=True),
    "outlives_node": sa.Boolean(),
    "ending": sa.Text(),
}
VIEW = "qrtz_running"
SHOWN = "f.progress_message, f.submission, f.worker, f.worker_since"


def upgrade() -> None:
    schema = context.config.attributes["schema"]
    for name, kind in COLUMNS.items():
        op.add_column(TABLE, sa.Column(name, kind, nullable=True), schema=schema)
    op.execute(f"CREATE OR REPLACE VIEW {_view(schema, SHOWN)}")
    _mark("0002", schema)


def downgrade() -> None:
    schema = context.config.attributes["schema"]
    op.execute(f"DROP VIEW {_place(schema)}{VIEW}")
    op.execute(f"CREATE VIEW {_view(schema, 'f.progress_message')}")
    for name in reversed(COLUMNS):
        op.drop_column(TABLE, name, schema=schema)
    _mark("0001", schema)


def _view(schema: str | None, columns: str) -> str:
    """Return the name of the view and its query: that of the first revision, with these as its last columns."""
    query = context.script.get_revision("0001").module.VIEWS[VIEW].format(place=_place(schema)).rstrip()
    return f"{_place(schema)}{VIEW} AS{query.replace('f.progress_message', columns)}"


def _mark(revision: str, schema: str | None) -> None:
    mark = f"tables of revision {revision}, usable by releases from revision 0001 on"
    op.execute(f"COMMENT ON TABLE {_place(schema)}qrtz_scheduler_state IS '{mark}'")


def _place(schema: str | None) -> str:
    return f'"{schema}".' if schema else ""
