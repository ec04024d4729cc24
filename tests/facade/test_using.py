"""The methods inside a user's own transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from quartzpy import CronTrigger, JobDetail, JobKey, Scheduler, SimpleTrigger, TriggerKey, WeeklyCalendar
from quartzpy.errors import (
    CalendarInUseError,
    InvalidValueError,
    JobNotFoundError,
    ObjectAlreadyExistsError,
    SchedulerStateError,
    SchemaError,
    StoreUnavailableError,
)
from quartzpy.states import PublicState
from quartzpy.store.postgresql.store import SqlJobStore
from tests import django_project
from tests.database import Server, connect_to
from tests.facade import jobs
from tests.waiting import wait_until

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
SOON = timedelta(seconds=30)
KEY = TriggerKey("t", "DEFAULT")


@pytest.fixture
def url(postgres_dsn: str) -> str:
    return postgres_dsn


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def a_job(kind: Any = jobs.Recorded, name: str = "job", **values: Any) -> JobDetail:
    return JobDetail(kind, name, **values)


def orders(engine: Engine) -> int:
    with engine.begin() as connection:
        return int(connection.execute(text("SELECT count(*) FROM orders")).scalar_one())


def test_it_is_committed_with_the_users_data(scheduler: Scheduler, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO orders VALUES (1)"))
        scheduler.using(connection).schedule_job(a_job(), SimpleTrigger("t"))
        assert jobs.nothing_ran(), "not before the commit"
        assert scheduler.trigger_state(KEY) is PublicState.NONE
    assert jobs.next_run().trigger_key == KEY
    assert orders(engine) == 1


def test_it_is_rolled_back_with_the_users_data(scheduler: Scheduler, engine: Engine) -> None:
    with engine.connect() as connection:
        connection.execute(text("INSERT INTO orders VALUES (1)"))
        scheduler.using(connection).schedule_job(a_job(), SimpleTrigger("t"))
        connection.rollback()
    assert jobs.nothing_ran()
    assert (list(scheduler.jobs()), list(scheduler.triggers()), orders(engine)) == ([], [], 0)


def test_it_may_be_the_first_that_the_transaction_does(client: Scheduler, engine: Engine) -> None:
    with engine.connect() as connection:
        client.using(connection).schedule_job(a_job(), SimpleTrigger("t"))
        connection.rollback()
    assert not client.check_exists(KEY)


def test_an_orm_session_will_do(client: Scheduler, engine: Engine) -> None:
    with Session(engine) as session:
        client.using(session).schedule_job(a_job(), SimpleTrigger("t"))
        session.rollback()
        assert not client.check_exists(KEY)
        client.using(session).schedule_job(a_job(), SimpleTrigger("t"))
        session.commit()
    assert client.check_exists(KEY)


def test_a_connection_of_the_driver_will_do(client: Scheduler, postgres_dsn: str) -> None:
    with connect_to(postgres_dsn, autocommit=False) as connection:
        client.using(connection).schedule_job(a_job(), SimpleTrigger("t"))
        connection.rollback()
        assert not client.check_exists(KEY)
    with connect_to(postgres_dsn) as connection, connection.transaction():
        client.using(connection).schedule_job(a_job(), SimpleTrigger("t"))
    assert client.check_exists(KEY)


def test_a_scoped_session_will_do(client: Scheduler, engine: Engine) -> None:
    session = scoped_session(sessionmaker(engine))
    client.using(session).schedule_job(a_job(), SimpleTrigger("t"))
    session.rollback()
    assert not client.check_exists(KEY)
    client.using(session).schedule_job(a_job(), SimpleTrigger("t"))
    session.commit()
    session.remove()
    assert client.check_exists(KEY)


@pytest.fixture(scope="module")
def django_connection(postgres_server: Server, _worker_database: str) -> Iterator[Any]:
    """Django's own connection, to the database of the tests."""
    from django.db import connection

    url = postgres_server.url
    django_project.configure()
    connection.settings_dict.update(
        NAME=_worker_database,
        USER=url.username or "",
        PASSWORD=url.password or "",
        HOST=url.host or url.query.get("host", ""),
        PORT=str(url.port or url.query.get("port", "")),
    )
    yield connection
    connection.close()


