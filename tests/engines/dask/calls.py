"""What the workers of these tests run in place of jobs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path


def run(message: str) -> str:
    """Do what the message says: append a line to a file, sleep, wait for a file, end the process, return an answer."""
    does = json.loads(message)
    if "append_to" in does:
        with Path(does["append_to"]).open("a") as file:
            file.write(f"{os.getpid()}\n")
    time.sleep(does.get("seconds", 0))
    while "until" in does and not Path(does["until"]).exists():
        time.sleep(0.05)
    if does.get("exit"):
        os._exit(1)
    return str(does.get("answer", "done"))
