"""Directories of time zone data that tests make, for `PYTHONTZPATH`."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path


def zone_directory(place: Path, zones: Mapping[str, str], version: str | None = None) -> Path:
    """Write a directory of zones, whose rules are POSIX texts, such as "<+03>-3" or "CET-1CEST,M3.5.0,M10.5.0/3"."""
    for name, rules in {"UTC": "UTC0", **zones}.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        counts = struct.pack(">6l", 0, 0, 0, 0, 1, 4)
        block = b"TZif2" + bytes(15) + counts + struct.pack(">lBB", 0, 0, 0) + b"UTC\0"
        path.write_bytes(block + block + b"\n" + rules.encode() + b"\n")
    if version is not None:
        (place / "tzdata.zi").write_text(f"# version {version}\n")
    return place