def test_the_connection_of_django_will_do(client: Scheduler, engine: Engine, django_connection: Any) -> None:
    from django.db import transaction

    for given in (lambda: django_connection, lambda: django_connection.connection):
        with transaction.atomic():
            client.using(django_connection).schedule_job(a_job(), SimpleTrigger("t"))
            transaction.set_rollback(True)
        assert not client.check_exists(KEY)
        with transaction.atomic():
            with django_connection.cursor() as cursor:
                cursor.execute("INSERT INTO orders VALUES (1)")
            client.using(given()).schedule_job(a_job(), SimpleTrigger("t", start_time=client.nodes().now + HOUR))
            assert not client.check_exists(KEY), "not before the commit"
        assert client.check_exists(KEY)
        client.clear()
    assert orders(engine) == 2
    with pytest.raises(InvalidValueError, match=r"inside atomic\(\)"):
        client.using(django_connection)


def test_deleting_a_calendar_in_use_raises_inside_a_transaction_too(client: Scheduler, engine: Engine) -> None:
    client.add_calendar("weekly", WeeklyCalendar())
    client.schedule_job(a_job(), CronTrigger("0 0 12 * * ?", "t", calendar="weekly"))
    with engine.begin() as connection, pytest.raises(CalendarInUseError):
        client.using(connection).delete_calendar("weekly")


def test_an_error_leaves_the_transaction_as_it_was(client: Scheduler, engine: Engine) -> None:
    client.schedule_job(a_job(), SimpleTrigger("t", start_time=client.nodes().now + HOUR))
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO orders VALUES (1)"))
        inside = client.using(connection)
        with pytest.raises(ObjectAlreadyExistsError):
            inside.schedule_jobs(
                [(a_job(name="new"), [SimpleTrigger("new")]), (a_job(description="other"), [SimpleTrigger("t2")])]
            )
        with pytest.raises(JobNotFoundError):
            inside.schedule(SimpleTrigger("x", job_key=JobKey("none", "DEFAULT")))
        assert not inside.check_exists(JobKey("new", "DEFAULT")), "nothing half done"
        connection.execute(text("INSERT INTO orders VALUES (2)"))
    assert orders(engine) == 2
    assert {key.name for key in client.trigger_keys()} == {"t"}


def test_all_methods_work_inside(client: Scheduler, engine: Engine) -> None:
    later = client.nodes().now + HOUR
    with engine.begin() as connection:
        inside = client.using(connection)
        inside.add_calendar("weekly", WeeklyCalendar())
        inside.schedule_job(JobDetail(jobs.Recorded, "job", durable=True), SimpleTrigger("t", start_time=later))
        inside.pause_trigger(KEY)
        assert inside.trigger_state(KEY) is PublicState.PAUSED
        inside.resume_trigger(KEY)
        inside.pause_all()
        assert inside.pauses.everything
        inside.resume_all()
        inside.reschedule_job(KEY, CronTrigger("0 0 12 * * ?", "other", calendar="weekly"))
        assert {key.name for key in inside.trigger_keys()} == {"other"}
        inside.trigger_job(JobKey("job", "DEFAULT"), {"by": "hand"})
        inside.unschedule_job(TriggerKey("other", "DEFAULT"))
        assert inside.delete_calendar("weekly")
    assert len(client.trigger_keys()) == 1
    with engine.begin() as connection:
        assert client.using(connection).delete_job(JobKey("job", "DEFAULT"))
        client.using(connection).clear()
    assert list(client.jobs()) == []


def test_a_serial_job_that_begins_meanwhile_still_runs_alone(scheduler: Scheduler, engine: Engine) -> None:
    job = JobDetail(jobs.SerialWaiting, "job", durable=True)
    scheduler.add_job(job)
    with engine.begin() as connection:
        scheduler.using(connection).schedule(SimpleTrigger("inside", job_key=job.key))
        scheduler.trigger_job(job.key)
        jobs.next_run()
    assert jobs.nothing_ran()
    assert scheduler.trigger_state(TriggerKey("inside", "DEFAULT")) is PublicState.BLOCKED
    jobs.go_on.set()
    assert jobs.next_run().trigger_key.name == "inside"


