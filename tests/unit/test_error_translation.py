"""The translation of the errors of drivers."""

from __future__ import annotations

import builtins
import subprocess
import sys
from typing import Any

import psycopg
import pytest
from sqlalchemy import exc

from quartzpy.errors import QuartzpyError, StoreUnavailableError
from quartzpy.store.postgresql.connection.error_translation import translate

# `sqlalchemy.exc` is there long before `sqlalchemy` is: a thread that wants the package waits for its import to end.
TRANSLATES_DURING_THE_IMPORT = """
import sys, threading

import psycopg

from quartzpy.store.postgresql.connection.error_translation import translate

reached, may_go_on = threading.Event(), threading.Event()


class Holds:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("sqlalchemy.") and "sqlalchemy.exc" in sys.modules:
            reached.set()
            may_go_on.wait(60)


def answer():
    answers.append(translate(psycopg.OperationalError("server closed the connection")))


assert "sqlalchemy" not in sys.modules
sys.meta_path.insert(0, Holds())
importing = threading.Thread(target=__import__, args=("sqlalchemy",))
importing.start()
assert reached.wait(60)
answers = []
translating = threading.Thread(target=answer)
translating.start()
translating.join(20)
print([type(one).__name__ for one in answers])
may_go_on.set()
importing.join()
"""


def test_an_error_of_the_driver_is_translated_while_another_thread_imports_sqlalchemy() -> None:
    """On a machine without time that import takes longer than a failure window, and a check-in must not wait for it."""
    run = subprocess.run(
        [sys.executable, "-c", TRANSLATES_DURING_THE_IMPORT], capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "['StoreUnavailableError']", run.stderr


def test_no_error_is_translated_by_an_import_of_sqlalchemy(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = psycopg.errors.AdminShutdown("terminating connection")
    errors = [driver, exc.OperationalError("SELECT 1", {}, driver), exc.TimeoutError("QueuePool limit")]
    expected = [StoreUnavailableError, StoreUnavailableError, StoreUnavailableError]

    imports = builtins.__import__

    def waits(name: str, *arguments: Any, **options: Any) -> Any:
        assert not name.startswith("sqlalchemy"), "this waits while another thread imports it"
        return imports(name, *arguments, **options)

    translated: list[QuartzpyError] = []
    with monkeypatch.context() as patched:
        patched.setattr(builtins, "__import__", waits)
        translated += [translate(error) for error in errors]
    assert [type(error) for error in translated] == expected
