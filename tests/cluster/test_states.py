from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from quartzpy import CronTrigger, JobDetail, PublicState, SimpleTrigger, TriggerKey
from tests.cluster.app import Quick, Serial
from tests.cluster.nodes import Cluster


def test_two_triggers_of_a_serial_job_never_overlap_and_the_sibling_is_blocked_meanwhile(
    cluster: Cluster,
) -> None:
    cluster.start("a", "b", "c")
    keys = [TriggerKey(name, "DEFAULT") for name in ("one", "two")]
    begin = datetime.now(UTC) + timedelta(seconds=1)
    triggers = [
        SimpleTrigger(key.name, start_time=begin, interval=timedelta(milliseconds=250), repeat_count=11) for key in keys
    ]
    cluster.client.schedule_job(JobDetail(Serial, "serial", data={"seconds": 0.15}), triggers)

    seen = set()
    while cluster.client.trigger_keys():
        states = [cluster.client.trigger_state(key) for key in keys]
        running = [r for r in cluster.client.running() if r.state == "EXECUTING"]
        assert len(running) <= 1
        seen.update(states)
        time.sleep(0.02)
    assert PublicState.BLOCKED in seen

    spans = []
    for start in cluster.journal.lines("start"):
        [end] = [line for line in cluster.journal.lines("end") if line.fire_id == start.fire_id]
        spans.append((start.at, end.at, start.fire_id))
    spans.sort()
    assert len(spans) == 24
    for (_, earlier_end, earlier_fire_id), (later_start, _, later_fire_id) in pairwise(spans):
        assert later_start >= earlier_end
        assert later_fire_id > earlier_fire_id


def test_misfires_are_handled_as_their_instruction_says(cluster: Cluster) -> None:
    late = datetime.now(UTC) - timedelta(minutes=10)
    hourly = timedelta(hours=1)
    cluster.client.schedule_job(
        JobDetail(Quick, "quick", durable=True),
        [
            SimpleTrigger("one-shot", start_time=late),
            SimpleTrigger(
                "next-slot",
                start_time=late,
                interval=hourly,
                repeat_count=None,
                misfire="reschedule_next_with_remaining_count",
            ),
            SimpleTrigger(
                "now",
                start_time=late,
                interval=hourly,
                repeat_count=3,
                misfire="reschedule_now_with_existing_repeat_count",
            ),
            SimpleTrigger("each", start_time=late, interval=timedelta(minutes=2), repeat_count=4, misfire="ignore"),
            CronTrigger("0 0 0 1 1 ? 2090", "far", start_time=late),
        ],
    )
    cluster.start("a", "b", misfire_threshold="5s")
    cluster.wait(lambda: cluster.client.executions().count() == 7, "seven executions")
    fired = cluster.journal.starts_by_instant()
    by_trigger = {name: [at for (trigger, at) in fired if trigger == name] for name, _ in fired}
    assert len(by_trigger["one-shot"]) == 1
    assert by_trigger["one-shot"][0] > late + timedelta(minutes=9), "fired now, not at its old instant"
    assert "next-slot" not in by_trigger
    moved = cluster.client.trigger_record(TriggerKey("next-slot", "DEFAULT"))
    assert moved is not None
    assert moved.progress.next_fire_time == late.replace(microsecond=late.microsecond) + hourly
    assert len(by_trigger["now"]) == 1
    assert sorted(by_trigger["each"]) == [late + n * timedelta(minutes=2) for n in range(5)]
    assert set(fired.values()) == {1}


def test_a_paused_trigger_stays_paused_across_nodes_and_restarts(cluster: Cluster) -> None:
    cluster.start("a", "b")
    often = timedelta(milliseconds=100)
    cluster.client.schedule_job(
        JobDetail(Quick, "quick"),
        [SimpleTrigger(name, interval=often, repeat_count=None) for name in ("goes", "stops")],
    )
    stops = TriggerKey("stops", "DEFAULT")
    cluster.journal.wait_for(lambda lines: len(lines) > 10, "fires")
    cluster.client.pause_trigger(stops)
    assert cluster.client.trigger_state(stops) is PublicState.PAUSED
    for name in ("a", "b"):
        cluster.terminate(name)
        cluster.processes.pop(name)
    # Fires that were committed before the pause have begun by now.
    paused = len(cluster.journal.lines("start", trigger="stops"))
    cluster.start("a", "b")
    before = len(cluster.journal.lines("start", trigger="goes"))
    cluster.wait(lambda: len(cluster.journal.lines("start", trigger="goes")) > before + 10, "fires of the other")
    assert cluster.client.trigger_state(stops) is PublicState.PAUSED
    assert len(cluster.journal.lines("start", trigger="stops")) == paused
    cluster.client.resume_trigger(stops)
    cluster.wait(lambda: len(cluster.journal.lines("start", trigger="stops")) > paused + 5, "fires after resuming")