def test_an_open_transaction_blocks_no_other_trigger(scheduler: Scheduler, engine: Engine) -> None:
    often = SimpleTrigger("often", interval=timedelta(milliseconds=50), repeat_count=None)
    slow = SimpleTrigger("slow", interval=timedelta(milliseconds=50), repeat_count=None)
    scheduler.schedule_jobs([(a_job(name="often"), [often]), (a_job(name="slow"), [slow])])
    jobs.next_run()
    with engine.connect() as connection:
        inside = scheduler.using(connection)
        inside.schedule_job(a_job(name="new"), SimpleTrigger("new"))
        inside.pause_trigger(slow.key)
        # What was fired before the pause may still begin, also what waits for its instant.
        wait_until(lambda: not any(row.trigger_key == slow.key for row in scheduler.running()))
        while not jobs.ran.empty():
            jobs.ran.get()
        lateness = []
        while len(lateness) < 30:
            context = jobs.next_run()
            assert context.trigger_key == often.key
            lateness.append(context.fire_time - context.scheduled_fire_time)
        # A step that waits for a row of the transaction gives up only then.
        assert sorted(lateness)[15] < scheduler.config.lock_timeout
        connection.rollback()
    # What was held back catches up first.
    seen: set[str] = set()
    while seen != {"often", "slow"}:
        seen.add(jobs.next_run().trigger_key.name)


def test_other_nodes_hear_of_it_with_the_commit(
    make_scheduler: Callable[..., Scheduler], client: Scheduler, engine: Engine
) -> None:
    # Neither its next look for due triggers nor its next check-in comes in time.
    node = make_scheduler(idle_wait="300s", checkin_interval="120s", failure_window="600s")
    node.start()
    client.add_job(JobDetail(jobs.Recorded, "job", durable=True))
    for _ in range(7):
        threading.Event().wait(0.05)
        with engine.connect() as connection:
            client.using(connection).trigger_job(JobKey("job", "DEFAULT"))
            connection.commit()
        assert jobs.next_run().job_key.name == "job"


def test_the_scheduler_needs_no_connection_to_its_own_database(client: Scheduler, engine: Engine) -> None:
    elsewhere = Scheduler("postgresql+psycopg://nobody@127.0.0.1:1/none", name=client.name)
    with engine.begin() as connection:
        inside = elsewhere.using(connection)
        inside.schedule_job(a_job(), SimpleTrigger("t", start_time=datetime.now(UTC) + HOUR))
        inside.pause_trigger(KEY)
    assert client.trigger_state(KEY) is PublicState.PAUSED
    elsewhere.shutdown()


def test_a_database_without_tables_is_refused(client: Scheduler, fresh_database: Callable[[], str]) -> None:
    with connect_to(fresh_database(), autocommit=False) as connection:
        with pytest.raises(SchemaError, match="quartzpy db upgrade"):
            client.using(connection).schedule_job(a_job(), SimpleTrigger("t"))
        assert connection.execute("SELECT 1").fetchone() == (1,), "the transaction is still usable"


def test_sync_is_part_of_the_transaction(client: Scheduler, engine: Engine, administrator_dsn: str) -> None:
    # Without lock rows, as before the first use of a scheduler's name.
    with connect_to(administrator_dsn) as administrator:
        administrator.execute("DELETE FROM qrtz_locks WHERE sched_name = %s", [client.name])
    with engine.connect() as connection:
        plan = client.using(connection).sync([(a_job(), SimpleTrigger("t"))], owner="app")
        assert plan
        assert not client.check_exists(KEY)
        connection.rollback()
    assert not client.check_exists(KEY)
    with engine.begin() as connection:
        client.using(connection).sync([(a_job(), SimpleTrigger("t"))], owner="app")
    assert client.check_exists(KEY)


