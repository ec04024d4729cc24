"""YAML as its writers mean it: plain values only, and no value that YAML 1.1 reads otherwise than it looks.

YAML 1.1 takes `no` for false, `18:00` for 1,080 (base 60) and `010` for 8. Here a time of day is a text, a key is
always a text, and whatever has two readings is refused, with its line and the ways to write what is meant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from quartzpy.errors import SettingsError
from quartzpy.installing import install_line
from quartzpy.text_files import look_alike
from quartzpy.texts import quoted, reason

MAX_NESTED = 64
_PREFIX = "tag:yaml.org,2002:"
_TEXT, _MERGE = f"{_PREFIX}str", f"{_PREFIX}merge"
_TRAP = "tag:quartzpy,2026:two-readings"
_MAX_DIGITS = 40
# The first characters decide which patterns are tried.
_PLAIN = (
    (f"{_PREFIX}bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    (f"{_PREFIX}null", r"null|Null|NULL|", ["n", "N", ""]),
    (f"{_PREFIX}int", r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+", "-+0123456789"),
    (f"{_PREFIX}float", r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
     "-+.0123456789"),
    (_MERGE, r"<<", "<"),
)  # fmt: skip
_OF_SOME = "only some YAML reads it as a number"
_TRAPS = (
    (r"(?i:yes|no|on|off)", "yYnNoO", "true or false", "older YAML reads it as true or false, newer YAML as a text"),
    (r"~", "~", "null for nothing", "YAML reads it as nothing"),
    (r"[-+]?0[0-9_]+", "-+0", "the number without the leading zero", "YAML reads it to the base 8, or as a text"),
    (r"[-+]?0[obOB][0-9_]+", "-+0", "the number in decimal", _OF_SOME),
    (r"[-+]?[0-9]+(_[0-9]+)+(\.[0-9_]*)?", "-+0123456789", "the number without _", _OF_SOME),
    (r"[-+]?[0-9]+[eE][-+]?[0-9]+", "-+0123456789", "the number with a point, as 1.0e+3", _OF_SOME),
)
_RESERVED = {
    "*": "an alias", "&": "an anchor", "!": "a tag", "%": "a directive", "@": "reserved", "`": "reserved",
    "|": "a text of several lines", ">": "a text of several lines", "{": "a mapping", "[": "a list",
    "?": "a key", "'": "a quotation", '"': "a quotation", ",": "reserved", "]": "reserved", "}": "reserved",
}  # fmt: skip
_VALUE = re.compile(r"^\s*(?:- +)*(?:[^\s:#'\"][^:#]*:\s+|- +)?(?P<value>\S.*?)\s*$")


@lru_cache(maxsize=1)
def _yaml() -> Any:
    import yaml

    return yaml


def _resolvers(cls: Any) -> Any:
    """Give a class of PyYAML the readings of plain values that hold here."""
    cls.yaml_implicit_resolvers = {}
    for tag, pattern, first in _PLAIN:
        cls.add_implicit_resolver(tag, re.compile(rf"^(?:{pattern})$"), list(first))
    stamp = next(
        pattern for tag, pattern in _yaml().SafeLoader.yaml_implicit_resolvers["2"] if tag == f"{_PREFIX}timestamp"
    )
    cls.add_implicit_resolver(f"{_PREFIX}timestamp", stamp, list("0123456789"))
    for pattern, first, _, _ in _TRAPS:
        cls.add_implicit_resolver(_TRAP, re.compile(rf"^(?:{pattern})$"), list(first))
    return cls


@lru_cache(maxsize=1)
def _loader() -> Any:
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Loads plain values only, refuses duplicate keys and traps, and limits nesting."""

        takes_aliases = True

        def __init__(self, text: str) -> None:
            super().__init__(text)
            self.depth = 0
            self.unused: dict[str, int] = {}

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            if isinstance(event, yaml.AliasEvent):
                if not self.takes_aliases:
                    raise yaml.YAMLError(f"aliases are not accepted here, in {_line(event)}")
                self.unused.pop(event.anchor, None)
            elif event.anchor is not None and isinstance(event, yaml.ScalarEvent):
                self.unused[event.anchor] = event.start_mark.line
            self.depth += 1
            if self.depth > MAX_NESTED:
                raise yaml.YAMLError(f"nested deeper than {MAX_NESTED}")
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def get_single_data(self) -> Any:
            node = self.get_single_node()
            for anchor, line in self.unused.items():
                raise yaml.YAMLError(
                    f"line {line + 1}: &{anchor} names a value (an anchor), and no *{anchor} uses it; put a text that"
                    " begins with & in quotes"
                )
            return None if node is None else self.construct_document(node)

        def fetch_flow_collection_start(self, token: Any) -> None:
            # The scanner reads ahead, and becomes slower with each open bracket.
            if self.flow_level >= MAX_NESTED:
                raise yaml.YAMLError(f"nested deeper than {MAX_NESTED}")
            super().fetch_flow_collection_start(token)

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except yaml.YAMLError:
                raise
            except Exception as error:
                # PyYAML does not catch the errors of int(), date() and others.
                raise yaml.YAMLError(
                    f"{reason(error)} ({_line(node)}: {quoted(node.value)}; put it in quotes if a text is meant)"
                ) from error

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            # Duplicates are checked before << merges another mapping, whose keys may legally repeat.
            keys: set[str] = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                if key.tag != _MERGE:
                    key.tag = _TEXT
                if key.value in keys:
                    raise yaml.YAMLError(
                        f"{quoted(key.value)} is given twice in one table, in {_line(node)} (again in {_line(key)})"
                    )
                keys.add(key.value)
            return super().construct_mapping(node, deep)

        def flatten_mapping(self, node: Any) -> None:
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                    key.tag = _TEXT
            super().flatten_mapping(node)

    def trap(loader: Any, node: Any) -> Any:
        for pattern, _, means, why in _TRAPS:
            if re.fullmatch(pattern, node.value):
                raise yaml.YAMLError(
                    f"{_line(node)}: {node.value} has two readings ({why}); write {means}, or '{node.value}' in quotes"
                    " for the text"
                )
        raise yaml.YAMLError(f"{_line(node)}: {quoted(node.value)} has two readings; put it in quotes")

    def whole(loader: Any, node: Any) -> int:
        if len(node.value) > _MAX_DIGITS:
            raise yaml.YAMLError(
                f"Exceeds the limit of {_MAX_DIGITS} digits: a number of {len(node.value):,}, in {_line(node)}"
            )
        return int(node.value, 0)

    _resolvers(Loader)
    Loader.add_constructor(_TRAP, trap)
    Loader.add_constructor(f"{_PREFIX}int", whole)
    return Loader


