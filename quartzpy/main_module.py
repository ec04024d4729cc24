"""The name by which other processes can import the program that this process was started with.

Python runs a program as the module `__main__`, in every process another one. What is stored has to name the module by
which it can be imported: for `python app.py` that is `app`, for `python -m billing.jobs` it is `billing.jobs`.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from quartzpy.keys import MAIN


def importable_name(module: str) -> str:
    """Return the name to import the program's main module by, or "__main__" where it has none.

    `module` is the name under which it is loaded here: `__main__`, or `__mp_main__` in a child of multiprocessing. It
    has no other name in an interactive session, after `python -c`, and where its file cannot be imported.
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
    # Where the package's own directory is not on the path, Python has put the script's there.
    for names, root in ((parts, directory), (parts[-1:], path.parent)):
        if all(name.isidentifier() for name in names) and _leads_to(names[0], root, path if len(names) == 1 else None):
            return ".".join(names)
    return None


def _leads_to(name: str, root: Path, file: Path | None) -> bool:
    """Return whether `import name` finds this file, or the package of this name in `root`. Imports nothing."""
    try:
        spec = PathFinder.find_spec(name)
    except Exception:  # An entry of sys.path that nobody can read.
        return False
    if spec is None or spec.origin is None:
        return False
    return Path(spec.origin).resolve() == (file or (root / name / "__init__.py").resolve())
