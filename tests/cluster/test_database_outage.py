from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from quartzpy import JobDetail, SimpleTrigger
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.store.postgresql import migrations
from tests.cluster.app import Quick, Serial
from tests.cluster.nodes import Cluster


def test_postgres_restarted_under_load_loses_and_doubles_nothing(
    own_postgres: EmbeddedPostgres, make_cluster: Callable[..., Cluster]
) -> None:
    migrations.upgrade(own_postgres.dsn)
    cluster = make_cluster(own_postgres.dsn)
    cluster.start("a", "b")
    epochs = {node.instance_id: node.epoch for node in cluster.client.nodes().nodes}
    quick = [
        SimpleTrigger(f"t{n}", interval=timedelta(milliseconds=250), repeat_count=47, misfire="ignore")
        for n in range(20)
    ]
    serial = SimpleTrigger("serial", interval=timedelta(milliseconds=300), repeat_count=29, misfire="ignore")
    cluster.client.schedule_jobs(
        [
            (JobDetail(Quick, "quick"), quick),
            (JobDetail(Serial, "serial", data={"seconds": 0.05}), [serial]),
        ]
    )
    for mode in ("immediate", "fast", "immediate"):
        time.sleep(2)
        own_postgres.restart(mode=mode)

    cluster.wait(lambda: not cluster.client.trigger_keys(), "all triggers to end")
    cluster.wait(lambda: not cluster.client.running(), "all executions to be recorded")

    happened = cluster.journal.starts_by_instant()
    assert len(happened) == 20 * 48 + 30, cluster.logs()
    assert set(happened.values()) == {1}
    assert len(cluster.client.executions().page(5000)) == 20 * 48 + 30
    found = {node.instance_id: node.epoch for node in cluster.client.nodes().nodes}
    assert found == epochs, f"no false verdict\n{cluster.logs()}"
