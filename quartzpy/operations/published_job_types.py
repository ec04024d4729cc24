"""The job types that running nodes have published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quartzpy.definitions.published_types import PublishedTypes
from quartzpy.jobs.type_facts import TypeFacts
from quartzpy.scheduler.transactions import OwnTransactionMethods
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.records import NodeRecord


@dataclass(frozen=True, slots=True)
class JobTypeView:
    """A job type that running nodes have published."""

    name: str
    nodes: tuple[str, ...]
    entries: tuple[str, ...] | None
    """The names of the entries of its data; None if it takes any data, or if they are not known."""
    required: tuple[str, ...]
    takes_others: bool
    """True if the data may have further entries."""
    disallows_concurrent: bool
    persists_data: bool


def types_in(transaction: OwnTransactionMethods) -> PublishedTypes:
    """Return the job types, as a transaction sees them."""
    store = transaction.store
    return PublishedTypes(published_types(store.list_nodes().alive(), admin(store).job_types()), transaction.job_types)


def nodes_with(alive: Sequence[NodeRecord], name: str) -> tuple[str, ...]:
    """Return the ids of the nodes that have published a job type."""
    return tuple(node.instance_id for node in alive if name in node.capabilities.job_types)


def published_types(
    alive: Sequence[NodeRecord], facts_of_nodes: Mapping[str, Mapping[str, Any]]
) -> dict[str, TypeFacts | None]:
    """Return the job types of these nodes, with what the first of them that tells more has published."""
    types: dict[str, TypeFacts | None] = {}
    for node in alive:
        published = facts_of_nodes.get(node.instance_id, {})
        for name in node.capabilities.job_types:
            if types.get(name) is None:
                types[name] = TypeFacts.from_json(published[name]) if name in published else None
    return types


def entries_for_operators(transaction: OwnTransactionMethods, job_type: str) -> tuple[str, ...] | None:
    """Return the entries of the data of a job type that operators may set; None for all.

    A type of quartzpy itself does whatever its data says, so it leaves nothing to them where nobody describes it.
    """
    job_class = transaction.job_types.class_of(job_type)
    if job_class is not None:
        return job_class.operators_set
    # Those of nodes that are gone too: the run waits for one that returns. Of two releases, the stricter one decides.
    described = [facts[job_type] for facts in admin(transaction.store).job_types().values() if job_type in facts]
    sets = [only for facts in described if (only := TypeFacts.from_json(facts).operators_set) is not None]
    if sets:
        return tuple(name for name in sets[0] if all(name in only for only in sets))
    return () if job_type.startswith("quartzpy.") and not described else None


def type_view(name: str, facts: TypeFacts | None, nodes: tuple[str, ...]) -> JobTypeView:
    """Return what is known about a job type. `facts` is None if no node has published more than its name."""
    facts = facts or TypeFacts(takes_others=True)
    return JobTypeView(
        name,
        nodes,
        facts.entries,
        tuple(sorted(facts.required)),
        facts.takes_others or facts.entries is None,
        facts.disallows_concurrent,
        facts.persists_data,
    )
