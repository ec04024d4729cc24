"""Function jobs for tests, at the top of a module as users write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from quartzpy import JobExecutionContext, RetryPolicy, job

called: list[Any] = []


@job
def plain(number: int, *, text: str = "default") -> str:
    """Says what it was called with."""
    called.append((number, text))
    return f"{number} {text}"


@job
async def asynchronous(number: int) -> int:
    called.append(number)
    return number


@job(type_name="named-function", retry=RetryPolicy(attempts=2, delay=timedelta()), max_concurrent=2)
def with_context(number: int, run: JobExecutionContext) -> None:
    called.append((number, run.attempt))
    raise ValueError("wrong")


def undecorated(context: Any) -> None:
    called.append(context.job_key.name)


def greet(name: str = "you") -> str:
    """A function as it is, without a decorator."""
    return f"hello {name}"


def without_parameters() -> None:
    called.append("without parameters")


async def coroutine() -> None:
    called.append("coroutine")
