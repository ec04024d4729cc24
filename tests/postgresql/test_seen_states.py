"""A trigger that waits for a slot of its job is BLOCKED to everyone who asks, whatever its row says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import combinations, product
from random import Random
from typing import Any

import psycopg
import pytest

from quartzpy import Scheduler
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.views.agenda import Agenda
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.states import PUBLIC, STORED_STATES, ExecutionState, PublicState, TriggerState
from quartzpy.store.postgresql import execution_pages, trigger_pages
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import SlotUsage
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.queries import ExecutionQuery, Position, RecordQuery, TriggerOrder, TriggerQuery
from tests.postgresql.conftest import NAME

Connect = Callable[[], psycopg.Connection[Any]]
WAITING, BLOCKED, PAUSED, PAUSED_BLOCKED, COMPLETE, ERROR = (
    TriggerState.WAITING,
    TriggerState.BLOCKED,
    TriggerState.PAUSED,
    TriggerState.PAUSED_BLOCKED,
    TriggerState.COMPLETE,
    TriggerState.ERROR,
)
FIRES = (WAITING, BLOCKED)
HOUR = timedelta(hours=1)
MANY = 1_000


@dataclass(frozen=True)
class JobRow:
    name: str
    limit: int | None = None
    policy: str = "block"

    @property
    def key(self) -> JobKey:
        return JobKey(self.name)


@dataclass(frozen=True)
class TriggerRow:
    name: str
    job: JobRow
    state: TriggerState
    next_fire_time: datetime | None
    concurrency_key: str = ""
    priority: int = 5
    group: str = "DEFAULT"

    @property
    def key(self) -> TriggerKey:
        return TriggerKey(self.name, self.group)


@dataclass
class Rows:
    """The rows of a scheduler, and what follows from them."""

    triggers: list[TriggerRow] = field(default_factory=list)
    running: Counter[tuple[JobRow, str]] = field(default_factory=Counter)
    """The numbers of running executions by job and concurrency key."""

    @property
    def jobs(self) -> set[JobRow]:
        return {row.job for row in self.triggers} | {job for job, _ in self.running}

    def is_full(self, job: JobRow, concurrency_key: str) -> bool:
        return job.policy == "block" and job.limit is not None and self.running[job, concurrency_key] >= job.limit

    def seen(self, row: TriggerRow) -> TriggerState:
        if row.job.policy != "block" or row.state in (COMPLETE, ERROR):
            return row.state
        if self.is_full(row.job, row.concurrency_key):
            return PAUSED_BLOCKED if row.state is PAUSED else BLOCKED
        return WAITING if row.state is BLOCKED else row.state

    def in_state(self, *states: TriggerState) -> list[TriggerRow]:
        return [row for row in self.triggers if self.seen(row) in states]

    def keys(self, *states: TriggerState) -> set[TriggerKey]:
        return {row.key for row in self.in_state(*states)}


JOBS = """
INSERT INTO qrtz_job_details (sched_name, job_group, job_name, job_type, is_durable, max_concurrent, overlap_policy,
    persists_data, requests_recovery)
VALUES (%s, 'DEFAULT', %s, %s, true, %s, %s, false, false)
"""
TRIGGERS = """
INSERT INTO qrtz_triggers (sched_name, trigger_group, trigger_name, job_group, job_name, job_type, max_concurrent,
    overlap_policy, concurrency_key, kind, schedule, trigger_state, next_fire_time, upcoming_is_complete, generation,
    start_time, priority, misfire_instruction, misfire_threshold)
VALUES (%(sched)s, %(group)s, %(name)s, 'DEFAULT', %(job)s, %(type)s, %(limit)s, %(policy)s, %(key)s, 'simple', '{}',
    %(state)s, %(next)s, true, 1, now(), %(priority)s, 'smart', %(threshold)s)
"""
RUNNING = """
INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
    job_type, instance_id, epoch, fired_time, scheduled_time, priority, max_concurrent, concurrency_key,
    requests_recovery)
VALUES (nextval('qrtz_fire_ids'), %s, 'DEFAULT', 'another', 1, 'DEFAULT', %s, %s, 'node', 1, now(), now(),
    5, %s, %s, false)
