"""The templates: Jinja2 with automatic escaping, and the filters that format values for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from quartzpy.dashboard.drawing.plots import sparkline
from quartzpy.dashboard.links import Links
from quartzpy.dashboard.lists import plain_head
from quartzpy.dashboard.times import Times, span_text, utc
from quartzpy.keys import JobKey, Key, TriggerKey
from quartzpy.operations import Count
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.incidents.kinds import kinds_of_nodes
from quartzpy.operations.lists.history import EXECUTIONS
from quartzpy.operations.lists.schedule import TRIGGERS
from quartzpy.operations.render import json_text
from quartzpy.operations.views.internal_triggers import GROUPS, kind_of
from quartzpy.texts import numbered, visible

_MARKED = (
    r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"
    r"|`(?P<code>quartzpy [^`]+)`"
    rf"|\b(?P<made>[Tt]rigger) (?P<group>{'|'.join(GROUPS)})\.(?P<rest>[\w-]+)(?=[\s,;:)]|[.]?$|\. )"
    r"|\b(?P<kind>[Ee]xecution|[Nn]ode) (?P<name>[\w-]+(?:\.[\w-]+)?)(?=[\s,;:)]|[.]?$|\. )"
)
"""The instants of a sentence, its commands, and what it names. Nodes with other characters stay plain text, and so do
jobs and triggers whose keys are not given: the words alone do not tell where a key ends, and where its group does."""
_MAX_DIGITS = 19
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
        action_table=ACTIONS,
        no_time=timedelta(),
        kind_of=kind_of,
        kinds_of_nodes=kinds_of_nodes(),
        group_words=GROUPS,
        sparkline=sparkline,
        plain_triggers=plain_head(TRIGGERS, "result"),
        plain_triggers_of_job=plain_head(TRIGGERS, "result", "job"),
        plain_executions=plain_head(EXECUTIONS),
        plain_executions_of_job=plain_head(EXECUTIONS, "job"),
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


def said(times: Times, sentence: str, links: Links | None = None, keys: Iterable[Key | None] = ()) -> Markup:
    """Return a sentence with its instants, which are in ISO 8601 and UTC, in the reader's zone.

    Its commands are shown as code. With `links`, the executions and nodes that it names lead to their pages, and so do
    the jobs and triggers of `keys` and of the sentence itself. It may name an error or a reason of somebody's:
    characters that control a terminal are shown as escapes.
    """
    named = {} if links is None else _by_text([*keys, *getattr(sentence, "keys", ())])
    sentence = visible(sentence)
    parts: list[str] = []
    end = 0
    for match in _marked_by(tuple(named)).finditer(sentence):
        element = _marked(times, match, links, named)
        if element is not None:
            parts += [escape(sentence[end : match.start()]), element]
            end = match.end()
    return Markup("").join([*parts, escape(sentence[end:])])


def _by_text(keys: Iterable[Key | None]) -> dict[str, list[Key]]:
    """Return keys by their texts, of which a job and a trigger may have the same."""
    named: dict[str, list[Key]] = {}
    for key in keys:
        if key is not None:
            named.setdefault(visible(str(key)), []).append(key)
    return named


@lru_cache(maxsize=256)
def _marked_by(texts: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of what is marked in a sentence that names keys with these texts."""
    if not texts:
        return re.compile(_MARKED)
    # The longest first: one key may be the beginning of another.
    of_keys = "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))
    return re.compile(rf"{_MARKED}|(?<![\w.-])(?P<of>[Jj]ob |[Tt]rigger )?(?P<key>{of_keys})(?![\w-])")


def _marked(times: Times, match: re.Match[str], links: Links | None, named: Mapping[str, list[Key]]) -> Markup | None:
    if match["code"]:
        return Markup("<code>{}</code>").format(match["code"])
    if match["made"]:
        # A trigger that the scheduler made is called by what it is for.
        trigger = TriggerKey(match["rest"], match["group"])
        return _link(f"{match['made']} ", f"({kind_of(trigger)})", None if links is None else links.trigger(trigger))
    if match["kind"]:
        place = None if links is None else _place(links, match["kind"].lower(), match["name"])
        return None if place is None else _link(f"{match['kind']} ", match["name"], place)
    if match.groupdict().get("key"):
        assert links is not None
        word = match["of"] or ""
        kind: type[Key] = JobKey if word.strip().lower() == "job" else TriggerKey
        key = next((key for key in named[match["key"]] if isinstance(key, kind)), named[match["key"]][0])
        place = (
            links.job(key) if isinstance(key, JobKey) else links.trigger(key) if isinstance(key, TriggerKey) else None
        )
        return _link(word, match["key"], place)
    try:
        return time_element(times, datetime.fromisoformat(match[0]), form="exact")
    except ValueError:
        return None


def _link(word: str, name: str, place: str | None) -> Markup:
    if place is None:
        return escape(f"{word}{name}")
    return Markup('{}<a href="{}">{}</a>').format(word, place, name)


def _place(links: Links, kind: str, name: str) -> str | None:
    """Return the page of an execution or a node; None if a word only looks like its name."""
    if kind == "execution":
        return links.execution(int(name)) if name.isdecimal() and len(name) <= _MAX_DIGITS else None
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
