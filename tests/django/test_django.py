"""A Django project with the app: its tests, its commands, its nodes, and the move from django-celery-beat."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import django
import pytest

from quartzpy import JobKey, Scheduler
from quartzpy.store.postgresql import migrations
from tests.database import execute
from tests.ports import free_port
from tests.waiting import wait_until
from tests.worlds import installed

OTHER = "QUARTZPY_TEST_DJANGO_6"
SITE = Path(__file__).parent / "project"
ROOT = SITE.parents[2]


def environment(url: str, **more: str) -> Mapping[str, str]:
    return {**os.environ, "DATABASE": url, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error::RuntimeWarning", **more}


def manage(url: str, *words: str, python: str = sys.executable, **more: str) -> str:
    """Run `manage.py`; return what it printed."""
    command = [python, "manage.py", *words]
    done = subprocess.run(
        command, cwd=SITE, env=environment(url, **more), capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]
    return done.stdout + done.stderr


@contextmanager
def started(url: str, *words: str, python: str = sys.executable, **more: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [python, *words],
        cwd=SITE,
        env=environment(url, **more),
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


@contextmanager
def client_of(url: str) -> Iterator[Scheduler]:
    """A client of the project's scheduler."""
    client = Scheduler(url, name="shop")
    yield client
    client.shutdown()


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def shop(postgres_dsn: str) -> Iterator[Scheduler]:
    with client_of(postgres_dsn) as client:
        yield client


def states(shop: Scheduler) -> list[str]:
    return [str(each.state) for each in shop.executions()]


def test_the_tests_of_a_project_pass(fresh_database: Callable[[], str]) -> None:
    assert re.search(r"Ran 2\d tests[^F]*OK", manage(fresh_database(), "test", "shop"))


