"""Each sabotage still finds what it takes out: one that changes nothing would prove nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.chaos import sabotage
from tests.chaos.network import ROOT


@pytest.mark.parametrize("name", sorted(sabotage.SABOTAGES))
def test_a_sabotage_applies(name: str) -> None:
    script = f"import tests.chaos.sabotage as sabotage; sabotage.apply({name!r}); import quartzpy.factory"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
