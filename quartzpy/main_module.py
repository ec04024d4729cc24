"""The importable name of the program's main module.

Python runs a program as the module `__main__`, which is a different module in every process. Stored names of jobs and
functions therefore use the name by which the module can be imported: `app` for `python app.py`, `billing.jobs` for
`python -m billing.jobs`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from quartzpy.keys import MAIN, module_of


def import_path(cls: type | Callable[..., Any]) -> str:
    """Return the name under which another process can import a class or a function: "package.module:Name".

    The module remains "__main__" if the program cannot be imported under a name; see `importable_name`.
    """
    module = module_of(cls)
    if module == MAIN:
        module = importable_name(cls.__module__)
    return f"{module}:{cls.__qualname__}"


def importable_name(module: str) -> str:
    """Return the name by which the program's main module can be imported, or "__main__" if there is none.

    `module` is its name in `sys.modules`: `__main__`, or `__mp_main__` in a child of multiprocessing. There is no
    importable name in an interactive session, with `python -c`, or if the file is not on the import path.
    """
    loaded = sys.modules.get(module)
    spec: ModuleSpec | None = getattr(loaded, "__spec__", None)
    if spec is not None:
        return spec.name.removesuffix(f".{MAIN}")
    file = getattr(loaded, "__file__", None)
    return (_name_of(file) if isinstance(file, str) else None) or MAIN


@lru_cache(maxsize=8)
def _name_of(file: str) -> str | None:
    path = Path(file).resolve()
    parts = [path.stem]
    directory = path.parent
    while (directory / "__init__.py").is_file():
        parts.insert(0, directory.name)
        directory = directory.parent
    # If the directory of the package is not on the path, Python has put that of the script there.
    for names, root in ((parts, directory), (parts[-1:], path.parent)):
        if all(name.isidentifier() for name in names) and _resolves_to(
            names[0], root, path if len(names) == 1 else None
        ):
            return ".".join(names)
    return None


def _resolves_to(name: str, root: Path, file: Path | None) -> bool:
    """Return whether `import name` would find this file, or the package of this name in `root`."""
    try:
        spec = PathFinder.find_spec(name)
    except Exception:  # sys.path may have an entry that cannot be read.
        return False
    if spec is None or spec.origin is None:
        return False
    return Path(spec.origin).resolve() == (file or (root / name / "__init__.py").resolve())
