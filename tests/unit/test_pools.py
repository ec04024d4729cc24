"""The executors of the settings: every form of their text, the values that are refused, and the way back to a text."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy.config.config import SchedulerConfig
from quartzpy.config.pools import MAX_WORKERS, ExecutorConfig
from quartzpy.config.sources import load_settings
from quartzpy.errors import SettingsError

ENGINES = ("celery", "dask", "futures")
DASK = "dask:tcp://scheduler:8786"


@pytest.mark.parametrize(
    ("text", "kind", "workers", "memory_limit", "address"),
    [
        ("threads:20", "threads", 20, None, ""),
        (" threads : 20 ", "threads", 20, None, ""),
        ("asyncio:500", "asyncio", 500, None, ""),
        ("processes:4", "processes", 4, None, ""),
        ("processes:4:512MB", "processes", 4, 512 * 2**20, ""),
        ("processes:4:536870912KB", "processes", 4, 2**39, ""),
        ("dask", "dask", None, None, ""),
        ("dask:8", "dask", 8, None, ""),
        ("dask:8:", "dask", 8, None, ""),
        (DASK, "dask", None, None, "tcp://scheduler:8786"),
        ("dask: 8 : tcp://scheduler:8786 ", "dask", 8, None, "tcp://scheduler:8786"),
        ("dask:10.0.0.7:8786", "dask", None, None, "10.0.0.7:8786"),
        ("dask:tls://[fd00::7]:8786", "dask", None, None, "tls://[fd00::7]:8786"),
        ("futures:billing.pools:loky", "futures", None, None, "billing.pools:loky"),
        ("futures:16:billing.pools:loky", "futures", 16, None, "billing.pools:loky"),
        ("celery:shop.celery:app", "celery", None, None, "shop.celery:app"),
    ],
)
def test_each_form_of_the_text(
    text: str, kind: str, workers: int | None, memory_limit: int | None, address: str
) -> None:
    pool = ExecutorConfig.of(text)
    assert (pool.kind, pool.workers, pool.memory_limit, pool.address) == (kind, workers, memory_limit, address)
    assert pool.is_engine is (kind not in ("threads", "asyncio"))
    assert pool.tickets is None
    assert ExecutorConfig.of(str(pool)) == pool


def test_a_mapping_has_the_fields() -> None:
    fields = {"kind": "futures", "workers": 16, "address": "billing.pools:pool", "tickets": True}
    assert ExecutorConfig.of(fields) == ExecutorConfig("futures", 16, address="billing.pools:pool", tickets=True)


WRITTEN = "executors: a pool is written like threads:20, asyncio:500, processes:4 or dask:tcp://scheduler:8786"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", f"{WRITTEN} (got '')"),
        (":4", f"{WRITTEN} (got ':4')"),
        ("threads", f"{WRITTEN} (got 'threads')"),
        ("processes:", f"{WRITTEN} (got 'processes:')"),
        ("dask:", f"{WRITTEN} (got 'dask:')"),
        ("asyncio:many", f"{WRITTEN} (got 'asyncio:many')"),
        ("threads:9999999999", f"{WRITTEN} (got 'threads:9999999999')"),
        ("4", f"{WRITTEN} (got '4')"),
        (4, f"{WRITTEN} (got 4)"),
        (None, f"{WRITTEN} (got None)"),
        (["threads", 4], WRITTEN),
        ({"workers": 4}, WRITTEN),
        ({"kind": "dask", "adress": "tcp://scheduler:8786"}, "a pool has no 'adress'; did you mean address?"),
        ({"kind": "dask", 7: 8}, "a pool has no 7; the keys are kind, workers, memory_limit, address, tickets"),
        ({"kind": "futures", "address": "a:b", "tickets": "yes"}, "executors: tickets must be True, False or None"),
        ("thread:4", "'thread' is neither a kind of executor nor an engine that an installed package offers; did you"),
        ("dasc:tcp://scheduler:8786", "did you mean dask?"),
        ("ray:auto", "the kinds are threads, asyncio, celery, dask, futures, processes"),
        ("threads:0", f"executors: workers must be from 1 to {MAX_WORKERS} (got 0)"),
        ("dask:5001:tcp://scheduler:8786", f"executors: workers must be from 1 to {MAX_WORKERS} (got 5001)"),
        ("threads:4:512MB", "executors: memory_limit applies to processes only"),
        ("processes:4:", "executors: memory_limit must be a number of bytes"),
        ("processes:4:some", "executors: memory_limit must be a number of bytes"),
        ("processes:4:1MB", "executors: memory_limit must be at least 128MB"),
        ("dask:8:8786:tcp", "executors: address must be a text that does not begin with a number (got '8786:tcp')"),
    ],
)
def test_what_is_no_pool_is_refused_with_what_would_be_right(value: Any, says: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(says)):
        ExecutorConfig.of(value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"kind": 7}, "executors: 7 is neither a kind of executor"),
        ({"kind": "processes"}, "executors: workers must be from 1"),
        ({"kind": "dask", "workers": True}, "executors: workers must be from 1"),
        ({"kind": "threads", "workers": 2, "address": "tcp://here"}, "executors: threads have no address"),
        ({"kind": "processes", "workers": 2, "address": "tcp://here"}, "executors: processes have no address"),
        ({"kind": "dask", "address": 8786}, "executors: address must be a text"),
        ({"kind": "dask", "address": "8786"}, "executors: address must be a text that does not begin with a number"),
        ({"kind": "asyncio", "workers": 2, "tickets": True}, "executors: asyncio take no tickets"),
        ({"kind": "processes", "workers": 2, "tickets": True}, "executors: processes take no tickets"),
        ({"kind": "dask", "tickets": "yes"}, "executors: tickets must be True, False or None (got 'yes')"),
        ({"kind": "dask", "memory_limit": "1GB"}, "executors: memory_limit applies to processes only"),
    ],
)
def test_values_that_do_not_fit_are_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(says)):
        ExecutorConfig(**arguments)


@given(
    st.one_of(
        st.builds(ExecutorConfig, st.sampled_from(["threads", "asyncio"]), st.integers(1, MAX_WORKERS)),
        st.builds(
            ExecutorConfig,
            st.just("processes"),
            st.integers(1, MAX_WORKERS),
            st.none() | st.integers(128, 2**20).map("{}MB".format) | st.integers(128 * 2**20, 2**50),
        ),
        st.builds(
            ExecutorConfig,
            st.sampled_from(ENGINES),
            st.none() | st.integers(1, MAX_WORKERS),
            address=st.text().filter(lambda text: not text.partition(":")[0].strip().isdecimal()),
        ),
    )
)
def test_the_text_of_a_pool_describes_the_same_pool(pool: ExecutorConfig) -> None:
    assert ExecutorConfig.of(str(pool)) == pool
    assert ExecutorConfig.of(pool) is pool


@pytest.mark.parametrize("source", ["environment", "file", "keyword"])
def test_each_source_of_settings_describes_the_same_pools(source: str, tmp_path: Path) -> None:
    pools = {"cpu": "processes:4:512MB", "io": "threads:20", "big": DASK, "mpi": "futures:2:billing.pools:mpi"}
    settings: dict[str, Any]
    match source:
        case "environment":
            text = ",".join(f"{name}={pool}" for name, pool in pools.items())
            settings = load_settings(environ={"QUARTZPY_EXECUTORS": text})
        case "file":
            path = tmp_path / "quartzpy.toml"
            path.write_text("[executors]\n" + "".join(f'{name} = "{pool}"\n' for name, pool in pools.items()))
            settings = load_settings(path, environ={})
        case _:
            settings = load_settings(environ={}, executors=pools)
    config = SchedulerConfig.of(settings)
    assert config.executors == {name: ExecutorConfig.of(pool) for name, pool in pools.items()}


def test_a_wrong_pool_in_the_environment_names_its_variable() -> None:
    with pytest.raises(SettingsError, match=r"did you mean dask\? \(executors is from QUARTZPY_EXECUTORS\)"):
        load_settings(environ={**os.environ, "QUARTZPY_EXECUTORS": "big=dasc:tcp://scheduler:8786"})
