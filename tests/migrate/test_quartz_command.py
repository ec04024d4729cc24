"""`quartzpy import quartz`: the command and its map of classes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quartzpy.cli.main import main
from quartzpy.errors import SettingsError, StoreUnavailableError
from quartzpy.migrate.class_map import load_class_map
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import JobStore
from tests.cli.test_commands import quartzpy
from tests.migrate.quartz_plans import BERLIN
from tests.proxy import over_tcp

MAP = """
[classes]
"Jobs$Report" = "migrate.Report"
"Jobs$Counter" = false

[[data]]
job = "reports.hidden"
entry = "token"
value = { renewed = true }

[[data]]
job = "reports.values"
entry = "nul"
drop = true
"""


def test_the_command_prints_a_plan_and_applies_it(quartz_tables: str, postgres_dsn: str, tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(MAP)
    source = over_tcp(quartz_tables).replace("postgresql+psycopg://", "jdbc:postgresql://")
    who, _, place = source.removeprefix("jdbc:postgresql://").rpartition("@")
    user, _, password = who.partition(":")
    command = (
        *("import", "quartz", "--from", f"jdbc:postgresql://{place}?user={user}&password={password}"),
        *("--sched-name", "serialized", "--map", str(tmp_path / "map.toml"), "--java-time-zone", BERLIN),
        *("--dsn", postgres_dsn, "--name", "imported"),
    )
    plan = quartzpy(*command)
    assert plan.returncode == 0, plan.stderr
    assert "left out: job reports.counter: its class Jobs$Counter is mapped to false" in plan.stdout
    assert "4 new jobs, 34 new triggers, 7 new or changed calendars" in plan.stdout
    assert plan.stdout.endswith("Nothing was changed; --apply stores this plan.\n")
    assert quartzpy("jobs", "--dsn", postgres_dsn, "--name", "imported").stdout.count("reports.") == 0
    assert quartzpy(*command, "--apply").stdout.endswith("Stored.\n")
    assert quartzpy("jobs", "--dsn", postgres_dsn, "--name", "imported").stdout.count("reports.") == 4
    again = quartzpy(*command, "--apply", "--json")
    assert '"new_triggers": 0' in again.stdout


def test_an_aborted_command_says_how_it_is_continued(
    quartz_tables: str,
    postgres_dsn: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "map.toml").write_text(MAP)
    command = [
        *("import", "quartz", "--from", quartz_tables, "--sched-name", "serialized", "--java-time-zone", BERLIN),
        *("--map", str(tmp_path / "map.toml"), "--dsn", postgres_dsn, "--name", "aborted", "--apply", "--limit", "0"),
    ]
    stored = 0
    store_slice = SqlJobStore.together

    def failing(store: SqlJobStore, work: Callable[[JobStore], Any], *, exclusively: bool = False) -> Any:
        nonlocal stored
        stored += 1
        if stored == 3:
            raise StoreUnavailableError("the database is gone")
        return store_slice(store, work, exclusively=exclusively)

    monkeypatch.setattr("quartzpy.migrate.slices.SLICE", 10)
    with monkeypatch.context() as context:
        context.setattr(SqlJobStore, "together", failing)
        with pytest.raises(SystemExit) as ended:
            main(command)
    assert ended.value.code == 3
    said = capsys.readouterr().err
    assert re.search(r"not complete: [1-9]\d* of \d+ jobs and triggers are stored; the same command continues it", said)
    with pytest.raises(SystemExit) as ended:
        main([*command, "--json"])
    assert ended.value.code == 0
    outcome = json.loads(capsys.readouterr().out)["outcome"]
    assert outcome["new_triggers"] + outcome["triggers_kept"] == 34
    assert outcome["triggers_kept"] > 0
    with pytest.raises(SystemExit):
        main([*command, "--skip-undecided"])
    printed = capsys.readouterr().out
    assert re.search(r"\(3\d more; --limit shows more, --json all\)", printed)
    assert re.search(r"\(\d+ more left out; --limit shows more, --json all\)", printed)
    assert len(printed.splitlines()) < 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prefix", "QRTZ_; DROP"], "--prefix: letters, digits"),
        (["--sched-name", "typo"], "--sched-name: 'typo' is not in the tables; they have properties, serialized"),
        ([], "--sched-name: the database has several schedulers: properties, serialized"),
        (["--sched-name", "serialized", "--apply"], "objects need a decision"),
    ],
)
def test_what_the_command_refuses(quartz_tables: str, postgres_dsn: str, options: list[str], message: str) -> None:
    done = quartzpy("import", "quartz", "--from", quartz_tables, "--dsn", postgres_dsn, *options)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[clases]\n"a" = "b"', "unknown table 'clases'; did you mean classes?"),
        ('[classes]\n"a" = 7', "the name of a job type, or false"),
        ('[[data]]\njob = "g.n"\nentry = "x"', "needs either value, or drop = true"),
        ('[[data]]\nentry = "x"\ndrop = true', "needs entry, and either job or trigger"),
        ('[[data]]\njob = "g.n"\nentri = "x"', "unknown key 'entri'; did you mean entry?"),
    ],
)
def test_a_wrong_map_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "map.toml"
    path.write_text(text)
    with pytest.raises(SettingsError) as error:
        load_class_map(path)
    assert message in str(error.value)
