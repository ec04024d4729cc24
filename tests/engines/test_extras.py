"""What a node says of an engine whose package is not installed."""

from __future__ import annotations

import sys

import pytest

from quartzpy import Scheduler
from quartzpy.config.engine_names import engine_reference
from quartzpy.errors import SettingsError
from quartzpy.installing import EXTRAS, install_line

ADDRESSES = {"dask": "dask:tcp://scheduler:8786", "celery": "celery:my_program.tasks:app"}


@pytest.mark.parametrize("package", EXTRAS)
def test_an_engine_without_its_package_is_refused_with_the_line_that_installs_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = EXTRAS[package]
    module, _, _ = str(engine_reference(engine)).partition(":")
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SettingsError) as raised:
        Scheduler("memory://", executors={"big": ADDRESSES[engine]}).start()
    assert str(raised.value).startswith("executors: big: ")
    assert str(raised.value).endswith(f"; run {install_line(engine)}")


def test_a_fault_of_the_user_s_own_module_is_not_taken_for_a_missing_package() -> None:
    with pytest.raises(SettingsError) as raised:
        Scheduler("memory://", executors={"big": "celery:no_such_program:app"}).start()
    assert "'no_such_program' cannot be imported: No module named 'no_such_program'" in str(raised.value)
    assert "pip install" not in str(raised.value)
