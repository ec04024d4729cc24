"""A request to stop and the end of an execution that is to run again: whoever locks its row first decides."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.keys import RETRYING_JOBS, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import Outcome
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import Completion
from tests.postgresql.conftest import register
from tests.postgresql.test_faults import acquire, store_due
from tests.postgresql.test_plain_completions import outcomes

Connect = Callable[[], psycopg.Connection[Any]]


@pytest.mark.parametrize(
    ("outcome", "recorded"), [(Outcome.SNOOZED, Outcome.CANCELLED), (Outcome.FAILED, Outcome.FAILED)]
)
def test_a_request_that_is_committed_after_the_end_was_put_off_is_seen(
    store: SqlJobStore, connect: Connect, outcome: Outcome, recorded: Outcome
) -> None:
    node = register(store)
    store_due(store, "a")
    [fired] = acquire(store, node).fired
    now = fired.fire_time
    completion = Completion(fired, now, now, outcome, retry_after=timedelta(), is_handed_back=outcome == "SNOOZED")
    asking = connect()
    with asking.transaction():
        asking.execute("UPDATE qrtz_fired_triggers SET cancel_requested = true WHERE fire_id = %s", [fired.fire_id])
        assert set(store.complete(node, [completion]).deferred) == {fired.fire_id}
        assert not outcomes(store)
    ended = store.complete(node, [completion])
    assert set(ended.stopped) == {fired.fire_id}
    assert outcomes(store) == {"a": recorded}
    assert not store.keys(TriggerKey, GroupMatcher.equals(RETRYING_JOBS))
