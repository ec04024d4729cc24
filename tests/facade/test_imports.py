"""The packages that are imported by `import quartzpy` and by a node: each takes memory in every process."""

from __future__ import annotations

import json
import subprocess
import sys

IMPORT = """
import json, sys
import quartzpy
print(json.dumps(sorted(sys.modules)))
"""
COMMAND = """
import json, sys
from quartzpy.cli.main import main
try:
    main(["calendars", "--help"])
except SystemExit:
    print()
    print(json.dumps(sorted(sys.modules)))
"""
JUDGEMENT = """
import json, sys
import quartzpy.operations.telling.health_check
import quartzpy.store.postgresql.admin.operators
print(json.dumps(sorted(sys.modules)))
"""
NODE = """
import json, sys, threading
import psycopg
from quartzpy import Scheduler, job

ran = threading.Event()

@job(type_name="work")
def work() -> None:
    ran.set()

scheduler = Scheduler(sys.argv[1])
scheduler.start()
scheduler.schedule_job(work, "* * * * * ?")
assert ran.wait(60)
plain = sys.argv[1].replace("+psycopg", "")
with psycopg.connect(plain) as connection:
    scheduler.using(connection).trigger_job("work")
scheduler.shutdown()
print(json.dumps(sorted(sys.modules)))
"""
CHECKING_NODE = """
import json, sys, time
import psycopg
import quartzpy.factory
from quartzpy import Scheduler, job

quartzpy.factory.HEALTH_CHECKS_AFTER = 0.0

@job(type_name="work")
def work() -> None: ...

scheduler = Scheduler(sys.argv[1], checkin_interval="500ms")
scheduler.start()
at_start = set(sys.modules)
scheduler.schedule_job(work, "* * * * * ?")
end = time.monotonic() + 60
with psycopg.connect(sys.argv[1].replace("+psycopg", ""), autocommit=True) as connection:
    while not (connection.execute("SELECT due_at FROM qrtz_health_runs").fetchone() and scheduler.executions()):
        assert time.monotonic() < end, "nothing was judged, or nothing ran"
        time.sleep(0.1)
scheduler.shutdown()
print(json.dumps(sorted(name for name in set(sys.modules) - at_start if name.startswith("quartzpy."))))
"""


def imported(program: str, *arguments: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_import_quartzpy_does_not_import_the_database_driver() -> None:
    assert not imported(IMPORT).intersection({"sqlalchemy", "psycopg", "alembic", "multiprocessing"})


def test_a_command_imports_no_other_command_and_no_driver_before_it_runs() -> None:
    modules = imported(COMMAND)
    assert "quartzpy.cli.lists" in modules
    others = {"quartzpy.cli.cluster", "quartzpy.cli.show", "quartzpy.cli.top"}
    assert not modules.intersection({*others, "sqlalchemy", "psycopg", "alembic", "rich"})


def test_a_node_that_judges_what_is_wrong_imports_neither_sqlalchemy_nor_what_operators_do() -> None:
    unneeded = {"sqlalchemy", "alembic", "quartzpy.operations.actions", "quartzpy.operations.exports"}
    assert not imported(JUDGEMENT).intersection(unneeded)


def test_a_node_does_not_import_what_it_does_not_need(postgres_dsn: str) -> None:
    modules = imported(NODE, postgres_dsn)
    assert "psycopg" in modules
    unneeded = {
        "sqlalchemy",
        "alembic",
        "rich",
        "multiprocessing",
        "quartzpy.testing",
        "quartzpy.embedded",
        "quartzpy.store.memory",
        "quartzpy.store.postgresql.admin.integrity",
        "quartzpy.operations.actions",
        "quartzpy.dashboard",
        "quartzpy.aio",
        "quartzpy.scheduler.awaitable",
        "tomllib",
    }
    assert not modules.intersection(unneeded)


def test_a_node_that_runs_jobs_imports_nothing_more_because_an_import_would_delay_them(postgres_dsn: str) -> None:
    assert imported(CHECKING_NODE, postgres_dsn) == set()
