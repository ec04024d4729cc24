"""The layout of listings, as golden texts, and the texts of single values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from quartzpy import JobKey, TriggerKey
from quartzpy.cli.drawing import draw
from quartzpy.cli.formatter import Formatter, cut, instant, padded, short_span, width_of
from quartzpy.errors import SettingsError
from quartzpy.operations import ExecutionSummary, TriggerSummary
from quartzpy.operations.lists.history import EXECUTIONS
from quartzpy.operations.lists.schedule import TRIGGERS
from quartzpy.scheduler.typed_text import FUTURE, PAST
from quartzpy.states import ExecutionState, PublicState, TriggerState

NOW = datetime(2026, 11, 22, 8, 30, 15, tzinfo=UTC)


def trigger(
    name: str, group: str, schedule: str, state: TriggerState = TriggerState.WAITING, **values: object
) -> TriggerSummary:
    given: dict[str, object] = {
        "job": JobKey(f"job-of-{name}", group),
        "job_type": "app.jobs:Report",
        "kind": "cron",
        "state": state,
        "public_state": PublicState.NORMAL,
        "schedule": schedule,
        "words": schedule,
        "zone": "Europe/Berlin",
        "calendar": None,
        "priority": 5,
        "description": None,
        "misfire": "smart",
        "next_fire_time": NOW + timedelta(hours=1),
        "previous_fire_time": None,
        "times_triggered": 12,
        "late": None,
        "error": None,
        "paused_at": None,
        "paused_by": None,
        "pause_reason": None,
        "paused_until": None,
    }
    return TriggerSummary(key=TriggerKey(name, group), **{**given, **values})  # type: ignore[arg-type]


ROWS = [
    trigger("nightly-report", "reports", "0 0 2 ? * MON-FRI"),
    trigger("import-of-all-invoices-of-the-region-eu", "billing", "every 15m", zone=None, times_triggered=1234),
    trigger(
        "broken", "mail", "0 30 4 * * ?", TriggerState.ERROR, next_fire_time=None, error="ValueError: no such region"
    ),
    trigger("報告", "日本", "0 0 9 * * ?", zone="Asia/Tokyo"),
]

GOLDEN = {
    80: """\
TRIGGER                          STATE    SCHEDULE           NEXT (UTC)
reports.nightly-report           WAITING  0 0 2 ? * MON-FRI  2026-11-22 09:30:15
billing.import-…f-the-region-eu  WAITING  every 15m          2026-11-22 09:30:15
mail.broken                      ERROR    0 30 4 * * ?       -
日本.報告                        WAITING  0 0 9 * * ?        2026-11-22 09:30:15
(omitted: job, zone, fired, priority, kind, misfire, error; use a wider
terminal, --columns or --json)
""",
    120: """\
