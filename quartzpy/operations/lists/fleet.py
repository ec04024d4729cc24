"""The lists of a fleet, for the command, the API and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quartzpy.operations.lists.spec import Column, ListSpec, Look

if TYPE_CHECKING:
    from quartzpy.operations.fleet import FleetIncident, FleetRow

FLEET: ListSpec[FleetRow] = ListSpec(
    "fleet",
    "scheduler",
    "The schedulers of a file, and how each is.",
    (
        Column("scheduler", lambda row: row.scheduler, Look.NAME, readable=28, classes=""),
        Column(
            "state",
            lambda row: row.state,
            Look.STATE,
            order=lambda row: list(type(row.state)).index(row.state),
            classes="",
        ),
        Column("nodes", lambda row: row.nodes, Look.NUMBER, title="The nodes that are alive", drop=5),
        Column("running", lambda row: row.running, Look.NUMBER, order=lambda row: row.running and row.running.number),
        Column(
            "late",
            lambda row: row.late,
            Look.NUMBER,
            title="The triggers that are overdue",
            order=lambda row: row.late and row.late.number,
            classes="",
        ),
        Column(
            "failed lately",
            lambda row: row.failed_lately,
            Look.NUMBER,
            title="The executions that failed within the last hour",
            order=lambda row: row.failed_lately and row.failed_lately.number,
            drop=4,
        ),
        Column("incidents", lambda row: row.incidents, Look.NUMBER, classes=""),
        Column("age", lambda row: row.age, Look.SPAN, title="The time since it has answered", drop=3, classes=""),
        Column("error", lambda row: row.error, drop=1, readable=40, title="Why it does not answer"),
    ),
    reads="rows",
    title="All schedulers",
    menu="Fleet",
    intro="The schedulers of one file, each as it has last answered.",
)

FLEET_INCIDENTS: ListSpec[FleetIncident] = ListSpec(
    "fleet-incidents",
    "incident",
    "What is wrong with the schedulers of a file, the worst first.",
    (
        Column("scheduler", lambda row: row.scheduler, Look.NAME, readable=28, classes=""),
        Column("severity", lambda row: row.incident.severity, Look.STATE, classes=""),
        Column("what", lambda row: row.incident.what, Look.SENTENCE, readable=40, classes=""),
        Column("since", lambda row: row.incident.since, Look.INSTANT, drop=2),
        Column("why", lambda row: " ".join(row.incident.why), Look.SENTENCE, drop=1),
    ),
    reads="incidents",
    title="Their incidents",
    menu="Fleet",
    intro="What is wrong with any of the schedulers, the worst first.",
)
FLEET_LISTS = (FLEET, FLEET_INCIDENTS)
