"""Cron expressions in plain English."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy import CronExpression


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
        ("0 0 0 29 2 ? 2028", "at 00:00, on day 29 of the month, in February, in 2028"),
    ],
)
def test_an_expression_in_words(text: str, words: str) -> None:
    assert CronExpression(text, "Europe/Berlin").describe() == f"{words} (Europe/Berlin)"


field = st.sampled_from(["*", "0", "5", "0/5", "1-9", "1-9/2", "*/3", "3,7", "3,5-8"])


@given(field, field, field, st.sampled_from(["* * ?", "? * MON", "L 2 ?", "? 1-3 2#1 2027/2", "1-5,9 * ?"]))
def test_every_expression_has_words_that_make_a_sentence(seconds: str, minutes: str, hours: str, days: str) -> None:
    words = CronExpression(f"{seconds} {minutes} {hours} {days}").describe()
    assert words.endswith(" (UTC)")
    assert "  " not in words
    assert ", ," not in words
    assert not words.startswith((" ", ","))
