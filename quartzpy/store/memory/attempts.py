"""The attempts of the same fire: the trigger of each repetition is named after the execution that it repeats."""

from __future__ import annotations

import re

from quartzpy.keys import RECOVERING_JOBS, RETRYING_JOBS, TriggerKey
from quartzpy.states import ExecutionState, Outcome
from quartzpy.store.memory import lookups, pages
from quartzpy.store.memory.tables import Tables
from quartzpy.store.queries import ExecutionQuery
from quartzpy.store.records import ExecutionRecord

_REPEATED = re.compile(r"(?:retry_\d+|recover_.*)_(\d{1,18})", re.DOTALL)


def attempts(tables: Tables, fire_id: int, limit: int) -> list[ExecutionRecord]:
    """See `OperationsStore.attempts`."""
    found = lookups.execution(tables, fire_id)
    chain = [] if found is None else [found]
    while 0 < len(chain) < limit and (before := _before(tables, chain[0])) is not None:
        chain.insert(0, before)
    while 0 < len(chain) < limit and (after := _after(tables, chain[-1])) is not None:
        chain.append(after)
    return chain


def _before(tables: Tables, record: ExecutionRecord) -> ExecutionRecord | None:
    if record.trigger_key.group not in (RETRYING_JOBS, RECOVERING_JOBS):
        return None
    found = _REPEATED.fullmatch(record.trigger_key.name)
    return None if found is None else lookups.execution(tables, int(found[1]))


def _after(tables: Tables, record: ExecutionRecord) -> ExecutionRecord | None:
    if record.retry_at is not None:
        key = TriggerKey(f"retry_{record.attempt}_{record.fire_id}", RETRYING_JOBS)
    elif record.outcome is Outcome.TERMINATED and record.instance_id is not None:
        key = TriggerKey(f"recover_{record.instance_id[:150]}_{record.fire_id}", RECOVERING_JOBS)
    else:
        return None
    query = ExecutionQuery(states=frozenset(ExecutionState), trigger_key=key)
    return next(iter(pages.executions(tables, query, 1, None)), None)
