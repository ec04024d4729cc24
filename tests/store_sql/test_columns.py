"""Each statement whose rows are decoded by name selects the columns that its decoder reads, in this order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import psycopg
import pytest
from psycopg import pq

from quartzpy.store.sql.db.rows import CLAIMED
from quartzpy.store.sql.db.session import names
from quartzpy.store.sql.db.statement import prepare
from quartzpy.store.sql.steps import acquire, fire, holdings
from quartzpy.store.sql.store import SqlJobStore
from tests.database import libpq_url

DECODED = {
    "acquire": (acquire.ACQUIRE, CLAIMED),
    "acquire_unlimited": (acquire.ACQUIRE_UNLIMITED, CLAIMED),
    "acquire_unlimited_of_one_pool": (acquire.ACQUIRE_UNLIMITED_OF_ONE_POOL, CLAIMED),
    "fire": (fire.FIRE, CLAIMED),
    "fire_unlimited": (fire.FIRE_UNLIMITED, CLAIMED),
    "unknown_fires": (holdings.UNKNOWN_FIRES, CLAIMED),
}


@pytest.mark.parametrize(("text", "columns"), DECODED.values(), ids=DECODED)
def test_a_statement_selects_the_columns_that_its_decoder_reads(
    make_store: Callable[..., SqlJobStore], postgres_dsn: str, text: str, columns: Sequence[str]
) -> None:
    make_store(name="columns")
    with psycopg.connect(libpq_url(postgres_dsn)) as connection:
        prepared = connection.pgconn.prepare(b"it", prepare("it", text, names(None)).sql)
        assert prepared.status == pq.ExecStatus.COMMAND_OK, prepared.error_message
        described = connection.pgconn.describe_prepared(b"it")
        selected = [(described.fname(at) or b"").decode() for at in range(described.nfields)]
    assert selected == list(columns)
