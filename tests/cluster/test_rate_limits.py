from __future__ import annotations

from datetime import UTC, datetime, timedelta

from quartzpy import JobDetail, RateLimit, SimpleTrigger
from quartzpy.job_data import ORIGINAL_NAME
from tests.cluster.app import Quick
from tests.cluster.nodes import Cluster

SECOND = timedelta(seconds=1)


def test_three_nodes_together_never_exceed_a_limit_and_lose_nothing_when_one_dies(cluster: Cluster) -> None:
    limit = RateLimit(10, per="1s", burst=3)
    cluster.start("a", "b", "c")
    begin = datetime.now(UTC) + SECOND
    job = JobDetail(
        Quick, "limited", durable=True, rate_limit=limit, concurrency_key="customer", requests_recovery=True
    )
    triggers = [SimpleTrigger(f"{who}{n}", start_time=begin, data={"customer": who}) for n in range(30) for who in "xy"]
    cluster.client.schedule_job(job, triggers)
    cluster.wait(lambda: cluster.client.executions().count() >= 15, "the first executions")
    cluster.kill("b")
    cluster.expire("b")
    cluster.wait(lambda: not cluster.client.trigger_keys(), "all triggers to end")

    records = list(cluster.client.executions())
    data = {record.fire_id: dict(record.trigger_data or {}) for record in records}
    # An execution that was recovered carries the name of the trigger that it repeats.
    done = {data[one.fire_id].get(ORIGINAL_NAME, one.trigger_key.name) for one in records if one.outcome == "SUCCEEDED"}
    assert done == {trigger.name for trigger in triggers}, "nothing is lost"
    for who in "xy":
        own = [record for record in records if data[record.fire_id]["customer"] == who]
        times = sorted(record.fire_time for record in own if record.fire_time is not None)
        most = limit.limit + limit.burst - 1
        assert all(later - earlier >= limit.per for earlier, later in zip(times, times[most:], strict=False)), who
    assert len({line.pid for line in cluster.journal.lines("start")}) >= 2, "several nodes take their part"
