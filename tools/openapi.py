"""Writes the OpenAPI file of the JSON API: `python -m tools.openapi`."""

from __future__ import annotations

import json
from pathlib import Path

from quartzpy.dashboard.api import openapi

FILE = Path(openapi.__file__).with_name("openapi.json")


def text() -> str:
    return json.dumps(openapi.document(), indent=1, ensure_ascii=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
