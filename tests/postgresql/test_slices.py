"""Very many triggers are paused, resumed and deleted in slices: what others see and do between two of them."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.calendars.days import HolidayCalendar
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.errors import StoreUnavailableError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.scheduler.singles import reset_from_error
from quartzpy.states import JobMode, Missed, TriggerState
from quartzpy.store.postgresql import batches, slices, time_off
from quartzpy.store.postgresql.connection.listen import MAX_COMPARED, announcement
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.slice_size import SliceSize
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import (
    EVERYTHING,
    JobEntry,
    JobGroups,
    NamedTriggers,
    Notification,
    PauseNote,
    PauseSubjects,
    RecoveryOutcome,
    TriggerGroups,
    TriggersOfJobs,
)
from quartzpy.store.queries import TriggerQuery
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import PreparedTrigger, prepare
from tests.postgresql.conftest import register
from tests.postgresql.test_faults import LANES, OPENINGS, Connect
from tests.postgresql.test_users_transactions import WAITS, transaction

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
MANY, OTHER = JobKey("many", "of-many"), JobKey("other", "of-other")
COUNT, SLICE = 45, 10
PAUSED, WAITING = TriggerState.PAUSED, TriggerState.WAITING
Between = Callable[[Callable[[int], None]], None]
"""Sets what is called after each slice, with the number of the slice."""


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AT_FIRST": SLICE, "MOST": SLICE, "LEAST": SLICE, "PAGE": 2 * SLICE + 3}.items():
        monkeypatch.setattr(slices, name, value)


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    def set_work(work: Callable[[int], None]) -> None:
        number = 0

        def after_slice(size: SliceSize, seconds: float) -> None:
            nonlocal number
            number += 1
            work(number)

        monkeypatch.setattr(slices, "SliceSize", type("Sized", (SliceSize,), {"adapt": after_slice}))

    return set_work


def trigger(number: int, at: datetime, job: JobKey = MANY) -> PreparedTrigger:
    return prepare(
        SimpleTrigger(f"{job.name}-{number:03}", job.group, job_key=job, start_time=at, interval=HOUR, repeat_count=9),
        datetime.now(UTC),
        None,
    )


def store_many(store: SqlJobStore, *, count: int = COUNT, job: JobKey = MANY, **values: Any) -> None:
    """Store a job with many triggers, of which the last one by name is the soonest."""
    due = datetime.now(UTC) + HOUR
    triggers = [trigger(number, due - number * SECOND, job) for number in range(count)]
    detail = JobDetail(LANES[0].job_type, job.name, job.group, durable=True, **values)
    store.store_jobs([JobEntry(detail, triggers)], replace=True)


def in_state(store: SqlJobStore, state: TriggerState, job: JobKey = MANY) -> list[str]:
    return sorted(record.key.name for record in store.find(TriggerQuery(job_key=job), None) if record.state is state)


def pause_of(subjects: PauseSubjects) -> Callable[[SqlJobStore], object]:
    return lambda store: store.pause(subjects)


OF_GROUP = TriggerGroups(GroupMatcher.equals(MANY.group))
PAUSES: dict[str, Callable[[SqlJobStore], object]] = {
    "job": pause_of(TriggersOfJobs([MANY])),
    "trigger group": pause_of(OF_GROUP),
    "job group": pause_of(JobGroups(GroupMatcher.equals(MANY.group))),
    "groups": pause_of(TriggerGroups(GroupMatcher.ends_with("many"))),
    "everything": pause_of(EVERYTHING),
    "disabled job": lambda store: store.set_mode(MANY, JobMode.DISABLED),
    "manual mode": lambda store: store.set_mode(None, JobMode.MANUAL),
}
RESUMES: dict[str, Callable[[SqlJobStore], object]] = {
    "job": lambda store: store.resume(TriggersOfJobs([MANY])),
    "trigger group": lambda store: store.resume(OF_GROUP),
    "job group": lambda store: store.resume(JobGroups(GroupMatcher.equals(MANY.group))),
    "groups": lambda store: store.resume(TriggerGroups(GroupMatcher.ends_with("many"))),
    "everything": lambda store: store.resume(EVERYTHING),
    "disabled job": lambda store: store.set_mode(MANY, JobMode.ENABLED),
    "manual mode": lambda store: store.set_mode(None, JobMode.ENABLED),
}
REMEMBERED = [what for what in PAUSES if what != "job"]


@pytest.mark.parametrize("what", PAUSES)
def test_a_pause_and_its_end_proceed_in_slices_of_the_soonest(store: SqlJobStore, between: Between, what: str) -> None:
    store_many(store)
    for verb, state in ((PAUSES[what], PAUSED), (RESUMES[what], WAITING)):
        seen: list[list[str]] = []
        between(lambda number, seen=seen, state=state: seen.append(in_state(store, state)))  # type: ignore[misc]
        verb(store)
        names = in_state(store, state)
        assert len(names) == COUNT
        assert [len(some) for some in seen][-1] == COUNT
        assert len(seen) >= COUNT / SLICE
        for some in seen:
            assert some == names[-len(some) :], "those that are due soonest come first"


@pytest.mark.parametrize("what", REMEMBERED)
def test_what_is_stored_between_two_slices_of_a_pause_is_paused_at_once(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], between: Between, what: str
) -> None:
    other = make_store()
    store_many(store)
    states = []

    def store_another(number: int) -> None:
        another = trigger(900 + number, datetime.now(UTC) + 2 * HOUR)
        other.store_jobs([JobEntry(None, [another])], replace=False)
        states.append(other.triggers([another.trigger.key])[another.trigger.key].state)

    between(store_another)
    PAUSES[what](store)
    assert set(states) == {PAUSED}


def test_a_pause_of_a_job_includes_what_is_stored_before_its_end(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], between: Between
) -> None:
    other = make_store()
    store_many(store)

    def store_another(number: int) -> None:
        if number == 1:
            other.store_jobs([JobEntry(None, [trigger(900, datetime.now(UTC) + SECOND)])], replace=False)

    between(store_another)
    PAUSES["job"](store)
    assert len(in_state(store, PAUSED)) == COUNT + 1


INSERT = """
INSERT INTO qrtz_triggers (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type, kind,
    schedule, trigger_state, next_fire_time, start_time, priority, misfire_instruction)
