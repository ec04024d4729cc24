"""What the command line prints cannot move the terminal's cursor, and a failure is one line and an exit status."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from datetime import UTC, datetime

import click
import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.cli import main as command_line
from quartzpy.cron_expressions.expression import CronExpression
from quartzpy.errors import InvalidCronError, InvalidValueError
from quartzpy.logs.default_handler import VisibleFormatter
from quartzpy.operations.render import plain, table
from tests.cluster.app import Quick

DANGEROUS = "a\x1b[2J\x1b]0;owned\x07\r\nb\u202ec\u2066d\x00\ud800\x9b31m\u2028"


def test_a_table_shows_what_moves_a_cursor_as_escapes() -> None:
    shown = table(["name", "text"], [["tüv", DANGEROUS], ["second", "x"]])
    assert shown.count("\n") == 2
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert "\\x1b[2J" in shown
    assert "\\u202e" in shown
    assert "\\ud800" in shown
    assert plain("täglich\n") == "täglich\\n", "letters stay as they are"


def test_a_wrong_cron_expression_is_pointed_out_without_its_escapes() -> None:
    with pytest.raises(InvalidCronError) as caught:
        CronExpression("0 0 12 \x1b[2J * ?")
    expression, caret, message = caught.value.pointed_out().split("\n")
    assert "\x1b" not in expression + message
    assert expression[caret.index("^")] == "\N{REPLACEMENT CHARACTER}"


def test_the_tables_of_a_database_in_which_somebody_wrote_escapes(
    postgres_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client = Scheduler(postgres_dsn, name="terminal")
    try:
        job = JobDetail(Quick, "job", description=DANGEROUS.replace("\0", "").replace("\ud800", ""))
        client.schedule_job(job, SimpleTrigger("t", start_time=datetime(2090, 1, 1, tzinfo=UTC)))
    finally:
        client.shutdown()
    for arguments in (["jobs"], ["triggers"], ["why", "t"], ["jobs", "--json"]):
        with pytest.raises(SystemExit) as ended:
            command_line.main([*arguments, "--dsn", postgres_dsn, "--name", "terminal"])
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        assert shown
        assert all(character.isprintable() or character == "\n" for character in shown)


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (InvalidValueError("name: \x1b[2J\nwrong"), 2, "quartzpy: InvalidValueError: name: \\x1b[2J wrong\n"),
        (KeyError("\x1b[2J"), 70, "quartzpy: KeyError: '\\x1b[2J' (quartzpy --debug shows the traceback)\n"),
        (KeyboardInterrupt(), 130, "quartzpy: interrupted\n"),
        (click.UsageError("no"), 2, "Error: no\n"),
    ],
)
def test_a_failure_is_one_line_and_an_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, status: int, said: str
) -> None:
    def failing(**arguments: object) -> None:
        raise error

    monkeypatch.setattr(command_line.cli, "main", failing)
    with pytest.raises(SystemExit) as ended:
        command_line.main(["jobs"])
    assert ended.value.code == status
    assert capsys.readouterr().err == said
    if not isinstance(error, click.ClickException | KeyboardInterrupt):
        with pytest.raises(type(error)):
            command_line.main(["jobs", "--debug"])


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--help"], 0, ""),
        (["--version"], 0, ""),
        (["misfirs"], 2, "Did you mean 'misfires'?"),
        (["cron"], 2, "Missing argument 'EXPRESSION'"),
        (["cron", "0 0 12 * * ?", "--after", "tomorrow"], 2, "an instant such as 2026-03-29T01:00"),
        (["cron", "0 0 12 * * ?", "--before", "9999-12-31T23:59:59-12:00"], 2, "within the years 1 to 9999"),
        (["cron", "0 0 12 * * ?", "--zone", "../etc/passwd"], 2, "'../etc/passwd' is not known"),
        (["node", "--app", "json:dumps", "--log-level", "LOUD"], 2, "'--log-level'"),
    ],
)
def test_wrong_arguments(capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line.main(arguments)
    assert ended.value.code == status
    assert said in capsys.readouterr().err


def test_importing_quartzpy_starts_nothing_and_reads_no_network() -> None:
    script = (
        "import sys, socket, threading\n"
        "def refuse(*a, **k): raise AssertionError('a socket at import')\n"
        "socket.socket.connect = refuse\n"
        "import quartzpy, quartzpy.cli.main\n"
        "assert threading.active_count() == 1\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_log_line_is_one_line_whatever_it_quotes() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(VisibleFormatter("%(levelname)s %(message)s"))
    logger = logging.Logger("of the test")
    logger.addHandler(handler)
    logger.warning("jobs of type %s are left to others", "x\x1b[2J\nERROR forged")
    assert written.getvalue() == "WARNING jobs of type x\\x1b[2J\\nERROR forged are left to others\n"
    try:
        raise ValueError("\x1b[2J\u202e")
    except ValueError:
        logger.exception("failed")
    lines = written.getvalue().splitlines()[1:]
    assert lines[0] == "ERROR failed"
    assert lines[-1] == "ValueError: \\x1b[2J\\u202e"
    assert len(lines) > 3
