"""Operators' views of a database: tallies, the history, the search, the audit log, and the doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quartzpy.errors import InvalidValueError

if TYPE_CHECKING:
    from quartzpy.store.postgresql.admin.operators import Admin
    from quartzpy.store.protocol import JobStore


def admin(store: JobStore) -> Admin:
    """Return the operators' views of a store's database.

    Raises:
        InvalidValueError: the store has none.
    """
    views = admin_if_any(store)
    if views is None:
        raise InvalidValueError("operators' views need PostgreSQL; this scheduler keeps its jobs in memory")
    return views


def admin_if_any(store: JobStore) -> Admin | None:
    """Return the operators' views of a store's database; None if the store has none."""
    views: Admin | None = getattr(store, "admin", None)
    return views


def of_steps(store: JobStore) -> JobStore:
    """Return a store with such views on the connections of a node's steps."""
    of_node: JobStore = getattr(store, "of_steps")()  # noqa: B009
    return of_node


def has_admin(store: JobStore) -> bool:
    """Return whether a store has such views, without importing them."""
    return hasattr(type(store), "admin")
