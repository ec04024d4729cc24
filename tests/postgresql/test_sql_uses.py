"""Everything in the `.sql` files is used: each statement by some module, and each switch both on and off."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, get_args

import psycopg
import pytest

from quartzpy.store.postgresql.page_filters import switches_of
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.schema.statement import Statement as Prepared
from quartzpy.store.postgresql.schema.statement import prepare
from quartzpy.store.queries import AnyQuery
from tests.database import Server
from tools.sql import STORE, files, whole

FILES = {str(file.relative_to(STORE)): file for file in files()}
MODULES = sorted(STORE.rglob("*.py"))
CAST = re.compile(r":'(\w+)'(?:::(\w+(?:\[\])?))?")
TEXT = "text"
TEXT_OID, VARCHAR_OID = 25, 1043


class Load(NamedTuple):
    """A call, or an attribute, in the source that loads statements of a file."""

    path: str
    name: re.Pattern[str]
    on: frozenset[str]
    varying: frozenset[str]
    """The switches whose values, or names, are computed."""


class Statement(NamedTuple):
    path: str
    name: str

    def switches(self) -> set[str]:
        return set(re.findall(r"^ *\\if :(\w+)$", statements()[self], re.MULTILINE))

    def loads(self) -> list[Load]:
        return [load for load in all_loads() if load.path == self.path and load.name.fullmatch(self.name)]

    def variants(self) -> set[frozenset[str]]:
        """Return the sets of switches that are on: none, all, and those with which it is loaded."""
        switches = self.switches()
        return {frozenset(), frozenset(switches), *(load.on & switches for load in self.loads())}


@cache
def statements() -> dict[Statement, str]:
    return {
        Statement(path, name): text
        for path, file in FILES.items()
        for name, text in re.findall(r"^-- name: (\w+)\n(.*?)(?=^-- name:|\Z)", whole(file), re.MULTILINE | re.DOTALL)
    }


@cache
def all_loads() -> list[Load]:
    return [load for module in MODULES for load in loads_of(ast.parse(module.read_text(encoding="utf-8")))]


def loads_of(module: ast.Module) -> Iterator[Load]:
    words = {node.value for node in ast.walk(module) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names = {
        target.id: path
        for node in ast.walk(module)
        if isinstance(node, ast.Assign) and (path := path_of(node.value, {}))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(module):
        if not isinstance(call, ast.Call) or (path := path_of(call.func, names)) is None:
            continue
        [name] = call.args
        on: set[str] = set()
        varying: set[str] = set()
        for keyword in call.keywords:
            if keyword.arg is None:
                varying |= words | of_filters()
            elif not isinstance(keyword.value, ast.Constant):
                varying.add(keyword.arg)
            elif keyword.value.value:
                on.add(keyword.arg)
        yield Load(path, pattern_of(name, words), frozenset(on), frozenset(varying))
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and (path := path_of(node.value, names)):
            yield Load(path, re.compile(node.attr), frozenset(), frozenset())


@cache
def of_filters() -> set[str]:
    """Return the switches of the filters of all lists."""
    return {name for query in get_args(AnyQuery) for name in switches_of(query())}


def path_of(node: ast.expr, names: dict[str, str]) -> str | None:
    """Return the path of a file, of which an expression is the name or the constructor."""
    match node:
        case ast.Name(id=name):
            return names.get(name)
        case ast.Call(func=ast.Name(id="SqlFile"), args=[ast.Constant(value=str(path))]):
            return path
    return None


def pattern_of(name: ast.expr, words: set[str]) -> re.Pattern[str]:
    """Return the names of statements that an expression can have in a module with these texts."""
    match name:
        case ast.Constant(value=str(text)):
            return re.compile(text)
        case ast.JoinedStr(values=values):
            any_word = f"({'|'.join(map(re.escape, words))})"
            return re.compile("".join(str(v.value) if isinstance(v, ast.Constant) else any_word for v in values))
    return re.compile("|".join(map(re.escape, words)))


@pytest.fixture(scope="module")
def oids(postgres_server: Server) -> Iterator[dict[str, int]]:
    with postgres_server.connect("postgres") as connection:
        yield dict(
            connection.execute(
                "SELECT kind, kind::regtype::oid::int FROM unnest(%s::text[]) AS kind",
                [sorted({TEXT, *(kind for text in statements().values() for _, kind in CAST.findall(text) if kind)})],
            )
        )


def test_each_file_is_loaded_and_has_statements() -> None:
    assert {load.path for load in all_loads()} == set(FILES)
    assert {statement.path for statement in statements()} == set(FILES)


def test_each_statement_that_is_loaded_by_its_name_exists() -> None:
    known = {(statement.path, statement.name) for statement in statements()}
    assert not [
        load for load in all_loads() if load.name.pattern.isidentifier() and (load.path, load.name.pattern) not in known
    ]


def test_no_two_statements_of_a_file_have_the_same_name() -> None:
    for path, file in FILES.items():
        named = re.findall(r"^-- name: (\w+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(named) == len(set(named)), path


@pytest.mark.parametrize("statement", statements(), ids=lambda statement: f"{statement.path} {statement.name}")
def test_a_statement_is_loaded_with_each_switch_on_and_off(statement: Statement) -> None:
    loads = statement.loads()
    assert loads
    for switch in statement.switches():
        assert any(switch in load.on | load.varying for load in loads), f"{switch} is never on"
        assert any(switch not in load.on for load in loads), f"{switch} is never off"


def test_each_constant_statement_is_used() -> None:
    sources = [path.read_text(encoding="utf-8") for path in MODULES]
    constants = [name for text in sources for name in re.findall(r"^(\w+) = _SQL\(", text, re.MULTILINE)]
    assert constants
    all_sources = "\n".join(sources)
    assert not [
        name for name in set(constants) if len(re.findall(rf"\b{name}\b", all_sources)) <= constants.count(name)
    ]


@pytest.mark.parametrize("path", FILES)
def test_a_value_has_a_cast_at_its_first_use_unless_it_is_a_text(
    connect: Callable[[], psycopg.Connection[Any]], oids: dict[str, int], path: str
) -> None:
    connection = connect()
    for statement in statements():
        for on in statement.variants() if statement.path == path else ():
            text = SqlFile(path)(statement.name, **dict.fromkeys(on, True))
            prepared = prepare("", text)
            first: dict[str, str] = {}
            for value, kind in CAST.findall(re.sub(r"--.*", "", text)):
                first.setdefault(value, kind or TEXT)
            assert {value: oids[kind] for value, kind in first.items()} == inferred(connection, prepared), statement


def inferred(connection: psycopg.Connection[Any], prepared: Prepared) -> dict[str, int]:
    """Return the types that the server gives the values of a statement, with text for its kin."""
    assert connection.pgconn.prepare(b"", prepared.sql).error_message == b""
    described = connection.pgconn.describe_prepared(b"")
    kinds = [described.param_type(place) for place in range(len(prepared.values))]
    return {v: TEXT_OID if kind == VARCHAR_OID else kind for v, kind in zip(prepared.values, kinds, strict=True)}
