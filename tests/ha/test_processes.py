"""What the guard of a directory promises."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.ha import processes
from tests.ha.workload import ROOT


def test_a_rig_that_is_killed_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    guarded = tmp_path / "guarded"
    guarded.mkdir()
    program = (
        "import subprocess, sys, time; from pathlib import Path; from tests.ha import processes;"
        f"guard = processes.start_guard(Path({str(guarded)!r}));"
        f"subprocess.Popen(['sleep', '600'], cwd={str(guarded)!r}, start_new_session=True);"
        "print('started', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE) as rig:
        try:
            assert rig.stdout is not None
            assert rig.stdout.readline() == b"started\n"
            assert len(processes.processes_in(guarded)) == 1
        finally:
            rig.kill()
    deadline = time.monotonic() + 30
    while guarded.exists() or processes.processes_in(guarded):
        assert time.monotonic() < deadline, processes.processes_in(guarded)
        time.sleep(0.05)
