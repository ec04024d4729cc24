"""Our tables stay out of a user's own migrations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Column, Integer, MetaData, Table, create_engine

from quartzpy.alembic import exclude_quartzpy_tables
from quartzpy.errors import SettingsError
from quartzpy.store.postgresql import migrations


def differences(dsn: str, **options: Any) -> list[Any]:
    """What autogenerate would do for a user with one table."""
    models = MetaData()
    Table("orders", models, Column("number", Integer))
    engine = create_engine(dsn)
    try:
        with engine.connect() as connection:
            return list(compare_metadata(MigrationContext.configure(connection, opts=options), models))
    finally:
        engine.dispose()


@pytest.mark.parametrize("prefix", ["qrtz_", "jobs_"])
@pytest.mark.parametrize("schema", [None, "billing"])
def test_autogenerate_does_not_see_our_tables(
    fresh_database: Callable[[], str], schema: str | None, prefix: str
) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn, schema, prefix=prefix)
    everything: dict[str, Any] = {"include_schemas": schema is not None}
    assert len(differences(dsn, **everything)) > 10, "without the filter it would drop them"
    left = differences(dsn, include_name=exclude_quartzpy_tables(table_prefix=prefix), **everything)
    assert [kind for kind, *_ in left] == ["add_table"]


def test_a_filter_of_ones_own_is_asked_about_the_rest() -> None:
    asked = []

    def own(name: str | None, kind: str, parents: Any) -> bool:
        asked.append(name)
        return name != "legacy"

    combined = exclude_quartzpy_tables(own)
    assert [combined(name, "table", {}) for name in ("qrtz_triggers", "legacy", "orders")] == [False, False, True]
    assert asked == ["legacy", "orders"]
    assert combined("qrtz_something", "column", {}), "only whole tables"


def test_a_wrong_prefix_is_refused() -> None:
    with pytest.raises(SettingsError, match="table_prefix"):
        exclude_quartzpy_tables(table_prefix="")
