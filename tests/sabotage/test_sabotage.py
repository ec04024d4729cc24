"""A guard that is taken out is missed: the tests that the table names fail without it.

Every run checks that each sabotage still finds its guard, and tries a few; `--long` tries all of them, and so does
`python -m tests.sabotage`.
"""

from __future__ import annotations

import pytest

from quartzpy.embedded import EmbeddedPostgres
from tests.database import Server
from tests.sabotage import trial
from tests.sabotage.build import Edit, NothingToSabotageError, Sabotage
from tests.sabotage.guards import SABOTAGES, SAMPLE


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    plays_all = metafunc.config.getoption("long", default=False)
    for name, sample in (("tried", SAMPLE), ("works", SAMPLE[:1])):
        if name in metafunc.fixturenames:
            names = SABOTAGES if plays_all else sample
            metafunc.parametrize(name, [SABOTAGES[one] for one in names], ids=list(names))


@pytest.mark.parametrize("sabotage", SABOTAGES.values(), ids=list(SABOTAGES))
def test_a_sabotage_finds_the_guard_that_it_removes(sabotage: Sabotage) -> None:
    sabotage.check()
    assert sabotage.caught_by
    assert all("::" in test for test in sabotage.caught_by)


@pytest.mark.timeout(2 * trial.RUN_SECONDS)
def test_each_test_that_is_to_miss_a_guard_exists(request: pytest.FixtureRequest) -> None:
    """A test that was renamed or moved would fail a trial only in the runs that try all sabotages."""
    named = {*trial.ORDINARY, *(test for one in SABOTAGES.values() for test in one.caught_by)}
    # A run of the whole suite has collected them; xdist adds the group to the name.
    here = {item.nodeid.partition("@")[0] for item in request.session.items}
    if missing := sorted(named - here - {item.partition("[")[0] for item in here}):
        trial.collect(missing)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (Edit("quartzpy.store.postgresql.connection.locks", "FOR UPDATE OF NOTHING", ""), "no longer holds the text"),
        (Edit("quartzpy.store.postgresql.locks_of_old", "FOR UPDATE", ""), "there is no module"),
        (
            Edit("quartzpy.store.postgresql.connection.locks", "class LockName(StrEnum):", "class LockName(StrEnum)"),
            "is no Python",
        ),
    ],
)
def test_a_sabotage_of_nothing_is_refused(edit: Edit, message: str) -> None:
    with pytest.raises(NothingToSabotageError, match=message):
        Sabotage("nothing", "nothing is wrong", (edit,), ()).check()


def test_a_module_that_is_imported_already_is_not_sabotaged() -> None:
    with pytest.raises(NothingToSabotageError, match="imported before it could be changed"):
        Sabotage("late", "nothing is wrong", (Edit(EmbeddedPostgres.__module__, "", ""),), ()).install()


@pytest.mark.timeout(2 * trial.RUN_SECONDS)
def test_a_removed_guard_makes_its_test_fail(tried: Sabotage, postgres_server: Server) -> None:
    dsn = postgres_server.url.render_as_string(hide_password=False)
    [test, *_] = tried.caught_by
    broken = trial.run([test], tried, dsn)
    assert broken.failed, f"{tried.name} is not caught by {test}\n{broken.output}"


@pytest.mark.timeout(2 * trial.RUN_SECONDS)
def test_ordinary_tests_pass_on_a_sabotaged_build(works: Sabotage, postgres_server: Server) -> None:
    ordinary = trial.run(trial.ORDINARY, works, postgres_server.url.render_as_string(hide_password=False))
    assert ordinary.passed, f"{works.name} is more than one guard less\n{ordinary.output}"
