"""Instants for tests of schedules."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st


def utc(text: str) -> datetime:
    """An instant from a text without an offset."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def instants(first_year: int, last_year: int) -> st.SearchStrategy[datetime]:
    """All instants from the beginning of one year to that of another."""
    bounds = (utc(f"{year}-01-01").replace(tzinfo=None) for year in (first_year, last_year))
    return st.datetimes(*bounds, timezones=st.just(UTC))
