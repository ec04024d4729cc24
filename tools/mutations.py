"""Says what the tests are worth: `python -m tools.mutations --count 200 --seed 1` changes the package and runs them.

Each mutation changes one place of a scratch copy of this checkout: an operator, a constant, a comparison, a condition,
or a statement that goes, in Python or in SQL. Then the tests that are likeliest to notice run: those named like the
module, those that import it, and those of its folder. A mutation that a test notices is killed. One that survives is
printed as a change of its line: either nothing depends on the place (the two programs do the same), or a promise of it
has no test.

A test that also fails without the mutation kills nothing. It is left out from then on.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import islice, pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MUTATED = ("quartzpy/store", "quartzpy/node", "quartzpy/triggers", "quartzpy/operations")
TESTS_OF = {
    "quartzpy/store/memory": ("tests/contract",),
    "quartzpy/store/postgresql/admin": ("tests/operations", "tests/admin", "tests/postgresql"),
    "quartzpy/store/postgresql": ("tests/contract", "tests/postgresql", "tests/protocol"),
    "quartzpy/store": ("tests/contract", "tests/unit"),
    "quartzpy/node": ("tests/node", "tests/alone", "tests/facade"),
    "quartzpy/triggers": ("tests/unit", "tests/conformance"),
    "quartzpy/operations": ("tests/operations", "tests/dashboard_api", "tests/incidents", "tests/cli"),
}
"""The folders of tests that run last, by the longest beginning of the path of what is mutated."""
MAX_TEST_SECONDS = 60
"""The limit of one test: a mutation may make it run for ever."""
_ENDS_WITHIN = 20

COMPARISONS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*"}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
SQL = {
    r"(?<![<>=!:|-])<=": "<",
    r"(?<![<>=!:|-])>=": ">",
    r"(?<![<>=!:|@-])<(?![<>=@])": "<=",
    r"(?<![<>=!:|@-])>(?![<>=@])": ">=",
    r"(?<![<>=!:|])=(?![<>=])": "<>",
    r"<>": "=",
    r"(?<=\s)\+(?=\s)": "-",
    r"(?<=\s)-(?=\s)": "+",
    r"\bAND\b": "OR",
    r"\bOR\b": "AND",
    r"\bNOT EXISTS\b": "EXISTS",
    r"(?<!NOT )\bEXISTS\b": "NOT EXISTS",
    r"\bIS NOT NULL\b": "IS NULL",
    r"\bIS NULL\b": "IS NOT NULL",
    r"\bmin(?=\()": "max",
    r"\bmax(?=\()": "min",
    r"\bleast(?=\()": "greatest",
    r"\bgreatest(?=\()": "least",
    r"\btrue\b": "false",
    r"\bfalse\b": "true",
    r"\bDESC\b": "ASC",
}
"""What a match becomes, outside of comments and texts."""
_SQL_TEXT = re.compile(r"--[^\n]*|^\\[^\n]*|:?'(?:[^']|'')*'", re.MULTILINE)


@dataclass(frozen=True)
class Mutation:
    """One changed place of a file."""

    path: str
    start: int
    end: int
    """The place, in characters of the file."""
    text: str

    def applied(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]

    def shown(self, source: str) -> str:
        """Return the line before and after the change, with its number."""
        begin = source.rfind("\n", 0, self.start) + 1
        end = source.find("\n", self.end) % (len(source) + 1)
        after = source[begin : self.start] + self.text + source[self.end : end]
        place = f"{self.path}:{source.count(chr(10), 0, self.start) + 1}"
        return "\n".join([place, *(f"- {line}" for line in source[begin:end].splitlines()), f"+ {after.strip()}"])


@dataclass
class Result:
    """What became of a mutation."""

    mutation: Mutation
    shown: str
    killed_by: str | None = None
    """The first test that failed; None if it survived."""
    seconds: float = 0.0
    in_time: bool = True
    """False if the time was up before all its tests had run."""


def of_python(path: str, source: str) -> Iterator[Mutation]:
    """Yield the mutations of a module."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = [line.encode() for line in source.splitlines(keepends=True)]

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1][:column].decode())

    def change(node: ast.expr | ast.stmt, text: str) -> Mutation:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin, end = offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)
        return Mutation(path, begin, end, text)

    def between(first: ast.expr, second: ast.expr, text: str) -> Mutation:
        """Replace the operator of two operands, whose parentheses stay."""
        assert first.end_lineno is not None
        assert first.end_col_offset is not None
        begin, end = offset(first.end_lineno, first.end_col_offset), offset(second.lineno, second.col_offset)
        part = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), source[begin:end])
        operator = re.search(r"[^\s()\\]+(?:\s+(?:not|in)\b)?", part)
        assert operator is not None
        return Mutation(path, begin + operator.start(), begin + operator.end(), text)

    for node in _mutable(ast.parse(source)):
        match node:
            case ast.Compare(left=first, ops=[operator], comparators=[second]):
                yield between(first, second, COMPARISONS[type(operator)])
            case ast.BinOp(left=first, op=operator, right=second) if type(operator) in OPERATORS:
                yield between(first, second, OPERATORS[type(operator)])
            case ast.BoolOp(op=operator, values=values):
                for first, second in pairwise(values):
                    yield between(first, second, "or" if isinstance(operator, ast.And) else "and")
            case ast.Constant(value=bool() as value):
                yield change(node, str(not value))
            case ast.Constant(value=int() as value):
                yield change(node, str(value + 1))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield change(node, f"({ast.unparse(operand)})")
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                yield change(test, f"(not ({ast.get_source_segment(source, test)}))")
            case ast.Call(func=ast.Name(id=name) as called) if name in FUNCTIONS:
                yield change(called, FUNCTIONS[name])
            case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
                yield change(node, "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield change(node, "pass")
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield change(value, "None")


def _mutable(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree that run: no annotations, no imports for types, no calls of a logger."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Import() | ast.ImportFrom() | ast.arg():
                continue
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="logger")))) | ast.JoinedStr():
                continue
            case ast.Assign(targets=[ast.Name(id="__slots__")]) | ast.Expr(value=ast.Constant()):
                continue
            case ast.AnnAssign(value=value):
                yield from () if value is None else _mutable(ast.Expr(value))
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
                    yield from _mutable(ast.Expr(default))
                yield from _mutable(ast.Module(node.body, []))
                continue
        yield node
        yield from _mutable(node)


