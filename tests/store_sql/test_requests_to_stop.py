"""A request to stop and the end of an execution that is to run again: whoever locks its row first decides."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.keys import RETRYING_JOBS
from quartzpy.matchers import GroupMatcher
from quartzpy.states import Outcome
from quartzpy.store.protocol import Completion, CompletionOutcome
from quartzpy.store.sql.store import SqlJobStore
from tests.store_sql.conftest import register
from tests.store_sql.test_faults import acquire, store_due
from tests.store_sql.test_locks import WAITERS, wait_for
from tests.store_sql.test_plain_completions import outcomes

Connect = Callable[[], psycopg.Connection[Any]]


@pytest.mark.parametrize(
    ("outcome", "recorded"), [(Outcome.SNOOZED, Outcome.CANCELLED), (Outcome.FAILED, Outcome.FAILED)]
)
def test_a_request_that_is_committed_while_the_end_waits_for_the_row_is_seen(
    store: SqlJobStore, connect: Connect, outcome: Outcome, recorded: Outcome
) -> None:
    node = register(store)
    store_due(store, "a")
    [fired] = acquire(store, node).fired
    now = fired.fire_time
    completion = Completion(fired, now, now, outcome, retry_after=timedelta(), is_handed_back=outcome == "SNOOZED")
    found: list[CompletionOutcome] = []
    asking, watching = connect(), connect()
    with asking.transaction():
        asking.execute("UPDATE qrtz_fired_triggers SET cancel_requested = true WHERE fire_id = %s", [fired.fire_id])
        ending = threading.Thread(target=lambda: found.append(store.complete(node, [completion])), daemon=True)
        ending.start()
        wait_for(watching, f"{WAITERS} = 1")
    ending.join(60)
    [first] = found
    if first.deferred:
        assert set(first.deferred) == {fired.fire_id}
        [first] = [store.complete(node, [completion])]
    assert set(first.stopped) == {fired.fire_id}
    assert outcomes(store) == {"a": recorded}
    assert not store.trigger_keys(GroupMatcher.equals(RETRYING_JOBS))