SELECT sched_name, nextval('qrtz_fire_ids'), trigger_group, 'late', job_group, job_name, job_type, kind, schedule,
       'WAITING', next_fire_time, start_time, priority, misfire_instruction
  FROM qrtz_triggers WHERE trigger_name = 'many-000'
"""


def test_a_trigger_whose_storing_has_read_that_nothing_is_paused_is_paused_in_the_end(
    store: SqlJobStore, connect: Connect
) -> None:
    store_many(store, count=SLICE)
    look = connect()
    with ThreadPoolExecutor(1) as thread, transaction(connect) as storing:
        storing.execute("SELECT FROM qrtz_locks WHERE lock_name = 'TRIGGER_ACCESS' FOR UPDATE")
        storing.execute(INSERT)
        paused = thread.submit(store.pause, OF_GROUP)
        while not look.execute(WAITS).fetchone():
            assert not paused.done(), "the mark was committed without the lock"
        storing.execute("COMMIT")
        paused.result(30)
        storing.execute("BEGIN")
    assert len(in_state(store, PAUSED)) == SLICE + 1


def test_a_trigger_that_another_one_replaces_meanwhile_is_left_alone(
    store: SqlJobStore,
    make_store: Callable[..., SqlJobStore],
    between: Between,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last trigger of a job that is paused and deleted is deleted, and its key is given to another job's."""
    # Its key has been read by then.
    monkeypatch.setattr(slices, "PAGE", 2 * COUNT)
    other = make_store()
    store_many(store)
    store_many(store, job=OTHER, count=0)
    key = TriggerKey("many-000", MANY.group)
    at = datetime.now(UTC) + HOUR

    def replace(number: int) -> None:
        if number == 1:
            other.delete_triggers([key])
            another = SimpleTrigger(key.name, key.group, job_key=OTHER, start_time=at)
            other.store_jobs([JobEntry(None, [prepare(another, at, None)])], replace=False)

    between(replace)
    store.pause(TriggersOfJobs([MANY]))
    assert in_state(store, WAITING, OTHER) == [key.name]
    other.delete_triggers([key])
    other.store_jobs([JobEntry(None, [trigger(0, at)])], replace=False)
    between(replace)
    store.delete_jobs([MANY])
    assert in_state(store, WAITING, OTHER) == [key.name]


class CutError(StoreUnavailableError):
    """The connection was lost."""


