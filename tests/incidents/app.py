"""The program of the nodes, with jobs that get into trouble: `quartzpy node --app tests.incidents.app:make_scheduler`.

Set `QUARTZPY_TEST_MODULES` to modules that a node imports besides, as a newer release would.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from quartzpy import Job, JobExecutionContext
from tests.cluster.app import Long as Long
from tests.cluster.app import Quick as Quick
from tests.cluster.app import Serial as Serial
from tests.cluster.app import make_scheduler as make_scheduler

MODULES_VARIABLE = "QUARTZPY_TEST_MODULES"
FIX_VARIABLE = "QUARTZPY_TEST_FIX"
"""The file whose existence is the corrected deployment."""


class Deployed(Job):
    """Fails until its deployment is corrected."""

    def execute(self, context: JobExecutionContext) -> None:
        if not Path(os.environ[FIX_VARIABLE]).exists():
            raise AttributeError("'NoneType' object has no attribute 'amount'")


for _name in filter(None, os.environ.get(MODULES_VARIABLE, "").split(",")):
    importlib.import_module(_name)
