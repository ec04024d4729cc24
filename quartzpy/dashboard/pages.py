"""The pages that only read: of each the route, its place in the menu, the read model and the template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from quartzpy.dashboard.background import BackgroundActions
from quartzpy.dashboard.drawing.joins import draw_joins
from quartzpy.dashboard.drawing.plots import draw_year, lateness_plot, run_bars, split_bar, throughput_plot
from quartzpy.dashboard.drawing.timeline import draw_timeline
from quartzpy.dashboard.links import job_key, trigger_key
from quartzpy.dashboard.lists import COLUMNS, MAX_SORTED, ListHead, hidden_columns
from quartzpy.dashboard.live import AUDIT
from quartzpy.dashboard.request_context import (
    EXHAUSTED,
    LATE,
    PAGE_SIZE,
    Handler,
    Menu,
    RequestContext,
    chosen_filters,
    execution_filters,
    instant_filter,
    page,
    page_position,
    state_filter,
    trigger_filters,
)
from quartzpy.dashboard.shown_times import utc
from quartzpy.errors import InvalidValueError, JobNotFoundError, TriggerNotFoundError
from quartzpy.instants import zone
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import ExecutionSummary, Operations, PlannedRun, RunningView, TriggerSummary
from quartzpy.operations.actions.audit_log import undoing
from quartzpy.operations.fleet import Fleet
from quartzpy.operations.lists.cluster import NODES
from quartzpy.operations.lists.fleet import FLEET_LISTS
from quartzpy.operations.lists.history import EXECUTIONS, PAST_INCIDENTS
from quartzpy.operations.lists.schedule import JOBS, TRIGGERS
from quartzpy.operations.lists.spec import ListSpec, in_order
from quartzpy.operations.lists.table import LISTS
from quartzpy.operations.views import allowed_actions
from quartzpy.operations.views.executions import EXAMINED
from quartzpy.operations.views.internal_triggers import kind_of
from quartzpy.operations.views.timeline import CELLS, LONGEST, SHORTEST
from quartzpy.scheduler.querying import Page, checked_choice
from quartzpy.states import ENDED, ActionState, ExecutionState, JobMode, Outcome, TriggerState
from quartzpy.store.queries import Rank, TriggerOrder
from quartzpy.texts import quoted

# --- now


def overview(context: RequestContext) -> Response:
    """What is wrong and why, first; then what runs, what is late, what failed, and what comes next."""
    model = context.operations.overview()
    return context.at(model.now).render(
        "overview.html",
        live="executions nodes schedule",
        overview=model,
        running=_by_job(model.running),
        agenda=_by_trigger(model.agenda),
        throughput=throughput_plot(model.throughput),
        lateness=lateness_plot(model.lateness),
    )


def incident_list(context: RequestContext) -> Response:
    """What is wrong now, and what was wrong and is over."""
    # Asked first, with the time.
    lasting = context.operations.open_incidents()
    now, filters = context.times.now, chosen_filters(context, PAST_INCIDENTS)
    since = filters["since"] or now - timedelta(days=1)
    past = context.operations.past_incidents(**page_position(context), **{**filters, "since": since})
    noted = [incident for incident in lasting if incident.is_acknowledged(now)]
    return context.render(
        "incidents.html",
        live="" if context.parameter("after") else "executions nodes schedule",
        lasting=[incident for incident in lasting if incident not in noted],
        noted=noted,
        page=past,
        spec=PAST_INCIDENTS,
        filters=filters,
    )


def _by_job(rows: Sequence[RunningView]) -> list[list[RunningView]]:
    """Return what runs by job, the job of the longest execution first: quick jobs neither fill the list nor lead it."""
    by_job: dict[JobKey, list[RunningView]] = {}
    for row in rows:
        by_job.setdefault(row.job, []).append(row)
    return list(by_job.values())


def _by_trigger(runs: Sequence[PlannedRun]) -> list[tuple[PlannedRun, int]]:
    """Return the first run of each trigger with the number of its runs, so that quick triggers do not fill the list."""
    counts = Counter(run.trigger for run in runs)
    first = {run.trigger: run for run in reversed(runs)}
    return sorted(((run, counts[key]) for key, run in first.items()), key=lambda item: item[0].at)


_PAST_PARTS = 4
"""A timeline that ends in the future has so many times as much of the past."""
_SPANS = {
    "5m": (timedelta(minutes=5), "5 minutes"),
    "": (timedelta(hours=1), "1 hour"),
    "6h": (timedelta(hours=6), "6 hours"),
    "1d": (timedelta(days=1), "1 day"),
    "3d": (timedelta(days=3), "3 days"),
    "20d": (timedelta(days=20), "20 days"),
}


def timeline(context: RequestContext) -> Response:
    """What ran, what runs and what is planned, in lanes by job, by group or by node."""
    chosen = context.parameter("span") or ""
    if chosen not in _SPANS:
        raise InvalidValueError(f"span: must be one of {', '.join(filter(None, _SPANS))} (got {quoted(chosen)})")
    span = _SPANS[chosen][0]
    at, start, end = instant_filter(context, "at"), instant_filter(context, "start"), instant_filter(context, "end")
    length = end - start if start is not None and end is not None else span + span / _PAST_PARTS
    follows = at is start is end is None
    if at is not None:
        start = at - length / 2
    elif follows:
        start = context.times.now - span
    elif start is None and end is not None:
        start = end - length
    assert start is not None
    end = start + length
    model = context.operations.timeline(
        start, end, lanes=context.parameter("lanes") or "job", group=context.parameter("group")
    )

    def other(begin: datetime, until: datetime) -> str | None:
        is_possible = SHORTEST <= until - begin <= LONGEST
        return context.links.here(start=utc(begin), end=utc(until), at=None) if is_possible else None

    return context.at(model.now).render(
        "timeline.html",
        # What is over does not change.
        live="executions schedule nodes" if model.end > model.now else "",
        timeline=model,
        drawing=draw_timeline(model, zone(context.times.zone_name)),
        parts=CELLS,
        follows=follows,
        moves=[
            ("Earlier", other(start - length / 2, end - length / 2)),
            ("Later", other(start + length / 2, end + length / 2)),
            ("Zoom in", other(start + length / 4, end - length / 4)),
            ("Zoom out", other(start - length / 2, end + length / 2)),
            ("Now", None if follows else context.links.here(start=None, end=None, at=None)),
        ],
        spans=[(value, text) for value, (_, text) in _SPANS.items()],
        lanes=[("", "By job"), ("group", "By group"), ("node", "By node")],
    )


# --- the schedule


_Read = Callable[[int, str | None], Page[Any]]


def _sorted(
    context: RequestContext,
    spec: ListSpec[Any],
    reads: Mapping[str, _Read],
    are_few: Callable[[], bool] = lambda: False,
) -> tuple[Page[Any], ListHead]:
    """Return a list in the order that its reader chose, and its head.

    `reads` has the reads that an index serves, by the parameter `sort` of their order; the first is the usual one. If
    the whole list `are_few` rows, all other orders are possible too.
    """
    usual = next(iter(reads))
    sort, after = context.parameter("sort") or "", context.parameter("after")
    columns = spec.columns
    by_value = {column.option for column in columns}
    page, is_whole = None, False
    if sort.removeprefix("-") in by_value and sort not in reads and after is None:
        whole = reads[usual](MAX_SORTED, None)
        if whole.next_cursor is None:
            page, is_whole = Page(in_order(whole, columns, sort), None), True
    if page is None:
        sort = sort if sort in reads else usual
        page = reads[sort](PAGE_SIZE, after)
        is_whole = (page.next_cursor is None and after is None) or are_few()
    hidden = hidden_columns(spec, context.chosen_columns(spec.name))
    sortable = frozenset(by_value if is_whole else {order.removeprefix("-") for order in reads if order})
    return page, ListHead(spec.name, columns, hidden, sortable, not is_whole, "" if sort == usual else sort, usual)


def _changed_columns(context: RequestContext, spec: ListSpec[Any]) -> Response | None:
    """Return the answer to the form in which a reader chose the columns of a list; None if none was sent."""
    chosen = context.request.query_params.getlist(COLUMNS)
    names = {column.option for column in spec.columns}
    return context.with_columns(spec.name, [column for column in chosen if column in names]) if chosen else None


def one_job(context: RequestContext) -> Response:
    key = job_key(context.request.query_params)
    try:
        view = context.operations.job(key)
    except JobNotFoundError:
        if not context.operations.has_run(key):
            raise
        # Links of the history lead here.
        sentence = f"Job {key} was deleted, or it went with its last trigger because it is not durable."
        return _gone(context, key, "/jobs", [sentence], job=key.name, job_group=key.group)
    graph = draw_joins(view.job.key, view.runs_after, view.runs_before)
    return context.render("job.html", live="schedule executions", view=view, bars=run_bars(view.last_runs), graph=graph)


def _gone(
    context: RequestContext, key: JobKey | TriggerKey, place: str, sentences: Sequence[str], **filters: str
) -> Response:
    """Return the page of a job or a trigger that only the history knows."""
    executions = context.links.to("/executions", **filters)
    kind = kind_of(key) if isinstance(key, TriggerKey) else None
    return context.render(
        "gone.html", status=404, key=key, kind=kind, place=place, sentences=sentences, executions=executions
    )


_TRIGGER_STATES = [
    ("", "All"),
    ("WAITING", "Waiting"),
    (LATE, "Late"),
    ("BLOCKED", "Blocked"),
    ("PAUSED", "Paused"),
    ("ERROR", "Error"),
    ("COMPLETE", "Complete"),
]


def trigger_list(context: RequestContext) -> Response:
    if (changed := _changed_columns(context, TRIGGERS)) is not None:
        return changed
    filters = trigger_filters(context)
    is_by_schedule = filters["by_schedule"] is not None
    has_filter = any(value is not None for name, value in filters.items() if name != "by_schedule")
    hidden = context.operations.unscheduled_triggers() if is_by_schedule else None

    def read(order: TriggerOrder) -> Callable[[int, str | None], Page[TriggerSummary]]:
        return lambda limit, after: context.operations.triggers(limit=limit, after=after, order_by=order, **filters)

    triggers, head = _sorted(
        context,
        TRIGGERS,
        {"trigger": read(TriggerOrder.KEY), "next": read(TriggerOrder.NEXT_FIRE_TIME)},
        lambda: context.operations.triggers_are_few(MAX_SORTED, **filters),
    )
    state = state_filter(context)
    named = TriggerState.WAITING if state == LATE else checked_choice(state, TriggerState, "state")
    states = set(TriggerState) if named is None else {named}
    return context.render(
        "triggers.html",
        live="schedule executions",
        page=triggers,
        head=head,
        spec=TRIGGERS,
        filters=filters,
        spans=None,
        states=_TRIGGER_STATES,
        has_filter=has_filter,
        hidden=None if hidden is None else hidden(),
        allowed=allowed_actions.on_some_trigger(states),
    )


def one_trigger(context: RequestContext) -> Response:
    key = trigger_key(context.request.query_params)
    try:
        view = context.operations.trigger(key)
    except TriggerNotFoundError as missing:
        try:
            # The history knows the trigger of each manual run and each retry.
            sentences = context.operations.why(key)
        except TriggerNotFoundError:
            # The first error suggests the nearest key.
            raise missing from None
        return _gone(context, key, "/triggers", sentences, trigger=key.name, trigger_group=key.group)
    return context.render("trigger.html", live="schedule executions", view=view, bars=run_bars(view.last_executions))


def one_calendar(context: RequestContext) -> Response:
    name, year = context.parameter("name"), context.parameter("year")
    if name is None:
        raise InvalidValueError("name: the link must say which calendar, as ?name=NAME")
    if year is not None and not (year.isascii() and year.isdigit() and len(year) == 4):
        raise InvalidValueError(f"year: must be a year such as 2026 (got {quoted(year)})")
    view = context.operations.calendar(name, None if year is None else int(year))
    today = context.times.now.astimezone(zone(view.calendar.zone or "UTC")).date()
    drawing = draw_year(view.year, view.excluded, view.partly_excluded, today)
    return context.render("calendar.html", view=view, drawing=drawing)


# --- the history

_EXECUTION_STATES = [
    ("", "Ended"),
    ("RUNNING", "Running"),
    ("SUCCEEDED", "Succeeded"),
    ("FAILED", "Failed"),
    (EXHAUSTED, "Failed, no retry"),
    ("TERMINATED", "Terminated"),
    ("CANCELLED", "Cancelled"),
    ("SKIPPED", "Skipped"),
    ("SNOOZED", "Snoozed"),
    ("SCHEDULED", "Scheduled"),
]
_SINCE = [("", "Any time"), ("15m", "Last 15 minutes"), ("1h", "Last hour"), ("1d", "Last day"), ("7d", "Last week")]


_RANKS = {"-ran": Rank.DURATION, "-waited": Rank.WAIT}


def execution_list(context: RequestContext) -> Response:
    if (changed := _changed_columns(context, EXECUTIONS)) is not None:
        return changed
    filters = execution_filters(context)
    job = filters["job"]
    listed = _listed_states(state_filter(context))
    can_rank = listed <= ENDED
    rank = _RANKS.get(context.parameter("sort") or "") if can_rank else None
    ranked = None if rank is None else context.operations.ranked_executions(rank, **page_position(context), **filters)
    page: Page[ExecutionSummary]
    if ranked is None:
        page = context.operations.executions(**page_position(context), **filters)
    else:
        page = Page(ranked.executions, ranked.next_cursor, EXAMINED)
    head = ListHead(
        EXECUTIONS.name,
        EXECUTIONS.columns,
        hidden_columns(EXECUTIONS, context.chosen_columns(EXECUTIONS.name)),
        frozenset({"ended", "ran", "waited"} if can_rank else ()),
        True,
        "" if rank is None else context.parameter("sort") or "",
        "-ended" if can_rank else "",
    )
    # The first page is live; a later one shows what was there when its cursor was made.
    is_live = not context.parameter("after")
    return context.render(
        "executions.html",
        live="executions" if is_live else "",
        is_steady=is_live and can_rank and ranked is None,
        page=page,
        head=head,
        ranked=ranked,
        spec=EXECUTIONS,
        filters=filters,
        states=_EXECUTION_STATES,
        spans=_SINCE,
        hint=context.operations.job_hint(job) if job is not None and not page else None,
        allowed=allowed_actions.on_some_execution(listed),
    )


def _listed_states(state: str | None) -> set[ExecutionState]:
    """Return the states that a list with this filter can contain."""
    if state is None:
        return {ExecutionState(outcome) for outcome in Outcome}
    chosen = {EXHAUSTED: ExecutionState.FAILED, "RUNNING": ExecutionState.PROCESSING}
    named = chosen.get(state) or checked_choice(state, ExecutionState, "state")
    return set() if named is None else {named}


def one_execution(context: RequestContext) -> Response:
    view = context.operations.execution(context.request.path_params["fire_id"])
    # No event announces the progress and the log lines of a running execution.
    live = "executions schedule" if view.execution.ended_at is None else "executions"
    return context.render("execution.html", live=live, view=view, bar=split_bar(view.execution, view.elapsed))


def _of_jobs(filters: Mapping[str, Any]) -> Collection[str]:
    return allowed_actions.on_some_job(set(JobMode) if filters["mode"] is None else {JobMode(filters["mode"])})


def list_page(
    spec: ListSpec[Any],
    *,
    usual: str = "",
    are_few: Callable[..., bool] = lambda operations, most, **filters: False,
    allowed: Callable[[Mapping[str, Any]], Collection[str]] = lambda filters: (),
    fleet: Fleet | None = None,
) -> Handler:
    """Return the page of a list of which nearly all that there is to say is in its description.

    `usual` is the column of the usual order. `are_few` says whether the whole list is short, and `allowed` returns the
    actions on several of its rows. A list of several schedulers is read from `fleet`.
    """

    def handle(context: RequestContext) -> Response:
        answer: Any = None
        if fleet is not None:
            # The store of this page's own scheduler may be the one that does not answer.
            context = context.at(context.dashboard.clock.now())
        source: Any = context.operations if fleet is None else fleet

        def read(limit: int, after: str | None) -> Page[Any]:
            nonlocal answer
            answer = spec.read(source, limit if spec.is_paged else MAX_SORTED, after, **filters)
            return spec.page(answer)

        if (changed := _changed_columns(context, spec)) is not None:
            return changed
        filters = chosen_filters(context, spec)
        rows, head = _sorted(context, spec, {usual: read}, lambda: are_few(context.operations, MAX_SORTED, **filters))
        live = "" if context.parameter("after") or fleet is not None else spec.live
        return context.render(
            spec.template,
            live=live,
            every="" if fleet is None else "5s",
            is_steady=spec.is_steady and bool(live) and not head.sort,
            spec=spec,
            filters=filters,
            spans=None,
            page=rows,
            head=head,
            answer=answer,
            allowed=allowed(filters),
        )

    return handle


def audit_entry(context: RequestContext) -> Response:
    """One entry of the audit log, with its progress."""
    action_id = context.request.path_params["action_id"]
    entry = context.operations.audit_entry(action_id)
    background: BackgroundActions = context.request.app.state.background
    back = context.parameter("next") or ""
    return context.render(
        "audit_entry.html",
        live=f"{AUDIT} schedule" if entry.state is ActionState.RUNNING else "",
        entry=entry,
        total=background.total_of(action_id),
        undo=undoing(entry),
        back=back if context.links.is_ours(back) else None,
    )


# --- the cluster


_node_list = list_page(NODES)


def nodes(context: RequestContext) -> Response:
    """The nodes of the cluster, or all that is known of the one that a link names."""
    if (chosen := context.parameter("node")) is None:
        return _node_list(context)
    cluster = context.operations.cluster()
    return context.at(cluster.now).render(
        "node.html",
        live=NODES.live,
        spec=NODES,
        name=chosen,
        node=next((node for node in cluster.nodes if node.node == chosen), None),
        ends=[end for end in cluster.ends if end.node == chosen],
    )


def system(context: RequestContext) -> Response:
    """The store, its tables and locks, and on request the findings of an examination."""
    # The examination reads much more than the rest, so it happens once, at a click.
    examine = context.parameter("examine") is not None
    model = context.operations.system(examine=examine)
    return context.at(model.now).render("system.html", live="" if examine else "schedule", system=model)


def search(context: RequestContext) -> Response:
    """The search by a part of a name, or by the id of an execution."""
    text = context.parameter("q")
    results = None if text is None else context.operations.search(text, after=context.parameter("after"))
    return context.render("search.html", text=text, results=results)


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A page: its path, its handler, and its place in the menu."""

    path: str
    handler: Handler
    name: str = ""
    """Its name in the menu."""
    menu: str = ""
    """The heading of the menu under which it stands; empty if it is not in the menu."""
    key: str = ""
    """The key that goes there after `g`."""
    under: str = ""
    """The path of the page in the menu to which it belongs."""

    @property
    def route(self) -> Route:
        return Route(self.path, page(self.handler))