@pytest.fixture(scope="module")
def python_with_django_6(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of an environment with Django 6, which needs Python 3.12, and gunicorn."""
    if OTHER in os.environ:
        return os.environ[OTHER]
    interpreter = installed.python("3.13") or installed.python("3.12")
    if interpreter is None:
        pytest.skip(f"neither Python 3.13 nor 3.12 is installed, and {OTHER} names no environment with Django 6")
    place = tmp_path_factory.mktemp("environment")
    python = str(place / "bin" / "python")
    subprocess.run([interpreter, "-m", "venv", str(place)], check=True)
    install = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--editable",
        f"{ROOT}[binary,django]",
        "django>=6",
        "gunicorn",
    ]
    done = subprocess.run(install, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"Django 6 cannot be installed: {done.stderr.strip()[-300:]}")
    return python


@pytest.mark.skipif(django.VERSION >= (6,), reason="the other tests run on Django 6")
def test_the_tests_of_a_project_pass_on_django_6(fresh_database: Callable[[], str], python_with_django_6: str) -> None:
    printed = manage(fresh_database(), "test", "shop", python=python_with_django_6)
    assert re.search(r"Ran 2\d tests[^F]*OK", printed)


@pytest.mark.skipif(django.VERSION >= (6,), reason="the environment is that of the test on Django 6")
def test_workers_of_gunicorn_enqueue_in_transactions_of_the_orm_and_a_node_runs_each_task_once(
    fresh_database: Callable[[], str], python_with_django_6: str
) -> None:
    url, port = fresh_database(), free_port()
    manage(url, "migrate", "-v0", python=python_with_django_6)
    serving = ["-m", "gunicorn", "--workers", "3", "--bind", f"127.0.0.1:{port}"]
    serving.append("django.core.wsgi:get_wsgi_application()")
    settings = {"DJANGO_SETTINGS_MODULE": "mysite.settings", "WITH_NODE": "1"}

    def order(number: int) -> str | None:
        declined = "?declined" if number % 3 == 0 else ""
        try:
            with urlopen(f"http://127.0.0.1:{port}/order/{number}{declined}", timeout=60) as answer:
                return str(answer.read().decode())
        except HTTPError:
            if not declined:
                raise
            return None

    with client_of(url) as shop, started(url, *serving, python=python_with_django_6, **settings):
        wait_until(lambda: answers(port), seconds=100)
        with ThreadPoolExecutor(6) as clients:
            workers = list(clients.map(order, range(60)))
        assert workers.count(None) == 20
        assert len(set(workers) - {None}) > 1
        assert not shop.nodes().nodes
        with started(url, "manage.py", "quartzpy", "node", python=python_with_django_6):
            wait_until(lambda: states(shop).count("SUCCEEDED") >= 40, seconds=100)
            assert len(shop.nodes().nodes) == 1
        assert states(shop) == ["SUCCEEDED"] * 40
    assert execute(url, "SELECT invoiced, count(*) FROM shop_order GROUP BY 1") == [(True, 40)]


def test_the_tests_of_a_project_pass_in_parallel(fresh_database: Callable[[], str]) -> None:
    assert "OK" in manage(fresh_database(), "test", "shop.tests.Enqueueing", "shop.tests.WithoutANode", "--parallel=2")


def test_migrate_moves_the_tables_and_the_models_need_no_other_migration(
    fresh_database: Callable[[], str],
) -> None:
    url = fresh_database()
    manage(url, "migrate", "-v0")
    migrations.check(url)
    manage(url, "makemigrations", "quartzpy", "--check", "--dry-run")
    # The tables of an older release.
    migrations.downgrade(url, revision="-1")
    manage(url, "migrate", "-v0")
    migrations.check(url)


def test_commands_are_passed_on_with_the_database_of_the_project(postgres_dsn: str) -> None:
    assert "Usage: quartzpy jobs" in manage(postgres_dsn, "quartzpy", "jobs", "--help")
    assert "QUARTZPY_NAME" in manage(postgres_dsn, "quartzpy", "config", "--settings=mysite.settings")


def test_a_database_that_is_not_postgresql_is_refused_in_one_line(postgres_dsn: str, tmp_path: Path) -> None:
    """That of a new project is SQLite."""
    (tmp_path / "lite.py").write_text(
        "from mysite.settings import *\n"
        "DATABASES['default'] = {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}\n"
    )
    for words in (("quartzpy", "jobs"), ("migrate",)):
        command = [sys.executable, "manage.py", *words, "--settings=lite"]
        given = environment(postgres_dsn, PYTHONPATH=f"{ROOT}{os.pathsep}{tmp_path}")
        done = subprocess.run(command, cwd=SITE, env=given, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 1
        assert "quartzpy needs PostgreSQL: DATABASES['default'] is sqlite" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_node_runs_until_it_is_told_to_stop(postgres_dsn: str, shop: Scheduler) -> None:
    manage(postgres_dsn, "shell", "-c", "from shop.tasks import add; add.enqueue(1, 2)")
    with started(postgres_dsn, "manage.py", "quartzpy", "node") as process:
        wait_until(lambda: states(shop) == ["SUCCEEDED"], seconds=100)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert [str(each.key) for each in shop.triggers()] == ["shop.tasks.nightly", "shop.tasks.nightly-2"]


def test_the_development_server_runs_one_node_although_it_is_two_processes(postgres_dsn: str, shop: Scheduler) -> None:
    port = free_port()
    with started(postgres_dsn, "manage.py", "runserver", f"127.0.0.1:{port}", WITH_NODE="1"):
        wait_until(lambda: shop.nodes().nodes, seconds=100)
        wait_until(lambda: answers(port), seconds=100)
        assert len(shop.nodes().nodes) == 1


def test_workers_of_a_web_server_run_no_node(postgres_dsn: str, shop: Scheduler) -> None:
    program = (
        "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'mysite.settings'; pid = os.fork()\n"
        "from django.core.wsgi import get_wsgi_application; get_wsgi_application()\n"
        "from shop.tasks import add; add.enqueue(1, 2)\n"
        "pid and os.waitpid(pid, 0)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=SITE, env=environment(postgres_dsn, WITH_NODE="1"), timeout=200, check=False)
    assert done.returncode == 0
    assert len(list(shop.triggers())) == 2
    assert not shop.nodes().nodes


TWENTY = """
import json
from django.core.management import call_command
call_command("migrate", verbosity=0)
from django_celery_beat import models
every = models.IntervalSchedule.objects.create(every=1, period="seconds")
nightly = models.CrontabSchedule.objects.create(minute="0", hour="2", timezone="Europe/Berlin")
for number in range(20):
    kind = {"interval": every} if number % 2 else {"crontab": nightly}
    models.PeriodicTask.objects.create(
        name=f"task {number}", task="old.tasks.add" if number % 4 == 1 else "old.tasks.nightly",
        args=json.dumps([number, 1] if number % 4 == 1 else ["eu"]), enabled=number != 7, **kind)
"""


def test_twenty_periodic_tasks_of_celery_beat_become_tasks(fresh_database: Callable[[], str], tmp_path: Path) -> None:
    url = fresh_database()
    manage(url, "shell", "-c", TWENTY, WITH_BEAT="1")
    chosen = tmp_path / "tasks.toml"
    chosen.write_text('[classes]\n"old.tasks.add" = "shop.tasks:add"\n"old.tasks.nightly" = "shop.tasks:nightly"\n')
    assert "20" in manage(url, "quartzpy", "import", "celery-beat", "--map", str(chosen), "--apply")
    with client_of(url) as shop:
        assert len(list(shop.triggers(group="celery-beat"))) == 20

        def names() -> set[str]:
            return {each.job_key.name for each in shop.executions()}

        with started(url, "manage.py", "quartzpy", "node"):
            wait_until(lambda: names() >= {"task 1", "task 5", "task 9"}, seconds=100)
        assert set(states(shop)) == {"SUCCEEDED"}
        assert "task 7" not in names()
        assert {each.result for each in shop.executions(job=JobKey("task 5", "celery-beat"))} == {6}
