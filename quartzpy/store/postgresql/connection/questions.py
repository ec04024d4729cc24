"""Several questions in one round trip.

A function that reads sends its statements with `SqlSession.read`, and decodes their results. So each question is asked
twice: first for its statements, which ends the call at its read, and then, when all have flown, for its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from quartzpy.errors import QuartzpyError, StoreUnavailableError
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession

Question = Callable[[SqlSession], Any]


class _StatementsError(Exception):
    """Ends a question at its read. It has the statements."""

    def __init__(self, statements: Sequence[BoundStatement]) -> None:
        self.statements = statements


class _QuestionSession(SqlSession):
    """The session of one question: its first read returns the results, or raises an error if there are none yet."""

    def __init__(self, session: SqlSession, results: list[Result] | None = None) -> None:
        self.__dict__.update(session.__dict__)
        self._session = session
        self._results = results
        self._has_read = False

    def read(self, *statements: BoundStatement) -> list[Result]:
        if self._has_read:
            return self._session.read(*statements)
        if self._results is None:
            raise _StatementsError(statements)
        self._has_read = True
        return self._results


def ask(session: SqlSession, questions: Sequence[Question]) -> list[Callable[[], Any]]:
    """Ask questions in one round trip; see `JobStore.ask`."""
    pipelines = [_statements(session, question) for question in questions]
    statements = [statement for pipeline in pipelines for statement in pipeline]
    alone: list[Callable[[], Any]] = [partial(question, session) for question in questions]
    try:
        results = session.read(*statements) if statements else []
    except StoreUnavailableError:
        raise
    except QuartzpyError:
        # The error of one statement, such as a missing privilege, ends the pipeline. Each question gets its own answer.
        return alone
    answers: list[Callable[[], Any]] = []
    for question, by_itself, pipeline in zip(questions, alone, pipelines, strict=True):
        own, results = results[: len(pipeline)], results[len(pipeline) :]
        answers.append(partial(question, _QuestionSession(session, own)) if pipeline else by_itself)
    return answers


def _statements(session: SqlSession, question: Question) -> Sequence[BoundStatement]:
    """Return the statements of a question; none if it has an answer, or an error, without them."""
    try:
        question(_QuestionSession(session))
    except _StatementsError as needed:
        return needed.statements
    except Exception:
        # The answer raises it again.
        return ()
    return ()
