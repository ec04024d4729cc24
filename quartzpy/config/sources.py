"""Settings from the environment and from a TOML file.

A keyword argument overrides the environment, the environment overrides the file, and the file overrides the defaults.
`quartzpy.config.setting_names` has the names and types. Only `Scheduler.from_config` and the command line read these
sources; `Scheduler(url, ...)` does not. The command line also finds the file `quartzpy.toml` by itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from quartzpy.config.config import SchedulerConfig, hint_of_setting
from quartzpy.config.setting_names import CONNECT, DATABASE, PREFIX, SETTINGS, TABLES, URL, Setting
from quartzpy.errors import SettingsError
from quartzpy.foreign_names import quartz_answer
from quartzpy.instants import Converted, as_span
from quartzpy.object_references import object_at
from quartzpy.text_files import alike_in_line, decoded
from quartzpy.texts import did_you_mean, quoted, reason

CONFIG_VARIABLE = "QUARTZPY_CONFIG"
CONFIG_FILE = "quartzpy.toml"
"""The name of the file that `find_config_file` looks for."""

# Read by other parts of quartzpy, its tests and its benchmarks.
_FOREIGN = frozenset(
    {
        CONFIG_VARIABLE,
        "QUARTZPY_CHROMIUM",
        "QUARTZPY_DASHBOARD_GRANTS",
        "QUARTZPY_DASHBOARD_OIDC_SECRET",
        "QUARTZPY_DASHBOARD_SECRET",
        "QUARTZPY_DASHBOARD_TOKEN",
        "QUARTZPY_DASHBOARD_USERS",
        "QUARTZPY_MODEL_EXAMPLES",
        "QUARTZPY_PG_BIN",
        "QUARTZPY_PG_USER",
    }
)
_FOREIGN_PREFIXES = ("QUARTZPY_TEST_", "QUARTZPY_DEMO_", "QUARTZPY_FIRE_", "QUARTZPY_WORKER_")
# Kubernetes sets these in every container beside a service called quartzpy or quartzpy-something. A node that
# refused them would not start because of the name of an unrelated service.
_SERVICE_LINK = re.compile(
    r"QUARTZPY_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def settings_from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in `QUARTZPY_...` variables, and `url` from QUARTZPY_URL.

    Lengths of time are strings such as "5s"; lists are separated by commas; "none" is None where None is allowed, and
    otherwise an empty list or table. An empty variable counts as not set. `load_settings` checks ranges, after it has
    combined all sources.

    Raises:
        SettingsError: a variable is not a setting, or its value cannot be parsed. The message names the variable, and
            suggests the nearest valid name.
    """
    settings = {}
    by_variable = {setting.variable: setting for setting in SETTINGS.values()}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX):
            continue
        if (setting := by_variable.get(variable)) and not _is_service_link(variable, environ[variable]):
            if text := environ[variable]:
                settings[setting.name] = _from_text(setting.kind, text, variable)
        elif not _is_foreign(variable):
            hint = hint_of_setting(variable.removeprefix(PREFIX).lower(), SETTINGS)
            hint = hint or did_you_mean(variable, sorted([*by_variable, CONFIG_VARIABLE]), "settings")
            raise SettingsError(f"{variable} in the environment is not a setting; {hint}")
    return settings


def settings_from_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the settings in the table `[quartzpy]` of a file; in a pyproject.toml, the table is `[tool.quartzpy]`.

    In a file that is named `quartzpy.toml`, the line `[quartzpy]` may be omitted.

    Values have the types of TOML; lengths of time are strings such as "5s", and "none" is None where None is allowed.
    `load_settings` checks ranges, after it has combined all sources.

    Raises:
        SettingsError: the file or the table does not exist, the file is not TOML, a setting is unknown, or a value
            has the wrong type. The message names the file, the setting and the value, and suggests the nearest valid
            name.
    """
    return settings_of_table(path, *_table(Path(path)))


def settings_of_table(path: str | os.PathLike[str], name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a table of this name, which is at `path`; errors as for `settings_from_toml`."""
    return {
        setting.name: _from_toml(setting.kind, value, f"{path}: {setting.dotted}")
        for setting, value in _entries(path, name, table)
    }


