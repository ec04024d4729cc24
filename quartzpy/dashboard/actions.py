"""The actions of the page: one asks for confirmation and a reason, shows previews, and makes the change.

The same URL serves a form without any script, and a dialog of the script: a request with the header X-Dialog is
answered with the form alone, and a success with the URL to go to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import FormData, QueryParams
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from quartzpy.dashboard.background import BackgroundActions
from quartzpy.dashboard.cookies import keep_csrf_token
from quartzpy.dashboard.links import job_key, trigger_key
from quartzpy.dashboard.live import NODES, SCHEDULE, LiveHub
from quartzpy.dashboard.rendering import render
from quartzpy.dashboard.request_context import (
    RequestContext,
    execution_filters,
    form_page,
    job_filters,
    page,
    trigger_filters,
)
from quartzpy.dashboard.shown_times import Times
from quartzpy.errors import (
    ForbiddenError,
    InvalidValueError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    QuartzpyError,
    StoreUnavailableError,
)
from quartzpy.instants import short, zone
from quartzpy.jobs.shared_limit import checked_limit_name
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import ActionProgress, ActionResult
from quartzpy.operations.actions import Actions
from quartzpy.operations.actions.action import Action
from quartzpy.operations.actions.calendar_changes import CalendarDifference
from quartzpy.operations.actions.inputs import Data
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.actions.values import checked_incident_id
from quartzpy.operations.selection import NAMES, Keys, Selection, Subject
from quartzpy.scheduler.methods.queries import checked_fire_id
from quartzpy.scheduler.past_fires import MAX_RUNS, PastFires, check_span
from quartzpy.texts import quoted

ALL = "all"
"""The scope of an action on everything that matches the filter of a list, and not only what is selected there."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class NodeName:
    """A node, as the subject of an action."""

    name: str

    def __str__(self) -> str:
        return f"node {self.name}"


Subjects: TypeAlias = Keys | Selection | NodeName


@dataclass(frozen=True, slots=True)
class FormInput:
    """The parameters of one request for an action. The fields of the form take precedence over the link's query."""

    query: QueryParams
    fields: FormData

    def get(self, name: str, default: str = "") -> str:
        value = self.fields.get(name)
        if not isinstance(value, str):
            value = self.query.get(name)
        return default if value is None else value

    def all(self, name: str) -> list[str]:
        """Return all values of a parameter."""
        values = [value for value in self.fields.getlist(name) if isinstance(value, str)]
        return values or self.query.getlist(name)

    def has(self, name: str) -> bool:
        return bool(self.get(name))

    def values(self, action: Action, times: Times) -> dict[str, Any]:
        """Return the values of the inputs of an action; a field that was not sent has its default.

        Raises:
            InvalidValueError: a text is not a value of its input.
        """
        sent = self.fields.keys() | self.query.keys()
        return {
            item.name: item.read(self.get(item.field), times.zone_name, lambda: times.now)
            if item.is_required or item.field in sent
            else item.default
            for item in action.inputs
        }


_MAX_DIGITS = 19
_FILTERS: Mapping[str, tuple[Callable[..., Selection], Callable[[RequestContext], dict[str, Any]]]] = {
    "jobs": (Selection.jobs, job_filters),
    "triggers": (Selection.triggers, trigger_filters),
    "executions": (Selection.executions, execution_filters),
}
_KINDS = {text: kind for kind, text in NAMES.items()}