TRIGGER                       JOB                  STATE    SCHEDULE           NEXT (UTC)           ERROR
reports.nightly-report        reports.j…ly-report  WAITING  0 0 2 ? * MON-FRI  2026-11-22 09:30:15  -
billing.import…the-region-eu  billing.j…region-eu  WAITING  every 15m          2026-11-22 09:30:15  -
mail.broken                   mail.job-of-broken   ERROR    0 30 4 * * ?       -                    ValueError: no such…
日本.報告                     日本.job-of-報告     WAITING  0 0 9 * * ?        2026-11-22 09:30:15  -
(omitted: zone, fired, priority, kind, misfire; use a wider terminal, --columns or --json)
""",
}


def drawn(width: int | None, **options: bool) -> str:
    columns = [column for column in TRIGGERS.columns if not column.extra]
    return draw(columns, ROWS, Formatter("UTC"), width=width, **options) + "\n"


@pytest.mark.parametrize("width", [80, 120])
def test_a_listing_at_the_usual_widths(width: int) -> None:
    assert drawn(width) == GOLDEN[width]


def test_each_line_fits_every_width_and_a_file_gets_everything() -> None:
    for width in range(50, 220, 7):
        assert max(map(width_of, drawn(width).splitlines())) <= width
    for width in (20, 30, 40):
        assert max(map(width_of, drawn(width, note=False).splitlines())) <= max(width, 4 * 6 + 3 * 2)
    whole = drawn(None)
    assert "import-of-all-invoices-of-the-region-eu" in whole
    assert "ValueError: no such region" in whole
    assert "omitted" not in whole


def test_columns_without_any_value_take_no_room_on_a_terminal() -> None:
    assert "CALENDAR" not in drawn(200).splitlines()[0]
    assert "CALENDAR" in drawn(None).splitlines()[0], "a program that reads the text finds the same columns always"


def test_states_are_coloured_on_a_terminal_only_and_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[31m" in drawn(80)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in drawn(80)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr("sys.stdout.isatty", lambda: False)
    assert "\x1b" not in drawn(80)


_RUN = EXECUTIONS.chosen("id", "job", "state", "scheduled", "waited", "ran", "attempt", "node", "trigger")


def test_an_execution_in_a_table() -> None:
    one = ExecutionSummary(
        *(7, ExecutionState.FAILED, TriggerKey("t"), JobKey("job"), "app:Job", "app-01", 2),
        *(NOW, NOW, NOW, NOW + timedelta(seconds=90), None),
        *(timedelta(milliseconds=20), timedelta(), timedelta(seconds=90), "ValueError: no such region"),
    )
    assert draw(_RUN, [one], Formatter("UTC")).splitlines() == [
        "ID  JOB          STATE   SCHEDULED (UTC)      WAITED    RAN  ATTEMPT  NODE    TRIGGER",
        " 7  DEFAULT.job  FAILED  2026-11-22 08:30:15    20ms  1m30s        2  app-01  DEFAULT.t",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0, "0s"), (0.0004, "0s"), (0.02, "20ms"), (0.44, "0.4s"), (3, "3s"), (9.99, "10s"), (75, "1m15s")),
        *((3600, "1h"), (3725, "1h2m"), (90061, "1d1h"), (-75, "-1m15s"), (59.7, "1m")),
    ],
)
def test_spans_have_two_units_at_most(seconds: float, text: str) -> None:
    assert short_span(timedelta(seconds=seconds)) == text


def test_an_hour_that_comes_twice_says_which_one_it_is() -> None:
    formatter = Formatter("Europe/Berlin")
    assert formatter.text(datetime(2026, 10, 25, 0, 30, tzinfo=UTC)) == "2026-10-25 02:30:00+02"
    assert formatter.text(datetime(2026, 10, 25, 1, 30, tzinfo=UTC)) == "2026-10-25 02:30:00+01"
    assert formatter.text(datetime(2026, 10, 25, 2, 30, tzinfo=UTC)) == "2026-10-25 03:30:00"
    assert formatter.sentence("It fires at 2026-07-01T10:00:00.5+00:00, in 3 s.\x1b") == (
        "It fires at 2026-07-01 12:00:00 Europe/Berlin, in 3 s.\\x1b"
    )


def test_cells_are_cut_by_the_columns_that_they_take() -> None:
    assert cut("billing.import-invoices", 12, middle=True) == "billin…oices"
    assert cut("billing.import-invoices", 12) == "billing.imp…"
    assert cut("報告報告報告", 7) == "報告報…"
    assert width_of(cut("報告報告報告", 6, middle=True)) <= 6
    assert padded("報告", 6) == "報告  "
    assert width_of("e\u0301") == 1


@pytest.mark.parametrize(
    ("text", "direction", "expected"),
    [
        ("now", PAST, NOW),
        ("2h", PAST, NOW - timedelta(hours=2)),
        ("2h", FUTURE, NOW + timedelta(hours=2)),
        ("-2h", FUTURE, NOW - timedelta(hours=2)),
        ("+2h", PAST, NOW + timedelta(hours=2)),
        ("18:00", PAST, datetime(2026, 11, 22, 17, tzinfo=UTC)),
        ("2026-12-24T18:00", PAST, datetime(2026, 12, 24, 17, tzinfo=UTC)),
        ("2026-12-24T18:00Z", PAST, datetime(2026, 12, 24, 18, tzinfo=UTC)),
        ("tomorrow", PAST, datetime(2026, 11, 22, 23, tzinfo=UTC)),
        ("2026-12-24 18:00+05:00", PAST, datetime(2026, 12, 24, 18, tzinfo=timezone(timedelta(hours=5)))),
    ],
)
def test_instants_of_options(text: str, direction: int, expected: datetime) -> None:
    assert instant(text, "--since", Formatter("Europe/Berlin"), NOW, direction=direction) == expected


@pytest.mark.parametrize("text", ["", "soon", "25:00", "9999999999999d", "2026-13-01"])
def test_an_instant_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="--since"):
        instant(text, "--since", Formatter("UTC"), NOW)