_OWN: Mapping[str, Handler] = {
    "jobs": list_page(JOBS, usual="job", are_few=Operations.jobs_are_few, allowed=_of_jobs),
    "triggers": trigger_list,
    "executions": execution_list,
    "nodes": nodes,
}
"""The pages of lists that have more than their descriptions say."""


def _lists(menu: str = "") -> Iterator[PageEntry]:
    """Return the pages of the lists under a heading, each of which is made from its description."""
    for spec in LISTS.values():
        if spec.title and spec.menu == menu:
            yield PageEntry(f"/{spec.name}", _OWN.get(spec.name) or list_page(spec), spec.title, menu, spec.key)


PAGES: list[PageEntry] = [
    PageEntry("/", overview, "Overview", "Now", "o"),
    PageEntry("/incidents", incident_list, "Incidents", "Now", "w"),
    *_lists("Now"),
    PageEntry("/timeline", timeline, "Timeline", "Now", "l"),
    *_lists("Schedule"),
    PageEntry("/job", one_job, under="/jobs"),
    PageEntry("/trigger", one_trigger, under="/triggers"),
    PageEntry("/calendar", one_calendar, under="/calendars"),
    *_lists("History"),
    PageEntry("/executions/{fire_id}", one_execution),
    PageEntry("/audit/{action_id:int}", audit_entry),
    *_lists("Cluster"),
    PageEntry("/system", system, "System", "Cluster", "s"),
    *_lists(),
    PageEntry("/search", search),
]


def fleet_pages(fleet: Fleet | None) -> list[PageEntry]:
    """Return the pages of several schedulers; none without them."""
    if fleet is None:
        return []
    return [
        PageEntry(f"/{spec.name}", list_page(spec, fleet=fleet), spec.title, spec.menu, spec.key)
        for spec in FLEET_LISTS
    ]


def menu_of(pages: Sequence[PageEntry]) -> Menu:
    """Return the menu: its headings with their pages, and the paths of the pages that belong to each of them."""
    headings = dict.fromkeys(entry.menu for entry in pages if entry.menu)
    return [
        (
            heading,
            [
                (entry, [entry.path, *(other.path for other in pages if other.under == entry.path)])
                for entry in pages
                if entry.menu == heading
            ],
        )
        for heading in headings
    ]