def subjects_of(context: RequestContext, form: FormInput, action: Action) -> Subjects:
    """Return the subjects that a request names: a node, one key, the selected keys of a list, or all of its filter.

    Raises:
        InvalidValueError: it names none, or a key or a filter is wrong.
    """
    if Subject.NODE in action.subjects:
        if not form.has("node"):
            raise InvalidValueError("node: the link must say which one, as ?node=NAME")
        return NodeName(form.get("node"))
    if Subject.INCIDENT in action.subjects:
        number = form.get("incident")
        if not (number.isascii() and number.isdecimal() and len(number) <= _MAX_DIGITS):
            raise InvalidValueError(
                f"incident: the link must say which one, as ?incident=NUMBER (got {quoted(number)})"
            )
        return Keys(Subject.INCIDENT, (checked_incident_id(int(number)),))
    for kind in (Subject.LIMIT, Subject.WINDOW, Subject.CALENDAR):
        if kind in action.subjects:
            if not form.has(kind):
                raise InvalidValueError(f"{kind}: the link must say which one, as ?{kind}=NAME")
            name = form.get(kind)
            return Keys(kind, (checked_limit_name(name.strip()) if kind is Subject.LIMIT else name,))
    of = form.get("of")
    if of in _FILTERS:
        if form.get("scope") == ALL:
            select, filters = _FILTERS[of]
            return select(**filters(context))
        return _selected(of, form.all("selected"))
    if form.has("fire_id"):
        return Keys(Subject.EXECUTION, (checked_fire_id(form.get("fire_id")),))
    match form.get("kind"):
        case "job":
            return Keys(Subject.JOB, (job_key(form),))
        case "trigger":
            return Keys(Subject.TRIGGER, (trigger_key(form),))
        case "job_group":
            return Selection.job_group(form.get("group"))
        case "trigger_group":
            return Selection.trigger_group(form.get("group"))
        case "everything":
            return Selection.everything()
    raise InvalidValueError(f"{action.name}: the link does not say what to do it to")


def _selected(of: str, values: list[str]) -> Keys:
    if not values:
        raise InvalidValueError(f"No {of} are selected: select some, or choose “all that match this filter”.")
    kind = _KINDS[of]
    return Keys(kind, tuple(dict.fromkeys(_key(kind, value) for value in values)))


def _key(kind: Subject, value: str) -> JobKey | TriggerKey | int:
    if kind is Subject.EXECUTION:
        return checked_fire_id(value)
    try:
        group, name = json.loads(value)
    except (ValueError, TypeError):
        raise InvalidValueError(f"selected: must be a list of a group and a name (got {quoted(value)})") from None
    return JobKey(name, group) if kind is Subject.JOB else TriggerKey(name, group)


@dataclass(frozen=True, slots=True)
class Preview(Generic[_T]):
    """The preview of an action on one trigger, or on one calendar."""

    template: str
    read: Callable[[RequestContext, Any], _T]
    """Returns what is read of the trigger or calendar, once for the texts of the fields and the preview of them."""
    present: Callable[[RequestContext, _T], dict[str, str]]
    """Returns the texts that the fields have before anybody types."""
    values: Callable[[RequestContext, _T, FormInput], dict[str, Any]]
    """Returns the values for the template."""
    check: Callable[[RequestContext, Any, FormInput], None] = lambda context, argument, form: None
    """Refuses what was not shown as it would be done now."""
    is_live: bool = True
    """Whether it follows what somebody types. Otherwise it has a button, because the texts may be long."""


def backfill_times(context: RequestContext, past: PastFires, form: FormInput) -> list[datetime]:
    """Return the fire times that a backfill of these parameters would run the job for.

    Raises:
        InvalidValueError: a field has a wrong value, or the span has too many fire times.
    """
    values = form.values(ACTIONS["backfill"], context.times)
    start, end, most = values["start"], values["end"], values["max_runs"]
    if start >= end:
        raise InvalidValueError("“Until before” must be later than “From”")
    check_span(start, end, most)
    times = past.first(start, end, most + 1)
    if len(times) > most:
        raise InvalidValueError(
            f"There are more than {most:,} fires in this span, the first of them from"
            f" {context.times.exact(times[0])} to {context.times.exact(times[-2])}. Choose a shorter span, or allow"
            f" more fires (at most {MAX_RUNS:,})."
        )
    return times


def _past_fires(context: RequestContext, trigger: TriggerKey) -> PastFires:
    return context.operations.actions.past_fires(trigger)


_SPANS = tuple(timedelta(minutes=minutes) for minutes in (24 * 60, 12 * 60, 6 * 60, 3 * 60, 60, 30, 10, 5, 2, 1))
"""The spans with which the form of a backfill begins: the longest that does not have too many fires."""


def _last_span(context: RequestContext, past: PastFires) -> dict[str, str]:
    now = context.times.now.astimezone(zone(context.times.zone_name)).replace(second=0, microsecond=0)
    most = next(item.default for item in ACTIONS["backfill"].inputs if item.name == "max_runs")
    span = past.longest_span(now, _SPANS, max_runs=most)
    start = None if span is None else (now - span).astimezone(now.tzinfo)
    return {"start": "" if start is None else _typed(start), "end": _typed(now)}


