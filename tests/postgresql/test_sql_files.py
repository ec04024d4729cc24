"""The `.sql` files: psql takes each with its shared parts, and their loader says what is wrong."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from quartzpy.store.postgresql.schema import sql_files
from quartzpy.store.postgresql.schema.sql_files import SHARED, SqlFile
from quartzpy.store.postgresql.schema.tables import metadata
from quartzpy.store.postgresql.steps import acquire
from quartzpy.store.postgresql.store import SqlJobStore
from tests.database import libpq_url
from tests.worlds.stage import binaries_of
from tests.worlds.world import NEWEST, World
from tools import sql
from tools.sql import STORE, files, whole

SAMPLES = Path(__file__).with_name("samples.sql")
FILES = {str(file.relative_to(Path(sql_files.__file__).parent.parent)): file for file in files()}
# Some statements fail unless their node's epoch stands and their execution is running, or has ended.
ROWS = """
INSERT INTO qrtz_scheduler_state
       (sched_name, instance_id, epoch, host, pid, started_at, last_checkin, checkin_count, checkin_interval)
VALUES ('samples', 'node', 1, 'somewhere', 1, now(), now(), 1, '5 s');
INSERT INTO qrtz_fired_triggers
       (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name, job_type, instance_id, epoch,
        fired_time, scheduled_time, priority, requests_recovery, submission, worker, outlives_node)
VALUES (9, 'samples', 'a', 'n', 1, 'a', 'j', 'a.job', 'node', 1, now(), now(), 5, false, 1, 'host:1', true);
INSERT INTO qrtz_executions
       (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name, job_type, instance_id,
        fired_time, scheduled_time, ended_at, outcome)
