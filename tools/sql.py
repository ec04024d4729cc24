"""Print a statement as the store sends it, but with its named values: `python -m tools.sql acquire --on limits`.

Parts are put in and switches are decided, so psql takes it after the samples of values, for example to explain it.
A name that several files have is written with its file: `steps/acquire.sql:acquire`. Without a name, all are listed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from quartzpy.store.postgresql.schema.sql_files import SHARED, SqlFile, expanded, names_in

STORE = Path(__file__).parent.parent / "quartzpy" / "store" / "postgresql"


def files() -> list[Path]:
    """Return the files of statements, without those of shared parts and the scripts of alembic."""
    return [file for file in sorted(STORE.rglob("*.sql")) if str(file.relative_to(STORE)) not in SHARED]


def whole(file: Path) -> str:
    """Return the text of a file with the parts that it includes."""
    return expanded(file.read_text(encoding="utf-8"))


def statement(name: str, *on: str) -> str:
    """Return the text of a statement with these switches.

    Raises:
        LookupError: no file, or more than one, has the statement, or it has no such switch.
    """
    path, _, own = name.rpartition(":")
    paths = [str(file.relative_to(STORE)) for file in files()]
    having = [each for each in paths if path in ("", each) and own in names_in(each)]
    if not having:
        raise LookupError(f"no statement is called {name!r}: python -m tools.sql lists them")
    if len(having) > 1:
        raise LookupError(f"several files have {name!r}: write {', '.join(f'{each}:{own}' for each in having)}")
    return SqlFile(having[0])(own, **dict.fromkeys(on, True))


def main(arguments: list[str]) -> str:
    """Return what the command prints."""
    parser = argparse.ArgumentParser(prog="python -m tools.sql", description="Print a statement as the store sends it.")
    parser.add_argument("name", nargs="?", help="the statement, such as acquire or steps/acquire.sql:acquire")
    parser.add_argument("--on", action="append", default=[], metavar="SWITCH", help="a switch that is on")
    options = parser.parse_args(arguments)
    if options.name is None:
        paths = [str(file.relative_to(STORE)) for file in files()]
        return "\n".join(f"{path}:{name}" for path in paths for name in names_in(path)) + "\n"
    try:
        return statement(options.name, *options.on) + ";\n"
    except LookupError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:]))