def test_a_sync_that_fails_changes_nothing_in_the_transaction(
    client: Scheduler, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise LookupError("in the middle")

    with engine.begin() as connection:
        connection.execute(text("INSERT INTO orders VALUES (1)"))
        with monkeypatch.context() as patch:
            patch.setattr(SqlJobStore, "own", refuse)
            with pytest.raises(LookupError, match="in the middle"):
                client.using(connection).sync([(a_job(), SimpleTrigger("t"))], owner="app")
        assert client.using(connection).check_exists(KEY) is False
    assert orders(engine) == 1


def test_a_sync_waits_for_one_in_an_open_transaction(client: Scheduler, engine: Engine) -> None:
    begun, done = threading.Event(), threading.Event()

    def another() -> None:
        begun.set()
        client.sync([(a_job(name="other"), SimpleTrigger("other"))], owner="app")
        done.set()

    thread = threading.Thread(target=another)
    with engine.begin() as connection:
        client.using(connection).sync([(a_job(), SimpleTrigger("t"))], owner="app")
        thread.start()
        assert begun.wait(20)
        wait_until(lambda: waits_for_a_lock(engine))
        assert not done.is_set()
    thread.join(20)
    assert done.is_set()
    assert client.check_exists(KEY)


def waits_for_a_lock(engine: Engine) -> bool:
    with engine.connect() as connection:
        return bool(connection.execute(text(WAITING)).scalar_one())


@pytest.mark.parametrize("wrong", [None, "postgresql://ann:secret@db/app", object(), 3])
def test_something_else_is_refused(client: Scheduler, wrong: object) -> None:
    with pytest.raises(InvalidValueError, match="using: expected a SQLAlchemy Connection or Session") as refused:
        client.using(wrong)
    assert "secret" not in str(refused.value)


def test_a_connection_without_a_transaction_is_refused(client: Scheduler, engine: Engine, postgres_dsn: str) -> None:
    with (
        connect_to(postgres_dsn) as plain,
        pytest.raises(InvalidValueError, match="autocommit"),
    ):
        client.using(plain)
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        pytest.raises(InvalidValueError, match="autocommit"),
    ):
        client.using(connection)


def test_after_the_end_of_the_transaction_it_is_of_no_more_use(client: Scheduler, engine: Engine) -> None:
    def ended(end: Callable[[Connection], None]) -> None:
        with engine.connect() as connection:
            inside = client.using(connection)
            end(connection)
            with pytest.raises(StoreUnavailableError, match="has ended"):
                list(inside.jobs())

    ended(lambda connection: connection.commit())
    ended(lambda connection: connection.rollback())


def test_memory_has_no_transactions(engine: Engine) -> None:
    with engine.connect() as connection, pytest.raises(InvalidValueError, match="memory://"):
        Scheduler("memory://").using(connection)


def waiting_by_hand(client: Scheduler, name: str = "job", kind: Any = jobs.Waiting) -> JobDetail:
    job = JobDetail(kind, name, durable=True)
    client.add_job(job)
    return job


def test_what_was_paused_before_the_commit_does_not_fire(scheduler: Scheduler, engine: Engine) -> None:
    job = waiting_by_hand(scheduler, kind=jobs.Recorded)
    with engine.begin() as connection:
        scheduler.using(connection).schedule(SimpleTrigger("t", job_key=job.key))
        scheduler.pause_all()
    assert jobs.nothing_ran()
    assert scheduler.trigger_state(KEY) is PublicState.PAUSED
    scheduler.resume_all()
    assert jobs.next_run().trigger_key == KEY


def test_what_was_resumed_before_the_commit_fires(scheduler: Scheduler, engine: Engine) -> None:
    job = waiting_by_hand(scheduler, kind=jobs.Recorded)
    scheduler.pause_all()
    with engine.begin() as connection:
        scheduler.using(connection).schedule(SimpleTrigger("t", job_key=job.key))
        scheduler.resume_all()
    assert jobs.next_run().trigger_key == KEY


