"""Calendars, which exclude instants from the schedules of the triggers that name them."""

from typing import TYPE_CHECKING, Any

from quartzpy.foreign_names import missing_in_package

if not TYPE_CHECKING:  # A type checker would accept every name.

    def __getattr__(name: str) -> Any:
        raise missing_in_package(__name__, name)
