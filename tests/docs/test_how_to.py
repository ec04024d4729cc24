"""The programs of the how-to pages do what the pages say, on a real PostgreSQL."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import MetaData, create_engine, text

import quartzpy.errors
from quartzpy import Scheduler
from quartzpy.ext.celery.beat import definitions_of
from quartzpy.migrate import apply
from quartzpy.migrate.crontab import read_crontab
from quartzpy.testing import SchedulerHarness
from tests.docs.code_blocks import ROOT, check_command, write_files

SECOND = timedelta(seconds=1)


@pytest.fixture
def files(tmp_path: Path, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Writes a page's files where they can be imported, with QUARTZPY_URL in the environment."""
    monkeypatch.setenv("QUARTZPY_URL", postgres_dsn)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def write(page: str) -> None:
        assert write_files(page, tmp_path)
        importlib.invalidate_caches()

    yield write
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def orders_table(postgres_dsn: str) -> Iterator[None]:
    engine = create_engine(postgres_dsn)
    with engine.begin() as connection:
        # Other tests of this worker have a table of this name.
        connection.execute(text("DROP TABLE IF EXISTS orders"))
        connection.execute(text("CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)"))
    yield
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE orders"))
    engine.dispose()


def run_one(scheduler: Scheduler) -> None:
    """Start a node in this process until one job has run."""
    scheduler.start()
    assert scheduler.wait_until_recorded(1, 30 * SECOND)
    [execution] = scheduler.executions()
    assert execution.outcome == "SUCCEEDED", execution


def test_fastapi_schedules_in_the_transaction_of_a_request(files: Callable[[str], None], orders_table: None) -> None:
    from fastapi.testclient import TestClient

    files("how-to/fastapi.md")
    api: Any = importlib.import_module("orders_api")
    with TestClient(api.app) as client:
        order_id = client.post("/orders").json()
        assert [each.key.name for each in api.scheduler.jobs()] == [f"invoice-{order_id}"]
        run_one(api.scheduler)


def test_fastapi_schedules_in_the_transaction_of_an_async_session(
    files: Callable[[str], None], orders_table: None
) -> None:
    from fastapi.testclient import TestClient

    files("how-to/fastapi.md")
    api: Any = importlib.import_module("async_orders_api")
    with TestClient(api.app) as client:
        order_id = client.post("/orders").json()
        assert [each.key.name for each in api.scheduler.blocking.jobs()] == [f"invoice-{order_id}"]
        run_one(api.scheduler.blocking)


def test_fastapi_runs_a_node_and_answers_probes(files: Callable[[str], None]) -> None:
    from fastapi.testclient import TestClient

    files("how-to/fastapi.md")
    api: Any = importlib.import_module("mails_api")
    with TestClient(api.app) as client:
        assert client.post("/mails/ada").status_code == 202
        assert api.scheduler.wait_until_recorded(1, 30 * SECOND)
        assert client.get("/ops/readyz").status_code == client.get("/ops/healthz").status_code == 200
        assert "quartzpy_fires_total" in client.get("/ops/metrics").text
    assert api.scheduler.is_shut_down
    assert TestClient(api.app).get("/ops/readyz").status_code == 503


def test_flask_schedules_in_the_transaction_of_a_request(files: Callable[[str], None], orders_table: None) -> None:
    files("how-to/flask.md")
    shop: Any = importlib.import_module("flask_shop")
    order_id = shop.app.test_client().post("/orders").json["id"]
    assert [each.key.name for each in shop.scheduler.jobs()] == [f"invoice-{order_id}"]
    run_one(shop.node())
    assert [each.key.name for each in shop.scheduler.triggers()] == ["nightly-report"]
    shop.scheduler.shutdown()
    shop.engine.dispose()


@pytest.fixture
def django_site(tmp_path: Path) -> Path:
    """The project of the page for Django, as its commands make it; what they install is there."""
    page = (ROOT / "docs/how-to/django.md").read_text()
    begin, run = re.findall(r"^```bash\n(.*?)^```", page, re.S | re.M)
    assert run.splitlines() == ["python manage.py migrate", "python manage.py quartzpy node"]
    installs = ("python3 -m venv", ". .venv", "pip install")
    script = "\n".join(line for line in begin.splitlines() if not line.startswith(installs))
    assert len(begin.splitlines()) == len(script.splitlines()) + len(installs)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, env={**os.environ, "PATH": path}, check=True, timeout=100)
    write_files("how-to/django.md", tmp_path / "site")
    return tmp_path / "site"


