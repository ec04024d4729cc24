"""`quartzpy cron`: the next times, the words, and a caret under what is wrong."""

from __future__ import annotations

import json

import pytest

from quartzpy.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["cron", *arguments])
    out, err = capsys.readouterr()
    code = ended.value.code
    return (code if isinstance(code, int) else 0), out, err


def test_the_next_times_in_words_and_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("0 0/15 9-17 ? * MON-FRI", "--zone", "Europe/Berlin", "-n", "3", "--after", "2026-03-27T17:20")
    assert run(capsys, *arguments) == (
        0,
        "every 15 minutes from 09:00 to 17:59, Monday to Friday (Europe/Berlin)\n"
        "Fri 2026-03-27 17:30:00 CET   2026-03-27T16:30:00Z\n"
        "Fri 2026-03-27 17:45:00 CET   2026-03-27T16:45:00Z\n"
        "Mon 2026-03-30 09:00:00 CEST   2026-03-30T07:00:00Z\n",
        "",
    )


def test_times_before_an_instant_and_an_end_of_times(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "0 0 0 29 2 ?", "--before", "2026-01-01", "-n", "1")
    assert out.splitlines()[1:] == ["Thu 2024-02-29 00:00:00 UTC"]
    _, out, _ = run(capsys, "0 0 0 30 2 ?")
    assert out.splitlines()[1:] == ["no further times"]


def test_the_policy_of_daylight_saving_shows(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("0 30 2 * * ?", "--zone", "Europe/Berlin", "--after", "2026-03-28T12:00", "-n", "1")
    assert "2026-03-29 03:00:00 CEST" in run(capsys, *common)[1]
    assert "2026-03-30 02:30:00 CEST" in run(capsys, *common, "--dst", "quartz")[1]


def test_a_crontab_line(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--crontab", "@daily", "-n", "2", "--after", "2026-01-01T00:00Z")
    assert out.splitlines()[1:] == ["Fri 2026-01-02 00:00:00 UTC", "Sat 2026-01-03 00:00:00 UTC"]


def test_five_fields_and_aliases_are_crontab_lines(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("-n", "1", "--after", "2026-01-01T00:00Z", "--zone", "+02:00")
    assert run(capsys, "30 2 * * 1", *common) == (
        0,
        "at 02:30, Monday (+02:00)\nMon 2026-01-05 02:30:00 UTC+02:00   2026-01-05T00:30:00Z\n",
        "",
    )
    assert run(capsys, "@daily", *common)[1].startswith("at 00:00 (+02:00)\n")
    seconds = run(capsys, "--crontab", "15 30 2 * * 1", *common)[1]
    assert seconds.startswith("at 02:30:15, Monday (+02:00)\n")


def test_both_day_fields_and_hashed_values(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("-n", "1", "--after", "2026-05-01T00:00Z")
    assert "Fri 2026-05-08" in run(capsys, "0 0 13 * fri", *common)[1]
    assert "Fri 2026-11-13" in run(capsys, "0 0 13 * fri", "--day-and", *common)[1]
    assert "Wed 2026-05-13" in run(capsys, "0 0 0 13 * SUN", "--day-or", "-n", "3", "--after", "2026-05-04")[1]
    assert "at 00:18 (UTC)" in run(capsys, "H 0 * * *", "--seed", "x", *common)[1]
    assert "'H' is a value that is derived from a seed" in run(capsys, "H 0 * * *", *common)[2]


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("5-5 * * * *", "croniter reads this line differently: it has Thu 2026-01-01 00:01:00 where quartzpy has Thu"),
        ("0 0 15 * 5#2", "croniter finds no time at all"),
        ("0 0 L-3 * *", "croniter does not accept this line"),
        ("0 0 29 2 *", ""),
        ("*/5 * * * *", ""),
        ("H H * * *", ""),
    ],
)
def test_a_line_that_croniter_reads_differently_is_pointed_out(
    capsys: pytest.CaptureFixture[str], line: str, note: str
) -> None:
    status, out, err = run(capsys, line, "-n", "1", "--seed", "x")
    assert status == 0
    assert len(out.splitlines()) == 2
    assert err.startswith(f"note: {note}" if note else "")
    assert bool(err) == bool(note)


def test_json_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "0 0 12 * * ?", "--json", "-n", "1", "--after", "2026-01-01T13:00Z")
    assert json.loads(out) == {
        "expression": "0 0 12 * * ?",
        "zone": "UTC",
        "description": "at 12:00 (UTC)",
        "times": ["2026-01-02T12:00:00+00:00"],
    }


@pytest.mark.parametrize(
    ("expression", "place", "message"),
    [
        ("0 60 9-17 ? * MON-FRI", 2, "minutes field '60': allowed 0-59"),
        ("0 0 9 ? * MOO", 10, "day-of-week field 'MOO': 'MOO' is not a name here; allowed 1-7 or SUN-SAT"),
        ("0 0 0 ? * 6#6", 12, "after '#' allowed 1-5"),
        ("*/5 * * *", 9, "expected 6 or 7 fields (got 4)"),
        ("0 0 30 2 *", 4, "day-of-month field '30': no day of any of these months matches"),
    ],
)
def test_a_bad_expression_has_a_caret_under_the_place(
    capsys: pytest.CaptureFixture[str], expression: str, place: int, message: str
) -> None:
    status, out, err = run(capsys, expression)
    assert (status, out) == (2, "")
    shown, caret, said, *_ = err.splitlines()
    assert shown == expression
    assert caret == " " * place + "^"
    assert message in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("0 0 12 * * ?", "--zone", "Nowhere"), "'Nowhere' is not known"),
        (("0 0 12 * * ?", "--after", "tomorrow"), "an instant such as 2026-03-29T01:00"),
        (("0 0 12 * * ?", "--after", "2026-01-01", "--before", "2026-01-01"), "cannot be used together"),
        (("--crontab", "99 * * * *"), "minutes field '99': allowed 0-59"),
        (("0 30 2 * * *",), "use --crontab to read six fields as a crontab line that starts with seconds"),
    ],
)
def test_other_bad_input(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert message in err
