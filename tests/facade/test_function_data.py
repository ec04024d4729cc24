"""The data of function jobs: what a function receives, and what is refused before it is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from quartzpy import JobDetail, JobExecutionContext, Scheduler, SimpleTrigger, job
from quartzpy.definitions.files import definitions
from quartzpy.errors import InvalidJobDataError, InvalidJobTypeError, PluginStartError
from quartzpy.plugins.declared_jobs import DeclaredJobs
from quartzpy.states import Outcome

SOON = timedelta(seconds=30)
LATER = datetime(2090, 1, 1, tzinfo=UTC)

called: list[Any] = []


class Reminder(BaseModel):
    invoice: int
    channel: str = "mail"


@dataclass(frozen=True)
class Address:
    street: str


@job
def send(order_id: int, copies: int = 1) -> None:
    called.append((order_id, copies))


@job
def ship(order_id: int, /, address: Address | None = None) -> None:
    called.append((order_id, address))


@job
def remind(data: Reminder) -> None:
    called.append(data)


@job(data_type=Reminder)
def remind_typed(reminder: Reminder, context: JobExecutionContext) -> None:
    called.append((reminder, context.data))


@job(data_type=Reminder)
async def remind_by_context(context: JobExecutionContext) -> None:
    called.append(context.data)


@job
def import_file(path: Path) -> None:
    called.append(path)


@pytest.fixture(autouse=True)
def nothing_called() -> Iterator[None]:
    called.clear()
    yield
    called.clear()


def result_of(scheduler: Scheduler) -> list[Any]:
    """Wait for one execution, which succeeds; return what was called."""
    assert scheduler.wait_until_recorded(1, SOON)
    [execution] = scheduler.executions()
    assert execution.outcome is Outcome.SUCCEEDED, execution.error
    return called


# --- names override positions


def test_the_data_of_a_call_by_hand_overrides_a_positional_argument(scheduler: Scheduler) -> None:
    scheduler.add_job(send.detail("i", args=[1, 2], durable=True))
    scheduler.trigger_job("i", {"order_id": 9})
    assert result_of(scheduler) == [(9, 2)]


def test_the_data_of_a_trigger_overrides_a_positional_argument(scheduler: Scheduler) -> None:
    scheduler.schedule_job(send.detail("i", args=[1, 2]), SimpleTrigger("t", data={"copies": 9}))
    assert result_of(scheduler) == [(1, 9)]


def test_a_positional_only_argument_keeps_its_place(scheduler: Scheduler) -> None:
    scheduler.schedule_job(ship, SimpleTrigger("t", data={"address": Address("b")}), args=[1, Address("a")])
    assert result_of(scheduler) == [(1, Address("b"))]


def test_one_call_does_not_give_one_argument_twice() -> None:
    with pytest.raises(
        InvalidJobDataError, match="multiple values for argument 'order_id': one in args and one in data"
    ):
        send.detail("i", args=[1], data={"order_id": 9})


# --- wrong names are refused before they are stored


def test_a_call_by_hand_with_a_wrong_name_is_refused(client: Scheduler) -> None:
    client.add_job(send.detail("i", args=[1], durable=True))
    with pytest.raises(InvalidJobDataError, match=r"job DEFAULT.i.*'oder_id' \(did you mean order_id\?\)"):
        client.trigger_job("i", {"oder_id": 9})
    with pytest.raises(InvalidJobDataError, match="too many positional arguments"):
        client.trigger_job("i", {"args": [1, 2, 3]})
    with pytest.raises(InvalidJobDataError, match="args is a list"):
        client.trigger_job("i", {"args": 5})
    assert list(client.triggers()) == []


def test_a_trigger_with_a_wrong_name_is_refused(client: Scheduler) -> None:
    with pytest.raises(InvalidJobDataError, match=r"trigger DEFAULT.t: .*'oder_id'"):
        client.schedule_job(send.detail("i", args=[1]), SimpleTrigger("t", data={"oder_id": 9}))
    assert list(client.jobs()) == []


def test_data_that_is_no_mapping_is_answered_with_one_that_is(client: Scheduler) -> None:
    with pytest.raises(InvalidJobDataError, match=r"send\(order_id.*a mapping is needed, as data=\{'order_id': ...\}"):
        client.schedule_job(send, data=7)
    with pytest.raises(InvalidJobDataError, match=r"with @job\(data_type=Reminder\), the data is a Reminder"):
        client.schedule_job(send, data=Reminder(invoice=1))


def test_an_entry_that_names_a_concurrency_key_need_not_be_a_parameter(scheduler: Scheduler) -> None:
    options: dict[str, Any] = {"data": {"customer": "acme"}, "concurrency_key": "customer", "durable": True}
    scheduler.add_job(send.detail("i", args=[1], **options))
    scheduler.trigger_job("i", {"customer": "other"})
    assert result_of(scheduler) == [(1, 1)]


def declared(**values: Any) -> list[Any]:
    entry = {"type": f"{__name__}:send", "name": "i", "trigger": "0 0 2 * * ?", **values}
    return definitions({"job": [entry]}, "jobs.yaml").jobs


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"data": {"oder_id": 1}}, "did you mean order_id"),
        ({}, "missing a required argument: 'order_id'"),
        ({"args": [1, 2, 3]}, "too many positional arguments"),
    ],
)
def test_declared_data_that_the_function_does_not_take_is_refused(
    client: Scheduler, values: dict[str, Any], says: str
) -> None:
    for apply in (False, True):
        with pytest.raises(InvalidJobDataError, match=says):
            client.sync(declared(**values), owner="file", apply=apply)
    assert list(client.jobs()) == []


def test_a_node_does_not_start_with_declared_data_that_the_function_does_not_take(
    make_scheduler: Callable[..., Scheduler], tmp_path: Path
) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(f'[[job]]\ntype = "{__name__}:send"\nname = "i"\ntrigger = "@daily"\ndata = {{ oder_id = 1 }}\n')
    with pytest.raises(PluginStartError, match="did you mean order_id"):
        make_scheduler(plugins=[DeclaredJobs(file)]).start()


def test_a_declared_argument_may_come_from_the_trigger_or_by_hand(client: Scheduler) -> None:
    trigger = {"kind": "cron", "expression": "0 0 2 * * ?", "data": {"order_id": 1}}
    assert client.sync(declared(trigger=[trigger]), owner="file")
    assert client.sync(declared(name="by-hand", trigger=[], durable=True), owner="file")
    client.trigger_job("by-hand", {"order_id": 1})
    with pytest.raises(InvalidJobDataError, match="did you mean order_id"):
        client.sync(declared(name="other", trigger=[], durable=True, data={"oder_id": 1}), owner="file")


# --- models and dataclasses


@pytest.mark.parametrize(
    "options",
    [
        {"args": [Reminder(invoice=3)]},
        {"kwargs": {"data": Reminder(invoice=3)}},
        {"data": {"data": Reminder(invoice=3)}},
        {"data": Reminder(invoice=3)},
        {"args": [{"invoice": "3"}]},
        {"data": {"data": {"invoice": 3}}},
    ],
)
def test_a_model_is_an_argument(scheduler: Scheduler, options: dict[str, Any]) -> None:
    detail = remind.detail("r", **options)
    assert isinstance(detail, JobDetail)
    scheduler.schedule_job(detail, SimpleTrigger("t"))
    assert result_of(scheduler) == [Reminder(invoice=3)]


def test_a_model_is_the_data_of_a_call_by_hand(scheduler: Scheduler) -> None:
    scheduler.schedule_job(remind, data=Reminder(invoice=3))
    scheduler.trigger_job("remind", Reminder(invoice=4))
    assert result_of(scheduler) == [Reminder(invoice=4)]


def test_a_mapping_for_a_dataclass_is_made_one(scheduler: Scheduler) -> None:
    scheduler.schedule_job(ship, SimpleTrigger("t"), args=[1], data={"address": {"street": "a"}})
    assert result_of(scheduler) == [(1, Address("a"))]


def test_a_mapping_that_is_no_value_of_the_annotation_is_refused(client: Scheduler) -> None:
    with pytest.raises(InvalidJobDataError, match=r"(?s)data: the data does not fit Reminder: .*invoice"):
        client.schedule_job(remind, SimpleTrigger("t"), args=[{"invoice": "x"}])
    with pytest.raises(InvalidJobDataError, match=r"address: the data does not fit Address: .*did you mean street"):
        client.schedule_job(ship, SimpleTrigger("t"), args=[1], data={"address": {"stret": "a"}})


@pytest.mark.parametrize(
    "options", [{"data": Reminder(invoice=3)}, {"args": [Reminder(invoice=3)]}, {"data": {"invoice": 3}}]
)
def test_a_function_has_a_data_type(scheduler: Scheduler, options: dict[str, Any]) -> None:
    scheduler.schedule_job(remind_typed, SimpleTrigger("t", data={"channel": "text"}), durable=True, **options)
    expected = Reminder(invoice=3, channel="text")
    assert result_of(scheduler) == [(expected, expected)]
    data = scheduler.job("remind_typed").detail.data
    assert data is not None
    assert data["invoice"] == 3
    assert "args" not in data


def test_a_coroutine_function_reads_its_typed_data_from_the_context(scheduler: Scheduler) -> None:
    scheduler.schedule_job(remind_by_context, data=Reminder(invoice=3))
    scheduler.trigger_job("remind_by_context", Reminder(invoice=5))
    assert result_of(scheduler) == [Reminder(invoice=5)]


def test_typed_data_of_a_function_is_checked(client: Scheduler) -> None:
    with pytest.raises(InvalidJobDataError, match="the data does not fit Reminder"):
        client.schedule_job(remind_typed, SimpleTrigger("t"), data={"channel": "text"})
    with pytest.raises(InvalidJobDataError, match=r"its arguments are given as data=Reminder\(...\)"):
        client.schedule_job(remind_typed, args=[7])
    client.schedule_job(remind_typed, data=Reminder(invoice=3))
    with pytest.raises(InvalidJobDataError, match="must be a Reminder or a mapping"):
        client.trigger_job("remind_typed", 5)


def test_a_wrong_data_type_of_a_function_is_refused() -> None:
    def other(data: Reminder, number: int) -> None: ...

    with pytest.raises(InvalidJobTypeError, match=r"as def other\(data: Reminder\).*nothing is passed for number"):
        job(type_name="other", data_type=Reminder)(other)
    with pytest.raises(InvalidJobTypeError, match="data_type must be a dataclass"):
        job(type_name="other", data_type=dict)(other)


def test_a_path_is_data(scheduler: Scheduler) -> None:
    scheduler.schedule_job(import_file, SimpleTrigger("t"), args=[Path("/srv/in.csv")])
    assert result_of(scheduler) == [Path("/srv/in.csv")]