def _entries(path: str | os.PathLike[str], name: str, table: Mapping[str, Any]) -> Iterator[tuple[Setting, Any]]:
    """Yield each setting of a table of this name, and of the tables in it, with what is written there."""
    by_key = {setting.dotted: setting for setting in SETTINGS.values()}
    for key, value in table.items():
        if key in TABLES and not isinstance(value, dict):
            raise SettingsError(f"{path}: {key} must be a table, [{_joined(name, key)}] (got {quoted(value)})")
        within = {f"{key}.{inner}": each for inner, each in value.items()} if key in TABLES else {key: value}
        for written, each in within.items():
            if written not in by_key:
                raise SettingsError(f"{path}: {_unknown(written, name)}")
            yield by_key[written], each


def _unknown(written: str, name: str) -> str:
    """Return the error about a name of a file. It omits the value: it may be a URL with its password."""
    key = written.rpartition(".")[2]
    for setting in SETTINGS.values():
        if key in (setting.name, setting.key):
            table = _joined(name, setting.table)
            place = f"under [{table}]" if table else "before the first table"
            return f"{written} is at the wrong place; write {setting.key} = ... {place}"
    hint = hint_of_setting(key, SETTINGS) or did_you_mean(
        written, (each.dotted for each in SETTINGS.values()), "settings"
    )
    return f"{written} is not a setting; {hint}"


def _joined(*names: str) -> str:
    return ".".join(filter(None, names))


@dataclass(frozen=True, slots=True)
class SourcedSettings:
    """Settings that several sources gave, and the source of each."""

    values: dict[str, Any]
    """The settings by name, without the defaults; `url` is among them if a source has it."""
    origins: dict[str, str]
    """The source of each setting: the path of the file, an environment variable, or what the caller named it."""


def find_config_file(start: str | os.PathLike[str]) -> Path | None:
    """Return the nearest `quartzpy.toml` in a directory or one of its parents, or None if there is none.

    Raises:
        SettingsError: the file belongs to another user, who could direct the commands to a database of their own.
    """
    directory = Path(start).absolute()
    for folder in (directory, *directory.parents):
        path = folder / CONFIG_FILE
        try:
            owner = path.stat().st_uid
        except OSError:
            continue
        if owner not in (0, os.getuid()):
            raise SettingsError(f"{path} belongs to another user; name it explicitly to use it: --config {path}")
        return path
    return None


def load_settings(
    path: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None, **arguments: Any
) -> dict[str, Any]:
    """Return all settings that any source gives: arguments over environment over file, without the defaults.

    `path` is the TOML file; by default the file that QUARTZPY_CONFIG names, if any. `environ` is this process's
    environment by default. `url` is included if a source has it.

    Raises:
        SettingsError: a source cannot be read, or the combined settings are invalid. The message says which source
            the invalid setting came from.
    """
    return gather_settings(path, environ, arguments, dict.fromkeys(arguments, "a keyword argument")).values


def gather_settings(
    path: str | os.PathLike[str] | None,
    environ: Mapping[str, str] | None,
    arguments: Mapping[str, Any],
    argument_origins: Mapping[str, str],
) -> SourcedSettings:
    """Return the settings as `load_settings` does, with the source of each. `argument_origins` names the arguments.

    Raises:
        SettingsError: as for `load_settings`.
    """
    environ = os.environ if environ is None else environ
    path = path if path is not None else environ.get(CONFIG_VARIABLE) or None
    from_file = {} if path is None else settings_from_toml(path)
    from_environment = settings_from_environment(environ)
    origins = (
        dict.fromkeys(from_file, str(path))
        | {setting: SETTINGS[setting].variable for setting in from_environment}
        | {setting: argument_origins[setting] for setting in arguments}
    )
    settings = {**from_file, **from_environment, **arguments}
    if all(each in settings for each in DATABASE):
        raise SettingsError(
            f"url and connect are two ways to the database (url is from {origins[URL]}, connect from"
            f" {origins[CONNECT]}); leave one of them out"
        )
    _validate(settings, origins, from_file.keys() - from_environment.keys() - arguments.keys())
    return SourcedSettings(settings, origins)