def _typed(at: datetime) -> str:
    """Return an instant as the field of an instant has it: a date and a time of the reader's clock."""
    return at.replace(tzinfo=None).isoformat(timespec="minutes")


def _times(context: RequestContext, past: PastFires, form: FormInput) -> dict[str, Any]:
    if not (form.get("start").strip() and form.get("end").strip()):
        return {"times": None, "wrong": None}
    try:
        return {"times": backfill_times(context, past, form), "wrong": None}
    except InvalidValueError as error:
        return {"times": None, "wrong": str(error)}


def _key_alone(context: RequestContext, key: _T) -> _T:
    return key


def _present_schedule(context: RequestContext, trigger: TriggerKey) -> dict[str, str]:
    summary = context.operations.trigger_summary(trigger)
    written = summary.schedule if summary.kind == "cron" or summary.schedule.count(" ") == 1 else ""
    return {"schedule": written, "in_zone": summary.zone or ""}


def _schedule(context: RequestContext, trigger: TriggerKey, form: FormInput) -> dict[str, Any]:
    values = form.values(ACTIONS["reschedule"], context.times)
    if not values["text"].strip():
        return {"preview": None}
    return {"preview": context.operations.actions.preview_schedule(values["text"], values["zone"], trigger=trigger)}


def _present_window(context: RequestContext, name: str) -> dict[str, str]:
    records = context.operations.scheduler.maintenance_windows()
    record = next((record for record in records if record.window.name == name), None)
    if record is None:
        return {"in_zone": context.times.zone_name}
    window, there = record.window, zone(context.times.zone_name)
    instants = {
        end: _typed(at.astimezone(there))
        for end, at in (("start", window.start), ("end", window.end))
        if at is not None
    }
    return {
        "cron": window.cron or "",
        "duration": "" if window.duration is None else short(window.duration),
        "in_zone": window.time_zone,
        "trigger_group": window.trigger_group or "",
        "job_group": window.job_group or "",
        "missed": str(window.missed),
        **instants,
    }


def _coming_years(context: RequestContext, calendar: str) -> dict[str, str]:
    this_year = context.times.now.year
    return {"years": f"{this_year}-{this_year + 1}"}


def calendar_difference(context: RequestContext, calendar: str, form: FormInput) -> CalendarDifference | None:
    """Return the difference that refreshing a calendar would make; None before somebody names a source.

    Raises:
        QuartzpyError: a field has a wrong value, or the source has no such calendar.
    """
    values = form.values(ACTIONS["refresh_calendar"], context.times)
    del values["update_triggers"]
    if not (values["exchange"] or values["country"] or values["ics"]):
        return None
    return context.operations.actions.preview_calendar(calendar, **values)


def _difference(context: RequestContext, calendar: str, form: FormInput) -> dict[str, Any]:
    try:
        return {"difference": calendar_difference(context, calendar, form), "wrong": None}
    except _ELSEWHERE:
        raise
    except QuartzpyError as error:
        return {"difference": None, "wrong": str(error)}


def _check_runs(context: RequestContext, trigger: TriggerKey, form: FormInput) -> None:
    runs = len(backfill_times(context, _past_fires(context, trigger), form))
    if form.get("expected") != str(runs):
        raise InvalidValueError(f"these are {runs:,} fires: check them below, then run them")


def _check_difference(context: RequestContext, calendar: str, form: FormInput) -> None:
    difference = calendar_difference(context, calendar, form)
    if difference is not None and form.get("expected") != difference.tag:
        raise InvalidValueError("nothing is stored yet: check the difference below, then store it")


PREVIEWS: Mapping[str, Preview[Any]] = {
    "reschedule": Preview("actions/schedule_preview.html", _key_alone, _present_schedule, _schedule),
    "backfill": Preview("actions/backfill_preview.html", _past_fires, _last_span, _times, _check_runs),
    "refresh_calendar": Preview(
        "actions/calendar_preview.html", _key_alone, _coming_years, _difference, _check_difference, is_live=False
    ),
}
"""The previews, by the names of their actions."""


def argument_of(action: Action, subjects: Subjects) -> Any:
    """Return the subjects as the method of an action takes them.

    Raises:
        InvalidValueError: the action applies to one subject at a time, of another kind or number.
    """
    if isinstance(subjects, NodeName):
        return subjects.name
    if not action.is_single:
        return subjects.keys if isinstance(subjects, Keys) else subjects
    [kind] = action.subjects
    if isinstance(subjects, Keys) and subjects.kind is kind and len(subjects.keys) == 1:
        return subjects.keys[0]
    raise InvalidValueError(f"this is done to one {kind} at a time (got {subjects})")


