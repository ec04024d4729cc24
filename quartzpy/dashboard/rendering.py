"""The templates: Jinja2 with automatic escaping, and the filters that format values for people."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from quartzpy.dashboard.drawing.plots import sparkline
from quartzpy.dashboard.links import NAVIGATION, Links
from quartzpy.dashboard.lists import PLAIN_EXECUTIONS, PLAIN_TRIGGERS
from quartzpy.dashboard.times import Times, span_text, utc
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import Count
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.render import json_text
from quartzpy.operations.unscheduled import GROUPS, kind_of
from quartzpy.texts import numbered, visible

_MARKED = re.compile(
    r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"
    r"|`(?P<code>quartzpy [^`]+)`"
    r"|\b(?P<kind>[Ee]xecution|[Nn]ode|[Jj]ob|[Tt]rigger) (?P<name>[\w-]+(?:\.[\w-]+)?)(?=[\s,;:)]|[.]?$|\. )"
)
"""The instants of a sentence, its commands, and what it names. Names with other characters stay plain text."""
_MOST_DIGITS = 19
"""The most digits of the id of an execution."""


def render(template: str, **values: Any) -> str:
    """Return the text of a template."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    """Return the one environment of this process: it compiles each template once, for all applications."""
    made = Environment(
        loader=PackageLoader("quartzpy.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        span=span_text,
        utc=utc,
        visible=visible,
        lines=lines,
        number=number,
        numbered=numbered,
        percent=percent,
        pretty=json_text,
        short_type=short_type,
        instruction=instruction_words,
    )
    made.globals.update(
        time=time_element,
        said=said,
        navigation=NAVIGATION,
        action_table=ACTIONS,
        no_time=timedelta(),
        kind_of=kind_of,
        group_words=GROUPS,
        sparkline=sparkline,
        plain_triggers=PLAIN_TRIGGERS,
        plain_executions=PLAIN_EXECUTIONS,
    )
    return made


def time_element(times: Times, at: datetime | None, *, form: str = "relative", missing: str = "–") -> Markup:
    """Return an instant as a `time` element: as `form` says, with the exact time in the reader's zone on hover.

    The script of the page keeps relative times up to date.
    """
    if at is None:
        return escape(missing)
    text = {
        "precise": times.precise,
        "relative": times.relative,
        "next": times.relative,
        "exact": times.exact,
        "clock": times.clock,
        "minute": times.minute,
    }[form](at)
    return Markup('<time datetime="{}" title="{}" data-form="{}">{}</time>').format(
        utc(at), times.exact(at), form, text
    )


def said(times: Times, sentence: str, links: Links | None = None) -> Markup:
    """Return a sentence with its instants, which are in ISO 8601 and UTC, in the reader's zone.

    Its commands are shown as code. With `links`, the executions, nodes, jobs and triggers that it names lead to their
    pages. It may name an error or a reason of somebody's: characters that control a terminal are shown as escapes.
    """
    sentence = visible(sentence)
    parts: list[str] = []
    end = 0
    for match in _MARKED.finditer(sentence):
        element = _marked(times, match, links)
        if element is not None:
            parts += [escape(sentence[end : match.start()]), element]
            end = match.end()
    return Markup("").join([*parts, escape(sentence[end:])])


def _marked(times: Times, match: re.Match[str], links: Links | None) -> Markup | None:
    if match["code"]:
        return Markup("<code>{}</code>").format(match["code"])
    if match["kind"]:
        name = _words(match["kind"].lower(), match["name"])
        place = None if links is None else _place(links, match["kind"].lower(), match["name"])
        if place is None:
            return None if name == match["name"] else escape(f"{match['kind']} {name}")
        return Markup('{} <a href="{}">{}</a>').format(match["kind"], place, name)
    try:
        return time_element(times, datetime.fromisoformat(match[0]), form="exact")
    except ValueError:
        return None


def _words(kind: str, name: str) -> str:
    """Return what a sentence calls something: a trigger that the scheduler made is called by what it is for."""
    group, _, rest = name.partition(".")
    words = kind_of(TriggerKey(rest, group)) if kind == "trigger" and rest else None
    return name if words is None else f"({words})"


def _place(links: Links, kind: str, name: str) -> str | None:
    """Return the page of what a sentence names; None if it only looks like a name."""
    group, dot, rest = name.partition(".")
    match kind:
        case "execution":
            return links.execution(int(name)) if name.isdecimal() and len(name) <= _MOST_DIGITS else None
        case "job":
            return links.job(JobKey(rest, group)) if dot else None
        case "trigger":
            return links.trigger(TriggerKey(rest, group)) if dot else None
    return links.node(name) if any(not letter.isalpha() for letter in name) else None


def number(value: Count | float) -> str:
    """Return a number with separators of thousands; a count that goes on has a "+"."""
    if isinstance(value, Count):
        return str(value)
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def lines(text: str) -> str:
    """Return a text of several lines with characters that control a terminal or the text direction as escapes.

    They do nothing on the page, but they would in a terminal into which the text is pasted.
    """
    return "\n".join(visible(line.expandtabs()) for line in text.split("\n"))


def percent(value: float) -> str:
    return f"{value:.0%}"


def instruction_words(instruction: str) -> str:
    """Return a misfire instruction in words: "fire once now"; "smart" is the default of each kind of trigger."""
    return instruction.replace("_", " ").replace("smart", "the default", 1)


def short_type(job_type: str) -> str:
    """Return the last part of the name of a job type: "Report" for "billing.jobs:Report"."""
    return job_type.replace(":", ".").rpartition(".")[2]
