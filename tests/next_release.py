"""The release after this one: a copy of it that knows one more revision of the tables."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEXT = "0003"
"""Its revision."""
SCRIPT = '''
"""A column and an index of the next release."""

import sqlalchemy as sa
from alembic import context, op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade():
    schema = context.config.attributes["schema"]
    place = f'"{schema}".' if schema else ""
    op.add_column("qrtz_triggers", sa.Column("of_the_next", sa.Integer()), schema=schema)
    op.create_index("qrtz_executions_next", "qrtz_executions", ["job_type"], schema=schema)
    mark = "tables of revision 0003, usable by releases from revision 0002 on"
    op.execute(f"COMMENT ON TABLE {place}qrtz_scheduler_state IS '{mark}'")


def downgrade():
    schema = context.config.attributes["schema"]
    place = f'"{schema}".' if schema else ""
    op.drop_index("qrtz_executions_next", schema=schema)
    op.drop_column("qrtz_triggers", "of_the_next", schema=schema)
    mark = "tables of revision 0002, usable by releases from revision 0001 on"
    op.execute(f"COMMENT ON TABLE {place}qrtz_scheduler_state IS '{mark}'")
'''


def scripts_of_next(place: Path) -> Path:
    """The scripts of a release with one more revision."""
    shutil.copytree(ROOT / "schema", place / "schema", ignore=shutil.ignore_patterns("__pycache__"))
    (place / "schema" / "versions" / "0003_next.py").write_text(SCRIPT)
    return place / "schema"


def copy_as_next(place: Path) -> Path:
    """Copy this release into a new directory, as one that knows one more revision, and needs its column."""
    shutil.copytree(ROOT / "quartzpy", place / "quartzpy", ignore=shutil.ignore_patterns("__pycache__"))
    scripts_of_next(place)
    version = place / "quartzpy" / "store" / "postgresql" / "schema_version.py"
    text, count = re.subn(r"REVISIONS = \((.*)\)", rf'REVISIONS = (\1, "{NEXT}")', version.read_text())
    assert count == 1
    version.write_text(text)
    columns = place / "quartzpy" / "store" / "postgresql" / "schema" / "table_columns.py"
    text, count = re.subn(r"(?m)^qrtz_triggers: ", "qrtz_triggers: of_the_next ", columns.read_text())
    assert count == 1
    columns.write_text(text)
    return place
