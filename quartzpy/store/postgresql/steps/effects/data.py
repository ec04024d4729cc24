"""What ends write into the rows of their jobs: their data, and that their nodes have survived."""

from __future__ import annotations

from quartzpy.states import Outcome
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.effects.effect import Completed, Flight, fire_ids_of

_SQL = SqlFile("steps/effects/data.sql")


def store_data(ends: Completed) -> Flight:
    """Return what stores the data of the jobs that have changed it."""
    storing = [c for c in ends.completions if c.job_data is not None]
    if not storing:
        return {}
    data = [c.job_data for c in storing]
    return {"store_data": ends.session.bind(_SQL.store_data, fire_ids=fire_ids_of(storing), data=data)}


def reset_node_deaths(ends: Completed) -> Flight:
    """Return what resets the count of deaths of nodes for jobs that have succeeded since."""
    survived = [c for c in ends.completions if c.fired.node_deaths and c.outcome is Outcome.SUCCEEDED]
    if not survived:
        return {}
    values = {"instance": ends.node.instance_id, "fire_ids": fire_ids_of(survived)}
    return {"reset_node_deaths": ends.session.bind(_SQL.reset_node_deaths, **values)}