def test_the_first_example_of_the_django_page_runs_a_periodic_task(django_site: Path) -> None:
    python(django_site, "manage.py", "migrate", "-v0")
    command = [sys.executable, "manage.py", "quartzpy", "node"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=django_site, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert any("mysite.tasks.report is SUCCEEDED" in line for line in process.stderr)
            process.terminate()
            process.stderr.read()
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_the_tests_of_the_django_page_pass(django_site: Path) -> None:
    python(django_site, "manage.py", "test")


def test_celery_gets_one_task_with_the_id_of_the_fire(
    tmp_path: Path, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files("how-to/celery.md", tmp_path)
    program = """
import json
from datetime import timedelta
from celery_sender import celery_app, node
from quartzpy import JobKey
scheduler = node()
scheduler.start()
scheduler.trigger_job(JobKey("nightly-report"))
assert scheduler.wait_until_recorded(1, timedelta(seconds=30))
with celery_app.connection_for_read() as connection:
    message = connection.SimpleQueue("celery").get(timeout=30)
print(json.dumps([message.headers["task"], message.payload[1]]))
scheduler.shutdown()
"""
    printed = python(tmp_path, "-c", program, url=postgres_dsn).splitlines()[-1]
    assert json.loads(printed) == ["shop.tasks.report", {"region": "eu"}]


def test_the_schedule_of_celery_beat_on_the_page_can_be_stored(files: Callable[[str], None]) -> None:
    files("how-to/celery.md")
    found = {job.name: triggers for job, triggers in definitions_of(importlib.import_module("shop_beat").app)}
    assert [trigger.time_zone for trigger in found["nightly-report"]] == ["Europe/Berlin"]
    assert [trigger.interval for trigger in found["ping"]] == [timedelta(seconds=30)]


def test_a_line_of_a_crontab_runs_by_the_job_on_the_page(files: Callable[[str], None]) -> None:
    files("how-to/import.md")
    job_type = importlib.import_module("shell_jobs").RunCommand.type_name
    text = "WHO=world\n0 1 * * * cat; echo hello $WHO%input%\n1 1 * * * false\n"
    harness = SchedulerHarness()
    apply(read_crontab(text, time_zone="UTC", job_type=job_type), harness._store)
    [first, second] = harness.advance_to(max(one.next_fire_time for one in harness.triggers()))
    assert first.result == "input\nhello world\n"
    assert "non-zero exit status 1" in str(second.error)


@pytest.mark.parametrize(("version", "hour"), [("1.3.9", 2), ("1.4.1", 5)])
def test_only_a_newer_release_changes_the_schedule(tmp_path: Path, postgres_dsn: str, version: str, hour: int) -> None:
    [path] = write_files("how-to/rolling-releases.md", tmp_path)
    declare = "from billing_jobs import node; node().shutdown()"
    python(tmp_path, "-c", declare, url=postgres_dsn)
    path.write_text(path.read_text().replace("1.4.0", version).replace("daily_at(2)", "daily_at(5)"))
    python(tmp_path, "-c", declare, url=postgres_dsn)
    scheduler = Scheduler(postgres_dsn, name="billing")
    [stored] = scheduler.triggers()
    assert stored.next_fire_time
    assert stored.next_fire_time.hour == hour
    scheduler.shutdown()


def test_alembic_passes_over_the_tables_of_the_scheduler(files: Callable[[str], None], new_database: str) -> None:
    files("how-to/alembic.md")
    include_name = importlib.import_module("scheduler_tables").include_name
    engine = create_engine(new_database)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), MetaData()), "these would be dropped"
        context = MigrationContext.configure(connection, opts={"include_name": include_name})
        assert compare_metadata(context, MetaData()) == []
    engine.dispose()


def test_the_fixtures_for_pytest_work(tmp_path: Path) -> None:
    write_files("how-to/testing.md", tmp_path)
    assert "4 passed" in python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")


def test_the_gunicorn_hooks_start_and_drain_the_node(files: Callable[[str], None]) -> None:
    files("how-to/flask.md")
    files("how-to/gunicorn.md")
    config: Any = importlib.import_module("gunicorn_conf")
    shop: Any = importlib.import_module("flask_shop")
    config.post_worker_init(None)
    assert shop.scheduler.is_started
    config.worker_exit(None, None)
    assert shop.scheduler.is_shut_down
    shop.engine.dispose()


def test_the_uwsgi_hooks_start_and_drain_the_node(
    files: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The modules `uwsgi` and `uwsgidecorators` exist only inside uWSGI, so the test brings its own."""
    files("how-to/flask.md")
    uwsgi: Any = ModuleType("uwsgi")
    decorators: Any = ModuleType("uwsgidecorators")
    after_the_fork: list[Callable[[], None]] = []
    decorators.postfork = after_the_fork.append
    monkeypatch.setitem(sys.modules, "uwsgi", uwsgi)
    monkeypatch.setitem(sys.modules, "uwsgidecorators", decorators)
    [program] = re.findall(r'^```py title="uwsgi_app.py"\n(.*?)^```', page("how-to/gunicorn.md"), re.S | re.M)
    exec(compile(program, "uwsgi_app.py", "exec"), {})
    shop: Any = importlib.import_module("flask_shop")
    assert not shop.scheduler.is_started
    [start_node] = after_the_fork
    start_node()
    assert shop.scheduler.is_started
    uwsgi.atexit()
    assert shop.scheduler.is_shut_down
    shop.engine.dispose()


# --- files of other tools


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_the_errors_of_the_troubleshooting_page_exist() -> None:
    named = re.findall(r"`(\w+Error)`", (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text())
    assert len(set(named)) > 8
    for name in named:
        assert hasattr(quartzpy.errors, name), name


def shell_lines(text: str) -> str:
    """The blocks of bash and the indented blocks of a page."""
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.S | re.M)
    return "\n".join([*blocks, *re.findall(r"^    .*$", text, re.M)])


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: page.stem)
def test_commands_on_the_pages_exist(page: Path) -> None:
    for line in re.findall(r"^(?:    )?(quartzpy [a-z].+)$", shell_lines(page.read_text()), re.M):
        if "[" not in line and "..." not in line and "|" not in line:
            check_command(shlex.split(line.removesuffix("&"), comments=True))


def python(directory: Path, *arguments: str, url: str = "") -> str:
    """Run Python in a directory; what it printed."""
    ran = subprocess.run(
        # Bytecode that is written would stand for a file of the same size that is written anew in the same second.
        [sys.executable, "-B", *arguments],
        cwd=directory,
        env={**os.environ, "QUARTZPY_URL": url, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return ran.stdout
