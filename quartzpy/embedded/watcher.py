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


def main(root: Path, stop: list[str], uid: int | None, gid: int | None) -> None:
    """Wait until nobody uses the server, and stop it with the command `stop`."""
    lease = os.open(root / "lease.lock", os.O_RDWR | os.O_NOFOLLOW)
    starting = os.open(root / "start.lock", os.O_RDWR | os.O_NOFOLLOW)
    while True:
        fcntl.flock(lease, fcntl.LOCK_EX)
        fcntl.flock(lease, fcntl.LOCK_UN)
        fcntl.flock(starting, fcntl.LOCK_EX)
        try:
            fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            fcntl.flock(starting, fcntl.LOCK_UN)
    if not _has(root / "kept") and os.path.lexists(root / "data" / "postmaster.pid"):
        subprocess.run(
            stop,
            check=False,
            cwd=root / "data",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
        )
    if _has(root / "removed"):
        shutil.rmtree(root, ignore_errors=True)


def _has(marker: Path) -> bool:
    """Return whether there is a marker of ours: others may be able to make files there."""
    try:
        return marker.lstat().st_uid == os.geteuid()
    except OSError:
        return False


if __name__ == "__main__":
    # The watcher outlives the process that started it, so nobody waits for it.
    if os.fork():
        os._exit(0)
    directory, *ids = sys.argv[1:4]
    uid, gid = (None, None) if ids[0] == "-" else (int(ids[0]), int(ids[1]))
    main(Path(directory), sys.argv[4:], uid, gid)