"""


def write(connection: psycopg.Connection[Any], rows: Rows, scheduler: str = NAME) -> None:
    def job_type(job: JobRow) -> str:
        return f"type-{job.limit}"

    with connection.cursor() as cursor:
        for job in sorted(rows.jobs, key=str):
            cursor.execute(JOBS, [scheduler, job.name, job_type(job), job.limit, job.policy])
        for number, row in enumerate(rows.triggers):
            values = {
                "sched": scheduler,
                "group": row.group,
                "name": row.name,
                "job": row.job.name,
                "type": job_type(row.job),
                "limit": row.job.limit,
                "policy": row.job.policy,
                "key": row.concurrency_key,
                "state": row.state,
                "next": row.next_fire_time,
                "priority": row.priority,
                "threshold": HOUR if number % 3 else None,
            }
            cursor.execute(TRIGGERS, values)
        for (job, key), number in rows.running.items():
            for _ in range(number):
                cursor.execute(RUNNING, [scheduler, job.name, job_type(job), job.limit, key])


def at(hours: float) -> datetime:
    return datetime.now(UTC) + hours * HOUR


def of_each_state(job: JobRow, *, key: str = "", prefix: str = "") -> list[TriggerRow]:
    """Triggers in each state that a row can have, some due, some to come."""
    instants = [at(-1), at(-2), at(2), None, at(4)]
    return [
        TriggerRow(f"{prefix}{state}", job, state, instant, key)
        for state, instant in zip(STORED_STATES, instants, strict=True)
    ]


@pytest.fixture
def connection(connect: Connect) -> psycopg.Connection[Any]:
    return connect()


def states_of(store: SqlJobStore, rows: Rows) -> dict[str, TriggerState]:
    found = store.triggers([row.key for row in rows.triggers])
    return {key.name: record.state for key, record in found.items()}


@pytest.mark.parametrize("limit", [1, 3])
def test_the_triggers_of_a_job_at_its_limit_are_blocked(
    store: SqlJobStore, connection: psycopg.Connection[Any], limit: int
) -> None:
    job = JobRow("job", limit)
    rows = Rows(of_each_state(job), Counter({(job, ""): limit}))
    write(connection, rows)
    assert states_of(store, rows) == {
        "WAITING": BLOCKED,
        "BLOCKED": BLOCKED,
        "PAUSED": PAUSED_BLOCKED,
        "COMPLETE": COMPLETE,
        "ERROR": ERROR,
    }
    assert_all_agree(store, connection, rows)


@pytest.mark.parametrize(("limit", "running"), [(1, 0), (3, 2)])
def test_no_trigger_of_a_job_below_its_limit_is_blocked(
    store: SqlJobStore, connection: psycopg.Connection[Any], limit: int, running: int
) -> None:
    job = JobRow("job", limit)
    rows = Rows(of_each_state(job), Counter({(job, ""): running} if running else {}))
    write(connection, rows)
    assert states_of(store, rows) == {
        "WAITING": WAITING,
        "BLOCKED": WAITING,
        "PAUSED": PAUSED,
        "COMPLETE": COMPLETE,
        "ERROR": ERROR,
    }
    assert_all_agree(store, connection, rows)


@pytest.mark.parametrize("policy", ["skip", "buffer_one", "cancel_other"])
def test_the_rows_of_other_policies_say_who_waits(
    store: SqlJobStore, connection: psycopg.Connection[Any], policy: str
) -> None:
    job = JobRow("job", 1, policy)
    rows = Rows(of_each_state(job), Counter({(job, ""): 1}))
    write(connection, rows)
    assert states_of(store, rows) == {str(state): state for state in STORED_STATES}
    assert_all_agree(store, connection, rows)


def test_each_concurrency_key_has_a_limit_of_its_own(store: SqlJobStore, connection: psycopg.Connection[Any]) -> None:
    job = JobRow("job", 1)
    rows = Rows(
        [*of_each_state(job, key="x", prefix="x-"), *of_each_state(job, key="y", prefix="y-")],
        Counter({(job, "x"): 1}),
    )
    write(connection, rows)
    states = states_of(store, rows)
    assert (states["x-WAITING"], states["y-WAITING"]) == (BLOCKED, WAITING)
    assert (states["x-BLOCKED"], states["y-BLOCKED"]) == (BLOCKED, WAITING)
    assert_all_agree(store, connection, rows)


def test_the_limit_of_the_trigger_decides(store: SqlJobStore, connection: psycopg.Connection[Any]) -> None:
    """A transaction may have stored it before the job got another limit."""
    job = JobRow("job", 1)
    rows = Rows([TriggerRow("mine", job, WAITING, at(1)), TriggerRow("other", job, WAITING, at(1))])
    rows.running[job, ""] = 1
    write(connection, rows)
    connection.execute("UPDATE qrtz_triggers SET max_concurrent = 2 WHERE trigger_name = 'other'")
    assert states_of(store, rows) == {"mine": BLOCKED, "other": WAITING}


def test_a_trigger_without_a_limit_does_not_wait(store: SqlJobStore, connection: psycopg.Connection[Any]) -> None:
    rows = Rows(of_each_state(JobRow("job")))
    write(connection, rows)
    assert_all_agree(store, connection, rows)


def random_rows(random: Random) -> Rows:
    jobs = [
        JobRow(f"job-{number}", random.choice([None, 1, 1, 2, 3]), random.choice(["block", "block", "block", "skip"]))
        for number in range(5)
    ]
    rows = Rows()
    for number in range(40):
        state = random.choice(STORED_STATES)
        # All instants differ by more than the time that the test takes, or are the same.
        instant = (
            None if state is COMPLETE else at(0).replace(second=0, microsecond=0) + random.choice(range(-5, 6)) * HOUR
        )
        row = TriggerRow(
            f"t{number:02}",
            random.choice(jobs),
            state,
            instant and instant + timedelta(minutes=2),
            random.choice(["", "", "k"]),
            random.choice([4, 5]),
            random.choice(["DEFAULT", "other"]),
        )
        rows.triggers.append(row)
    for job, key in product(jobs, ["", "k"]):
        if job.limit is not None and (running := random.choice(range(job.limit + 1))):
            rows.running[job, key] = running
    return rows


@pytest.fixture(params=["few", "in few ranges", "many"])
def examines(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triggers that an index finds in no order are sorted if they are few, and walked over if they are many.

    Those in few ranges of the index, as in this test, are walked over by a page in the order of next fire times.
    """
    if request.param == "few":
        monkeypatch.setattr(trigger_pages, "FEW_RANGES", 0)
    if request.param == "many":
        for module in (trigger_pages, execution_pages):
            monkeypatch.setattr(module, "FEW", 1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("examines")
def test_all_reads_agree(store: SqlJobStore, connection: psycopg.Connection[Any], seed: int) -> None:
    random = Random(seed)
    rows = random_rows(random)
    write(connection, rows)
    if seed % 2:
        # Those of another scheduler have the same names.
        write(connection, random_rows(random), "another")
    assert_all_agree(store, connection, rows)


def assert_all_agree(store: SqlJobStore, connection: psycopg.Connection[Any], rows: Rows) -> None:
    """Compare what every read tells with what follows from the rows."""
    by_key = {row.key: row for row in rows.triggers}
    assert {key: record.state for key, record in store.triggers(list(by_key)).items()} == {
        key: rows.seen(row) for key, row in by_key.items()
    }
    for states, order in product(_sets_of_states(), TriggerOrder):
        for among in (None, 3):
            _assert_page(store, rows, TriggerQuery(states=states, order=order, among=among))
    for job in rows.jobs:
        _assert_page(store, rows, TriggerQuery(states=frozenset({WAITING, PAUSED}), job_key=job.key))
        _assert_scheduled(store, rows, ExecutionQuery(frozenset({ExecutionState.SCHEDULED}), job_key=job.key))
    _assert_scheduled(store, rows, ExecutionQuery(frozenset({ExecutionState.SCHEDULED})))
    for row in rows.triggers[:10]:
        _assert_scheduled(store, rows, ExecutionQuery(frozenset({ExecutionState.SCHEDULED}), trigger_key=row.key))
    _assert_numbers(store, rows)
    _assert_load(store, rows)
    _assert_agenda(store, rows)
    _assert_views(connection, rows)


def _sets_of_states() -> list[frozenset[TriggerState]]:
    public = [frozenset(state for state in TriggerState if PUBLIC[state] is of) for of in PublicState]
    several = [frozenset(FIRES), frozenset({WAITING, BLOCKED}), frozenset({ERROR, PAUSED}), frozenset(TriggerState)]
    single = [frozenset(states) for states in combinations(TriggerState, 1)]
    return [states for states in {*public, *several, *single} if states]


def _pages(store: SqlJobStore, query: RecordQuery[Any]) -> list[Any]:
    """All records of a query, five a page."""
    found: list[Any] = []
    after: Position | None = None
    while True:
        page = admin(store).find(query, 5, after)
        found += page
        if len(page) == 5:
            after = query.position(page[-1])
        else:
            after = admin(store).last_examined(query, after)  # type: ignore[arg-type]
        if after is None:
            return found


def _assert_page(store: SqlJobStore, rows: Rows, query: TriggerQuery) -> None:
    expected = [
        row
        for row in rows.triggers
        if (query.states is None or rows.seen(row) in query.states) and query.job_key in (None, row.job.key)
    ]
    records = _pages(store, query)
    assert [(record.key, record.state) for record in records] == [
        (row.key, rows.seen(row)) for row in sorted(expected, key=lambda row: _place(query, row))
    ], query
    if query.among is None:
        assert admin(store).count(query) == len(expected), query


def _place(query: TriggerQuery, row: TriggerRow) -> tuple[Any, ...]:
    of_key = row.group, row.name
    if query.order is TriggerOrder.KEY:
        return of_key
    return row.next_fire_time or datetime.max.replace(tzinfo=UTC), -row.priority, *of_key


def _assert_scheduled(store: SqlJobStore, rows: Rows, query: ExecutionQuery) -> None:
    expected = [
        row
        for row in rows.in_state(WAITING)
        if query.job_key in (None, row.job.key) and query.trigger_key in (None, row.key)
    ]
    found = _pages(store, query)
    in_order = sorted(expected, key=lambda row: (row.next_fire_time, row.group, row.name))
    assert [record.trigger_key for record in found] == [row.key for row in in_order], query
    assert admin(store).count(query) == len(expected)


def _assert_numbers(store: SqlJobStore, rows: Rows) -> None:
    for most in (MANY, 1):
        tallies = admin(store).tallies(most)
        found = {state: min(number, most + 1) for state, number in tallies.triggers.items()}
        numbers = Counter(map(rows.seen, rows.triggers))
        expected = {state: min(number, most + 1) for state, number in numbers.items()}
        if most == MANY:
            assert found == expected
            overdue = [row for row in rows.in_state(PAUSED) if row.next_fire_time and row.next_fire_time < at(0)]
            assert tallies.overdue_paused == len(overdue)
        else:
            # A number of few is one of the first rows only.
            assert all(number <= expected.get(state, 0) for state, number in found.items())
    assert {
        (usage.job_key.name, usage.concurrency_key): (usage.limit, usage.executing, usage.blocked)
        for usage in admin(store).slot_usage(MANY)
    } == _slots(rows)


def _slots(rows: Rows) -> dict[tuple[str, str], tuple[int, int, int]]:
    blocked = Counter(
        (row.job, row.concurrency_key) for row in rows.in_state(BLOCKED, PAUSED_BLOCKED) if row.job.limit is not None
    )
    return {
        (job.name, key): (job.limit or 0, rows.running[job, key], blocked[job, key])
        for job, key in {*rows.running, *blocked}
    }


def _assert_load(store: SqlJobStore, rows: Rows) -> None:
    now = at(0)

    def due(of: Sequence[TriggerRow]) -> list[datetime]:
        return [row.next_fire_time for row in of if row.next_fire_time is not None and row.next_fire_time <= now]

    load = store.cluster_load()
    waiting = due(rows.in_state(WAITING))
    assert (load.due, load.late) == (len(waiting), len(due(rows.in_state(*FIRES))))
    assert (load.longest_due is None) == (not waiting)
    if load.longest_due is not None:
        assert abs(load.longest_due - (now - min(waiting))) < timedelta(minutes=1)


def _assert_agenda(store: SqlJobStore, rows: Rows) -> None:
    now = at(0)
    agenda = Agenda(BatchedReads(lambda: store), now, now + 24 * HOUR, MANY)
    coming = {row.key for row in rows.in_state(*FIRES) if row.next_fire_time is not None and row.next_fire_time >= now}
    assert {record.key for _, record in agenda.fires()} == coming


def _assert_views(connection: psycopg.Connection[Any], rows: Rows) -> None:
    def look(columns: str, view: str) -> set[tuple[Any, ...]]:
        query = f"SELECT {columns} FROM qrtz_{view} WHERE sched_name = '{NAME}'"
        return set(connection.execute(query.encode()).fetchall())

    def named(of: Sequence[TriggerRow]) -> set[tuple[str, str]]:
        return {(row.group, row.name) for row in of}

    def late(of: Sequence[TriggerRow]) -> list[TriggerRow]:
        return [row for row in of if row.next_fire_time is not None and row.next_fire_time < at(0)]

    full = {(job.name, key, job.limit, number) for (job, key), number in rows.running.items() if rows.is_full(job, key)}
    assert look("job_name, concurrency_key, max_concurrent, executing", "full_jobs") == full
    assert look("trigger_group, trigger_name", "due_now") == named(late(rows.in_state(WAITING)))
    states = {(row.group, row.name, str(rows.seen(row))) for row in late(rows.in_state(*FIRES))}
    assert look("trigger_group, trigger_name, trigger_state", "late") == states
    coming = [row for row in rows.in_state(*FIRES) if row.next_fire_time is not None and row.next_fire_time >= at(0)]
    assert look("trigger_group, trigger_name", "next_24h") == named(coming)


def test_the_explanation_of_a_trigger_names_the_limit(
    store: SqlJobStore, connection: psycopg.Connection[Any], postgres_dsn: str
) -> None:
    job = JobRow("job", 1)
    triggers = [TriggerRow("mine", job, WAITING, at(-1)), TriggerRow("paused", job, PAUSED, at(-1))]
    write(connection, Rows(triggers, Counter({(job, ""): 1})))
    scheduler = Scheduler(postgres_dsn, name=NAME)
    assert scheduler.why(TriggerKey("mine"))[0].startswith("Its job is at its concurrency limit;")
    assert "its job is also at its concurrency limit" in scheduler.why(TriggerKey("paused"))[0]
    assert scheduler.trigger_state(TriggerKey("mine")) is PublicState.BLOCKED
    scheduler.shutdown()


ENDED = """
INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
    job_type, instance_id, fired_time, scheduled_time, ended_at, outcome, attempt, retry_at)
VALUES (77, %s, 'DEFAULT', 'first', 1, 'DEFAULT', 'job', 'type', 'node', now(), now(), now(), 'FAILED', 1, now())
"""


@pytest.mark.parametrize("running", [0, 1])
def test_a_retry_that_waits_for_a_slot_is_not_scheduled(
    store: SqlJobStore, connection: psycopg.Connection[Any], running: int
) -> None:
    job = JobRow("job", 1)
    retry = TriggerRow("retry_1_77", job, WAITING, at(-1), group="RETRYING_JOBS")
    write(connection, Rows([retry], Counter({(job, ""): running} if running else {})))
    connection.execute(ENDED, [NAME])
    states = [record.state for record in admin(store).attempts([77], 10)[77]]
    scheduled = [] if running else [ExecutionState.SCHEDULED]
    assert states == [ExecutionState.FAILED, *scheduled]


def test_slots_are_reported_with_the_triggers_that_wait(
    store: SqlJobStore, connection: psycopg.Connection[Any]
) -> None:
    job = JobRow("job", 2)
    rows = Rows([TriggerRow(f"t{number}", job, WAITING, at(1)) for number in range(4)], Counter({(job, ""): 2}))
    write(connection, rows)
    assert admin(store).slot_usage(10) == [SlotUsage(job.key, "", 2, 2, 4)]


def test_numbers_of_many_find_the_triggers_of_other_job_types(
    store: SqlJobStore, connection: psycopg.Connection[Any]
) -> None:
    full, other = JobRow("full", 1), JobRow("other", 2)
    rows = Rows(
        [
            *(TriggerRow(f"a{number}", full, WAITING, at(1)) for number in range(50)),
            *(TriggerRow(f"b{number}", other, WAITING, at(2)) for number in range(2)),
        ],
        Counter({(full, ""): 1}),
    )
    write(connection, rows)
    found = admin(store).tallies(1).triggers
    assert found[WAITING] == 2
    assert found[BLOCKED] > 1