def filled_in(form: FormInput, action: Action, texts: Mapping[str, str]) -> FormInput:
    """Return the parameters with a text for each field of the form, also for those that nobody has typed in."""
    defaults = {item.field: texts.get(item.field, str(item.default or "")) for item in action.inputs}
    typed = [(name, form.get(name, default)) for name, default in defaults.items()]
    return FormInput(form.query, FormData([*form.fields.multi_items(), *typed]))


def carry_out(
    action: Action, actions: Actions, subjects: Subjects, context: RequestContext, form: FormInput, reason: str
) -> ActionResult:
    """Do what a form says.

    Raises:
        InvalidValueError: a field has a wrong value.
    """
    argument, values = argument_of(action, subjects), form.values(action, context.times)
    if (preview := PREVIEWS.get(action.name)) is not None:
        preview.check(context, argument, form)
    result: ActionResult = getattr(actions, action.name)(argument, **values, reason=reason)
    return result


def count_of_subjects(actions: Actions, subjects: Subjects) -> int:
    """Return the number of subjects that an action would change now."""
    if isinstance(subjects, Selection) and not subjects.is_pause:
        return actions.count(subjects)
    return len(subjects.keys) if isinstance(subjects, Keys) else 1


LOCATION = "X-Location"
"""The header with the URL that the script opens after a success."""
_MAX_SHOWN = 20
_ELSEWHERE = (ForbiddenError, ObjectNotFoundError, StoreUnavailableError, OutcomeUnknownError)
"""Errors that the form cannot mend: they have pages of their own."""


def show_form(context: RequestContext) -> Response:
    return _ask(context, FormInput(context.request.query_params, FormData()))


def submit(context: RequestContext, fields: FormData) -> Response:
    form = FormInput(context.request.query_params, fields)
    if not form.has("confirmed"):
        # The list of selected subjects, which may be too long for a link.
        return _ask(context, form)
    action = _action(context)
    subjects = subjects_of(context, form, action)
    try:
        result = _carried_out(context, form, action, subjects)
    except _ELSEWHERE:
        raise
    except QuartzpyError as error:
        status = 422 if isinstance(error, InvalidValueError) else 409
        return _ask(context, form, error=str(error), status=status)
    return _done(context, form, subjects, result)


def _carried_out(
    context: RequestContext, form: FormInput, action: Action, subjects: Subjects
) -> ActionResult | ActionProgress:
    actions, why = context.operations.actions, form.get("reason").strip()
    if not _is_many(subjects):
        return carry_out(action, actions, subjects, context, form, why)
    background: BackgroundActions = context.request.app.state.background
    return background.run(
        lambda report: carry_out(action, actions.reporting(report), subjects, context, form, why),
        count_of_subjects(actions, subjects),
    )


def _is_many(subjects: Subjects) -> bool:
    if isinstance(subjects, Keys):
        return len(subjects.keys) > 1
    return isinstance(subjects, Selection) and not subjects.is_pause


def _ask(context: RequestContext, form: FormInput, *, error: str | None = None, status: int = 200) -> Response:
    """Return the form that asks for confirmation."""
    action, actions = _action(context), context.operations.actions
    actions.check_permitted(action.name)
    subjects = subjects_of(context, form, action)
    keys = subjects.keys if isinstance(subjects, Keys) else ()
    argument, shown = argument_of(action, subjects), PREVIEWS.get(action.name)
    texts: Mapping[str, str] = {}
    if shown:
        read = shown.read(context, argument)
        texts = shown.present(context, read)
    elif action.name == "set_window":
        texts = _present_window(context, argument)
    form = filled_in(form, action, texts)
    takes_data = any(isinstance(item, Data) for item in action.inputs)
    return _rendered(
        context,
        "actions/confirm.html",
        status,
        action=action,
        subjects=subjects,
        many=_is_many(subjects),
        count=count_of_subjects(actions, subjects),
        shown=keys[:_MAX_SHOWN],
        form=form,
        about=_sentence_about(context, subjects),
        next=_next(context, form),
        error=error,
        data_fields=actions.data_fields(argument) if takes_data else None,
        preview_template=shown.template if shown else None,
        has_live_preview=shown is not None and shown.is_live,
        **(shown.values(context, read, form) if shown else {}),
    )


