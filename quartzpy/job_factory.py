"""How a job's instance is made for an execution: by its class alone, or by a container that knows what it needs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from quartzpy.errors import InvalidJobTypeError
from quartzpy.job import Job

JobFactory = Callable[[type[Job]], Job]
"""Makes a new instance. Where it raises, all triggers of the job go to ERROR, as in Quartz."""


def new_instance(job_class: type[Job]) -> Job:
    """The factory that is used where none is given."""
    return job_class()


class InjectingJobFactory:
    """Gives constructors what they are annotated with: `InjectingJobFactory({Engine: engine, Mailer: make_mailer})`.

    A value of the mapping is given as it is; a function without parameters is called for each instance. Parameters
    that have a default and no provider keep it.
    """

    def __init__(self, providers: Mapping[type, Any]) -> None:
        self._providers = dict(providers)

    def __call__(self, job_class: type[Job]) -> Job:
        """A new instance.

        Raises:
            InvalidJobTypeError: nothing is known for one of its parameters.
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
                    f"{job_class.__qualname__}: nothing is provided for {name}: {getattr(wanted, '__name__', wanted)}"
                )
        return job_class(**given)