def test_a_trigger_that_was_paused_by_itself_stays_so(client: Scheduler, engine: Engine) -> None:
    job = waiting_by_hand(client, kind=jobs.Recorded)
    with engine.begin() as connection:
        inside = client.using(connection)
        inside.schedule(SimpleTrigger("t", job_key=job.key))
        inside.pause_trigger(KEY)
    client.start()
    assert jobs.nothing_ran()
    client.resume_trigger(KEY)
    assert jobs.next_run().trigger_key == KEY


def test_a_limit_that_was_set_before_the_commit_holds(scheduler: Scheduler, engine: Engine) -> None:
    job = waiting_by_hand(scheduler)
    with engine.begin() as connection:
        scheduler.using(connection).schedule([SimpleTrigger(f"t{n}", job_key=job.key) for n in range(3)])
        scheduler.modify_job(job.key, disallow_concurrent=True)
    jobs.next_run()
    assert jobs.nothing_ran(), "one at a time"
    jobs.go_on.set()
    assert {jobs.next_run().trigger_key.name for _ in range(2)} < {"t0", "t1", "t2"}


def test_storing_a_trigger_waits_for_a_transaction_that_changes_its_job(scheduler: Scheduler, engine: Engine) -> None:
    job = waiting_by_hand(scheduler)
    with engine.connect() as connection:
        scheduler.using(connection).modify_job(job.key, disallow_concurrent=True)
        storing = threading.Thread(
            target=scheduler.schedule, args=[[SimpleTrigger(f"t{n}", job_key=job.key) for n in range(3)]]
        )
        storing.start()
        # Not by this connection: a transaction sees other sessions as they were when it looked first.
        wait_until(lambda: waits_for_a_lock(engine) or not storing.is_alive())
        connection.commit()
    storing.join()
    jobs.next_run()
    assert jobs.nothing_ran(), "one at a time"


def test_what_is_stored_inside_is_listed_at_once_and_explained(client: Scheduler, engine: Engine) -> None:
    job = waiting_by_hand(client, kind=jobs.Recorded)
    later = client.nodes().now + HOUR
    with engine.begin() as connection:
        client.using(connection).schedule(SimpleTrigger("t", job_key=job.key, start_time=later))
    [scheduled] = client.executions(state="SCHEDULED")
    assert scheduled.trigger_key == KEY
    assert client.why(KEY)


@pytest.mark.parametrize("misfire", ["smart", "ignore"])
def test_what_is_stored_again_in_a_transaction_keeps_its_pause_and_its_progress(
    scheduler: Scheduler, engine: Engine, misfire: str
) -> None:
    handle = scheduler.schedule_job(
        a_job(), [SimpleTrigger("paused", interval=HOUR), SimpleTrigger("ran", interval=HOUR)]
    )
    scheduler.wait_until_recorded(2, SOON)
    scheduler.pause_trigger("paused")
    before = {key: scheduler.trigger_record(key) for key in scheduler.trigger_keys()}
    with engine.begin() as connection:
        again = [SimpleTrigger(name, interval=HOUR, misfire=misfire, priority=7) for name in ("paused", "ran")]
        inside = scheduler.using(connection).schedule_job(a_job(description="new"), again, replace=True)
        assert inside.next_fire_time == handle.next_fire_time
        with pytest.raises(SchedulerStateError, match="run only after its commit"):
            inside.wait("1s")
    # The node settles what a transaction stored, and fires what is due: this.
    scheduler.trigger_job("job")
    assert scheduler.wait_until_recorded(3, SOON)
    assert not scheduler.wait_until_recorded(4, SECOND / 5)
    for key, old in before.items():
        new = scheduler.trigger_record(key)
        assert old is not None
        assert new is not None
        assert (new.state, new.progress, new.generation) == (old.state, old.progress, old.generation)
        assert (new.trigger.priority, new.trigger.misfire) == (7, misfire)
    assert scheduler.trigger_state(TriggerKey("paused", "DEFAULT")) is PublicState.PAUSED
    scheduler.resume_trigger("paused")
    assert scheduler.trigger_state(TriggerKey("paused", "DEFAULT")) is PublicState.NORMAL