def _line(place: Any) -> str:
    return f"line {place.start_mark.line + 1}"


def parsed_yaml(text: str, where: str, *, takes_aliases: bool = True) -> object:
    """Return the document of a YAML text. Without `takes_aliases`, no node of it is part of several others.

    Raises:
        SettingsError: it is not YAML, has an unknown tag, a key twice, or a value with two readings, or is nested too
            deep. The message names the line.
    """
    try:
        yaml = _yaml()
    except ImportError:
        raise SettingsError(f"{where}: YAML needs PyYAML: {install_line('yaml')}") from None
    try:
        loader = _loader()(text.removeprefix("\ufeff"))
        loader.takes_aliases = takes_aliases
        return loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        raise SettingsError(f"{where}: not YAML: {_explained(text, error)}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{where}: not YAML: {error}") from error
    except Exception as error:
        raise SettingsError(f"{where}: not YAML: {reason(error)}") from error


def yaml_line(place: Sequence[str | int], text: str) -> int | None:
    """Return the line, from 1, of a key or an item in a YAML text that can be parsed; None if there is none."""
    node, line = _loader()(text.removeprefix("\ufeff")).get_single_node(), None
    for part in place:
        if isinstance(part, int) and isinstance(node.value, list) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            pairs = [pair for pair in node.value if isinstance(pair, tuple) and pair[0].value == part]
            if not pairs:
                return None
            key, node = pairs[0]
            line = key.start_mark.line + 1
    return line


def _explained(text: str, error: Any) -> str:
    """Return an error of PyYAML with the line and, where a value begins with a sign of YAML, what to write."""
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines()
    if mark is None or mark.line >= len(lines) + 1:
        return str(error)
    numbers = dict.fromkeys(each.line for each in (error.context_mark, error.problem_mark) if each is not None)
    for number in numbers:
        line = lines[number] if number < len(lines) else ""
        match = _VALUE.fullmatch(line)
        value = "" if match is None else match["value"]
        if (sign := _RESERVED.get(value[:1])) is not None:
            if value.startswith("!"):
                return f"{error.problem} (line {number + 1}: {value[0]} at the beginning of a value is {sign} in YAML)"
            quotes = '"' if "'" in value else "'"
            return (
                f"line {number + 1}: {value[0]} at the beginning of a value is {sign} in YAML; put the value in quotes:"
                f" {quotes}{value}{quotes} ({error.problem})"
            )
        if (alike := look_alike(line)) is not None:
            return f"line {number + 1}: {alike[1]} ({error.problem})"
        if ": " in value:
            return f"line {number + 1}: a value that contains ': ' must be in quotes: {value} ({error.problem})"
    return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem or error.context}"


def written_yaml(values: Any) -> str:
    """Return values as a YAML text that `parsed_yaml` reads back; texts of several lines stand as they are.

    Raises:
        SettingsError: PyYAML is missing.
    """
    try:
        yaml = _yaml()
    except ImportError:
        raise SettingsError(f"a schedule file needs PyYAML: {install_line('yaml')}") from None

    def dumped(allow_unicode: bool) -> str:
        dumper = _dumper()
        return str(yaml.dump(values, Dumper=dumper, sort_keys=False, allow_unicode=allow_unicode, width=1_000_000))

    written = dumped(True)
    # What is invisible, or turns the direction of the text, is escaped, so that a file shows what it says.
    return written if written.replace("\n", "").isprintable() else dumped(False)


@lru_cache(maxsize=1)
def _dumper() -> Any:
    import yaml

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        """Quotes whatever any YAML reads otherwise than as this text."""

    def text(dumper: Any, value: str) -> Any:
        style = "|" if "\n" in value else None
        others = yaml.SafeDumper.yaml_implicit_resolvers.get(value[:1], [])
        if style is None and any(pattern.match(value) for _, pattern in others):
            style = "'"
        return dumper.represent_scalar(_TEXT, value, style=style)

    _resolvers(Dumper)
    Dumper.add_representer(str, text)
    return Dumper
