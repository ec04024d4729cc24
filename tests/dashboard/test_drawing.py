"""The geometry of the drawings, and the texts of times."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from quartzpy.dashboard.drawing.joins import draw_joins
from quartzpy.dashboard.drawing.plots import (
    HEIGHT,
    draw_year,
    lateness_plot,
    run_bars,
    sparkline,
    split_bar,
    throughput_plot,
)
from quartzpy.dashboard.drawing.timeline import WIDTH, draw_timeline
from quartzpy.dashboard.rendering import said
from quartzpy.dashboard.shown_times import Times, span_text
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import ExecutionSummary, MinuteLateness, MinuteThroughput
from quartzpy.operations.views.jobs import UpstreamJob
from quartzpy.operations.views.timeline import Bar, Cell, Lane, Timeline
from quartzpy.operations.views.timeline import Mark as RunMark
from quartzpy.states import ExecutionState
from quartzpy.store.postgresql.admin.records import Lanes, LastRun
from quartzpy.texts import coarse

NOW = datetime(2026, 11, 22, 8, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
SUCCEEDED, FAILED = ExecutionState.SUCCEEDED, ExecutionState.FAILED


def execution(state: str, **times: timedelta | None) -> ExecutionSummary:
    given = {"waited": None, "queued": None, "ran": None, **times}
    return ExecutionSummary(
        fire_id=7, state=ExecutionState(state), trigger=TriggerKey("t"), job=JobKey("j"), job_type="x:J", node="n",
        attempt=1, scheduled_fire_time=NOW, fire_time=NOW, started_at=NOW, ended_at=NOW, retry_at=None, error=None,
        **given,
    )  # fmt: skip


def bar(start: timedelta, end: timedelta | None, state: str, fire_id: int | None = 1) -> Bar:
    ended = None if end is None else NOW + end
    return Bar(NOW + start, ended, ExecutionState(state), TriggerKey("t"), JobKey("j"), "n", fire_id, NOW + start)


def timeline(*bars: Bar) -> Timeline:
    start, end = NOW - 10 * MINUTE, NOW + 10 * MINUTE
    return Timeline(NOW, start, end, Lanes.JOB, (Lane("DEFAULT.j", bars),), start, end, 0)


def test_one_failure_among_many_successes_is_visible() -> None:
    plot = throughput_plot([MinuteThroughput(NOW, {"SUCCEEDED": 9_999, "FAILED": 1}, 10_000)])
    assert plot is not None
    failed = next(one for one in plot.bars if one.tone == "bad")
    assert failed.height >= 1.5
    assert all(0 <= one.y <= HEIGHT for one in plot.bars)
    assert throughput_plot([MinuteThroughput(NOW, {}, 0)]) is None


def test_an_axis_has_its_unit_and_round_values() -> None:
    plot = throughput_plot([MinuteThroughput(NOW, {"SUCCEEDED": 1_090}, 1_090)])
    assert plot is not None
    assert (plot.scale, plot.beyond) == (("2,000", "1,000", "0"), ())
    assert plot.bars[0].height == pytest.approx(54.5)
    lateness = lateness_plot([MinuteLateness(NOW, SECOND / 50, SECOND / 20)])
    assert lateness is not None
    assert lateness.scale == ("100 ms", "50 ms", "0")
    runs = run_bars([execution("SUCCEEDED", ran=span) for span in (70 * SECOND, 50 * SECOND)])
    assert runs is not None
    assert runs.scale == ("2 min", "1 min", "0")


def test_a_single_spike_flattens_nothing_and_is_marked() -> None:
    usual = [SECOND / 5 + n * SECOND / 1_000 for n in range(59)]
    spans = [*usual[:30], 45 * SECOND, *usual[30:]]
    late = lateness_plot([MinuteLateness(NOW + n * MINUTE, span / 2, span) for n, span in enumerate(spans)])
    assert late is not None
    assert (late.scale, late.beyond, late.top) == (("400 ms", "200 ms", "0"), (305.0,), "45 s")
    bars = run_bars([execution("SUCCEEDED", ran=span) for span in spans])
    assert bars is not None
    assert (bars.scale[0], len(bars.beyond)) == ("400 ms", 1)
    assert max(one.height for one in bars.bars) == HEIGHT
    ended = throughput_plot([MinuteThroughput(NOW, {"SUCCEEDED": n, "FAILED": 1}, n + 1) for n in (8, 9, 7, 900)])
    assert ended is not None
    assert (ended.scale[0], len(ended.beyond), ended.top) == ("20", 1, "901 a minute")
    assert all(0 <= one.y <= HEIGHT for one in ended.bars)
    quick = run_bars([execution("SUCCEEDED", ran=timedelta())] * 3)
    assert quick is not None
    assert quick.scale[0] == "2 ms"
    # What grows is no spike.
    grows = run_bars([execution("SUCCEEDED", ran=n * SECOND) for n in range(30)])
    assert grows is not None
    assert (grows.scale[0], grows.beyond) == ("40 s", ())


def test_a_sparkline_says_the_same_in_words() -> None:
    runs = [LastRun("SUCCEEDED", SECOND / 2)] * 22 + [LastRun("FAILED", 2 * SECOND), LastRun("TERMINATED", None)]
    plot = sparkline(runs)
    assert plot is not None
    assert plot.text == "20 runs: 18 succeeded, 1 failed, 1 terminated; 500 ms to 2.0 s"
    assert [one.tone for one in plot.bars] == ["good"] * 18 + ["bad"] * 2
    assert [round(one.height) for one in plot.bars[-3:]] == [50, 100, 18]
    few = sparkline(runs[-1:])
    assert few is not None
    assert few.bars[0].x == pytest.approx(few.width - 10), "the latest is at the right"
    assert sparkline(()) is None


def test_misfires_and_pauses_are_marked_in_their_lanes() -> None:
    missed = RunMark(NOW - 5 * MINUTE, 3, "3 misfires")
    paused = RunMark(NOW - 2 * MINUTE, 0, "trigger g.t was paused by ann")
    lane = Lane("DEFAULT.j", (), (), None, (missed, paused))
    [drawn] = draw_timeline(replace(timeline(), lanes=(lane,)), UTC).lanes
    assert [(round(mark.x), mark.is_pause) for mark in drawn.marks] == [(254, False), (400, True)]
    assert drawn.summary == "3 misfires, 1 pause"
    many = replace(lane, bars=tuple(bar(-n * SECOND, -n * SECOND, "SUCCEEDED") for n in range(1, 200)))
    [drawn] = draw_timeline(replace(timeline(), lanes=(many,)), UTC).lanes
    assert (30, "3 misfires") in drawn.counts, "the arrow keys reach them too"
    assert any("succeeded, trigger g.t was paused by ann" in text for _, text in drawn.counts)


def test_lines_are_interrupted_where_nothing_started() -> None:
    values = [SECOND, SECOND, None, SECOND / 2]
    plot = lateness_plot([MinuteLateness(NOW + n * MINUTE, value, value) for n, value in enumerate(values)])
    assert plot is not None
    assert [points.count(",") for name, points in plot.lines if name == "line-a"] == [2, 2]
    assert lateness_plot([MinuteLateness(NOW, None, None)]) is None


def test_the_latest_run_is_at_the_right_and_each_is_visible() -> None:
    plot = run_bars([execution("FAILED", ran=timedelta()), execution("SUCCEEDED", ran=SECOND)])
    assert plot is not None
    assert [(one.tone, one.height > 5) for one in plot.bars] == [("good", True), ("bad", True)]


def test_the_parts_of_an_execution_fill_the_bar_and_none_is_invisible() -> None:
    parts = split_bar(execution("SUCCEEDED", waited=timedelta(), queued=SECOND, ran=999 * SECOND))
    assert [part.name for part in parts] == ["waited", "queued", "ran"]
    assert sum(part.width for part in parts) == pytest.approx(100)
    assert min(part.width for part in parts) > 0.9
    assert split_bar(execution("SKIPPED")) == ()
    running = split_bar(execution("PROCESSING", waited=SECOND), 9 * SECOND)
    assert [(part.name, round(part.width)) for part in running] == [("waited", 10), ("running", 90)]
    assert split_bar(execution("TERMINATED", waited=SECOND)) == (), "a single part would fill the bar, and say nothing"


def test_overlapping_bars_get_rows_of_their_own() -> None:
    drawing = draw_timeline(
        timeline(
            bar(-5 * MINUTE, -2 * MINUTE, "SUCCEEDED"),
            bar(-4 * MINUTE, -3 * MINUTE, "FAILED"),
            bar(-1 * MINUTE, None, "PROCESSING"),
            bar(5 * MINUTE, None, "SCHEDULED", None),
        ),
        UTC,
    )
    boxes = drawing.lanes[0].boxes
    assert drawing.now == WIDTH / 2
    assert [box.tone for box in boxes] == ["good", "bad", "info", "plan"]
    assert boxes[0].y == boxes[2].y == boxes[3].y < boxes[1].y
    assert boxes[2].x + boxes[2].width == pytest.approx(drawing.now)
    assert "planned" in boxes[3].text


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        (5 * MINUTE, 5 * MINUTE, ["13:26", "13:28", "13:30", "13:32", "13:34"]),
        (60 * MINUTE, 60 * MINUTE, ["13:00", "13:30", "14:00"]),
        (5 * SECOND, 5 * SECOND, ["13:29:56", "13:29:58", "13:30:00", "13:30:02", "13:30:04"]),
        (24 * 60 * MINUTE, 24 * 60 * MINUTE, ["Sun 22", "12:00", "Mon 23"]),
        (72 * 60 * MINUTE, 72 * 60 * MINUTE, ["Fri 20", "Sat 21", "Sun 22", "Mon 23", "Tue 24", "Wed 25"]),
    ],
)
def test_the_time_axis_has_marks_at_round_times_of_the_readers_zone(
    before: timedelta, after: timedelta, texts: list[str]
) -> None:
    seen = replace(timeline(), start=NOW - before, end=NOW + after)
    marks = draw_timeline(seen, ZoneInfo("Asia/Kolkata")).marks
    assert [mark.text for mark in marks] == texts
    steps = [round(later.x - mark.x, 3) for mark, later in pairwise(marks)]
    assert len(set(steps)) == 1
    assert 0 < marks[0].x < marks[-1].x < WIDTH


def test_many_bars_are_counted_and_a_single_failure_stays_visible() -> None:
    many = [bar(-n * SECOND, -n * SECOND + SECOND, "SUCCEEDED") for n in range(1, 400)]
    [lane] = draw_timeline(timeline(*many, bar(-60 * SECOND, -59 * SECOND, "FAILED")), UTC).lanes
    assert not lane.boxes
    assert len(lane.counts) < 130
    assert [text for _, text in lane.counts if "failed" in text] == ["10 succeeded, 1 failed"]
    assert [tone for tone, _ in lane.paths] == ["bad", "good"]
    outlines = dict(lane.paths)
    assert outlines["bad"].count("M") == 1
    assert outlines["good"].count("M") == len(lane.counts)
    assert part_heights(outlines["bad"]) == [pytest.approx(24 * 0.2 / (0.2 + 10 / 11), abs=0.1)]


def part_heights(outline: str) -> list[float]:
    return [float(height) for height in re.findall(r"v([\d.]+)", outline)]


def test_what_the_database_has_counted_is_drawn_among_the_bars() -> None:
    cell = Cell(NOW - 5 * MINUTE, NOW - 5 * MINUTE + 10 * SECOND, {SUCCEEDED: 3, FAILED: 1})
    few = replace(timeline(bar(-2 * MINUTE, -1 * MINUTE, "SUCCEEDED")).lanes[0], cells=(cell,))
    [lane] = draw_timeline(replace(timeline(), lanes=(few,)), UTC).lanes
    assert [(box.tone, box.text) for box in lane.boxes] == [
        ("bad", "3 succeeded, 1 failed"),
        ("good", "DEFAULT.j succeeded after 1 min"),
    ]
    assert lane.summary == "4 succeeded, 1 failed"
    many = replace(few, cells=(replace(cell, states={SUCCEEDED: 300_000, FAILED: 1}),))
    [lane] = draw_timeline(replace(timeline(), lanes=(many,)), UTC).lanes
    assert lane.counts == ((30, "300,000 succeeded, 1 failed"), (54, "1 succeeded"))
    outlines = dict(lane.paths)
    assert outlines["bad"].startswith(f"M{WIDTH / 4:.1f} ")
    assert part_heights(outlines["bad"])[0] > 3


def test_the_present_is_marked_only_where_it_is_shown() -> None:
    assert draw_timeline(replace(timeline(), start=NOW - 2 * MINUTE, end=NOW - MINUTE), UTC).now is None


def test_a_year_has_a_box_for_each_day() -> None:
    drawing = draw_year(2028, [date(2028, 2, 29)], [date(2028, 12, 31)], date(2028, 3, 1))
    assert len(drawing.days) == 366
    assert [day.text for day in drawing.days if day.kind] == [
        "Tuesday, 29 February 2028: excluded",
        "Sunday, 31 December 2028: partly excluded",
    ]
    assert [name for name, _ in drawing.months][:3] == ["Jan", "Feb", "Mar"]
    assert len({(day.x, day.y) for day in drawing.days}) == 366


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (60, "1 min"), (601, "10 min"), (3_600, "1 h"), (90_061, "1 d 1 h")],
)
def test_a_span_has_its_two_largest_units(seconds: int, text: str) -> None:
    assert coarse(seconds) == text


def test_times_are_relative_and_exact_in_the_readers_zone() -> None:
    times = Times(lambda: NOW, "Europe/Berlin", "browser")
    assert times.relative(NOW + 90 * SECOND) == "in 1 min 30 s"
    assert times.relative(NOW - SECOND) == "1 s ago"
    assert times.exact(NOW) == "2026-11-22 09:00:00 CET"
    assert times.exact(NOW, "America/New_York") == "2026-11-22 03:00:00 EST"
    assert times.clock(NOW + timedelta(days=1)) == "2026-11-23 09:00:00"
    assert [span_text(value) for value in (None, 0.0, 0.0004, 0.012, 0.412, 3.44, -75.0)] == [
        "–", "0 ms", "<1 ms", "12 ms", "412 ms", "3.4 s", "-1 min 15 s",
    ]  # fmt: skip


def test_instants_in_sentences_are_shown_in_the_readers_zone_and_the_rest_is_escaped() -> None:
    times = Times(lambda: NOW, "Europe/Berlin", "browser")
    text = said(times, "<b> fires at 2026-11-22T10:00:00+00:00, not at 2026-99-99T10:00:00Z.")
    assert text.startswith("&lt;b&gt; fires at <time")
    assert ">2026-11-22 11:00:00 CET</time>, not at 2026-99-99T10:00:00Z." in text


def test_a_graph_of_many_jobs_is_cut() -> None:
    jobs = tuple(UpstreamJob(JobKey(f"{'long' * 20}-{number}")) for number in range(15))
    graph = draw_joins(JobKey("own"), jobs, ())
    assert graph is not None
    assert (len(graph.nodes), graph.beyond) == (13, 3)
    assert all(len(node.label) <= 38 for node in graph.nodes)
    assert max(node.y + 26 for node in graph.nodes) <= graph.height
    assert draw_joins(JobKey("own"), (), ()) is None