def function_at(reference: str) -> Callable[[], Any]:
    """Return the function that the setting `connect` names, `module:function`.

    Raises:
        SettingsError: there is no such function.
    """
    value = object_at(reference, CONNECT, "billing.database:connect")
    if not callable(value):
        raise SettingsError(f"connect: {reference} must be a function (got {quoted(value)})")
    return value  # type: ignore[no-any-return]


def _validate(settings: Mapping[str, Any], origins: Mapping[str, str], of_file: Collection[str]) -> None:
    checked = {name: value for name, value in settings.items() if name not in DATABASE}
    message = _error_message(checked)
    if message is None:
        return
    # A setting is at fault if the error changes without it. This also works for rules between settings from
    # different sources, and does not depend on the wording of messages.
    at_fault = [name for name in checked if _error_message({n: v for n, v in checked.items() if n != name}) != message]
    written = {name: SETTINGS[name].dotted if name in of_file else name for name in at_fault}
    named = ", ".join(f"{text} is from {origins[name]}" for name, text in written.items())
    raise SettingsError(f"{message} ({named})" if named else message)


def _error_message(settings: Mapping[str, Any]) -> str | None:
    try:
        SchedulerConfig.of(settings)
    except SettingsError as error:
        return str(error)
    return None


_PROPERTY = re.compile(r"^\s*(?:org\.quartz\.)(?P<name>[\w.]+?)\s*[=:]\s*(?P<value>\S.*?)?\s*$", re.M)
_MAX_PROPERTIES = 10


def _of_quartz(path: Path) -> str | None:
    """Return the error about a file with the properties of Quartz; None for another file."""
    properties = dict.fromkeys(match["name"] for match in _PROPERTY.finditer(path.read_text(errors="replace")))
    if not properties:
        return None
    lines = [f"{name}: {quartz_answer(name, 'Properties') or 'unknown'}" for name in properties][:_MAX_PROPERTIES]
    return (
        f"{path} is a properties file of Quartz; settings are in TOML, such as quartzpy.toml with name = 'billing' and"
        f" workers = 10, and docs/from-quartz-more.md lists each property. {'; '.join(lines)}"
    )


