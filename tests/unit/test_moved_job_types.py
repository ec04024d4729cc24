"""Job types that were moved or renamed since jobs of them were stored."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from quartzpy import Job, JobExecutionContext, job
from quartzpy.errors import InvalidJobTypeError, UnknownJobTypeError
from quartzpy.jobs.job import JobTypes, job_types


class Moved(Job, type_name="moved:new", former_names=["moved:old", "moved:older"]):
    def execute(self, context: JobExecutionContext) -> None: ...


@job(type_name="moved:new-function", former_names=["moved:function"])
def moved_function() -> None: ...


@pytest.fixture
def shim() -> Iterator[ModuleType]:
    """A module that has job types which another one defines, as people leave it behind."""
    module = ModuleType("moved_shim")
    vars(module).update({"Report": Moved, "report": moved_function, "other": print, "text": "x"})
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]
    for name in ("moved_shim:Report", "moved_shim:report"):
        job_types._types.pop(name, None)


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("moved:old", Moved),
        ("moved:older", Moved),
        ("moved:new", Moved),
        ("moved:function", moved_function.job_class),
        ("moved:new-function", moved_function.job_class),
    ],
)
def test_a_type_is_known_by_its_former_names(name: str, cls: type[Job]) -> None:
    assert job_types.find(name) is cls
    assert cls.type_name.startswith("moved:new")


def test_a_module_that_has_what_was_moved_answers_for_it(shim: ModuleType) -> None:
    assert job_types.load("moved_shim:Report", ())
    assert job_types.find("moved_shim:Report") is Moved
    assert job_types.find("moved_shim:report") is moved_function.job_class


@pytest.mark.parametrize(
    "name", ["moved_shim:other", "moved_shim:text", "moved_shim:missing", "sys:exit", "os:path.join"]
)
def test_nothing_else_of_a_module_is_a_job_type(shim: ModuleType, name: str) -> None:
    assert not job_types.load(name, ())
    with pytest.raises(UnknownJobTypeError, match="former_names"):
        job_types.find(name)


def test_a_module_that_computes_its_attributes_is_not_asked(shim: ModuleType) -> None:
    def computed(name: str) -> Any:
        raise AssertionError(name)

    vars(shim)["__getattr__"] = computed
    assert not job_types.load("moved_shim:Late", ())


def test_types_of_another_registry_are_not_taken(shim: ModuleType) -> None:
    assert not JobTypes().load("moved_shim:Report", ())


@pytest.mark.parametrize("names", ["moved:one", [1], 7, [""]])
def test_former_names_are_a_sequence_of_names(names: Any) -> None:
    with pytest.raises((InvalidJobTypeError, ValueError)):
        type("Wrong", (Job,), {"execute": lambda self, context: None}, type_name="wrong", former_names=names)
    with pytest.raises((InvalidJobTypeError, ValueError)):
        job(type_name="wrong", former_names=names)(lambda: None)
    assert "wrong" not in job_types.names()
