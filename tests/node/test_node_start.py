"""The start of a node: it retries temporary errors, and a start that failed leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quartzpy import Scheduler
from quartzpy.errors import OutcomeUnknownError, SchemaError, StoreUnavailableError
from quartzpy.placement import Capabilities
from quartzpy.store.protocol import Node


def failing(first: BaseException, then: Callable[[], Any]) -> Callable[[], Any]:
    """A call that fails once."""
    errors = [first]

    def call() -> Any:
        if errors:
            raise errors.pop()
        return then()

    return call


@pytest.mark.parametrize("error", [StoreUnavailableError("refused"), OutcomeUnknownError("the answer was lost")])
def test_a_start_retries_after_a_lost_query_for_waiting_job_types(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    scheduler = Scheduler("memory://", start_timeout="60s")
    store = scheduler._store
    monkeypatch.setattr(store, "waiting_dispatch_keys", failing(error, store.waiting_dispatch_keys))
    with scheduler:
        assert [record.instance_id for record in store.list_nodes().nodes] == [scheduler.instance_id]


def test_a_start_that_cannot_publish_checks_in_and_keeps_its_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler("memory://", start_timeout="30s", checkin_interval="10ms")
    store = scheduler._store
    publish, epochs = store.publish, set()

    def refuse_until_it_has_checked_in(node: Node, capabilities: Capabilities) -> None:
        epochs.add(node.epoch)
        if store.list_nodes().nodes[0].checkin_count < 2:
            raise StoreUnavailableError("refused")
        publish(node, capabilities)

    monkeypatch.setattr(store, "publish", refuse_until_it_has_checked_in)
    with scheduler:
        assert [record.epoch for record in store.list_nodes().nodes] == list(epochs)


def test_a_start_that_failed_after_it_registered_leaves_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler("memory://", start_timeout="100ms")
    store = scheduler._store
    with monkeypatch.context() as patch:
        patch.setattr(
            store, "waiting_dispatch_keys", failing(SchemaError("a table is missing"), store.waiting_dispatch_keys)
        )
        with pytest.raises(SchemaError):
            scheduler.start()
    assert store.list_nodes().nodes == ()
    with scheduler:
        assert len(store.list_nodes().nodes) == 1
