"""Traces what a call crosses on its way through the code: `python -m tools.journeys` prints the table of the house.

Three journeys run on an embedded PostgreSQL server, each after a first one that warms caches up: a `schedule_job`, a
fire from its claim to its record, and the overview of the dashboard. Every call of a Python function of the package is
recorded. The table also has the figures that are counted in the source: lines of Python and of SQL, files, the store's
methods, the layers, and how many files name one column of a job.
"""

from __future__ import annotations

import ast
import inspect
import io
import itertools
import re
import sys
import tempfile
import threading
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import grimp

from quartzpy import Scheduler, job
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.store.postgresql import migrations
from quartzpy.store.postgresql.schema.sql_files import SqlFile, names_in, switches_in
from tools.sql import STORE, files

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "quartzpy"
PROTOCOLS = "quartzpy.store.protocol"
STEPS = STORE / "steps"
NODE_THREADS = ("scheduler", "worker", "completer")
"""Words in the names of the threads that a fire crosses."""
# A process parses an expression once.
_MINUTES = itertools.count()


class Journey(NamedTuple):
    """What one journey crossed."""

    files: frozenset[str]
    """The files, as paths in the package."""
    switches: int


class Figure(NamedTuple):
    """One line of the table."""

    name: str
    value: str


@job
def arrive() -> None:
    """Does nothing."""


# --- journeys


class Recorder:
    """Records the calls of the package's functions, for each thread: their files, and the calls into another file."""

    def __init__(self) -> None:
        self.is_on = False
        self._files: dict[str, set[str]] = defaultdict(set)
        self._switches: Counter[str] = Counter()
        self.round_trips = 0
        self.ways_to_the_socket: list[list[str]] = []

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self.is_on or event != "call" or not is_of_package(frame):
            return
        caller = frame.f_back
        while caller is not None and not is_of_package(caller):
            caller = caller.f_back
        file = frame.f_code.co_filename
        thread = threading.current_thread().name
        self._files[thread].add(file)
        self._switches[thread] += caller is None or caller.f_code.co_filename != file
        if frame.f_code.co_name == "execute_pipelined" and file.endswith("pipeline.py"):
            self.round_trips += 1
            self.ways_to_the_socket.append(list(dict.fromkeys(callers(frame))))

    @contextmanager
    def recording(self) -> Iterator[None]:
        self.is_on = True
        try:
            yield
        finally:
            self.is_on = False

    def journey(self, is_part: Callable[[str], bool] = lambda thread: True) -> Journey:
        """Return what the threads that are part of the journey crossed."""
        threads = [thread for thread in self._files if is_part(thread)]
        return Journey(
            frozenset(str(Path(file).relative_to(PACKAGE)) for thread in threads for file in self._files[thread]),
            sum(self._switches[thread] for thread in threads),
        )


def is_of_package(frame: FrameType) -> bool:
    """Return whether a frame runs a function of the package."""
    return frame.f_code.co_filename.startswith(str(PACKAGE))


def callers(frame: FrameType) -> Iterator[str]:
    """Yield the names of the store's functions on the stack from this frame up to the step that called it."""
    caller: FrameType | None = frame
    while caller is not None:
        file = Path(caller.f_code.co_filename)
        if is_of_package(caller):
            if file.is_relative_to(STEPS) or not file.is_relative_to(STORE):
                return
            yield caller.f_code.co_name
        caller = caller.f_back


def schedule(url: str) -> Journey:
    """Trace a `schedule_job` of a function with a cron expression, which is the second one of its scheduler."""
    with Scheduler(url, name="journeys") as scheduler:
        scheduler.schedule_job(arrive, "0 0 2 * * ?", name="first")
        recorder = Recorder()
        sys.setprofile(recorder)
        try:
            with recorder.recording():
                scheduler.schedule_job(arrive, f"0 {next(_MINUTES)} 3 * * ?", name="second")
        finally:
            sys.setprofile(None)
    return recorder.journey()


def fire(url: str) -> tuple[Journey, int]:
    """Trace a one-shot fire on a node with default settings; also count the functions from its steps to the socket."""
    recorder = Recorder()
    threading.setprofile(recorder)
    try:
        with Scheduler(url, name="fires") as scheduler:
            scheduler.start()
            scheduler.trigger_job(scheduler.schedule_job(arrive, name="warm", durable=True)).wait("30s")
            with recorder.recording():
                scheduler.trigger_job("warm").wait("30s")
    finally:
        threading.setprofile(None)
    longest = max((len(way) for way in recorder.ways_to_the_socket), default=0)
    return recorder.journey(lambda thread: any(word in thread for word in NODE_THREADS)), longest


def overview(url: str) -> int:
    """Count the round trips to the store for the overview of an idle cluster."""
    from starlette.testclient import TestClient

    from quartzpy.dashboard import create_app

    with Scheduler(url, name="overview") as scheduler:
        scheduler.schedule_job(arrive, "0 0 2 * * ?")
        recorder = Recorder()
        threading.setprofile(recorder)
        try:
            with TestClient(create_app(scheduler), base_url="http://127.0.0.1", client=("127.0.0.1", 50_000)) as page:
                page.get("/").raise_for_status()
                with recorder.recording():
                    page.get("/").raise_for_status()
        finally:
            threading.setprofile(None)
    return recorder.round_trips


# --- the source