def of_sql(path: str, source: str) -> Iterator[Mutation]:
    """Yield the mutations of a file of statements."""
    code = _SQL_TEXT.sub(lambda text: re.sub(r"[^\n]", "\0", text[0]), source)
    for pattern, text in SQL.items():
        for match in re.finditer(pattern, code):
            yield Mutation(path, match.start(), match.end(), text)
    for number in re.finditer(r"(?<![\w.$])\d+(?![\w.])", code):
        yield Mutation(path, number.start(), number.end(), str(int(number[0]) + 1))
    for condition in re.finditer(r"^ *AND [^\n]*$", code, re.MULTILINE):
        if condition[0].count("(") == condition[0].count(")") and "BETWEEN" not in condition[0]:
            yield Mutation(path, condition.start(), condition.end(), "")


def mutations(folders: Sequence[str], root: Path = ROOT) -> list[Mutation]:
    """Return all mutations of the files of some folders, in the order of their paths."""
    paths = sorted({path for folder in folders for path in _sources(root / folder)})
    every: list[Mutation] = []
    for path in paths:
        source, name = path.read_text(), str(path.relative_to(root))
        every += of_sql(name, source) if path.suffix == ".sql" else of_python(name, source)
    return every


def _sources(place: Path) -> list[Path]:
    return [place] if place.is_file() else [*place.rglob("*.py"), *place.rglob("*.sql")]


def _compiles(mutation: Mutation) -> bool:
    try:
        if mutation.path.endswith(".py"):
            ast.parse(mutation.applied((ROOT / mutation.path).read_text()))
    except SyntaxError:
        return False
    return True


@cache
def _tests() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}


def tests_of(path: str) -> list[list[str]]:
    """Return the tests for a file, in the order in which they run: those nearest to it, and those of its folder."""
    module = path.rpartition(".")[0].replace("/", ".")
    package, _, stem = module.rpartition(".")
    imports = re.compile(rf"(from {re.escape(module)} import|from {re.escape(package)} import [^\n]*\b{stem}\b)")
    folders = TESTS_OF[next(folder for folder in sorted(TESTS_OF, key=len, reverse=True) if path.startswith(folder))]
    near = [name for name, text in _tests().items() if Path(name).stem == f"test_{stem}" or imports.search(text)]
    # Those of other folders start whole programs.
    near.sort(key=lambda name: (Path(name).stem != f"test_{stem}", not name.startswith(folders)))
    return [stage for stage in (near, [*folders]) if stage]