VALUES (9, 'samples', 'a', 'n', 1, 'a', 'j', 'a.job', 'node', now(), now(), now(), 'SUCCEEDED')
"""
DECLARED = re.compile(r"^\\set (\w+) ", re.MULTILINE)


def switches_of(text: str) -> list[str]:
    return sorted(set(re.findall(r"\\if :(\w+)", text)))


@pytest.mark.parametrize("on", [True, False], ids=["with all switches", "with no switch"])
@pytest.mark.parametrize("name", FILES)
def test_psql_takes_a_file_with_its_parts(
    make_store: Callable[..., SqlJobStore], postgres_dsn: str, tmp_path: Path, name: str, *, on: bool
) -> None:
    make_store(name="samples")
    text = whole(FILES[name])
    file = tmp_path / "whole.sql"
    file.write_text(text, encoding="utf-8")
    switches = [f"--set={switch}={'true' if on else 'false'}" for switch in switches_of(text)]
    command = [binaries_of(World("", NEWEST)) / "psql", libpq_url(postgres_dsn), "-X", "-q", "-v", "ON_ERROR_STOP=1"]
    ran = subprocess.run(
        [*command, *switches, "-c", "BEGIN", "-c", ROWS, "-f", SAMPLES, "-f", file, "-c", "ROLLBACK"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert "ERROR" not in ran.stderr
    assert "invalid command" not in ran.stderr


def test_each_sample_is_a_value_of_some_statement() -> None:
    used = {value for file in FILES.values() for value in re.findall(r":'(\w+)'", whole(file))}
    assert set(DECLARED.findall(SAMPLES.read_text(encoding="utf-8"))) == used | {"now"}


def test_each_shared_part_stands_once_and_is_used() -> None:
    stores = Path(sql_files.__file__).parent.parent
    texts = [(stores / path).read_text(encoding="utf-8") for path in SHARED]
    names = [name for text in texts for name in re.findall(r"^-- part: (\w+)$", text, re.MULTILINE)]
    assert len(names) == len(set(names))
    sources = [*texts, *(file.read_text(encoding="utf-8") for file in FILES.values())]
    assert set(names) == {name for text in sources for name in re.findall(r"^ *-- include: (\w+)", text, re.MULTILINE)}


@pytest.mark.parametrize("name", FILES)
def test_an_update_sets_a_column_that_the_generated_columns_depend_on(name: str) -> None:
    """Otherwise PostgreSQL 18 prepares them anew for each row: an update of a trigger takes 16 us instead of 5."""
    text = whole(FILES[name])
    for update in re.finditer(r"UPDATE qrtz_(\w+)\b[^;]*?\bSET\b", text):
        table = metadata.tables[f"qrtz_{update[1]}"]
        computed = " ".join(str(column.computed.sqltext) for column in table.columns if column.computed is not None)
        wanted = {column.name for column in table.columns if re.search(rf"\b{column.name}\b", computed)}
        assigned = _assigned_columns(text[update.end() :])
        line = text.count("\n", 0, update.start()) + 1
        assert not wanted or wanted & assigned, f"line {line}: set one of {wanted}"


def _assigned_columns(text: str) -> set[str]:
    """Return what a list of assignments sets: it ends at the first FROM, WHERE or RETURNING outside of parentheses."""
    depth, end = 0, len(text)
    for word in re.finditer(r"[()]|\b(?:FROM|WHERE|RETURNING)\b|;", text):
        depth += {"(": 1, ")": -1}.get(word[0], 0)
        if depth < 0 or (depth == 0 and word[0] not in "()"):
            end = word.start()
            break
    return set(re.findall(r"(\w+) =", text[:end]))


@pytest.mark.parametrize("text", [acquire.ACQUIRE, acquire.ACQUIRE_OF_ONE_POOL, acquire.ACQUIRE_UNLIMITED])
def test_every_common_table_expression_of_a_step_opens_with_its_reason(text: str) -> None:
    lines = [line for line in text.splitlines() if line.strip()]
    expressions = [place for place, line in enumerate(lines) if re.match(r"\w+ AS (MATERIALIZED )?\(", line)]
    assert len(expressions) > 2
    assert not [lines[place] for place in expressions if not lines[place - 1].startswith("--")]


def test_a_part_is_put_in_with_the_indentation_of_its_place_and_with_the_parts_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = {"whole": "a\n  -- include: at\n", "at": "b\n\n  AS c\n"}
    monkeypatch.setattr(sql_files, "_parts", lambda: parts)
    text = "SELECT\n    -- include: whole\n  FROM t"
    expected = "SELECT\n    -- include: whole\n    a\n      -- include: at\n      b\n\n        AS c\n      -- end\n"
    assert sql_files.expanded(text) == f"{expected}    -- end\n  FROM t"
    monkeypatch.setitem(parts, "is_in", ":column = 1\n")
    assert sql_files.expanded("-- include: is_in of t.a\n") == "-- include: is_in of t.a\nt.a = 1\n-- end\n"
    with pytest.raises(LookupError, match=r"^no part is called 'other': the parts stand in shared\.sql, "):
        sql_files.expanded("-- include: other\n")


def test_the_tool_prints_a_statement_as_it_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    assert sql.main(["steps/cancel.sql:cancel_requests"]) == SqlFile("steps/cancel.sql")("cancel_requests") + ";\n"
    assert sql.main(["acquire", "--on", "several_pools"]) != sql.main(["acquire"])
    assert "steps/acquire.sql:acquire\n" in sql.main([])
    with pytest.raises(SystemExit):
        sql.main(["nothing"])
    assert "no statement is called 'nothing'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        sql.main(["acquire", "--on", "nothing"])
    assert "has no switch nothing" in capsys.readouterr().err


def test_a_file_that_steers_the_planner_names_the_page_that_says_why() -> None:
    for path in sorted(STORE.rglob("*.sql")):
        text = path.read_text(encoding="utf-8")
        steers = re.search(r"OFFSET 0|\|\| ''|\bctid\b", re.sub(r"--.*", "", text)) is not None
        assert ("docs/planner.md" in text) is steers, path


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], SqlFile]:
    """A file with this text."""

    def write(text: str) -> SqlFile:
        sql_files._statements.cache_clear()
        monkeypatch.setattr("pkgutil.get_data", lambda package, path: text.encode())
        return SqlFile("made.sql")

    return write


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ({}, ["SELECT 3", "  FROM t"]),
        ({"a": True}, ["SELECT 1", "  FROM t"]),
        ({"a": True, "b": True}, ["SELECT 1", "  , 2", "  FROM t"]),
        ({"b": True}, ["SELECT 3", "  FROM t"]),
    ],
)
def test_switches_choose_lines(
    written: Callable[[str], SqlFile], switches: dict[str, bool], expected: list[str]
) -> None:
    lines = ["-- name: s", "\\if :a", "SELECT 1", "\\if :b", "  , 2", "\\endif", "\\else", "SELECT 3", "\\endif"]
    file = written("\n".join([*lines, "  FROM t;\n"]))
    assert file("s", **switches).splitlines() == expected


def test_the_text_of_a_statement_is_that_of_the_file(written: Callable[[str], SqlFile]) -> None:
    text = "-- A comment.\nSELECT :now, :'x'::text, a[:n], '$1' FROM qrtz_triggers"
    assert written(f"-- The file.\n\n-- name: s\n{text};\n\n-- name: t\nSELECT 1;\n")("s") == text


def test_an_unknown_statement_or_switch_is_named(written: Callable[[str], SqlFile]) -> None:
    file = written("-- name: s\nSELECT 1;\n-- name: t\nSELECT 2;\n")
    with pytest.raises(LookupError, match=r"^made\.sql has no statement 'u'; it has s, t$"):
        file("u")
    with pytest.raises(LookupError, match=r"^made\.sql: the statement 's' has no switch all_but$"):
        file("s", all_but=True)
