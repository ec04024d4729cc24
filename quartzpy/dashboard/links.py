"""The URLs of the pages, and the menu.

Keys are query parameters and not parts of the path: servers and proxies decode, merge and normalize paths, so names
such as "a/b", ".." or "100%" do not survive there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlencode, urlsplit

from quartzpy.dashboard.assets import asset_path
from quartzpy.errors import InvalidKeyError
from quartzpy.keys import JobKey, Key, TriggerKey
from quartzpy.operations import Selection

ROOT = "quartzpy_root"
"""The place in the ASGI scope of the prefix under which the application is mounted."""


@dataclass(frozen=True, slots=True)
class Links:
    """The URLs of one mounted application, seen from one page of it."""

    root: str
    path: str = "/"
    """The path of the page, without the prefix."""
    query: tuple[tuple[str, str], ...] = ()

    def to(self, path: str, **query: Any) -> str:
        """Return the URL of a page with query parameters; those that are None or "" are left out."""
        return f"{self.root}{path}{_query(query.items())}"

    def asset(self, name: str) -> str:
        return f"{self.root}{asset_path(name)}"

    def job(self, key: JobKey) -> str:
        return self.to("/job", group=key.group, name=key.name)

    def trigger(self, key: TriggerKey) -> str:
        return self.to("/trigger", group=key.group, name=key.name)

    def execution(self, fire_id: int) -> str:
        return self.to(f"/executions/{fire_id}")

    def calendar(self, name: str, **query: Any) -> str:
        return self.to("/calendar", name=name, **query)

    def action(self, action: str, **arguments: Any) -> str:
        """Return the URL of the page that asks for confirmation of an action of `Operations.actions`."""
        return f"{self.root}/actions/{action}{_query(action_fields(arguments))}"

    def bulk(self, action: str) -> str:
        """Return the URL of an action on what a list has, with the filter of the list."""
        return f"{self.root}/actions/{action}{_query(self.query)}"

    def preview(self, action: str) -> str:
        """Return the URL of the preview of an action, for the subject of this page."""
        named = [(name, value) for name, value in self.query if name in ("kind", "group", "name")]
        return f"{self.root}/actions/{action}/preview{_query(named)}"

    def node(self, instance_id: str) -> str:
        return self.to("/nodes", node=instance_id)

    def executions_of_job(self, key: JobKey, **query: str) -> str:
        return self.to("/executions", job=key.name, job_group=key.group, **query)

    def executions_of_node(self, instance_id: str, **query: str) -> str:
        return self.to("/executions", node=instance_id, **query)

    def is_ours(self, url: str) -> bool:
        """Return whether a URL that a request names leads to a page of ours, and not to another site."""
        parts = urlsplit(url)
        is_local = url.startswith(self.to("/")) and not url.startswith("//") and "\\" not in url
        return is_local and not (parts.scheme or parts.netloc)

    def here(self, **changes: Any) -> str:
        """Return the URL of this page with some query parameters replaced; None and "" remove one."""
        others = [(name, value) for name, value in self.query if name not in changes]
        return f"{self.root}{self.path}{_query([*others, *changes.items()])}"


def action_fields(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the query parameters of an action with these arguments, as `subjects_of` of the actions reads them.

    A list of keys or fire ids becomes the fields that a list of the page sends for its selected rows.
    """
    fields: list[tuple[str, str]] = []
    for name, value in arguments.items():
        match value:
            case Key():
                kind = "job" if isinstance(value, JobKey) else "trigger"
                fields += [("kind", kind), ("group", value.group), ("name", value.name)]
            case Selection():
                # Only selections of a pause are among the remedies; the others belong to the lists.
                fields.append(("kind", str(value.kind).replace(" ", "_")))
                fields += [("group", str(group)) for group in value.filters.values()]
            case int() if name == "selection":
                fields.append(("fire_id", str(value)))
            case tuple() | list():
                fields += [("of", _noun(value[0])), *(("selected", _selected(key)) for key in value)]
            case None:
                pass
            case _:
                fields.append((name, str(value)))
    return fields


def _noun(value: Key | int) -> str:
    if isinstance(value, int):
        return "executions"
    return "jobs" if isinstance(value, JobKey) else "triggers"


def _selected(value: Key | int) -> str:
    return str(value) if isinstance(value, int) else json.dumps([value.group, value.name])


def job_key(parameters: Any) -> JobKey:
    """Return the job that query parameters or form fields name.

    Raises:
        InvalidKeyError: the name is missing or invalid.
    """
    return JobKey(_name(parameters), parameters.get("group") or JobKey("any").group)


def trigger_key(parameters: Any) -> TriggerKey:
    """Return the trigger that query parameters or form fields name.

    Raises:
        InvalidKeyError: the name is missing or invalid.
    """
    return TriggerKey(_name(parameters), parameters.get("group") or TriggerKey("any").group)


def _name(parameters: Any) -> str:
    name = parameters.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidKeyError("name: the link must say which one, as ?group=GROUP&name=NAME")
    return name


def _query(parameters: Any) -> str:
    pairs = [(name, str(value)) for name, value in parameters if value is not None and value != ""]
    return f"?{urlencode(pairs)}" if pairs else ""


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


MenuPart: TypeAlias = tuple[str, tuple[PageLink, ...]]
"""A heading of the menu and its pages."""
NAVIGATION: tuple[MenuPart, ...] = (
    (
        "Now",
        (
            PageLink("Overview", "/", "o"),
            PageLink("Incidents", "/incidents", "w"),
            PageLink("Timeline", "/timeline", "l"),
        ),
    ),
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
FLEET_MENU: MenuPart = (
    "Fleet",
    (PageLink("All schedulers", "/fleet", "f"), PageLink("Their incidents", "/fleet-incidents")),
)
"""What the menu has besides where there are several schedulers."""
