"""Numbers agree with the words after them."""

from __future__ import annotations

import pytest

from quartzpy.config.config import SchedulerConfig
from quartzpy.keys import TriggerKey
from quartzpy.node.banner import banner
from quartzpy.operations.selection import Keys, Subject
from quartzpy.texts import number_of, numbered


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 nodes are silent"), (1, "1 node is silent"), (1_200, "1,200 nodes are silent")]
)
def test_a_number_with_the_words_that_agree_with_it(count: int, text: str) -> None:
    assert numbered(count, "node is silent", "nodes are silent") == text


def test_no_things_are_said_in_words() -> None:
    assert [number_of(count, "node") for count in (0, 1, 2)] == ["no nodes", "1 node", "2 nodes"]


@pytest.mark.parametrize(("count", "rest"), [(6, " and 1 other"), (7, " and 2 others")])
def test_a_list_counts_the_others(count: int, rest: str) -> None:
    keys = Keys(Subject.TRIGGER, tuple(TriggerKey(f"t{n}") for n in range(count)))
    assert str(keys).endswith(f"DEFAULT.t4{rest}")


def test_the_banner_of_a_node_counts_its_workers() -> None:
    config = SchedulerConfig.of(
        {"name": "billing", "workers": 1, "executors": {"cpu": "processes:1", "io": "threads:20", "loop": "asyncio:1"}}
    )
    lines = banner(config, version="1", instance_id="a", epoch=1, database="memory", job_types=["report"])
    assert "  workers: default 1 thread, cpu 1 process, io 20 threads, loop 1 event loop slot" in lines
