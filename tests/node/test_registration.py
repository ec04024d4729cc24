"""Registration with an instance id that is in use."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from quartzpy.clock import SystemClock
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import InstanceIdInUseError, LeaseLostError
from quartzpy.node.registration import Epoch, Registration
from quartzpy.node.signals import Wakeup
from quartzpy.placement import Capabilities
from quartzpy.store.memory.store import RamJobStore
from quartzpy.store.process_identity import own_process
from quartzpy.store.protocol import Node
from quartzpy.texts import instant_text

QUICK = {"checkin_interval": "100ms", "lock_timeout": "100ms", "failure_window": "1s"}
CONTAINER = "another-boot/4026531836/1/100"
"""The process 1 of a container whose processes are invisible from here."""


@pytest.fixture
def store() -> RamJobStore:
    return RamJobStore(SystemClock())


def registration(store: RamJobStore, **settings: str) -> Registration:
    config = SchedulerConfig.of({**QUICK, "instance_id": "registered", **settings})
    return Registration(store, config, SystemClock(), Wakeup())


_joined: list[Epoch] = []


@pytest.fixture(autouse=True)
def _leave() -> Iterator[None]:
    """Give up the epochs of a test: the stores of the next tests count from 1 again."""
    yield
    while _joined:
        _joined.pop().lose()


def join(one: Registration) -> Epoch:
    _joined.append(one.join())
    return _joined[-1]


def holder(store: RamJobStore, process: str, window: timedelta = timedelta(seconds=1)) -> Node:
    """Register the holder of the instance id, with the host name and process id of this process."""
    return store.register(
        "registered",
        host=socket.gethostname(),
        pid=os.getpid(),
        checkin_interval=timedelta(milliseconds=100),
        window=window,
        process=process,
    )


def test_a_live_node_with_the_same_host_name_and_process_id_is_never_evicted(store: RamJobStore) -> None:
    first = holder(store, CONTAINER)
    over = threading.Event()

    def check_in() -> None:
        while not over.wait(0.05):
            store.check_in(first)

    living = threading.Thread(target=check_in)
    living.start()
    try:
        with pytest.raises(InstanceIdInUseError, match="in use by a node on host"):
            join(registration(store))
        store.check_in(first)
    finally:
        over.set()
        living.join()


def test_the_successor_of_a_container_gets_the_instance_id_when_the_holder_expires(store: RamJobStore) -> None:
    first = holder(store, CONTAINER)
    epoch = join(registration(store))
    assert epoch.node.instance_id == "registered"
    with pytest.raises(LeaseLostError):
        store.check_in(first)


def test_the_wait_for_an_instance_id_lasts_until_its_holder_expires_and_says_when(
    store: RamJobStore, caplog: pytest.LogCaptureFixture
) -> None:
    first = holder(store, CONTAINER, window=timedelta(seconds=1))
    [record] = store.list_nodes().nodes
    epoch = join(registration(store, start_timeout="100ms"))
    assert epoch.node.instance_id == "registered"
    assert f"to expire at {instant_text(record.last_checkin + timedelta(seconds=1))}" in caplog.text
    with pytest.raises(LeaseLostError):
        store.check_in(first)


def test_the_instance_id_of_a_process_that_ended_is_free_at_once(store: RamJobStore) -> None:
    space, _, started = own_process().rpartition("/")
    first = holder(store, f"{space}/{int(started) - 1}", window=timedelta(hours=1))
    join(registration(store, start_timeout="100ms"))
    with pytest.raises(LeaseLostError):
        store.check_in(first)


def test_an_orphaned_registration_of_this_process_is_replaced(store: RamJobStore) -> None:
    first = holder(store, own_process(), window=timedelta(hours=1))
    join(registration(store, start_timeout="100ms"))
    with pytest.raises(LeaseLostError):
        store.check_in(first)


def test_another_scheduler_of_this_process_is_refused_at_once(store: RamJobStore) -> None:
    first = join(registration(store))
    with pytest.raises(InstanceIdInUseError):
        join(registration(store))
    assert not first.lost
    store.check_in(first.node)


def test_a_node_that_lost_its_epoch_rejoins_with_another_one(store: RamJobStore) -> None:
    one = registration(store)
    old = join(one)
    store.leave(old.node)
    old.lose()
    new = one.rejoin(Capabilities(frozenset()))
    assert new.node.instance_id == "registered"
    assert new.node.epoch > old.node.epoch


@pytest.mark.parametrize("process", [CONTAINER, ""])
def test_a_rejoining_node_never_evicts_another_one(store: RamJobStore, process: str) -> None:
    one = registration(store)
    old = join(one)
    store.leave(old.node)
    old.lose()
    other = holder(store, process)
    with pytest.raises(InstanceIdInUseError):
        one.rejoin(Capabilities(frozenset()))
    store.check_in(other)


def test_a_node_with_a_generated_id_rejoins_with_another_id(store: RamJobStore) -> None:
    one = registration(store, instance_id="AUTO")
    old = join(one)
    store.leave(old.node)
    old.lose()
    other = store.register(
        one.instance_id,
        host="h",
        pid=1,
        checkin_interval=timedelta(seconds=1),
        window=timedelta(seconds=10),
        process=CONTAINER,
    )
    new = one.rejoin(Capabilities(frozenset()))
    assert new.node.instance_id == one.instance_id != other.instance_id
    store.check_in(other)