def modules() -> list[Path]:
    """Return the modules of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def lines_of_code(source: str) -> int:
    """Count the lines that are not blank, a comment or a docstring."""
    without = {
        number
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in node.body
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
        for number in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    }
    idle = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    numbers: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in idle:
            numbers.update(range(token.start[0], token.end[0] + 1))
    return len(numbers - without)


def sql() -> list[Path]:
    """Return the files of SQL of the store."""
    return sorted(STORE.rglob("*.sql"))


def lines_of_sql(text: str) -> int:
    """Count the lines that are neither blank nor a comment."""
    return sum(not line.isspace() and not line.lstrip().startswith("--") for line in text.splitlines(keepends=True))


def protocol_methods() -> int:
    """Count the methods of the store's protocols."""
    protocols = {
        base
        for value_of_module in vars(import_module(PROTOCOLS)).values()
        if inspect.isclass(value_of_module)
        for base in value_of_module.__mro__
        if getattr(base, "_is_protocol", False) and base.__module__.startswith(PROTOCOLS)
    }
    return len(
        {
            name
            for protocol in protocols
            for name, value in vars(protocol).items()
            if not name.startswith("_") and (callable(value) or isinstance(value, property))
        }
    )


def files_naming(word: str) -> int:
    """Count the modules and `.sql` files of the package that name a word."""
    paths = [*modules(), *sql()]
    return sum(bool(re.search(rf"\b{word}\b", path.read_text(encoding="utf-8"))) for path in paths)


def longest_statement(prefix: str) -> int:
    """Count the lines of the longest statement of the store's files below a path, with all its switches."""
    texts = (
        text for file in files() if (path := str(file.relative_to(STORE))).startswith(prefix) for text in all_of(path)
    )
    return max(map(lines_of_sql, texts))


def all_of(path: str) -> Iterator[str]:
    """Yield each statement of a file with all its switches."""
    for name in names_in(path):
        yield SqlFile(path)(name, **dict.fromkeys(switches_in(path, name), True))


def switches() -> int:
    """Count the lines of the files of SQL that begin a choice between two texts."""
    return sum(len(re.findall(r"^ *\\if :", path.read_text(encoding="utf-8"), re.MULTILINE)) for path in sql())


def attributes(module: str, name: str) -> int:
    """Count the attributes that the constructor of a class sets."""
    path = PACKAGE / module
    [kind] = (
        node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    [constructor] = (node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    return len(
        {
            node.attr
            for node in ast.walk(constructor)
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        }
    )


def circles() -> list[str]:
    """Return the modules that import each other in a circle, and those that import from one.

    Imports in functions count, and those that only type checkers see do not.
    """
    graph = grimp.build_graph("quartzpy", cache_dir=None, exclude_type_checking_imports=True)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    while leaves := {module for module, others in imported.items() if not others}:
        imported = {module: others - leaves for module, others in imported.items() if module not in leaves}
    return sorted(imported)


@cache
def budget() -> dict[str, int]:
    """Return what the house has of that for which `budget.toml` says how much it may have."""
    packages: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for path in modules():
        package = str(path.relative_to(PACKAGE).parent).partition("/")[0]
        package = "modules of the package itself" if package == "." else package
        packages[package] += lines_of_code(path.read_text(encoding="utf-8"))
        numbers[package] += 1
    return {
        **{f"lines of Python: {package}": lines for package, lines in sorted(packages.items())},
        **{f"modules: {package}": number for package, number in sorted(numbers.items())},
        "lines of SQL": sum(lines_of_sql(path.read_text(encoding="utf-8")) for path in sql()),
        "lines of SQL: steps": sum(
            lines_of_sql(p.read_text(encoding="utf-8")) for p in sql() if p.is_relative_to(STEPS)
        ),
        "switches of SQL": switches(),
        **{
            f"longest statement: {step}": longest_statement(f"steps/{step}.sql")
            for step in ("acquire", "complete", "misfire", "recover")
        },
        "longest statement": longest_statement(""),
        "attributes of SqlSession": attributes("store/postgresql/connection/session.py", "SqlSession"),
        "attributes of SchedulerThread": attributes("node/scheduler_thread.py", "SchedulerThread"),
        "modules in circles of imports": len(circles()),
        "files that name `rate_limit`": files_naming("rate_limit"),
        "files that name `display_name`": files_naming("display_name"),
        "files that name `documentation_url`": files_naming("documentation_url"),
    }


def layers() -> int:
    """Count the layers of the first import contract."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    return len(contracts[0]["layers"])


# --- the table


def figures(url: str) -> list[Figure]:
    """Run the journeys and count the source."""
    scheduled = schedule(url)
    fired, calls = fire(url)
    return [
        Figure("lines of code", f"{sum(lines_of_code(path.read_text(encoding='utf-8')) for path in modules()):,}"),
        Figure("lines of SQL", f"{sum(lines_of_sql(path.read_text(encoding='utf-8')) for path in sql()):,}"),
        Figure("modules", f"{len(modules()):,}"),
        Figure("methods of the store's protocols", str(protocol_methods())),
        Figure("files that a warm `schedule_job` crosses", str(len(scheduled.files))),
        Figure("calls into another file on that way", str(scheduled.switches)),
        Figure("files that a fire crosses, from its claim to its record", str(len(fired.files))),
        Figure("calls into another file on that way", str(fired.switches)),
        Figure("functions between a step and the socket", str(calls)),
        Figure("files that name `rate_limit`", str(files_naming("rate_limit"))),
        Figure("files that name `display_name`", str(files_naming("display_name"))),
        Figure("round trips of the overview", str(overview(url))),
        Figure("layers of the import contract", str(layers())),
    ]


def table(rows: list[Figure]) -> str:
    """Return the figures as a table in Markdown."""
    return "\n".join(["| | |", "|---|---:|", *(f"| {row.name} | {row.value} |" for row in rows)])


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="quartzpy-journeys-") as directory,
        EmbeddedPostgres(Path(directory), durable=False) as server,
    ):
        migrations.upgrade(server.dsn)
        sys.stdout.write(table(figures(server.dsn)) + "\n")


if __name__ == "__main__":
    main()
