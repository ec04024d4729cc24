"""Who gets a place in the cluster that is taken."""

from __future__ import annotations

import os
import socket
import threading
from datetime import timedelta

import pytest

from quartzpy.clock import SystemClock
from quartzpy.config import SchedulerConfig
from quartzpy.errors import InstanceIdInUseError, LeaseLostError
from quartzpy.placement import Capabilities
from quartzpy.process_identity import own_process
from quartzpy.runtime.epoch import Epoch
from quartzpy.runtime.registration import Registration
from quartzpy.runtime.wakeup import Wakeup
from quartzpy.store.protocol import Node
from quartzpy.store.ram.store import RamJobStore

QUICK = {"checkin_interval": "100ms", "lock_timeout": "100ms", "failure_window": "1s"}
CONTAINER = "another-boot/4026531836/1/100"
"""The process 1 of a container that nobody here can look into."""


@pytest.fixture
def store() -> RamJobStore:
    return RamJobStore(SystemClock())


def registration(store: RamJobStore, **settings: str) -> Registration:
    config = SchedulerConfig.of({**QUICK, "instance_id": "a", **settings})
    return Registration(store, config, SystemClock(), Wakeup())


def join(one: Registration) -> Epoch:
    return one.join(Capabilities(frozenset()))


def holder(store: RamJobStore, process: str, window: timedelta = timedelta(seconds=1)) -> Node:
    """Who has the place: on a host of this name, with the process id of this process."""
    return store.register(
        "a",
        host=socket.gethostname(),
        pid=os.getpid(),
        checkin_interval=timedelta(milliseconds=100),
        window=window,
        process=process,
    )


def test_a_living_node_of_the_same_host_name_and_process_id_is_never_evicted(store: RamJobStore) -> None:
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


def test_the_successor_of_a_container_waits_for_its_silence_and_then_has_the_place(store: RamJobStore) -> None:
    first = holder(store, CONTAINER)
    epoch = join(registration(store))
    assert epoch.node.instance_id == "a"
    with pytest.raises(LeaseLostError):
        store.check_in(first)


def test_nobody_waits_longer_for_silence_than_a_start_may_take(store: RamJobStore) -> None:
    first = holder(store, CONTAINER, window=timedelta(hours=1))
    with pytest.raises(InstanceIdInUseError):
        join(registration(store, start_timeout="100ms"))
    store.check_in(first)


def test_the_place_of_a_process_that_ended_is_free_at_once(store: RamJobStore) -> None:
    space, _, started = own_process().rpartition("/")
    first = holder(store, f"{space}/{int(started) - 1}", window=timedelta(hours=1))
    join(registration(store, start_timeout="100ms"))
    with pytest.raises(LeaseLostError):
        store.check_in(first)


def test_a_registration_of_this_process_that_nobody_has_is_replaced(store: RamJobStore) -> None:
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


def test_a_node_that_lost_its_place_gets_it_back_as_another_epoch(store: RamJobStore) -> None:
    one = registration(store)
    old = join(one)
    store.leave(old.node)
    old.lose()
    new = one.rejoin(Capabilities(frozenset()))
    assert new.node.instance_id == "a"
    assert new.node.epoch > old.node.epoch


@pytest.mark.parametrize("process", [CONTAINER, ""])
def test_a_node_that_lost_its_place_takes_nobody_elses(store: RamJobStore, process: str) -> None:
    one = registration(store)
    old = join(one)
    store.leave(old.node)
    old.lose()
    other = holder(store, process)
    with pytest.raises(InstanceIdInUseError):
        one.rejoin(Capabilities(frozenset()))
    store.check_in(other)


def test_with_an_automatic_id_it_comes_back_under_another_one(store: RamJobStore) -> None:
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
