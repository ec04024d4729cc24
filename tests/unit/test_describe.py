"""Cron expressions in plain English."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy import CronExpression, CrontabExpression


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 0/15 9-17 ? * MON-FRI", "every 15 minutes from 09:00 to 17:59, Monday to Friday"),
        ("0 0 2 ? * MON-FRI", "at 02:00, Monday to Friday"),
        ("0 0 12 * * ?", "at 12:00"),
        ("30 5 4 * * ?", "at 04:05:30"),
        ("0 0,30 8,9 * * ?", "at 08:00, 08:30, 09:00 and 09:30"),
        ("* * * * * ?", "every second"),
        ("0 * * * * ?", "every minute"),
        ("0/5 * * * * ?", "every 5 seconds"),
        ("10 0/5 * * * ?", "at second 10 of every 5 minutes"),
        ("0 0 * * * ?", "every hour"),
        ("0 5 * * * ?", "every hour at minute 5"),
        ("30 5 * * * ?", "every hour at minute 5 and second 30"),
        ("0 0 0/2 * * ?", "every 2 hours"),
        ("0 0 1/2 * * ?", "every 2 hours from 01:00"),
        ("0 30 10-13 ? * WED,FRI", "every hour from 10:30 to 13:30, Wednesday and Friday"),
        ("0 15 22-2 ? * FRI-MON", "every hour from 22:15 to 02:15, Friday to Monday"),
        ("0 0-10 5 * * ?", "every minute from 05:00 to 05:10"),
        ("* 5 3 * * ?", "every second from 03:05 to 03:05:59"),
        (
            "0 10,40 8-17/3 ? JAN-MAR *",
            "at minutes 10 and 40 of every 3rd hour from 08:00 to 17:59, in January to March",
        ),
        ("0 0 0 L * ?", "at 00:00, on the last day of the month"),
        ("0 0 0 L-1 * ?", "at 00:00, on the last day but one of the month"),
        ("0 0 0 LW * ?", "at 00:00, on the last weekday (Monday to Friday) of the month"),
        ("0 0 0 15W * ?", "at 00:00, on the weekday (Monday to Friday) nearest to day 15 of the month"),
        ("0 0 0 ? * 6#3", "at 00:00, on the third Friday of the month"),
        ("0 0 0 ? * 6L", "at 00:00, on the last Friday of the month"),
        ("0 0 0 ? * L", "at 00:00, Saturday"),
        ("0 0 0 */2 * ?", "at 00:00, on every 2nd day of the month"),
        (
            "0 0 8,14 1,15 * ? 2026-2030",
            "at 08:00 and 14:00, on days 1 and 15 of the month, every year from 2026 to 2030",
        ),
        ("0 0 0 ? */3 *", "at 00:00, every 3rd month"),
        # Not "every 5 hours": from 20:00 to the next midnight it is four.
        ("0 0 */5 * * ?", "at 00:00, 05:00, 10:00, 15:00 and 20:00"),
        ("0 30 3/5 * * ?", "at 03:30, 08:30, 13:30, 18:30 and 23:30"),
        ("0 */7 * * * ?", "every 7 minutes from minute 0"),
        ("0 0 0 ? */5 2", "at 00:00, Monday, in January, June and November"),
        ("0 2,4-5 1 * * ?", "at minute 2 and every minute from minute 4 to 5 from 01:00 to 01:59"),
        ("3,5-7 * * * * ?", "at second 3 and every second from second 5 to 7 of every minute"),
        (
            "0 0 0 1W,16 * ?",
            "at 00:00, on day 16 of the month and the weekday (Monday to Friday) nearest to day 1 of the month",
        ),
        ("0 0 0 29 2 ? 2028", "at 00:00, on day 29 of the month, in February, in 2028"),
    ],
)
def test_an_expression_in_words(text: str, words: str) -> None:
    assert CronExpression(text, "Europe/Berlin").describe() == f"{words} (Europe/Berlin)"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("*/5 8-18 * * mon-fri", "every 5 minutes from 08:00 to 18:59, Monday to Friday"),
        ("30 2 * * 7", "at 02:30, Sunday"),
        ("0 0 * * 5-7", "at 00:00, Friday to Sunday"),
        ("0 0 * * 0-7", "at 00:00"),
        ("0 0 ? january-march monday", "at 00:00, Monday, in January to March"),
        ("15 0 0 15 * 5#2", "at 00:00:15, on day 15 of the month or the second Friday of the month"),
        ("0 12 13 * fri", "at 12:00, on day 13 of the month or Friday"),
        ("0 12 */2 * mon", "at 12:00, on every 2nd day of the month, if that is Monday"),
        ("0 12 1-7 * 1-7", "at 12:00"),
        ("0 0 * * 5l,FRIL,l5", "at 00:00, on the last Friday of the month"),
        (
            "0 0 L-1,LW * *",
            "at 00:00, on the last day but one of the month and the last weekday (Monday to Friday) of the month",
        ),
        ("@hourly", "every hour"),
        ("@weekly", "at 00:00, Sunday"),
        ("@yearly", "at 00:00, on day 1 of the month, in January"),
    ],
)
def test_a_crontab_line_in_words(line: str, words: str) -> None:
    assert CrontabExpression(line, "Europe/Berlin").describe() == f"{words} (Europe/Berlin)"


def test_words_for_both_day_fields_and_for_hashed_values() -> None:
    assert CrontabExpression("0 12 13 * fri", day_or=False).describe() == (
        "at 12:00, on day 13 of the month, if that is Friday (UTC)"
    )
    assert CronExpression("0 0 12 13 * FRI", day_or=True).describe() == (
        "at 12:00, on day 13 of the month or Friday (UTC)"
    )
    assert CrontabExpression("H 0 * * *", seed="x").describe() == "at 00:18 (UTC)"


field = st.sampled_from(["*", "0", "5", "0/5", "1-9", "1-9/2", "*/3", "3,7", "3,5-8"])


@given(field, field, field, st.sampled_from(["* * ?", "? * MON", "L 2 ?", "? 1-3 2#1 2027/2", "1-5,9 * ?"]))
def test_every_expression_has_words_that_make_a_sentence(seconds: str, minutes: str, hours: str, days: str) -> None:
    words = CronExpression(f"{seconds} {minutes} {hours} {days}").describe()
    assert words.endswith(" (UTC)")
    assert "  " not in words
    assert ", ," not in words
    assert not words.startswith((" ", ","))
