"""Failovers of a real Patroni cluster under load. Run with `--ha`; without it, or its parts, said to be not run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ha.cluster import PatroniCluster
from tests.ha.run import KINDS, Run
from tests.ha.workload import Workload

pytestmark = [pytest.mark.ha, pytest.mark.timeout(600)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_failover_loses_nothing_doubles_nothing_and_leaves_nothing_stuck(
    kind: str, patroni: PatroniCluster, start_workload: Callable[..., Workload]
) -> None:
    workload = start_workload(kind)
    run = Run(patroni, workload)
    found = run.fail_over(kind)
    report = run.finish()
    logs = "\n".join(f"--- {name}\n{text[-4000:]}" for name, text in workload.logs().items())
    assert report.findings.clean, f"{report.findings.sample()}\n{found}\n{logs}"
    assert report.convictions == 0, logs
    assert report.one_shots["acknowledged"] > 0
