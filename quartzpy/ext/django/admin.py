"""The admin: the lists of jobs, triggers, executions and incidents, with the actions that a user may do.

The columns, the filters and the actions are those of the other faces. What an action changes is in the audit log, with
the name of the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.timezone import localtime

from quartzpy.errors import InvalidValueError, QuartzpyError
from quartzpy.ext.django import models
from quartzpy.ext.django.project import database_url, scheduler_settings
from quartzpy.factory import Scheduler
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import Operations
from quartzpy.operations.actions.action import Action, Actor, Role
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.lists.history import EXECUTIONS, PAST_INCIDENTS
from quartzpy.operations.lists.schedule import JOBS, TRIGGERS
from quartzpy.operations.lists.spec import Column, ListSpec
from quartzpy.operations.selection import Subject

PERMISSIONS = {Role.ADMIN: "administer", Role.OPERATOR: "operate", Role.VIEWER: "view"}
"""The permission of each role, the highest first; `view` alone is one of Django's own."""
LIMIT = 100


class ListAdmin(admin.ModelAdmin):
    """One list of quartzpy, as a page of the admin."""

    spec: ClassVar[ListSpec[Any]]
    subject: ClassVar[Subject]
    key: ClassVar[type[Any]]
    columns: ClassVar[tuple[str, ...]]
    reads = ""
    """The method of `Operations`, if it is not that of the list."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nothing is added here: programs declare jobs."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Actions change things, by permissions of their own."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """An action deletes jobs and triggers."""
        return False

    def has_view_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Whoever has one of the permissions may see the list."""
        return self._role(request) is not None

    def _role(self, request: HttpRequest) -> Role | None:
        name = self.opts.model_name
        allowed = (role for role, word in PERMISSIONS.items() if request.user.has_perm(f"quartzpy.{word}_{name}"))
        return next(allowed, None)

    def _actions(self, role: Role) -> list[Action]:
        """Return the actions on these subjects that need nothing but a reason."""
        return [
            action
            for action in ACTIONS.values()
            if self.subject in action.subjects
            and role.includes(action.role)
            and not any(each.is_required for each in action.inputs)
        ]

    @contextmanager
    def _operations(self, request: HttpRequest, role: Role) -> Iterator[Operations]:
        # A connection for each page: it is rare, and one that stays open would keep Django from dropping a test
        # database.
        scheduler = Scheduler(database_url(), **scheduler_settings())
        try:
            yield Operations(scheduler, actor=Actor(request.user.get_username(), role))
        finally:
            scheduler.shutdown()

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list; with POST do an action on its chosen rows."""
        role = self._role(request)
        if role is None:
            raise PermissionDenied
        with self._operations(request, role) as operations:
            if request.method == "POST":
                return self._act(request, operations)
            return self._page(request, operations)

    def _act(self, request: HttpRequest, operations: Operations) -> HttpResponse:
        named = {action.name: action for action in self._actions(operations.actor.role)}
        action = named.get(request.POST.get("action", ""))
        if action is None:
            raise PermissionDenied
        values = {each.name: each.default for each in action.inputs}
        method = getattr(operations.actions, action.name)
        try:
            chosen = [self._read_key(text) for text in request.POST.getlist("key")]
            if not chosen:
                raise InvalidValueError(f"choose {self.spec.nouns} first")
            for subjects in chosen if action.is_single or self.subject is Subject.INCIDENT else [chosen]:
                result = method(subjects, **values, reason=request.POST.get("reason", ""))
                self.message_user(request, str(result), messages.WARNING if result.failed else messages.SUCCESS)
        except (QuartzpyError, ValueError) as error:
            self.message_user(request, str(error), messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())

    def _page(self, request: HttpRequest, operations: Operations) -> HttpResponse:
        typed = {
            each.name: value
            for each in self.spec.declared
            if (value := request.GET.get(each.name)) and each.form in ("word", "text")
        }
        columns = self.spec.chosen(*self.columns)
        rows: Sequence[Any] = ()
        try:
            ask = getattr(operations, self.reads or self.spec.method)
            rows = ask() if self.reads else ask(limit=LIMIT, after=request.GET.get("after") or None, **typed)
        except QuartzpyError as error:
            self.message_user(request, str(error), messages.ERROR)
        following = getattr(rows, "next_cursor", None)
        query = request.GET.copy()
        query["after"] = following or ""
        context = {
            **self.admin_site.each_context(request),
            "title": self.spec.nouns.capitalize(),
            "subtitle": self.spec.help,
            "opts": self.opts,
            "columns": columns,
            "rows": [(self._key_text(row), [_cell(column, row) for column in columns]) for row in rows],
            "filters": [] if self.reads else [(each, typed.get(each.name, "")) for each in self._filters()],
            "quartzpy_actions": self._actions(operations.actor.role),
            "next": f"?{query.urlencode()}" if following else "",
        }
        return TemplateResponse(request, "quartzpy/list.html", context)

    def _filters(self) -> list[Any]:
        return [each for each in self.spec.filters if each.form in ("word", "text")]

    def _read_key(self, text: str) -> Any:
        if self.key is int:
            return int(text)
        group, _, name = text.partition("\t")
        return self.key(name, group)

    def _key_text(self, row: Any) -> str:
        key = row.incident_id if self.subject is Subject.INCIDENT else getattr(row, "key", None)
        return f"{key.group}\t{key.name}" if isinstance(key, JobKey | TriggerKey) else str(key or row.fire_id or "")


def _cell(column: Column[Any], row: Any) -> Any:
    match column.value(row):
        case None:
            return ""
        case datetime() as instant:
            return f"{localtime(instant):%Y-%m-%d %H:%M:%S}"
        case timedelta() as span:
            return f"{span.total_seconds():.3f} s"
        case value:
            return value


@admin.register(models.Job)
class JobAdmin(ListAdmin):
    """The jobs."""

    spec, subject, key = JOBS, Subject.JOB, JobKey
    columns = ("job", "mode", "result", "failed", "next", "previous", "description")


@admin.register(models.Trigger)
class TriggerAdmin(ListAdmin):
    """The triggers."""

    spec, subject, key = TRIGGERS, Subject.TRIGGER, TriggerKey
    columns = ("trigger", "job", "state", "schedule", "next", "previous", "error")


@admin.register(models.Execution)
class ExecutionAdmin(ListAdmin):
    """The executions."""

    spec, subject, key = EXECUTIONS, Subject.EXECUTION, int
    columns = ("id", "job", "state", "ended", "ran", "attempt", "node", "error")


@admin.register(models.Incident)
class IncidentAdmin(ListAdmin):
    """The incidents that last."""

    spec, subject, key = PAST_INCIDENTS, Subject.INCIDENT, int
    columns = ("severity", "what", "why", "from", "acknowledged by")
    reads = "open_incidents"
