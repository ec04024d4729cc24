"""Limits that jobs share, as operators see and set them."""

from __future__ import annotations

import pytest

from quartzpy import Scheduler
from quartzpy.errors import ForbiddenError, InvalidLimitError, LimitInUseError
from quartzpy.operations import Actor, Operations, Role
from tests.contract.harness import MINUTE, Harness, at, job, job_key, key, once


@pytest.fixture
def stored(store: Harness) -> Harness:
    """A store with a limit and two jobs that share it."""
    operations = Operations(Scheduler(store.store, name="contract"))
    operations.acting_as(Actor("ann", Role.ADMIN)).actions.set_limit("erp", "2", reason="the contract")
    # What is due at one instant with one priority has no order.
    for name, priority in (("book", 6), ("remind", 5)):
        second = once(f"{name}2", at(1), priority=priority)
        store.schedule(job(name, limits=["erp"], durable=True), once(f"{name}1"), second)
    return store


def test_a_limit_is_set_with_a_reason_and_its_use_is_seen(stored: Harness, operations: Operations) -> None:
    node = stored.node()
    [first, _] = stored.fire_due(node)
    stored.clock.set(at(1))
    assert not stored.fire_due(node)
    assert operations.job(job_key("book")).limits == ("erp",)
    [shared] = operations.limits().shared
    assert (shared.name, shared.limit, shared.running, shared.headroom, shared.waiting) == ("erp", "2", 2, 0, 2)
    assert shared.used_by == ((job_key("book"), 1), (job_key("remind"), 1))
    stored.clock.set(at(4))
    why = operations.trigger(key("remind2")).why
    used_by = "DEFAULT.book (1), DEFAULT.remind (1), for up to 4.0 s"
    ahead = "1 trigger that waits there fires before it."
    assert f"It has been due for 3.0 s; it waits for the limit erp: 2 of 2 are used by {used_by}. {ahead}" in why
    ann = operations.acting_as(Actor("ann", Role.ADMIN)).actions
    result = ann.set_limit("erp", "3, 10/minute", reason="more")
    assert result.text == "Limit erp is 3, 10 per minute; it was 2."
    entry = operations.audit_log()[0]
    assert (entry.actor, entry.subject, entry.reason) == ("ann", "limit erp", "more")
    assert (entry.before, entry.after) == ({"limit": "2"}, {"limit": "3, 10 per minute"})
    [third] = stored.fire_due(node)
    assert third.trigger_name == "book2"
    assert "it waits for the limit erp: 3 of 3" in " ".join(operations.trigger(key("remind2")).why)
    stored.complete(node, first)
    assert "it waits for the limit erp (3, 10 per minute): next at" in " ".join(operations.trigger(key("remind2")).why)


def test_what_is_held_back_by_a_shared_limit_is_not_late(stored: Harness, operations: Operations) -> None:
    node = stored.node()
    stored.fire_due(node)
    stored.clock.set(at(1))
    stored.clock.advance(5 * MINUTE)
    stored.store.check_in(node)
    assert "late" not in {incident.kind for incident in operations.overview().incidents}


def test_limits_are_set_by_administrators_to_what_is_one(stored: Harness, operations: Operations) -> None:
    with pytest.raises(ForbiddenError):
        operations.acting_as(Actor("bob", Role.OPERATOR)).actions.set_limit("erp", "5")
    with pytest.raises(InvalidLimitError, match=r'5 \(concurrent executions\), "10/minute"'):
        operations.actions.set_limit("erp", "many")
    with pytest.raises(LimitInUseError, match=r"DEFAULT\.book, DEFAULT\.remind"):
        operations.actions.delete_limit("erp")
    operations.actions.set_limit("crm", "1")
    assert operations.actions.delete_limit("crm").text == "Limit crm was removed."
    assert [limit.name for limit in operations.limits().shared] == ["erp"]
