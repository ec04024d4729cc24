"""Files that may contain secrets: only their owner can read them, from their first byte on."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a text to a file of mode 0600, as a whole or not at all. A pipe or a device is written to as it is.

    Raises:
        OSError: the file cannot be written.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    whole = path.resolve()
    part = whole.with_name(f".{whole.name}.{os.getpid()}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        part.replace(whole)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