def toml_of(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file.

    Raises:
        SettingsError: it cannot be read, or is not TOML.
    """
    import tomllib  # Most nodes read no file.

    try:
        text = decoded(path.read_bytes(), f"{path} is not valid TOML")
        return tomllib.loads(text)
    except FileNotFoundError:
        raise SettingsError(f"{path}: the file does not exist") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except RecursionError:
        raise SettingsError(f"{path} is not valid TOML: it is nested too deeply") from None
    except SettingsError:
        raise
    except ValueError as error:
        # int() raises ValueError as well, for a number with thousands of digits.
        raise SettingsError(
            _of_quartz(path) or f"{path} is not valid TOML: {reason(error)}{alike_in_line(text, error)}"
        ) from error


def _table(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the table with the settings in a file, and its name: empty for the whole file."""
    table: Any = toml_of(path)
    keys = ("tool", "quartzpy") if path.name == "pyproject.toml" else ("quartzpy",)
    if path.name == CONFIG_FILE and not isinstance(table.get("quartzpy"), dict):
        return "", dict(table)
    if path.name == CONFIG_FILE and (beside := next((each for each in TABLES if each in table), None)):
        raise SettingsError(f"{path}: [{beside}] is not read beside [quartzpy]; write [quartzpy.{beside}]")
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        only = "" if path.name == "pyproject.toml" else f"; only a file named {CONFIG_FILE} needs none"
        raise SettingsError(_of_quartz(path) or f"{path} has no table [{'.'.join(keys)}]{only}")
    return ".".join(keys), table


def _from_text(hint: Any, text: str, subject: str) -> Any:
    hint, optional = _split_optional(hint)
    word = text.strip().lower()
    if optional and word == "none":
        return None
    if hint is timedelta:
        return as_span(text, subject, SettingsError)
    if hint is bool:
        if word in _TRUE | _FALSE:
            return word in _TRUE
        raise SettingsError(f"{subject} must be true or false (got {quoted(text)})")
    if hint is int:
        if _INTEGER.fullmatch(word) and len(word) <= 20:
            return int(word)
        raise SettingsError(f"{subject} must be an integer (got {quoted(text)})")
    if hint is float:
        if _NUMBER.fullmatch(word):
            return float(word)
        raise SettingsError(f"{subject} must be a number (got {quoted(text)})")
    if _is_list_of_strings(hint):
        parts = () if word == "none" else tuple(part.strip() for part in text.split(","))
        if not all(parts):
            raise SettingsError(f"{subject}: an item between two commas is empty (got {quoted(text)})")
        return parts
    if _is_table(hint):
        return _parse_pairs(hint, text, subject)
    if _is_string(hint):
        return text
    raise _only_by_keyword(subject)


def _from_toml(hint: Any, value: Any, subject: str) -> Any:
    hint, optional = _split_optional(hint)
    if optional and isinstance(value, str) and value.strip().lower() == "none":
        return None
    if hint is timedelta:
        return as_span(value, subject, SettingsError)
    if hint is float and type(value) is int:
        return float(value)
    if _is_list_of_strings(hint):
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            return tuple(value)
        raise SettingsError(f"{subject} must be a list of strings (got {quoted(value)})")
    if _is_table(hint):
        if isinstance(value, dict):
            return value
        raise SettingsError(f"{subject} must be a table (got {quoted(value)})")
    for accepted, name in ((bool, "true or false"), (int, "an integer"), (float, "a number"), (str, "a string")):
        if hint is accepted or (accepted is str and _is_string(hint)):
            # By identity, because in Python a bool is an int as well.
            if type(value) is accepted:
                return value
            raise SettingsError(f"{subject} must be {name} (got {quoted(value)})")
    raise _only_by_keyword(subject)


def _split_optional(hint: Any) -> tuple[Any, bool]:
    """Return a type without its None, and True if it had one."""
    if get_origin(hint) is Converted:
        hint = get_args(hint)[1]
    if not isinstance(hint, UnionType) and get_origin(hint) is not Union:
        return hint, False
    others = [part for part in get_args(hint) if part is not NoneType]
    return (others[0] if len(others) == 1 else hint), NoneType in get_args(hint)


def _is_list_of_strings(hint: Any) -> bool:
    return get_origin(hint) is tuple and get_args(hint) == (str, ...)


def _is_table(hint: Any) -> bool:
    return get_origin(hint) is Mapping


def _parse_pairs(hint: Any, text: str, subject: str) -> dict[str, Any]:
    """Parse `name=value,name=value`."""
    if text.strip().lower() == "none":
        return {}
    pairs: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise SettingsError(f"{subject} must be name=value pairs, separated by commas (got {quoted(text)})")
        pairs[name] = _from_text(int, value, f"{subject}: {name}") if int in get_args(hint) else value
    return pairs


def _is_string(hint: Any) -> bool:
    return get_origin(hint) is Literal or (isinstance(hint, type) and issubclass(hint, str))


def _only_by_keyword(subject: str) -> SettingsError:
    return SettingsError(f"{subject}: this setting can only be given as a keyword argument")


def _is_service_link(variable: str, value: str) -> bool:
    """Return whether Kubernetes set this variable: a service quartzpy-metrics gives QUARTZPY_METRICS_PORT=tcp://..."""
    return _SERVICE_LINK.fullmatch(variable) is not None and _SERVICE_ADDRESS.match(value) is not None


def _is_foreign(variable: str) -> bool:
    return (
        variable in _FOREIGN or variable.startswith(_FOREIGN_PREFIXES) or _SERVICE_LINK.fullmatch(variable) is not None
    )
