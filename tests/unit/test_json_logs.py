"""Log records as JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.errors import SettingsError
from quartzpy.logs.default_handler import JsonFormatter, ensure_logging

Lines = Callable[[], list[dict[str, Any]]]


class Unprintable:
    def __str__(self) -> str:
        raise ValueError("no text")


class Failing(Job):
    def execute(self, context: JobExecutionContext) -> None:
        context.log.warning("it will fail", extra={"order": 7})
        raise ValueError("on purpose")


@pytest.fixture
def lines() -> Iterator[Lines]:
    """The objects that a handler of the root logger has written."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.removeHandler(handler)


def test_a_record_is_one_line_with_its_fields(lines: Lines) -> None:
    logging.getLogger("shop").warning(
        "a\nb \x1b[31m \N{LINE SEPARATOR} %s", "ü", extra={"a": 1, "b": {2, 3}, "c": Unprintable()}
    )
    [record] = lines()
    assert record["time"].endswith("+00:00")
    assert (record["level"], record["logger"]) == ("WARNING", "shop")
    assert record["message"] == "a\nb \x1b[31m \N{LINE SEPARATOR} ü"
    assert (record["a"], record["b"], record["c"]) == (1, "{2, 3}", "<Unprintable>")
    assert set(record) == {"time", "level", "logger", "message", "a", "b", "c"}


def test_a_message_about_an_execution_names_it(lines: Lines) -> None:
    with Scheduler("memory://", name="logs") as scheduler:
        scheduler.schedule_job(JobDetail(Failing, "job", "shop"), SimpleTrigger("t", "shop"))
        assert scheduler.wait_until_recorded(1, "20s")
        node = scheduler.instance_id
    by_logger = {record["logger"]: record for record in lines() if "fire_id" in record}
    own = by_logger[__name__]
    assert (own["message"], own["order"]) == ("it will fail", 7)
    failed = by_logger["quartzpy.node.workers.endings"]
    for record in (own, failed):
        named = {name: record[name] for name in ("job", "trigger", "instance")}
        assert named == {"job": "shop.job", "trigger": "shop.t", "instance": node}
        assert isinstance(record["fire_id"], int)
    assert failed["scheduler"] == "logs"
    assert failed["error"].startswith("Traceback")
    assert failed["error"].endswith("ValueError: on purpose")


def test_a_message_within_a_span_has_its_ids(lines: Lines) -> None:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("test")
    with tracer.start_as_current_span("request"):
        logging.getLogger("shop").error("inside")
        context = trace.get_current_span().get_span_context()
    logging.getLogger("shop").error("outside")
    inside, outside = lines()
    assert inside["trace_id"] == trace.format_trace_id(context.trace_id)
    assert inside["span_id"] == trace.format_span_id(context.span_id)
    assert "trace_id" not in outside


def test_the_format_is_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="log_format: must be one of text, json"):
        ensure_logging("INFO", "xml")
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    ensure_logging("INFO", "json")
    assert isinstance(root.handlers[0].formatter, JsonFormatter)
