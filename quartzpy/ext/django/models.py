"""Models without tables of their own: what the admin lists is described in `quartzpy.operations.lists`.

They are there for Django's permissions. Each has one for each role of quartzpy that its lists and actions need.
"""

from __future__ import annotations

from django.db import models


def permissions(model: str) -> list[tuple[str, str]]:
    """Return the permissions of a model, beside that to view."""
    return [(f"operate_{model}", f"Can operate {model}"), (f"administer_{model}", f"Can administer {model}")]


class _WithoutTable:
    managed = False
    default_permissions = ("view",)


class Job(models.Model):
    """The jobs."""

    class Meta(_WithoutTable):
        permissions = permissions("job")


class Trigger(models.Model):
    """The triggers."""

    class Meta(_WithoutTable):
        permissions = permissions("trigger")


class Execution(models.Model):
    """The executions, running and in the history."""

    class Meta(_WithoutTable):
        permissions = permissions("execution")


class Incident(models.Model):
    """The incidents that last."""

    class Meta(_WithoutTable):
        permissions = permissions("incident")
