"""Each of the programs in `examples/quartz` runs, and prints what it is there to show."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quartz"
SHOWN: dict[str, list[str]] = {
    "example01_simple_job": [r"^Hello from DEFAULT\.hello, fired by DEFAULT\.once$"],
    "example02_simple_triggers": [r"^   0 s  by-hand$", r"^  35 s  three-times$", r"^ 150 s  for-ever$"],
    "example03_cron_triggers": [r"2100 times a week", r"^0 0 18 \? \* 6L +1 times a week"],
    "example04_job_state": [r"^first: green, data 5, attribute 1$", r"^second: red, data 5, attribute 1$"],
    "example05_misfires": [
        r"^5 late executions$",
        r"^  fire_now: one run for 10 instants$",
        r"^  reschedule_next_with_existing_count: SKIPPED, 10 instants",
        r"^  fire_all: CATCHING_UP, 6 instants",
    ],
    "example06_failing_jobs": [r"^repairing: 4815 at try", r"^hopeless: never again$", r"^hopeless is COMPLETE$"],
    "example07_interrupt": [r"^asked to stop: True$", r"^long is CANCELLED$"],
    "example08_calendars": [r"^open-but-for-bridge-days on Fri 25 Dec$", r"^open-but-for-feasts on Mon 28 Dec$"],
    "example09_listeners": [r"^first\nfirst has SUCCEEDED\nsecond$"],
    "example10_declared_jobs": [r"^(hello from a file\n){3}$"],
    "example11_load": [r"^all 500 jobs ran: True; it took"],
    "example12_client": [r"^the client has gone\nthe server runs: hello from the client$"],
    "example13_cluster": [r"^6 executions of 6 instants$"],
    "example14_priorities": [r"^high, priority 10\nmiddle, priority 5\nlow, priority 1$"],
    "example15_native_job": [r"^failing: FAILED\nhello: SUCCEEDED hello from a process$"],
}
NOT_SHOWN = {
    "example08_calendars": [r"feasts on Fri 25 Dec", r"bridge-days on Mon 28 Dec"],
    "example02_simple_triggers": [r"45 s  three-times", r"135 s  for-ever"],
}


def run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    module.main()


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_shows_what_it_is_there_for(
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    if "QUARTZPY_URL" in (EXAMPLES / f"{name}.py").read_text():
        monkeypatch.setenv("QUARTZPY_URL", request.getfixturevalue("postgres_dsn"))
    run(name, monkeypatch)
    printed = capsys.readouterr().out
    for pattern in SHOWN[name]:
        assert re.search(pattern, printed, re.M), printed
    for pattern in NOT_SHOWN.get(name, []):
        assert not re.search(pattern, printed, re.M), printed


def test_they_run_as_scripts() -> None:
    command = [sys.executable, str(EXAMPLES / "example01_simple_job.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "Hello from DEFAULT.hello, fired by DEFAULT.once\n")


def test_the_table_lists_every_program() -> None:
    programs = sorted(path.stem for path in EXAMPLES.glob("example*.py"))
    listed = re.findall(r"^\| \[(\w+)\]\((\w+)\.py\)", (EXAMPLES / "README.md").read_text(), re.M)
    assert programs == sorted(SHOWN) == [name for name, _ in listed] == [file for _, file in listed]
