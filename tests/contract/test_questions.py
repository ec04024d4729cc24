"""Tests of questions that are asked together."""

from __future__ import annotations

import pytest

from quartzpy.errors import InvalidValueError
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import JobQuery, TriggerQuery
from tests.contract.harness import Harness, every, job, job_key, key, once, stored_job, stored_trigger


def test_questions_have_the_answers_of_the_methods(store: Harness) -> None:
    store.schedule(job("a"), once("t"))
    store.schedule(job("b"), every(60, "u"))
    answers = store.store.ask(
        [
            lambda store: store.now(),
            lambda store: stored_job(store, job_key("a")),
            lambda store: stored_job(store, job_key("missing")),
            lambda store: store.find(TriggerQuery(), 10),
            lambda store: store.find(TriggerQuery(states=frozenset()), 10),
            lambda store: store.list_nodes(),
            lambda store: store.count(JobQuery()),
        ]
    )
    now, a, missing, triggers, none, nodes, count = (answer() for answer in answers)
    assert now == store.clock.now()
    assert a == stored_job(store.store, job_key("a"))
    assert missing is None
    assert [record.key for record in triggers] == [key("t"), key("u")]
    assert none == []
    assert (nodes.now, list(nodes.nodes)) == (now, [])
    assert count == 2


def test_no_questions_have_no_answers(store: Harness) -> None:
    assert list(store.store.ask([])) == []


def test_a_question_that_fails_does_not_affect_the_others(store: Harness) -> None:
    def refused(store: JobStore) -> None:
        raise InvalidValueError("no question")

    wrong, now = store.store.ask([refused, lambda store: store.now()])
    assert now() == store.clock.now()
    with pytest.raises(InvalidValueError, match="no question"):
        wrong()


def test_an_answer_may_take_a_second_question(store: Harness) -> None:
    store.schedule(job("a"), once("t"))

    def job_of_trigger(store: JobStore) -> object:
        record = stored_trigger(store, key("t"))
        assert record is not None
        return stored_job(store, record.job_key)

    [answer] = store.store.ask([job_of_trigger])
    assert answer() == stored_job(store.store, job_key("a"))