@dataclass
class Scratch:
    """A copy of this checkout, in which the tests of mutations run."""

    place: Path
    limit: float
    workers: int
    left_out: list[str] = field(default_factory=list)
    """Tests that fail without a mutation, too."""

    def judge(self, mutation: Mutation) -> Result:
        """Run the tests for a mutation until one fails."""
        path = self.place / mutation.path
        source = path.read_text()
        result = Result(mutation, mutation.shown(source))
        began = time.monotonic()
        stages = tests_of(mutation.path)
        while stages and result.killed_by is None and result.in_time:
            path.write_text(mutation.applied(source))
            result.in_time, failed = self._run(stages[0], self.limit - (time.monotonic() - began))
            path.write_text(source)
            if failed is not None and self._fails_anyway(failed):
                self.left_out.append(failed)
                continue
            result.killed_by = failed
            stages.pop(0)
        result.seconds = round(time.monotonic() - began, 1)
        return result

    def _fails_anyway(self, test: str) -> bool:
        return "::" in test and self._run([test], self.limit)[1] is not None

    def _run(self, tests: Sequence[str], seconds: float) -> tuple[bool, str | None]:
        """Run tests until one fails; return whether there was time for all, and the one that failed."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", f"--timeout={MAX_TEST_SECONDS}"]
        # A mutation may be written within the second in which the file was compiled.
        command[1:1] = ["-B", "-X", "pycache_prefix=" + tempfile.mkdtemp(dir=self.place / ".bytecode")]
        command += [f"--deselect={test}" for test in self.left_out]
        command += ["-n", str(self.workers), "--dist", "loadscope"] if self.workers > 1 else []
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        running = subprocess.Popen(
            [*command, *tests],
            cwd=self.place,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = running.communicate(timeout=max(1.0, seconds))
        except subprocess.TimeoutExpired:
            _end(running)
            return False, None
        if running.returncode in (0, 5):
            return True, None
        failed = re.search(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)(?= - |$)", output, re.MULTILINE)
        return True, failed[1] if failed else (output.strip().splitlines() or ["no output"])[-1]


def _end(running: subprocess.Popen[str]) -> None:
    """End a run of tests with its workers, which stop their servers."""
    for how in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(running.pid, how)
            running.communicate(timeout=_ENDS_WITHIN)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
        return


def copy_checkout(place: Path) -> None:
    """Copy the files of this checkout that belong to it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    (place / ".bytecode").mkdir()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.mutations", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--count", type=int, default=200, help="mutations to try, chosen at random (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="chooses other ones (default: 1)")
    parser.add_argument("--limit", type=float, default=300, help="seconds for the tests of one mutation (default: 300)")
    parser.add_argument("--workers", type=int, default=1, help="processes that run tests (default: 1)")
    parser.add_argument("--list", action="store_true", help="show the mutations, and run nothing")
    parser.add_argument("--report", type=Path, help="write the results to this file, as JSON")
    parser.add_argument("places", nargs="*", default=MUTATED, help=f"folders or files (default: {' '.join(MUTATED)})")
    options = parser.parse_args(arguments)
    every = mutations(options.places)
    shuffled = random.Random(options.seed).sample(every, len(every))
    chosen = [*islice(filter(_compiles, shuffled), options.count)]
    print(f"{len(chosen)} of {len(every)} mutations of {', '.join(options.places)}", flush=True)
    if options.list:
        for mutation in chosen:
            print(mutation.shown((ROOT / mutation.path).read_text()))
        return
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="quartzpy-mutations-") as directory:
        place = Path(directory)
        # The server of the tests may run as another user.
        place.chmod(0o755)
        copy_checkout(place)
        scratch = Scratch(place, options.limit, options.workers)
        for number, mutation in enumerate(chosen, 1):
            result = scratch.judge(mutation)
            results.append(result)
            state = "SURVIVED" if result.in_time else "SURVIVED until the time was up"
            verdict = f"killed by {result.killed_by}" if result.killed_by else state
            print(f"\n[{number}/{len(chosen)}] {result.shown}\n  {verdict}, {result.seconds:g} s", flush=True)
            if options.report:
                options.report.write_text(json.dumps([asdict(each) for each in results], indent=1))
    print(summary(results))
    if scratch.left_out:
        print("\nleft out, because they fail without a mutation:", *scratch.left_out, sep="\n  ")


def summary(results: Sequence[Result]) -> str:
    """Return the share that was killed, of all and of each folder, and the survivors."""
    tried = Counter("/".join(result.mutation.path.split("/")[:2]) for result in results)
    killed = Counter("/".join(result.mutation.path.split("/")[:2]) for result in results if result.killed_by)
    lines = [f"{folder}: {killed[folder]} of {count} killed" for folder, count in sorted(tried.items())]
    survivors = [result.shown for result in results if not result.killed_by]
    share = killed.total() / max(1, len(results))
    return "\n".join(["", *lines, f"all: {killed.total()} of {len(results)} killed ({share:.0%})", "", *survivors])


if __name__ == "__main__":
    main()
