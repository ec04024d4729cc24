"""An option of a job is declared once: both stores, all ways to define a job, the page and the terminal follow."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.journeys import PACKAGE, ROOT

DECLARED = {
    "jobs/job.py": (
        ("    documentation_url: str | None = None\n", "    contact: str | None = None\n"),
        (
            '        "limits": checked_limits,\n',
            '        "contact": optional(partial(check_name, subject="contact")),\n',
        ),
    ),
    "jobs/options.py": (("    documentation_url: str | None\n", "    contact: str | None\n"),),
}
"""All that is written for the option `contact`: lines of files of the package, each before one that stands there."""
PROGRAM = """
import json, sys
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path

from starlette.testclient import TestClient

from quartzpy import JobDetail, JobExecutionContext, Scheduler, job
from quartzpy.cli.main import main
from quartzpy.dashboard import create_app, token_auth
from quartzpy.operations import Actor, Role
from quartzpy.testing import SchedulerHarness

seen = []


@job(type_name="report", contact="ann")
def report(context: JobExecutionContext) -> None:
    seen.append(context.job_detail.contact)


def run(*arguments):
    with redirect_stdout(StringIO()) as out, suppress(SystemExit):
        main([*arguments, "--dsn", url, "--name", "options"])
    return out.getvalue()


def contacts(scheduler):
    return {record.key.name: record.job.contact for record in scheduler.jobs()}


def define(scheduler):
    scheduler.add_job(report.detail("decorated", durable=True))
    scheduler.add_job(report.detail("changed", durable=True))
    scheduler.modify_job("changed", contact="bob")


[url, file] = sys.argv[1:]
told = {}
harness = SchedulerHarness()
define(harness)
harness.trigger_job("changed")
harness.advance("1s")
told["in memory"] = contacts(harness)
with Scheduler(url, name="options") as scheduler:
    scheduler.start()
    define(scheduler)
    scheduler.trigger_job("changed").wait("30s")
    Path(file).write_text('[[job]]\\nname = "in_file"\\ntype = "report"\\ndurable = true\\ncontact = "cleo"\\n')
    run("apply", file, "--yes")
    web = TestClient(
        create_app(scheduler, auth=token_auth({"t" * 40: Actor("ann", Role.ADMIN)}), read_only=False),
        base_url="http://127.0.0.1",
        client=("127.0.0.1", 50_000),
        headers={"Authorization": "Bearer " + "t" * 40},
    )
    document = {"type": "report", "contact": "dora"}
    told["answer"] = web.put("/api/v1/jobs/DEFAULT/sent", json=document).status_code
    told["refused"] = web.put("/api/v1/jobs/DEFAULT/wrong", json={**document, "contact": ""}).json()["faults"]
    told["in PostgreSQL"] = contacts(scheduler)
    told["document"] = web.get("/api/v1/jobs/DEFAULT/sent").json()
    schemas = web.get("/api/v1/openapi.json").json()["components"]["schemas"]
    told["schema"] = schemas["JobDocument"]["properties"]["contact"]
    told["page"] = web.get("/job?group=DEFAULT&name=sent").text
    told["sheet"] = run("show", "job", "sent")
    told["file"] = run("export")
told["seen"] = seen
print(json.dumps(told))
"""


def test_an_option_of_a_job_costs_two_files(postgres_dsn: str, tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "quartzpy")
    (tmp_path / "schema").symlink_to(ROOT / "schema")
    for name, lines in DECLARED.items():
        path = tmp_path / "quartzpy" / name
        text = path.read_text(encoding="utf-8")
        for before, line in lines:
            assert text.count(before) == 1
            text = text.replace(before, line + before)
        path.write_text(text, encoding="utf-8")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program, postgres_dsn, tmp_path / "jobs.toml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["seen"] == ["bob", "bob"]
    assert told["in memory"] == {"decorated": "ann", "changed": "bob"}
    assert told["in PostgreSQL"] == {"decorated": "ann", "changed": "bob", "in_file": "cleo", "sent": "dora"}
    assert told["answer"] == 201
    assert [fault["pointer"] for fault in told["refused"]] == ["/contact"]
    assert told["document"]["contact"] == "dora"
    assert told["schema"] == {"type": ["null", "string"]}
    assert "<dt>Contact</dt><dd><bdi>dora</bdi></dd>" in told["page"]
    assert re.search(r"^ +contact +dora$", told["sheet"], re.MULTILINE)
    assert 'contact = "cleo"' in told["file"]
