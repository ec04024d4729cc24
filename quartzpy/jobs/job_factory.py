"""Job factories create a job's instance for each execution, from its class alone or by dependency injection."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from quartzpy.errors import InvalidJobTypeError
from quartzpy.jobs.job import Job

JobFactory = Callable[[type[Job]], Job]
"""Creates a new instance. If it raises, all triggers of the job go to ERROR, as in Quartz."""


def new_instance(job_class: type[Job]) -> Job:
    """Create an instance without arguments: the default factory."""
    return job_class()


class InjectingJobFactory:
    """Injects constructor parameters by annotation: `InjectingJobFactory({Engine: engine, Mailer: make_mailer})`.

    A value of the mapping is passed as it is; a function without parameters is called for each instance. A parameter
    that has a default and no provider keeps its default.
    """

    def __init__(self, providers: Mapping[type, Any]) -> None:
        self._providers = dict(providers)

    def __call__(self, job_class: type[Job]) -> Job:
        """Create a new instance.

        Raises:
            InvalidJobTypeError: A parameter has neither a provider nor a default.
        """
        if job_class.__init__ is object.__init__:
            return job_class()
        hints = typing.get_type_hints(job_class.__init__)
        given: dict[str, Any] = {}
        for name, parameter in list(inspect.signature(job_class.__init__).parameters.items())[1:]:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            wanted = hints.get(name)
            if wanted in self._providers:
                provider = self._providers[wanted]
                is_function = inspect.isfunction(provider) or inspect.ismethod(provider) or inspect.isclass(provider)
                given[name] = provider() if is_function else provider
            elif parameter.default is parameter.empty:
                raise InvalidJobTypeError(
                    f"{job_class.__qualname__}: no provider for {name}: {getattr(wanted, '__name__', wanted)}"
                )
        return job_class(**given)
