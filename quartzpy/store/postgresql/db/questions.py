"""Several questions in one flight.

A function that reads sends its statements with `SqlSession.read`, and decodes their results. So each question is asked
twice: first for its statements, which ends the call at its read, and then, when all have flown, for its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from quartzpy.errors import QuartzpyError, StoreUnavailableError
from quartzpy.store.postgresql.db.flight import Result, Send
from quartzpy.store.postgresql.db.session import SqlSession

Question = Callable[[SqlSession], Any]


class _StatementsError(Exception):
    """Ends a question at its read. It has the statements."""

    def __init__(self, sends: Sequence[Send]) -> None:
        self.sends = sends


class _QuestionSession(SqlSession):
    """The session of one question: its first read returns the results, or raises an error if there are none yet."""

    def __init__(self, session: SqlSession, results: list[Result] | None = None) -> None:
        self.__dict__.update(session.__dict__)
        self._session = session
        self._results = results
        self._has_read = False

    def read(self, *sends: Send) -> list[Result]:
        if self._has_read:
            return self._session.read(*sends)
        if self._results is None:
            raise _StatementsError(sends)
        self._has_read = True
        return self._results


def ask(session: SqlSession, questions: Sequence[Question]) -> list[Callable[[], Any]]:
    """Ask questions in one flight; see `JobStore.ask`."""
    flights = [_statements(session, question) for question in questions]
    sends = [send for flight in flights for send in flight]
    alone: list[Callable[[], Any]] = [partial(question, session) for question in questions]
    try:
        results = session.read(*sends) if sends else []
    except StoreUnavailableError:
        raise
    except QuartzpyError:
        # The error of one statement, such as a missing privilege, ends the flight. Each question gets its own answer.
        return alone
    answers: list[Callable[[], Any]] = []
    for question, by_itself, flight in zip(questions, alone, flights, strict=True):
        own, results = results[: len(flight)], results[len(flight) :]
        answers.append(partial(question, _QuestionSession(session, own)) if flight else by_itself)
    return answers


def _statements(session: SqlSession, question: Question) -> Sequence[Send]:
    """Return the statements of a question; none if it has an answer, or an error, without them."""
    try:
        question(_QuestionSession(session))
    except _StatementsError as needed:
        return needed.sends
    except Exception:
        # The answer raises it again.
        return ()
    return ()