def _sentence_about(context: RequestContext, subjects: Subjects) -> str | None:
    """Return what the subject says about itself, if its name says nothing."""
    if not isinstance(subjects, Keys) or subjects.kind is not Subject.INCIDENT:
        return None
    return context.operations.incident(subjects.keys[0]).what


def show_preview(context: RequestContext) -> Response:
    action = _action(context)
    shown = PREVIEWS.get(action.name)
    if shown is None:
        raise HTTPException(404, f"there is no preview of {action.name}")
    form = FormInput(context.request.query_params, FormData())
    argument = argument_of(action, subjects_of(context, form, action))
    return _rendered(context, shown.template, **shown.values(context, shown.read(context, argument), form))


def _done(
    context: RequestContext, form: FormInput, subjects: Subjects, result: ActionResult | ActionProgress
) -> Response:
    """Return to the page that the action was asked on, which shows the result; or lead to the progress."""
    hub: LiveHub = context.request.app.state.hub
    hub.changed(SCHEDULE, NODES)
    url = _next(context, form)
    if isinstance(result, ActionProgress):
        return _leading(context, context.links.to(f"/audit/{result.action_id}", next=url), "")
    if result.action == "delete" and urlsplit(url).path in (context.links.to("/job"), context.links.to("/trigger")):
        url = context.links.to("/jobs" if isinstance(subjects, Keys) and subjects.kind is Subject.JOB else "/triggers")
    return _leading(context, url, result.text, _followed(result))


def _followed(result: ActionResult) -> str:
    """Return the query of the run that an action on one subject began, or ""."""
    follows = ACTIONS[result.action].follows
    match result.keys:
        case [TriggerKey() as key] if follows:
            again = "yes" if follows == "repeat" else ""
            return urlencode({"group": key.group, "name": key.name, "after": result.action_id, "again": again})
    return ""


def show_followed(context: RequestContext) -> Response:
    """How the run is that an action began; it is asked again until it is over."""
    after = context.parameter("after") or ""
    if not (after.isascii() and after.isdecimal() and len(after) <= _MAX_DIGITS):
        raise InvalidValueError(f"after: must be the number of an action (got {quoted(after)})")
    key, again = trigger_key(context.request.query_params), context.parameter("again") is not None
    run = context.operations.followed(key, int(after), again=again)
    return context.render("followed.html", run=run, query=context.request.url.query)


def _leading(context: RequestContext, url: str, notice: str, followed: str = "") -> Response:
    response = context.redirect(url, notice, followed)
    if context.is_dialog:
        # A script cannot see where a redirection leads without following it.
        cookies = response.headers.getlist("set-cookie")
        response = Response(status_code=204, headers={LOCATION: url})
        for cookie in cookies:
            response.headers.append("set-cookie", cookie)
    return response


def _next(context: RequestContext, form: FormInput) -> str:
    """Return the URL of the page to return to: the one that the reader comes from, if it is one of ours."""
    wanted = form.get("next")
    referer = urlsplit(context.request.headers.get("referer", ""))
    if not wanted and referer.netloc == context.request.headers.get("host"):
        wanted = f"{referer.path}?{referer.query}" if referer.query else referer.path
    if context.links.is_ours(wanted) and not urlsplit(wanted).path.startswith(context.links.to("/actions/")):
        return wanted
    return context.links.to("/")


def _action(context: RequestContext) -> Action:
    name = context.request.path_params["action"]
    try:
        return ACTIONS[name]
    except KeyError:
        raise HTTPException(404, f"there is no action {name}") from None


def _rendered(context: RequestContext, template: str, status: int = 200, **values: Any) -> Response:
    if not context.is_dialog and not context.is_fragment:
        return context.render(template, status=status, **values)
    text = render(template, context=context, layout="actions/dialog.html", live="", **values)
    # Browsers report any other status to the console as an error of the page.
    response = HTMLResponse(text, 200)
    keep_csrf_token(context.request, response)
    return response


ACTION_PAGES: list[BaseRoute] = [
    Route("/followed", page(show_followed)),
    Route("/actions/{action}/preview", page(show_preview)),
    Route("/actions/{action}", page(show_form), methods=["GET"]),
    Route("/actions/{action}", form_page(submit), methods=["POST"]),
]
