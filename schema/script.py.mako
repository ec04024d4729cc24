"""${message}

`phase` says when it is run in a rolling upgrade: "pre" before new nodes start, "post" after old ones are gone.
"""

from alembic import context, op
import sqlalchemy as sa

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None
phase = "pre"


def upgrade() -> None:
    schema = context.config.attributes["schema"]


def downgrade() -> None:
    schema = context.config.attributes["schema"]
