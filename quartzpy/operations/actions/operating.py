"""The actions on incidents, calendars, shared limits and nodes."""

from __future__ import annotations

from datetime import datetime

from quartzpy.errors import IllegalStateChangeError, InvalidValueError, ObjectNotFoundError
from quartzpy.instants import as_instant
from quartzpy.jobs.shared_limit import Limit, checked_limit_name
from quartzpy.keys import check_name
from quartzpy.operations.actions import calendar_changes
from quartzpy.operations.actions.calendar_changes import CalendarDifference, CalendarSource
from quartzpy.operations.actions.log import ActionResult, SubjectChange
from quartzpy.operations.actions.methods import ActionMethods
from quartzpy.operations.actions.values import checked_incident_id
from quartzpy.operations.incidents.recorded import not_recorded
from quartzpy.operations.selection import Subject, named
from quartzpy.scheduler.transactions import OwnTransactionMethods
from quartzpy.states import NodeMode
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.records import IncidentRecord
from quartzpy.texts import did_you_mean, instant_text, quoted


class OperatingActions(ActionMethods):
    """Actions that take note of incidents, refresh calendars, set shared limits, and command nodes."""

    def acknowledge(self, incident: int, until: datetime | None = None, *, reason: str = "") -> ActionResult:
        """Take note of an incident, so that it is listed apart until it is over.

        It comes back when it becomes worse, has another cause or begins anew.

        Args:
            incident: the number under which it is recorded.
            until: the instant at which it comes back in any case.
            reason: a sentence for those who read it meanwhile, and for the audit log.

        Raises:
            ObjectNotFoundError: no incident is recorded under this number.
            IllegalStateChangeError: it is over.
            InvalidValueError: there is no reason, or `until` has passed.
        """
        number = checked_incident_id(incident)
        if until is not None:
            until = as_instant(until, "until", InvalidValueError)

        def change(transaction: OwnTransactionMethods) -> SubjectChange:
            if not reason.strip():
                raise InvalidValueError("reason: say why nothing has to be done now, for those who read it meanwhile")
            if until is not None and until <= transaction.store.now():
                raise InvalidValueError(f"until: must be in the future (got {until.isoformat()})")
            record = _lasting(transaction, number)
            views = admin(transaction.store)
            if not views.acknowledge(number, self._log.actor.name, reason.strip(), until):
                raise _over(number)
            ends = "it is over" if until is None else instant_text(until)
            text = f"Incident {number} is acknowledged until {ends}: {record.what}"
            after = {"what": record.what, "until": None if until is None else until.isoformat()}
            return SubjectChange(text, None, after, (number,))

        return self._change_one("acknowledge", named(Subject.INCIDENT, number), reason, change)

    def unacknowledge(self, incident: int, *, reason: str = "") -> ActionResult:
        """Show an incident that was acknowledged among the others again.

        Raises:
            ObjectNotFoundError: no incident is recorded under this number.
            IllegalStateChangeError: it is over, or nobody has acknowledged it.
        """
        number = checked_incident_id(incident)

        def change(transaction: OwnTransactionMethods) -> SubjectChange:
            record = _lasting(transaction, number)
            note = record.acknowledgement
            if note is None or not admin(transaction.store).unacknowledge(number):
                raise IllegalStateChangeError(f"nobody has acknowledged incident {number}")
            until = None if note.until is None else note.until.isoformat()
            before = {"by": note.by, "reason": note.reason, "until": until}
            return SubjectChange(f"Incident {number} is shown again: {record.what}", before, None, (number,))

        return self._change_one("unacknowledge", named(Subject.INCIDENT, number), reason, change)

    def preview_calendar(
        self,
        calendar: str,
        years: str,
        exchange: str | None = None,
        country: str | None = None,
        ics: str | bytes | None = None,
        zone: str | None = None,
        weekends: bool = False,
    ) -> CalendarDifference:
        """Return the difference that `refresh_calendar` would make. It changes nothing.

        Raises:
            As `refresh_calendar`.
        """
        self.check_permitted("refresh_calendar")
        name, scheduler = check_name(calendar, "calendar name"), self._log.scheduler
        source = CalendarSource(years, exchange, country, ics, zone, weekends)
        return calendar_changes.difference(scheduler, name, source.calendar(scheduler.get_calendar(name)))

    def refresh_calendar(
        self,
        calendar: str,
        years: str,
        exchange: str | None = None,
        country: str | None = None,
        ics: str | bytes | None = None,
        zone: str | None = None,
        weekends: bool = False,
        update_triggers: bool = False,
        *,
        reason: str = "",
    ) -> ActionResult:
        """Store a calendar with the dates that a source has for some years, in place of its own for these years.

        `years` is 2027 or 2027-2029. The source is an exchange ("XNYS"), a country ("DE", "DE-BY"), or `ics`, the text
        of a file of iCalendar. Dates of other years and the calendars below it stay. With `update_triggers`, the next
        fire times of its triggers are computed again. `preview_calendar` tells the difference before. The row of the
        audit log has the dates and spans that came and went.

        Raises:
            InvalidValueError: a value is wrong, the source has no such calendar, or the stored one has no dates.
            InvalidCalendarError: the result cannot be stored.
        """
        name = check_name(calendar, "calendar name")
        source = CalendarSource(years, exchange, country, ics, zone, weekends)

        def change(transaction: OwnTransactionMethods) -> SubjectChange:
            stored = transaction.get_calendar(name)
            new = source.calendar(stored)
            made = calendar_changes.change_of(stored, new)
            transaction.add_calendar(name, new, replace=True, update_triggers=update_triggers)
            text = f"Calendar {name} was refreshed: {made.text}."
            return SubjectChange(text, {"removed": made.removed}, {"added": made.added}, (name,))

        return self._change_one("refresh_calendar", named(Subject.CALENDAR, name), reason, change)

    def set_limit(self, limit: str, value: str, *, reason: str = "") -> ActionResult:
        """Set a limit that jobs share; see `Scheduler.set_limit`.

        Raises:
            InvalidLimitError: the name or the value is wrong.
        """
        name, new = checked_limit_name(limit), Limit.of(value)

        def change(transaction: OwnTransactionMethods) -> SubjectChange:
            before = transaction.limits().get(name)
            transaction.set_limit(name, new)
            was = "" if before is None else f"; it was {before.limit}"
            old = None if before is None else {"limit": str(before.limit)}
            return SubjectChange(f"Limit {name} is {new}{was}.", old, {"limit": str(new)}, (name,))

        return self._change_one("set_limit", named(Subject.LIMIT, name), reason, change)

    def delete_limit(self, limit: str, *, reason: str = "") -> ActionResult:
        """Remove a limit that no job shares.

        Raises:
            LimitNotFoundError: it is not stored.
            LimitInUseError: jobs share it.
        """
        name = checked_limit_name(limit)

        def change(transaction: OwnTransactionMethods) -> SubjectChange:
            before = transaction.limits().get(name)
            transaction.delete_limit(name)
            old = None if before is None else {"limit": str(before.limit)}
            return SubjectChange(f"Limit {name} was removed.", old, None, (name,))

        return self._change_one("delete_limit", named(Subject.LIMIT, name), reason, change)

    def drain(self, node: str, *, reason: str = "") -> ActionResult:
        """Let a node take nothing more and give back what waits for a worker, until `resume_node` or its restart.

        Raises:
            ObjectNotFoundError: no such node is registered.
        """
        return self._command("drain", node, NodeMode.DRAINING, reason)

    def standby(self, node: str, *, reason: str = "") -> ActionResult:
        """Let a node take nothing more, until `resume_node` or its restart.

        Raises:
            ObjectNotFoundError: no such node is registered.
        """
        return self._command("standby", node, NodeMode.STANDBY, reason)

    def resume_node(self, node: str, *, reason: str = "") -> ActionResult:
        """End `drain` or `standby` of a node.

        Raises:
            ObjectNotFoundError: no such node is registered.
        """
        return self._command("resume_node", node, NodeMode.RUNNING, reason)

    def _command(self, action: str, node: str, mode: NodeMode, reason: str) -> ActionResult:
        check_name(node, "node")

        def change(transaction: OwnTransactionMethods) -> SubjectChange:
            nodes = {record.instance_id: record for record in transaction.store.list_nodes().nodes}
            if node not in nodes or transaction.store.set_node_mode(node, mode) is None:
                hint = did_you_mean(node, nodes, "nodes") if nodes else "no node is running"
                raise ObjectNotFoundError(f"there is no node {quoted(node)}; {hint}")
            return SubjectChange(
                f"Node {node} was told to be {mode}.", {"mode": nodes[node].mode}, {"mode": mode}, (node,)
            )

        return self._change_one(action, named(Subject.NODE, node), reason, change)


def _lasting(transaction: OwnTransactionMethods, incident_id: int) -> IncidentRecord:
    """Return the record of an incident that lasts."""
    record = admin(transaction.store).incident(incident_id)
    if record is None:
        raise not_recorded(incident_id)
    if record.closed_at is not None:
        raise _over(incident_id)
    return record


def _over(incident_id: int) -> IllegalStateChangeError:
    return IllegalStateChangeError(f"incident {incident_id} is over")
