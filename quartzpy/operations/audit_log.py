"""The audit log: the actions of operators, with their reasons and the values before and after."""

from __future__ import annotations

from datetime import datetime

from quartzpy.errors import InvalidValueError
from quartzpy.instants import as_instant
from quartzpy.scheduling.paging import Query
from quartzpy.scheduling.scheduler import BaseScheduler
from quartzpy.states import ActionState
from quartzpy.store.queries import ActionQuery
from quartzpy.store.records import ActionRecord
from quartzpy.texts import check_storable, quoted


def actions(
    scheduler: BaseScheduler,
    *,
    actor: str | None = None,
    action: str | None = None,
    subject: str | None = None,
    state: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Query[ActionRecord]:
    """Query the actions, the latest first. Without a filter the query selects all that are kept (`audit_retention`).

    Args:
        scheduler: the scheduler that they were done on.
        actor: the name of the actor.
        action: the name of the action: "pause", "delete", ...
        subject: the whole subject: "trigger GROUP.NAME", "job GROUP.NAME", "execution 17", "node app-1".
        state: "RUNNING", "SUCCEEDED", "FAILED" or "REFUSED"; see `ActionState`.
        since: the earliest instant at which they began.
        until: they began before this instant.

    Raises:
        InvalidValueError: a filter has a value that it cannot have.
    """
    for name, value in (("actor", actor), ("action", action), ("subject", subject)):
        if value is not None:
            _check_text(value, name)
    query = ActionQuery(actor, action, subject, _state(state), _instant(since, "since"), _instant(until, "until"))
    # If the store cannot be reached, the error is raised here, not at the first record.
    scheduler._usable_store()
    return Query(
        "actions",
        lambda limit, after: scheduler._usable_store().find_actions(query, limit, after),
        query.position,
        query.shape,
        lambda: scheduler._usable_store().count(query),
    )


def _check_text(value: object, name: str) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidValueError(f"{name}: must be a text that is not empty (got {quoted(value)})")
    check_storable(value, name, InvalidValueError)


def _state(given: str | None) -> ActionState | None:
    if given is None:
        return None
    try:
        return ActionState(given)
    except ValueError:
        raise InvalidValueError(f"state: must be one of {', '.join(ActionState)} (got {quoted(given)})") from None


def _instant(given: datetime | None, name: str) -> datetime | None:
    return None if given is None else as_instant(given, name, InvalidValueError)