@pytest.mark.parametrize("what", PAUSES)
def test_an_interrupted_pause_holds_what_it_reached_and_goes_on_when_it_is_repeated(
    store: SqlJobStore, between: Between, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    store_many(store)
    for verb, state in ((PAUSES[what], PAUSED), (RESUMES[what], WAITING)):

        def cut(number: int) -> None:
            if number == 2:
                raise CutError("the connection was lost")

        between(cut)
        with pytest.raises(CutError), caplog.at_level(logging.WARNING):
            verb(store)
        assert len(in_state(store, state)) == 2 * SLICE
        assert "the same call goes on from there" in caplog.text
        if what in REMEMBERED:
            later = trigger(800, datetime.now(UTC) + 3 * HOUR)
            store.store_jobs([JobEntry(None, [later])], replace=False)
            assert store.triggers([later.trigger.key])[later.trigger.key].state is state, "from the first slice on"
            store.delete_triggers([later.trigger.key])
        repeated: list[int] = []
        between(repeated.append)
        verb(store)
        assert len(in_state(store, state)) == COUNT
        # What the first call reached is not read again slice by slice.
        assert len(repeated) <= 1 + -(-(COUNT - 2 * SLICE) // SLICE)


def test_few_triggers_are_paused_and_resumed_together_with_the_pause_of_their_group(
    store: SqlJobStore, between: Between
) -> None:
    store_many(store, count=SLICE)
    numbers: list[int] = []
    between(numbers.append)
    store.pause(OF_GROUP)
    store.resume(OF_GROUP)
    assert numbers == [1, 2]


@pytest.mark.parametrize("verb", [PAUSES["trigger group"], RESUMES["trigger group"]], ids=["pause", "resume"])
def test_a_held_row_is_passed_over_first_and_waited_for_at_the_end(
    make_store: Callable[..., SqlJobStore], connect: Connect, verb: Callable[[SqlJobStore], object]
) -> None:
    store = make_store(lock_timeout="500ms")
    store_many(store)
    state = PAUSED
    if verb is RESUMES["trigger group"]:
        store.pause(OF_GROUP)
        state = WAITING
    soonest = f"many-{COUNT - 1:03}"
    with transaction(connect) as user:
        user.execute("SELECT FROM qrtz_triggers WHERE trigger_name = %s FOR UPDATE", [soonest])
        with pytest.raises(StoreUnavailableError):
            verb(store)
        assert len(in_state(store, state)) == COUNT - 1
    verb(store)
    assert len(in_state(store, state)) == COUNT


@pytest.mark.parametrize("verb", ["pause", "resume", "delete"])
def test_a_row_that_its_holder_writes_is_changed_when_it_is_free(
    store: SqlJobStore, connect: Connect, between: Between, verb: str
) -> None:
    """The last row of all is written by another transaction while the slice with it is executed."""
    store_many(store)
    if verb == "resume":
        store.pause(OF_GROUP)
    look = connect()
    calls: dict[str, tuple[Callable[[SqlJobStore], object], TriggerState]] = {
        "pause": (PAUSES["trigger group"], PAUSED),
        "resume": (RESUMES["trigger group"], WAITING),
        "delete": (lambda store: store.delete_jobs([MANY]), PAUSED),
    }
    call, state = calls[verb]
    with ThreadPoolExecutor(1) as thread, transaction(connect) as user:
        user.execute("UPDATE qrtz_triggers SET priority = priority + 1 WHERE trigger_name = 'many-044'")
        changing = thread.submit(call, store)
        while not look.execute(WAITS).fetchone():
            assert not changing.done(), "a held row was passed over at the end"
        user.execute("COMMIT")
        changing.result(30)
        user.execute("BEGIN")
    assert len(in_state(store, state)) == (0 if verb == "delete" else COUNT)
    assert verb != "delete" or not in_state(store, WAITING)


def test_opposite_calls_change_each_trigger_at_most_once(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], between: Between
) -> None:
    other = make_store()
    store_many(store)

    def oppose(number: int) -> None:
        if number == 2:
            other.resume(NamedTriggers([TriggerKey(f"many-{COUNT - 1:03}", MANY.group)]))

    between(oppose)
    PAUSES["job"](store)
    assert in_state(store, WAITING) == [f"many-{COUNT - 1:03}"]


def test_other_jobs_fire_between_the_slices(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], between: Between
) -> None:
    """After each slice of a pause, a resumption and a deletion one trigger of another job is due, and fires."""
    other = make_store()
    node = register(other)
    store_many(store)
    store_many(store, job=OTHER, count=1)
    fired: list[int] = []
    asked: list[int] = []

    def fire(number: int) -> None:
        asked.append(number)
        due = trigger(1000 + len(asked), datetime.now(UTC) - SECOND, OTHER)
        other.store_jobs([JobEntry(None, [due])], replace=False)
        taken = other.acquire(node, OPENINGS, limit=10, look_ahead=timedelta(), misfire_threshold=HOUR)
        fired.extend(one.fire_id for one in taken.fired)

    between(fire)
    store.pause(TriggersOfJobs([MANY]))
    store.resume(TriggersOfJobs([MANY]))
    store.delete_jobs([MANY])
    assert len(fired) == len(asked) >= 3 * (COUNT // SLICE)


def test_a_users_transaction_pauses_and_deletes_all_or_nothing(
    store: SqlJobStore, connect: Connect, between: Between
) -> None:
    store_many(store)
    between(lambda number: pytest.fail("a slice in a user's transaction"))
    for verb in (
        lambda inside: inside.pause(OF_GROUP),
        lambda inside: inside.pause(NamedTriggers([TriggerKey(f"many-{n:03}", MANY.group) for n in range(COUNT)])),
        lambda inside: inside.delete_jobs([MANY]),
    ):
        with transaction(connect) as user:
            verb(store.within(user))
            user.execute("ROLLBACK")
            user.execute("BEGIN")
        assert len(in_state(store, WAITING)) == COUNT


def test_a_deletion_returns_all_keys_and_goes_on_when_it_is_repeated(store: SqlJobStore, between: Between) -> None:
    store_many(store)
    store_many(store, job=OTHER, count=2)

    def cut(number: int) -> None:
        if number == 2:
            raise CutError("the connection was lost")

    between(cut)
    with pytest.raises(CutError):
        store.delete_jobs([MANY, OTHER])
    remaining = {record.key for record in store.find(TriggerQuery(job_key=MANY), None)}
    assert len(remaining) == COUNT - 2 * SLICE
    assert f"many-{COUNT - 1:03}" not in {key.name for key in remaining}, "the soonest are deleted first"
    between(lambda number: None)
    removed = store.delete_jobs([MANY, OTHER])
    assert removed[MANY] == remaining
    assert len(removed[OTHER]) == 2
    assert not store.job_headers([MANY, OTHER])


def test_many_keys_are_deleted_and_paused_in_parts_of_their_order(
    store: SqlJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_many(store)
    keys = {record.key for record in store.find(TriggerQuery(job_key=MANY), None)}
    sizes: list[int] = []
    plain = slices.SliceProgress.add
    monkeypatch.setattr(slices.SliceProgress, "add", lambda self, number: (sizes.append(number), plain(self, number)))
    store.pause(NamedTriggers(keys))
    assert len(in_state(store, PAUSED)) == COUNT
    assert store.resume(NamedTriggers(keys), Missed.MISFIRE) is not None
    assert len(in_state(store, WAITING)) == COUNT
    assert store.delete_triggers(keys) == keys
    assert sizes == 3 * [10, 10, 10, 10, 5]


def test_each_second_a_line_says_how_far_a_change_is(
    store: SqlJobStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slices, "LOG_EVERY", 0.0)
    store_many(store)
    with caplog.at_level(logging.INFO, slices.logger.name):
        PAUSES["job"](store)
    assert "paused 10 triggers so far" in caplog.text
    assert f"paused {COUNT} triggers so far" in caplog.text


def test_a_slice_that_takes_long_is_followed_by_smaller_ones() -> None:
    size = SliceSize(100, least=10, most=400, short=0.1, long=1.0)
    sizes = []
    for seconds in (0.01, 0.01, 0.01, 0.5, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 0.01):
        size.adapt(seconds)
        sizes.append(size.number)
    assert sizes == [200, 400, 400, 400, 200, 100, 50, 25, 12, 10, 20]


def test_a_batch_of_misfires_is_smaller_after_a_write_that_held_the_lock_for_long(
    store: SqlJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = register(store)
    late = datetime.now(UTC) - 2 * HOUR
    detail = JobDetail(LANES[0].job_type, MANY.name, MANY.group, durable=True)
    store.store_jobs([JobEntry(detail, [trigger(number, late) for number in range(200)])], replace=True)
    batch = SliceSize(64, least=8, most=64, short=0.0, long=0.0)
    monkeypatch.setattr(store._steps, "misfire_batch", batch)
    handled = []
    more = True
    while more:
        outcome = store.recover_misfires(node, threshold=HOUR, limit=100)
        handled.append(len(outcome.misfired))
        more = outcome.more
    assert handled[:4] == [64, 32, 16, 8]
    assert sum(handled) == 200


# --- jobs with many triggers that change


def under_lock(store: SqlJobStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list to which the statements that are sent after the lock, in its transaction, will be added."""
    sent: list[str] = []
    plain = type(store._connections).execute_on

    def noting(self: Any, connection: psycopg.Connection[Any], statements: Any, **how: Any) -> Any:
        texts = [bound.statement.sql.decode() for bound in statements]
        locks = [n for n, text in enumerate(texts) if "qrtz_locks" in text]
        if locks:
            sent.extend(texts[locks[0] + 1 :])
        return plain(self, connection, statements, **how)

    monkeypatch.setattr(type(store._connections), "execute_on", noting)
    return sent


READ = """
SELECT coalesce(sum(idx_tup_fetch + seq_tup_read), 0) FROM pg_stat_xact_user_tables WHERE relname = 'qrtz_triggers'
"""


def plan_of(connection: psycopg.Connection[Any], bound: BoundStatement) -> list[str]:
    """The plan that the session has kept for a statement: what an unexpected number of rows comes from."""
    values = ", ".join("NULL" for _ in bound.statement.values)
    kept = f'EXPLAIN EXECUTE "q_{bound.statement.name}"({values})'
    return [line for (line,) in connection.execute(kept.encode(), prepare=False).fetchall()]


def rows_of_triggers_under_lock(store: SqlJobStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list to which the rows of triggers will be added that each statement under the lock reads."""
    read: list[int] = []
    plain = type(store._connections).execute_on

    def explaining(self: Any, connection: psycopg.Connection[Any], statements: Any, **how: Any) -> Any:
        locks = [n for n, bound in enumerate(statements) if b"qrtz_locks" in bound.statement.sql]
        if not locks:
            return plain(self, connection, statements, **how)
        count = store._session.bind(READ)
        sent = [*statements[: locks[0] + 1]]
        for bound in statements[locks[0] + 1 :]:
            sent += [count, bound]
        results = plain(self, connection, [*sent, count], **how)
        rest = results[locks[0] + 1 :]
        numbers = [int(result.rows[0][0]) for result in rest[::2]]
        rows = [after - before for before, after in itertools.pairwise(numbers)]
        read.extend(rows)
        for bound, number in zip(statements[locks[0] + 1 :], rows, strict=True):
            if number > 4 * SLICE:
                print(f"{number} rows:", *plan_of(connection, bound), sep="\n")
        return [*results[: locks[0] + 1], *rest[1::2]]

    monkeypatch.setattr(type(store._connections), "execute_on", explaining)
    return read


@pytest.mark.parametrize("count", [SLICE, COUNT])
def test_a_job_with_many_triggers_is_not_read_under_the_lock_when_it_changes(
    store: SqlJobStore, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(batches, "CHUNK", 2 * SLICE)
    store_many(store, count=count)
    sent = under_lock(store, monkeypatch)
    store.modify_job(MANY, lambda job: job.with_values({"max_concurrent": 3}), keeps_data=True)
    assert any("Corrects the copies" in text for text in sent) is (count == SLICE)
    assert copies(store) == [3] * count


COPIES = "SELECT max_concurrent FROM qrtz_triggers WHERE sched_name = :'sched' AND job_name = 'many'"


def copies(store: SqlJobStore) -> list[int | None]:
    return [limit for (limit,) in store._session.read_one(COPIES)]


def test_a_trigger_that_is_stored_while_a_job_with_many_changes_has_the_new_values(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], monkeypatch: pytest.MonkeyPatch, connect: Connect
) -> None:
    """A trigger that is stored after the first correction and before the job is held is corrected as well."""
    monkeypatch.setattr(batches, "CHUNK", 2 * SLICE)
    other = make_store()
    store_many(store)
    plain = type(store._connections).execute_on
    late = trigger(900, datetime.now(UTC) + HOUR)

    def storing_before_the_hold(self: Any, connection: Any, statements: Any, **how: Any) -> Any:
        if any("so that nobody can add a trigger" in bound.statement.sql.decode() for bound in statements):
            monkeypatch.setattr(type(store._connections), "execute_on", plain)
            other.store_jobs([JobEntry(None, [late])], replace=False)
        return plain(self, connection, statements, **how)

    monkeypatch.setattr(type(store._connections), "execute_on", storing_before_the_hold)
    store.modify_job(MANY, lambda job: job.with_values({"max_concurrent": 3}), keeps_data=True)
    assert copies(store) == [3] * (COUNT + 1)


def test_jobs_that_a_call_has_stored_itself_are_not_read_again_under_the_lock(
    store: SqlJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CHUNK", SLICE)
    due = datetime.now(UTC) + HOUR
    keys = [JobKey(f"wide-{number:03}", "wide") for number in range(COUNT)]
    jobs = [JobDetail(LANES[0].job_type, key.name, key.group, durable=True) for key in keys]
    entries = [JobEntry(job, [trigger(0, due, job.key)]) for job in jobs]
    sent = under_lock(store, monkeypatch)
    store.store_jobs(entries, replace=False)
    assert not any("or if a job differs" in text for text in sent)
    assert len(store.find(TriggerQuery(), None)) == COUNT
    # Triggers of many jobs that others may change meanwhile are reconciled by the nodes, in batches.
    more = [JobEntry(None, [trigger(1, due, key)]) for key in keys]
    store.store_jobs(more, replace=False)
    assert not any("or if a job differs" in text for text in sent)
    register(store)
    assert len(store.find(TriggerQuery(), None)) == 2 * COUNT


def test_triggers_of_many_jobs_are_announced_without_a_look(store: SqlJobStore) -> None:
    """The look passes over the transaction's own rows, for each job: the square of their number, under the lock."""
    at = datetime.now(UTC) + HOUR

    def text(count: int) -> str:
        [statement] = announcement(store._session, [(JobKey(f"j{n}"), at) for n in range(count)], Notification.RESUMED)
        return statement.statement.sql.decode()

    assert "NOT EXISTS" in text(MAX_COMPARED)
    assert "NOT EXISTS" not in text(MAX_COMPARED + 1)


def test_a_pause_takes_the_lock_for_its_mark_alone(store: SqlJobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store_many(store)
    sent = under_lock(store, monkeypatch)
    store.pause(OF_GROUP)
    store.pause(TriggersOfJobs([MANY]))
    assert sent == []


# --- clear, and another calendar


def test_everything_is_removed_in_slices_of_the_soonest(store: SqlJobStore, between: Between) -> None:
    store_many(store)
    seen: list[list[str]] = []
    between(lambda number: seen.append(in_state(store, WAITING)))
    store.clear()
    assert len(seen) >= COUNT / SLICE
    names = [f"many-{number:03}" for number in range(COUNT)]
    for some in seen:
        assert some == names[: len(some)], "those that are due soonest come first"
    assert in_state(store, WAITING) == []
    assert store.job_headers([MANY]) == {}


def holidays(day: int) -> HolidayCalendar:
    return HolidayCalendar(frozenset({date(2030, 1, day)}))


def store_many_of_calendar(store: SqlJobStore, count: int = COUNT) -> None:
    store.put_calendar("holidays", holidays(1), replace=True)
    store_many(store, count=0)
    stored = store.calendars(["holidays"])["holidays"]
    due = datetime.now(UTC) + HOUR
    triggers = [
        prepare(
            SimpleTrigger(
                f"many-{number:03}",
                MANY.group,
                job_key=MANY,
                start_time=due - number * SECOND,
                interval=HOUR,
                repeat_count=9,
                calendar="holidays",
            ),
            datetime.now(UTC),
            stored.calendar,
            stored.revision,
        )
        for number in range(count)
    ]
    store.store_jobs([JobEntry(None, triggers)], replace=True)


def computed(store: SqlJobStore) -> int:
    rows = store._session.read_one("SELECT upcoming FROM qrtz_triggers WHERE sched_name = :'sched'")
    return sum(bool(upcoming) for (upcoming,) in rows)


def test_what_an_old_calendar_has_computed_is_voided_in_slices(store: SqlJobStore, between: Between) -> None:
    store_many_of_calendar(store)
    assert computed(store) == COUNT
    old = store.calendars(["holidays"])["holidays"]
    seen: list[tuple[int, bool]] = []
    between(lambda number: seen.append((computed(store), store.calendars(["holidays"])["holidays"] == old)))
    store.put_calendar("holidays", holidays(2), replace=True)
    assert [number for number, _ in seen][-1] == 0, "nothing is left for the transaction that replaces the calendar"
    assert len(seen) >= COUNT / SLICE
    assert all(is_old for _, is_old in seen)
    assert computed(store) == 0
    assert store.calendars(["holidays"])["holidays"].calendar == holidays(2)
    assert len(in_state(store, WAITING)) == COUNT


def test_what_is_computed_between_the_slices_is_voided_by_the_replacement(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], between: Between
) -> None:
    other = make_store()
    store_many_of_calendar(store)

    def compute_again(number: int) -> None:
        other._session.unlocked(
            other._session.bind(
                "UPDATE qrtz_triggers SET upcoming = ARRAY[next_fire_time + interval '1 h']"
                " WHERE sched_name = :'sched' AND trigger_name = 'many-044'"
            )
        )

    between(compute_again)
    store.put_calendar("holidays", holidays(2), replace=True)
    assert computed(store) == 0


@pytest.mark.parametrize("blocked_before", [0, 1_000])
@pytest.mark.parametrize("count", [20, 80])
def test_a_batch_of_misfires_reads_few_triggers_under_the_lock(
    store: SqlJobStore, connect: Connect, monkeypatch: pytest.MonkeyPatch, count: int, blocked_before: int
) -> None:
    """However many triggers of one job misfire at once, and whatever the planner takes for cheap."""
    if blocked_before:
        monkeypatch.setattr(slices, "PAGE", 1_000)
        store_many(store, count=blocked_before)
        with connect() as connection:
            connection.execute("UPDATE qrtz_triggers SET trigger_state = 'BLOCKED'")
            connection.execute("DELETE FROM qrtz_triggers")
            connection.execute("VACUUM ANALYZE qrtz_triggers")
    node = register(store)
    late = datetime.now(UTC) - 3 * HOUR
    detail = JobDetail(LANES[0].job_type, MANY.name, MANY.group, durable=True)
    store.store_jobs([JobEntry(detail, [trigger(number, late) for number in range(count)])], replace=True)
    read = rows_of_triggers_under_lock(store, monkeypatch)
    handled = 0
    more = True
    while more:
        outcome = store.recover_misfires(node, threshold=HOUR, limit=10)
        assert len(outcome.misfired) == 10
        handled += len(outcome.misfired)
        more = outcome.more
    assert handled == count
    assert max(read) <= 4 * 10, read


# --- jobs that kill their nodes


def die_of_many(store: SqlJobStore, *, count: int = COUNT, **values: Any) -> Callable[[SqlJobStore], RecoveryOutcome]:
    """Let a node die while it executes one trigger of many; return its recovery, which stops the job."""
    store_many(store, count=count, **values)
    dead = register(store, "dead")
    store.store_jobs([JobEntry(None, [trigger(901, datetime.now(UTC) - SECOND)])], replace=False)
    assert len(store.acquire(dead, OPENINGS, limit=10, look_ahead=timedelta(), misfire_threshold=HOUR).fired) == 1
    [judged] = [record for record in store.list_nodes().nodes if record.instance_id == "dead"]
    return lambda by: by.recover(register(by, "survivor"), [judged], max_node_deaths=1)


ERROR = TriggerState.ERROR


@pytest.mark.parametrize("count", [20, 80])
def test_the_triggers_of_a_job_that_nodes_die_of_are_not_read_under_the_lock(
    store: SqlJobStore, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    recover = die_of_many(store, count=count, requests_recovery=True)
    read = rows_of_triggers_under_lock(store, monkeypatch)
    assert recover(store).quarantined == [MANY]
    assert max(read) <= 3 * SLICE, read
    assert len(in_state(store, ERROR)) == count + 2, "those that were stored, and the recovery of what ran"


def test_a_job_that_nodes_die_of_is_stopped_in_slices_and_nothing_of_it_is_recovered_meanwhile(
    store: SqlJobStore, between: Between
) -> None:
    recover = die_of_many(store, requests_recovery=True)
    seen: list[list[str]] = []
    between(lambda number: seen.append(in_state(store, ERROR)))
    recover(store)
    names = in_state(store, ERROR)
    assert len(seen) >= COUNT / SLICE
    for some in seen:
        assert any(name.startswith("recover_") for name in some), "from the first slice on"
        some_of_many = [name for name in some if name < "many-900"]
        assert some_of_many == [name for name in names if name < "many-900"][-len(some_of_many) :], "the soonest first"


def test_another_node_goes_on_with_a_job_that_nodes_die_of(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], between: Between, connect: Connect
) -> None:
    """Also if an execution of the job succeeds, or a death is taken back, after the job was to be stopped."""
    other = make_store()
    recover = die_of_many(store)

    def cut(number: int) -> None:
        if number == 2:
            raise CutError("the connection was lost")

    between(cut)
    assert recover(store).quarantined == [MANY]
    assert len(in_state(store, ERROR)) == 2 * SLICE
    other.subtract_node_deaths([MANY])
    between(lambda number: None)
    node = register(other, "another")
    assert not other.recover(node, []).quarantined, "that it has to stop was reported before"
    assert len(in_state(store, ERROR)) == COUNT + 1
    assert connect().execute(MARKS).fetchall() == [(0, False)]
    reset_from_error(other, TriggerKey("many-003", MANY.group))
    other.recover(node, [])
    assert in_state(store, WAITING) == ["many-003"], "what was stopped once may begin again"


MARKS = "SELECT node_deaths, is_stopping FROM qrtz_job_details"


def test_the_start_of_a_node_stops_a_job_that_its_own_deaths_were_due_to(store: SqlJobStore) -> None:
    store_many(store)
    store.store_jobs([JobEntry(None, [trigger(901, datetime.now(UTC) - SECOND)])], replace=False)
    dead = register(store, "same")
    assert store.acquire(dead, OPENINGS, limit=10, look_ahead=timedelta(), misfire_threshold=HOUR).fired
    store.register(
        "same", host="here", pid=1, checkin_interval=SECOND, window=SECOND, ended_epoch=dead.epoch, max_node_deaths=1
    )
    assert len(in_state(store, ERROR)) == COUNT + 1


@pytest.mark.parametrize("count", [SLICE - 3, COUNT])
def test_a_trigger_that_somebody_holds_follows_at_a_later_check_in(
    make_store: Callable[..., SqlJobStore], connect: Connect, count: int
) -> None:
    store = make_store(lock_timeout="500ms")
    recover = die_of_many(store, count=count)
    with transaction(connect) as user:
        user.execute("SELECT FROM qrtz_triggers WHERE trigger_name = 'many-003' FOR UPDATE")
        recover(store)
        assert in_state(store, WAITING) == ["many-003"]
    store.recover(register(store, "later"), [])
    assert in_state(store, WAITING) == []
    assert connect().execute(MARKS).fetchall() == [(0, False)]


ENDED = PauseNote("the warehouse moves", "ann", datetime(2026, 1, 1, tzinfo=UTC))
WITH_ENDS: dict[str, PauseSubjects] = {
    "job": TriggersOfJobs([MANY]),
    "trigger group": OF_GROUP,
    "job group": JobGroups(GroupMatcher.equals(MANY.group)),
    "everything": EVERYTHING,
}


def end_all(store: SqlJobStore, by: str) -> None:
    while (left := store.apply_time_off(by).next_change) is not None and left <= timedelta():
        pass


def ends_recorded(connect: Connect) -> list[tuple[str, str, int]]:
    rows = connect().execute("SELECT actor, subject, count FROM qrtz_audit WHERE action = 'pause_ended' ORDER BY id")
    return rows.fetchall()


@pytest.mark.parametrize("what", WITH_ENDS)
def test_a_pause_ends_in_slices_and_another_node_goes_on_after_a_death(
    store: SqlJobStore, between: Between, connect: Connect, what: str
) -> None:
    store_many(store)
    store.pause(WITH_ENDS[what], ENDED)

    def cut(number: int) -> None:
        if number == 2:
            raise CutError("the connection was lost")

    between(cut)
    with pytest.raises(CutError):
        store.apply_time_off("a")
    assert len(in_state(store, WAITING)) == 2 * SLICE
    between(lambda number: None)
    end_all(store, "b")
    assert len(in_state(store, WAITING)) == COUNT
    recorded = ends_recorded(connect)
    assert sum(row[2] for row in recorded) == COUNT
    if what != "job":
        assert recorded == [("b", what if what == "everything" else f"{what} {MANY.group}", COUNT)]


@pytest.mark.parametrize("what", WITH_ENDS)
def test_nodes_that_end_a_pause_together_resume_each_trigger_once(
    store: SqlJobStore, connect: Connect, what: str
) -> None:
    store_many(store)
    store.pause(WITH_ENDS[what], ENDED)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda by: end_all(store, by), "abc"))
    assert len(in_state(store, WAITING)) == COUNT
    assert sum(row[2] for row in ends_recorded(connect)) == COUNT


def test_a_pause_by_hand_between_two_slices_of_an_end_holds(store: SqlJobStore, between: Between) -> None:
    store_many(store)
    store.pause(OF_GROUP, ENDED)

    def pause_again(number: int) -> None:
        if number == 1:
            store.pause(OF_GROUP)

    between(pause_again)
    end_all(store, "a")
    assert len(in_state(store, PAUSED)) == COUNT
    assert store.pauses().groups[0].until is None


def test_a_trigger_whose_row_is_locked_is_resumed_by_the_next_turn(store: SqlJobStore, connect: Connect) -> None:
    store_many(store)
    store.pause(OF_GROUP, ENDED)
    with transaction(connect) as holder:
        holder.execute("SELECT FROM qrtz_triggers WHERE trigger_name = 'many-003' FOR UPDATE")
        for _ in range(4):
            store.apply_time_off("a")
        assert in_state(store, PAUSED) == ["many-003"]
        assert store.pauses().trigger_groups == {MANY.group}
    end_all(store, "a")
    assert in_state(store, PAUSED) == []
    assert not store.pauses().trigger_groups


@pytest.mark.parametrize("what", ["trigger group", "job group", "everything"])
@pytest.mark.parametrize("begins_in", [-HOUR, SECOND * 50], ids=["begins", "ahead"])
def test_a_window_begins_within_a_bounded_time_and_goes_on(
    store: SqlJobStore, connect: Connect, monkeypatch: pytest.MonkeyPatch, what: str, begins_in: timedelta
) -> None:
    """Between two calls, the thread looks for dead nodes."""
    store_many(store)
    groups = {"trigger group": {"trigger_group": MANY.group}, "job group": {"job_group": MANY.group}, "everything": {}}
    start = datetime.now(UTC) + begins_in
    store.set_window("w", MaintenanceWindow("w", start=start, end=start + 9 * HOUR, **groups[what]))
    connect().execute("UPDATE qrtz_maintenance_windows SET due_at = now()")
    monkeypatch.setattr(time_off, "BUSY", 0.0)
    numbers = []
    while not numbers or numbers[-1] < COUNT:
        outcome = store.apply_time_off("a")
        numbers.append(len(in_state(store, PAUSED)))
        assert outcome.next_change is not None
        if numbers[-1] < COUNT:
            assert outcome.next_change <= timedelta()
            assert outcome.begun == []
    assert numbers == [10, 20, 30, 40, COUNT], "the soonest slice by slice, one in each call without time"
    begun = [*outcome.begun, *store.apply_time_off("b").begun]
    assert begun == (["w"] if begins_in < timedelta() else [])
    [record] = store.windows()
    assert record.is_open is (begins_in < timedelta())
