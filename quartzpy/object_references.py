"""Objects of the user's programs that a setting, a file or an option names: `module:name`."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from types import ModuleType
from typing import Any

from quartzpy.errors import SettingsError
from quartzpy.installing import EXTRAS, install_line
from quartzpy.texts import quoted, reason


def find_programs_here() -> None:
    """Let modules in the current directory be imported, as with `python -m`."""
    if sys.path[0] != (here := os.getcwd()):
        sys.path.insert(0, here)


def imported_module(name: str, subject: str) -> ModuleType:
    """Import a module.

    Raises:
        SettingsError: it cannot be imported. The message begins with `subject`; the cause is the error of the import.
    """
    try:
        return importlib.import_module(name)
    except Exception as error:
        # The import runs user code, which may raise anything.
        extra = EXTRAS.get(str(getattr(error, "name", "")).partition(".")[0])
        run = f"; run {install_line(extra)}" if extra else ""
        raise SettingsError(f"{subject}: {quoted(name)} cannot be imported: {reason(error)}{run}") from error


def object_at(reference: object, subject: str, example: str) -> Any:
    """Import the module of `module:name`, and return the object of that name, which may be `Class.method`.

    Raises:
        SettingsError: the reference has another form than `example`, its module cannot be imported, or has no such
            name. The message begins with `subject`.
    """
    module, colon, path = reference.partition(":") if isinstance(reference, str) else ("", "", "")
    if not (module and colon and path):
        raise SettingsError(f"{subject}: must be module:name, such as {example} (got {quoted(reference)})")
    value: Any = imported_module(module, subject)
    owner = module
    for part in path.split("."):
        if not hasattr(value, part):
            near = difflib.get_close_matches(part, getattr(value, "__dict__", ()), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingsError(f"{subject}: {quoted(reference)}: {owner} has no {part!r}{hint}")
        value, owner = getattr(value, part), part
    return value
