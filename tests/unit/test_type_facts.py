"""What a node publishes about a job type: its decorators, and the entries of the data that it takes."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from quartzpy import Job, JobExecutionContext, job, persist_job_data_after_execution
from quartzpy.jobs.command import CommandJob
from quartzpy.jobs.job import JobTypes
from quartzpy.jobs.type_facts import TypeFacts, facts_of, published


@job(type_name="facts.plain")
def plain(region: str, lines: int = 10, *, dry: bool) -> None: ...


@job(type_name="facts.context")
def with_context(region: str, context: JobExecutionContext) -> None: ...


@job(type_name="facts.positional")
def positional(region: str, /) -> None: ...


@dataclass
class Letter:
    to: str
    seed: InitVar[int]
    text: str = ""
    made: str = field(default="", init=False)


class Mail(Job, type_name="facts.mail", data_type=Letter):
    def execute(self, context: JobExecutionContext) -> None: ...


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")
    number: int = Field(alias="orderNumber")
    note: str = ""


@persist_job_data_after_execution
class Ship(Job, type_name="facts.ship", data_type=Order):
    def execute(self, context: JobExecutionContext) -> None: ...


class Old:
    @classmethod
    def from_job_data(cls, data: dict[str, Any]) -> Old:
        return cls()


class Reads(Job, type_name="facts.reads", data_type=Old):
    def execute(self, context: JobExecutionContext) -> None: ...


class Broken(BaseModel):
    @classmethod
    def model_json_schema(cls, *args: Any, **values: Any) -> dict[str, Any]:
        raise RuntimeError("no schema")


class Fails(Job, type_name="facts.fails", data_type=Broken):
    def execute(self, context: JobExecutionContext) -> None: ...


@pytest.mark.parametrize(
    ("job_class", "expected"),
    [
        (plain.job_class, TypeFacts(entries=("region", "lines", "dry"), required=frozenset({"region", "dry"}))),
        (with_context.job_class, TypeFacts(entries=("region",), required=frozenset({"region"}), takes_others=True)),
        (positional.job_class, TypeFacts(takes_others=True)),
        (Mail, TypeFacts(entries=("to", "seed", "text"), required=frozenset({"to", "seed"}))),
        (Ship, TypeFacts(False, True, ("orderNumber", "note"), frozenset({"orderNumber"}))),
        (Reads, TypeFacts(takes_others=True)),
        (Fails, TypeFacts()),
    ],
    ids=lambda value: getattr(value, "type_name", ""),
)
def test_the_facts_follow_from_the_class(job_class: type[Job], expected: TypeFacts) -> None:
    assert facts_of(job_class) == expected
    read = TypeFacts.from_json(expected.as_json())
    assert (read.entries, read.required, read.persists_data) == (
        expected.entries,
        expected.required,
        expected.persists_data,
    )


@pytest.mark.parametrize(
    ("data", "is_complete", "problems"),
    [
        ({"region": "eu", "dry": True}, True, []),
        ({"args": ["eu"], "kwargs": {"dry": True}}, True, []),
        ({"region": "eu"}, False, []),
        ({"region": "eu"}, True, ["missing: dry"]),
        ({"linse": 1}, False, ["unknown: 'linse' (did you mean lines?)"]),
        ({"kwargs": {"linse": 1}}, False, ["unknown: 'linse' (did you mean lines?)"]),
        ({"tenant": 1, "region": "eu", "dry": 1}, True, []),
        ({"args": 5}, False, ["args is a list of arguments, and kwargs is a mapping of them"]),
    ],
)
def test_names_are_checked_as_the_function_would_be_called(
    data: dict[str, Any], is_complete: bool, problems: list[str]
) -> None:
    assert list(facts_of(plain.job_class).problems(data, is_complete=is_complete, reads="tenant")) == problems


def test_a_node_publishes_no_more_than_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    types = JobTypes()
    for name in ("a", "b", "c"):
        types.register(Mail, name)
    monkeypatch.setattr("quartzpy.jobs.type_facts.MAX_BYTES", 150)
    assert list(published(types, ["a", "b", "c", "unknown"])) == ["a", "b"]
    types.register(CommandJob, "z")
    assert "z" in published(types, ["a", "b", "c", "z"]), "what operators may not set is said first"
