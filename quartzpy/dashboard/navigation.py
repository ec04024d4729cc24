"""The pages that the menu lists."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageLink:
    """An entry of the menu."""

    name: str
    path: str
    key: str = ""
    """The key that goes there after `g`."""
    others: tuple[str, ...] = ()
    """The paths of pages that belong to this entry."""

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path, *self.others)


NAVIGATION = (
    ("Now", (PageLink("Overview", "/", "o"), PageLink("Timeline", "/timeline", "l"))),
    (
        "Schedule",
        (
            PageLink("Jobs", "/jobs", "j", ("/job",)),
            PageLink("Triggers", "/triggers", "t", ("/trigger",)),
            PageLink("Calendars", "/calendars", "c", ("/calendar",)),
            PageLink("Groups and limits", "/groups", "i"),
        ),
    ),
    (
        "History",
        (
            PageLink("Executions", "/executions", "e"),
            PageLink("Misfires", "/misfires", "m"),
            PageLink("Audit log", "/audit", "a"),
        ),
    ),
    ("Cluster", (PageLink("Nodes", "/nodes", "n"), PageLink("System", "/system", "s"))),
)
"""The menu: headings and their pages."""
