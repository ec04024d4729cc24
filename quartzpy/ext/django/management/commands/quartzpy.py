"""`manage.py quartzpy ...`: the command line on the database of the project. `quartzpy node` runs its jobs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.core.management.base import BaseCommand

from quartzpy.cli.main import main
from quartzpy.config.setting_names import environment_variable
from quartzpy.ext.django.project import database_url, scheduler_settings

NODE = "quartzpy.ext.django:node"
_SELECTING = ("name", "schema", "table_prefix", "pooled", "password_command")


class Command(BaseCommand):
    """Hands its arguments to the command line of quartzpy."""

    help = "Run a command of quartzpy on the project's database. `manage.py quartzpy node` runs a node."
    requires_system_checks: Sequence[str] = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("words", nargs=argparse.REMAINDER)

    def run_from_argv(self, argv: list[str]) -> None:
        # Django has read these two already. All other options are those of quartzpy, --help included.
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("--settings")
        parser.add_argument("--pythonpath")
        words = parser.parse_known_args(argv[2:])[1]
        if wrong := checks.run_checks(tags=["quartzpy"]):
            sys.exit(wrong[0].msg)
        self.handle(words=words)

    def handle(self, *args: Any, words: Sequence[str], **options: Any) -> None:
        selected = {"url": database_url()} | {
            name: str(value) for name, value in scheduler_settings().items() if name in _SELECTING
        }
        os.environ.update({environment_variable(name): value for name, value in selected.items()})
        options_used = {word.partition("=")[0] for word in words}
        added: list[str] = []
        if words[:1] == ["node"] and "--app" not in options_used:
            added = ["--app", NODE]
        elif words[:2] == ["import", "celery-beat"] and "--from" not in options_used:
            added = ["--from", selected["url"]]
        main([*words, *added])
