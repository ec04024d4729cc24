"""What the fuzzers start from: the conformance cases, the examples of the documentation, and a few of their own."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.conformance.loading import family

_ROOT = Path(__file__).resolve().parents[2]
_CASES = _ROOT / "tests" / "conformance" / "cases"
_ENOUGH = 1_000


@lru_cache
def cron() -> list[str]:
    cases = [*family(_CASES, "cron_valid"), *family(_CASES, "cron_invalid"), *family(_CASES, "cron_trigger")]
    return sorted({case["expr"] for case in cases if len(case["expr"]) <= 300})[:: max(1, len(cases) // _ENOUGH)]


@lru_cache
def zones() -> list[str]:
    return sorted({case["zone"] for case in family(_CASES, "cron_valid")})


def examples(language: str) -> list[str]:
    """The examples in that language of all pages."""
    blocks = re.compile(rf"^```{language}\n(.*?)^```", re.S | re.M)
    return [block for page in sorted(_ROOT.glob("docs/**/*.md")) for block in blocks.findall(page.read_text())]


CRONTAB = [
    "*/5 * * * *", "0 0 * * *", "0 2 * * mon-fri", "15,45 9-17 1,15 * *", "0 0 29 2 *", "0 0 l * *", "0 0 * * 5#3",
    "0 0 * * l5", "* * * * * */10", "@daily", "@hourly", "@yearly", "0 12 1-7 * 1", "5/10 * * * 7", "0 0 13 * 5",
    "30 2 * 3,10 0", "H H(0-6) * * H", "H/15 H(9-17)/2 * * *", "0 0 L-3,LW,15W * FRIL", "0 0 L-2W january Sunday",
    "*/20 58-1 23-3/2 ? * 5-7", "0 0 13 * 5#2,1#3", "@midnight", "@every 5m", "0 0 1-31/2 */3 1-7/2",
]  # fmt: skip

RECURRENCE = [
    "FREQ=DAILY", "FREQ=MONTHLY;BYDAY=-1FR", "RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;WKST=SU",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "FREQ=DAILY;COUNT=10", "FREQ=DAILY;UNTIL=20301231T235959Z",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "FREQ=HOURLY;INTERVAL=5;BYHOUR=9,17",
    "FREQ=SECONDLY;INTERVAL=90", "FREQ=YEARLY;BYWEEKNO=53;BYDAY=SU", "FREQ=YEARLY;BYYEARDAY=-1,100",
    "RRULE:FREQ=DAILY\nEXRULE:FREQ=WEEKLY;BYDAY=SA,SU\nEXDATE:20260101T000000Z",
    "RDATE;TZID=Europe/Berlin:20300101T120000\nRDATE;VALUE=DATE:20300201",
    "FREQ=MINUTELY;BYSECOND=0,30;BYMINUTE=1;BYHOUR=2;BYMONTH=1", "FREQ=MONTHLY;BYMONTHDAY=31;INTERVAL=12",
]  # fmt: skip

DATA = [
    '{"text": "ü", "n": 1, "f": 1.5, "t": true, "none": null, "list": [1, [2]], "map": {"a": {"b": 1}}}',
    '{"at": {"$datetime": "2026-03-29T12:00:00+00:00"}, "day": {"$date": "2026-01-01"}, "t": {"$time": "01:02:00"}}',
    '{"span": {"$timedelta": -86399999997}, "price": {"$decimal": "1.50"}, "big": {"$float": "1e+22"}}',
    '{"id": {"$uuid": "00000000-0000-0000-0000-000000000007"}, "raw": {"$bytes": "AP8="}, "p": {"$tuple": [1, 2]}}',
    '{"looks": {"$object": {"$datetime": "not one"}}, "c": {"$enum": ["tests.fuzz.values:Colour", "RED"]}}',
    '{"p": {"$dataclass": ["tests.fuzz.values:Point", {"x": 3, "at": {"$datetime": "2026-03-29T12:00:00+00:00"}}]}}',
    '{"deep": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}',
    "{}", "null", "[1]", "{",
]  # fmt: skip

CONFIG = [
    '[quartzpy]\nurl = "postgresql+psycopg://app@db/app"\nname = "billing"\nworkers = 20\nmisfire_threshold = "2m"\n',
    '[quartzpy]\nexecutors = { cpu = "processes:4", io = "asyncio:5"}\ntuning.execution_groups = { a = 2, "*" = 10 }\n',
    '[quartzpy]\nlabels = ["gpu", "eu"]\njob_modules = ["b.job"]\nhistory_retention = "none"\ndatabase.pooled = true\n',
    '[quartzpy]\nschema = "b"\n[quartzpy.tuning]\nfailure_window = "60s"\n[quartzpy.metrics]\nport = 1\n',
    '[quartzpy]\nworkers = 1\nworkers = 2\n', "[tool.quartzpy]\nworkers = 1\n", "quartzpy = 3\n", "",
]  # fmt: skip

# Without the prefix that all of them have.
ENVIRONMENT = {
    "NAME": "billing", "WORKERS": "20", "EXECUTORS": "cpu=processes:4,io=threads:20",
    "EXECUTION_GROUPS": "reports=2,*=10", "LABELS": "gpu,eu", "LOOK_AHEAD": "500ms",
    "HISTORY_RETENTION": "none", "POOLED": "true", "SCHEMA": "billing",
    "JOB_MODULES": "billing.jobs,billing.reports", "WROKERS": "3", "PORT": "tcp://x:1",
    "FAILURE_WINDOW": "60s", "MAX_JOB_DATA_BYTES": "1000", "URL": "postgresql://a:b@c/d",
}  # fmt: skip

DECLARED_TOML = [
    '[[job]]\ntype = "known"\nname = "nightly-report"\ndata = { region = "eu" }\ntimeout = "30m"\n'
    'retry = { attempts = 3, delay = "1m" }\n  [[job.trigger]]\n  kind = "cron"\n  expression = "0 0 2 ? * MON-FRI"\n'
    '  time_zone = "Europe/Berlin"\n',
    '[[job]]\ntype = "known"\nname = "a"\ndurable = true\nmax_concurrent = 2\nwhen_full = "skip"\nrequires = ["gpu"]\n'
    '[[job.trigger]]\nkind = "simple"\ninterval = "5s"\nrepeat_count = 3\nstart_time = 2030-01-01T00:00:00Z\n',
    '[[job]]\ntype = "known"\nname = "b"\nargs = [1, 2]\nkwargs = { a = 1 }\n'
    '[[job.trigger]]\nkind = "calendar_interval"\ninterval = 2\nunit = "month"\nmisfire_threshold = "1h"\n'
    '[[job.trigger]]\nname = "c"\nkind = "recurrence"\nrule = "FREQ=DAILY"\npriority = 7\ncalendar = "holidays"\n',
    '[[job]]\ntype = "known"\nname = "d"\n[[job.trigger]]\nkind = "daily_time_interval"\ninterval = 90\n'
    'unit = "minute"\ndays_of_week = [2, 3]\nstart_time_of_day = 08:00:00\nend_time_of_day = 17:00:00\n'
    'misfire = "fire_all"\ncatch_up_max = 3\ncatch_up_within = "1d"\n',
    "job = []\n",
]  # fmt: skip

DECLARED_YAML = [
    "job:\n  - type: known\n    name: nightly-report\n    data: {region: eu}\n    timeout: 30m\n"
    "    retry: {attempts: 3, delay: 1m}\n    trigger:\n      - kind: cron\n        expression: 0 0 2 ? * MON-FRI\n",
    "job:\n- {type: known, name: a, durable: true, data: &d {when: 2030-01-01T00:00:00Z, day: 2030-01-01}}\n"
    "- {type: known, name: b, data: *d}\n",
    "job: [{type: known, name: c, data: {n: 0b11, o: 0o17, s: 1:30:00, x: !!binary aGk=, y: ~, <<: {z: .inf}}}]\n",
    "job: []\n",
]  # fmt: skip

SCHEDULES = [
    ("cron", {"expression": "0 0 12 * * ?", "time_zone": "UTC", "dialect": "quartz", "dst": "once"}),
    ("cron", {"expression": "*/5 * * * *", "time_zone": "Europe/Berlin", "dialect": "crontab", "dst": "once"}),
    ("simple", {"interval_us": 1_000_000, "repeat_count": None}),
    ("recurrence", {"rule": "FREQ=DAILY", "time_zone": "UTC"}),
]  # fmt: skip


@lru_cache
def schedules() -> list[str]:
    """Stored schedules with their kinds, as JSON: of every kind one at least."""
    from tests.fuzz.values import triggers

    return [json.dumps([trigger.kind, trigger.schedule()]) for trigger in triggers()]


@lru_cache
def calendars() -> list[str]:
    from quartzpy.calendars.registry import calendar_to_json
    from tests.fuzz.values import calendars as made

    return [json.dumps(calendar_to_json(calendar)) for calendar in made()]


def words(texts: list[str], more: tuple[str, ...] = ()) -> list[str]:
    """The words and signs of these texts: pieces that mean something to their parser."""
    found: set[str] = set(more)
    for text in texts[:300]:
        found.update(re.findall(r"\w+|[^\w\s]|\s", text))
    return sorted(found)


Json = dict[str, Any]
