"""The text that Prometheus reads: checked by the parsers of its own client."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy.metrics.families import OPEN_METRICS, PLAIN, Family, Histogram, Kind, negotiated, rendered
from tests.metrics.scrape import parsed

FORMATS = [(PLAIN, False), (OPEN_METRICS, True)]


def a_histogram(*values: float) -> Histogram:
    made = Histogram((0.1, 1.0))
    for value in values:
        made.observe(value)
    return made


@pytest.mark.parametrize(("content_type", "is_open"), FORMATS)
def test_each_kind_is_read_back(content_type: str, is_open: bool) -> None:
    counter = Family("fires", Kind.COUNTER, "Fires.")
    counter.add(3, group="a")
    gauge = Family("age_seconds", Kind.GAUGE, "An age.")
    gauge.add(-0.5)
    histogram = Family("run_seconds", Kind.HISTOGRAM, "Runs.")
    histogram.add(a_histogram(0.1, 0.5, 7), group="a")
    empty = Family("nothing", Kind.GAUGE, "It has no samples, so it is left out.")
    found = parsed(rendered([counter, gauge, histogram, empty], content_type), is_open=is_open)
    assert found.value("fires_total", group="a") == 3
    assert found.value("age_seconds") == -0.5
    assert found.value("run_seconds_bucket", le="0.1") == 1
    assert found.value("run_seconds_bucket", le="1.0") == 2
    assert found.value("run_seconds_bucket", le="+Inf") == found.value("run_seconds_count") == 3
    assert found.value("run_seconds_sum") == pytest.approx(7.6)
    assert set(found.kinds) == {"fires", "age_seconds", "run_seconds"}
    assert found.kinds["fires"] == "counter"
    if is_open:
        assert found.units["age_seconds"] == "seconds"


@given(st.text(), st.text())
@pytest.mark.parametrize(("content_type", "is_open"), FORMATS)
def test_any_name_and_any_help_is_read_back(content_type: str, is_open: bool, value: str, what: str) -> None:
    gauge = Family("x", Kind.GAUGE, what)
    gauge.add(1, group=value)
    found = parsed(rendered([gauge], content_type), is_open=is_open)
    assert found.value("x", group=value.encode(errors="replace").decode()) == 1


@pytest.mark.parametrize(
    ("accept", "answer"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/html", PLAIN),
        ("application/openmetrics-text", OPEN_METRICS),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", OPEN_METRICS),
        ("application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5", OPEN_METRICS),
        ("application/openmetrics-text;version=2.0.0,text/plain", PLAIN),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.9", PLAIN),
        ("application/openmetrics-text;q=x", PLAIN),
        (";;;,=", PLAIN),
    ],
)
def test_the_format_is_the_one_that_the_client_prefers(accept: str, answer: str) -> None:
    assert negotiated(accept) == answer
