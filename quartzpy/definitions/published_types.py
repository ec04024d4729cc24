"""The job types that nodes have published, and what is wrong with the data of a job of such a type.

Nothing is imported for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from quartzpy.definitions.faults import Place
from quartzpy.errors import InvalidJobDataError
from quartzpy.jobs import typed_data
from quartzpy.jobs.function_arguments import arguments_of
from quartzpy.jobs.job import Job, JobDetail, JobTypes
from quartzpy.jobs.type_facts import TypeFacts
from quartzpy.triggers.trigger import Trigger


@dataclass(frozen=True, slots=True)
class PublishedTypes:
    """The job types that running nodes have published, and those of them that this process has imported."""

    facts: Mapping[str, TypeFacts | None]
    """None for a type of which a node has published no more than the name."""
    imported: JobTypes

    def class_of(self, name: str) -> type[Job] | None:
        return self.imported.class_of(name) if name in self.facts else None

    def data_problems(self, job: JobDetail, trigger: Trigger | None = None) -> Iterator[tuple[Place, str]]:
        """Yield what is wrong with the data with which a job is called by a trigger, and where in the data it is.

        Without a trigger, entries may be missing, because triggers may add them.
        """
        data = {**(job.data or {}), **((trigger.data if trigger else None) or {})}
        job_class = self.class_of(job.job_type)
        if job_class is None:
            facts = self.facts.get(job.job_type)
            if facts is not None:
                for problem in facts.problems(data, is_complete=trigger is not None, reads=job.concurrency_key):
                    yield (), f"the data does not fit {job.job_type}: {problem}"
            return
        arguments = arguments_of(job_class) if job_class.data_type is None else None
        try:
            if job_class.data_type is not None and trigger is None:
                typed_data.refuse_unknown(job_class.data_type, data, job.job_type)
            elif job_class.data_type is not None:
                typed_data.build(job_class.data_type, data, job.job_type)
            elif arguments is not None:
                arguments.check(data, is_complete=trigger is not None, reads=job.concurrency_key)
        except InvalidJobDataError as error:
            yield from _of_model(error) or [((), str(error))]


def _of_model(error: InvalidJobDataError) -> list[tuple[Place, str]]:
    """Return the faults that a model like pydantic's lists in its own error; none if it is another error."""
    listed = getattr(error.__cause__, "errors", None)
    if not callable(listed):
        return []
    return [(tuple(fault["loc"]), str(fault["msg"])) for fault in listed()]
