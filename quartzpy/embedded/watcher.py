"""A process that stops a server when its last user has ended, even if that user was killed.

Every user holds a shared lock on the lease file, which the kernel drops when the process ends. This process waits
for the exclusive one. The start lock prevents a race between a new user and the stop.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path


def main(root: Path, pg_ctl: str, uid: int | None, gid: int | None) -> None:
    lease = os.open(root / "lease.lock", os.O_RDWR)
    starting = os.open(root / "start.lock", os.O_RDWR)
    while True:
        fcntl.flock(lease, fcntl.LOCK_EX)
        fcntl.flock(lease, fcntl.LOCK_UN)
        fcntl.flock(starting, fcntl.LOCK_EX)
        try:
            fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            fcntl.flock(starting, fcntl.LOCK_UN)
    if not (root / "kept").exists() and (root / "data" / "postmaster.pid").exists():
        subprocess.run(
            [pg_ctl, "-D", str(root / "data"), "-m", "fast", "-w", "stop"],
            check=False,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
        )
    if (root / "removed").exists():
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    # The watcher outlives the process that started it, so nobody waits for it.
    if os.fork():
        os._exit(0)
    directory, program, *ids = sys.argv[1:]
    uid, gid = (int(ids[0]), int(ids[1])) if ids else (None, None)
    main(Path(directory), program, uid, gid)
