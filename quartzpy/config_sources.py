"""Settings from the environment and from a TOML file.

A keyword argument stands over the environment, the environment over the file, the file over the defaults. The names
and types are those of `SchedulerConfig`'s fields, and `url`, the database. Nothing is read unless it is asked for:
`Scheduler(url, ...)` looks at neither.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from quartzpy.config import SchedulerConfig
from quartzpy.errors import SettingsError
from quartzpy.instants import Converted, as_span
from quartzpy.texts import quoted, reason

PREFIX = "QUARTZPY_"
CONFIG_VARIABLE = "QUARTZPY_CONFIG"
URL = "url"

_HINTS = get_type_hints(SchedulerConfig)
_TYPES: dict[str, Any] = {setting.name: _HINTS[setting.name] for setting in fields(SchedulerConfig)} | {URL: str}
_VARIABLES = {PREFIX + name.upper(): name for name in _TYPES}

# Read by other parts of quartzpy, its tests and its benchmarks.
_OF_OTHERS = frozenset({"QUARTZPY_MODEL_EXAMPLES", "QUARTZPY_PG_BIN", CONFIG_VARIABLE})
_PREFIXES_OF_OTHERS = ("QUARTZPY_TEST_", "QUARTZPY_DEMO_")
# Kubernetes sets these in every container beside a service called quartzpy or quartzpy-something. A node that
# refused them would not start because of how somebody named a service.
_SERVICE_LINK = re.compile(
    r"QUARTZPY_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def environment_variable(setting: str) -> str:
    """The name of the environment variable that holds a setting."""
    return PREFIX + setting.upper()


def settings_from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """The settings that `QUARTZPY_...` variables say, and `url` from QUARTZPY_URL.

    Spans of time are texts such as "5s"; lists have commas; "none" is None where None is allowed, and the empty
    list. An empty variable counts as not set. Ranges are checked when all sources are together: see `load_settings`.

    Raises:
        SettingsError: a variable that is no setting's (the nearest right one is offered), or whose text cannot be
            read; names the variable.
    """
    found = {}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX):
            continue
        if setting := _VARIABLES.get(variable):
            if text := environ[variable]:
                found[setting] = _from_text(_TYPES[setting], text, variable)
        elif not _is_of_others(variable):
            hint = _nearest(variable, [*_VARIABLES, CONFIG_VARIABLE])
            raise SettingsError(f"{variable} in the environment is not a setting{hint}")
    return found


def settings_from_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings in a file's table `[quartzpy]`; in a pyproject.toml, `[tool.quartzpy]`.

    The values have TOML's types; spans of time are texts such as "5s", and "none" is None where None is allowed.
    Ranges are checked when all sources are together: see `load_settings`.

    Raises:
        SettingsError: no such file, no such table, not TOML, an unknown setting (the nearest right one is offered)
            or a value of the wrong type; names the file, the setting and the value.
    """
    found = {}
    for setting, value in _table(Path(path)).items():
        if setting not in _TYPES:
            # The value is not shown: it may be a URL with its password, under a misspelt name.
            raise SettingsError(f"{path}: {setting} is not a setting{_nearest(setting, _TYPES)}")
        found[setting] = _from_toml(_TYPES[setting], value, f"{path}: {setting}")
    return found


def load_settings(
    path: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None, **given: Any
) -> dict[str, Any]:
    """All settings that somebody set: keyword over environment over file. The defaults are left out.

    `path` is the TOML file; without it the one that QUARTZPY_CONFIG names, if any. `environ` is this process's
    environment unless another is given. `url` is among the settings if a source has it.

    Raises:
        SettingsError: a source cannot be read, or together they are no valid configuration; says which source the
            setting at fault came from.
    """
    environ = os.environ if environ is None else environ
    path = path if path is not None else environ.get(CONFIG_VARIABLE) or None
    from_file = {} if path is None else settings_from_toml(path)
    from_environment = settings_from_environment(environ)
    origins = (
        dict.fromkeys(from_file, str(path))
        | {setting: environment_variable(setting) for setting in from_environment}
        | dict.fromkeys(given, "a keyword argument")
    )
    settings = from_file | from_environment | given
    _check_whole(settings, origins)
    return settings


def _check_whole(settings: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    checked = {name: value for name, value in settings.items() if name != URL}
    complaint = _complaint(checked)
    if complaint is None:
        return
    # A setting is at fault if the complaint changes without it. That also holds for rules between settings that
    # came from different sources, and needs no reading of messages.
    at_fault = [name for name in checked if _complaint({n: v for n, v in checked.items() if n != name}) != complaint]
    named = ", ".join(f"{name} is from {origins[name]}" for name in at_fault)
    raise SettingsError(f"{complaint} ({named})" if named else complaint)


def _complaint(settings: Mapping[str, Any]) -> str | None:
    try:
        SchedulerConfig.of(settings)
    except SettingsError as error:
        return str(error)
    return None


def _table(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            found: Any = tomllib.load(file)
    except FileNotFoundError:
        raise SettingsError(f"{path}: there is no such file") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except RecursionError:
        raise SettingsError(f"{path} is not TOML: nested too deep") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not TOML: it is not UTF-8 ({error.reason} at byte {error.start})") from error
    except ValueError as error:
        # Also what int() says of a number with thousands of digits.
        raise SettingsError(f"{path} is not TOML: {reason(error)}") from error
    keys = ("tool", "quartzpy") if path.name == "pyproject.toml" else ("quartzpy",)
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        raise SettingsError(f"{path} has no table [{'.'.join(keys)}]")
    return found


def _from_text(wanted: Any, text: str, subject: str) -> Any:
    wanted, optional = _apart(wanted)
    word = text.strip().lower()
    if optional and word == "none":
        return None
    if wanted is timedelta:
        return as_span(text, subject, SettingsError)
    if wanted is bool:
        if word in _TRUE | _FALSE:
            return word in _TRUE
        raise SettingsError(f"{subject}: true or false is needed (got {quoted(text)})")
    if wanted is int:
        if _WHOLE_NUMBER.fullmatch(word) and len(word) <= 20:
            return int(word)
        raise SettingsError(f"{subject}: a whole number is needed (got {quoted(text)})")
    if wanted is float:
        if _NUMBER.fullmatch(word):
            return float(word)
        raise SettingsError(f"{subject}: a number is needed (got {quoted(text)})")
    if _is_list_of_texts(wanted):
        parts = () if word == "none" else tuple(part.strip() for part in text.split(","))
        if not all(parts):
            raise SettingsError(f"{subject}: one between two commas is empty (got {quoted(text)})")
        return parts
    if _is_table(wanted):
        return _pairs(wanted, text, subject)
    if _is_text(wanted):
        return text
    raise _only_by_keyword(subject)


def _from_toml(wanted: Any, value: Any, subject: str) -> Any:
    wanted, optional = _apart(wanted)
    if optional and isinstance(value, str) and value.strip().lower() == "none":
        return None
    if wanted is timedelta:
        return as_span(value, subject, SettingsError)
    if wanted is float and type(value) is int:
        return float(value)
    if _is_list_of_texts(wanted):
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            return tuple(value)
        raise SettingsError(f"{subject}: a list of texts is needed (got {quoted(value)})")
    if _is_table(wanted):
        if isinstance(value, dict):
            return value
        raise SettingsError(f"{subject}: a table is needed (got {quoted(value)})")
    for accepted, name in ((bool, "true or false"), (int, "a whole number"), (float, "a number"), (str, "a text")):
        if wanted is accepted or (accepted is str and _is_text(wanted)):
            # By identity, because in Python true is a whole number too.
            if type(value) is accepted:
                return value
            raise SettingsError(f"{subject}: {name} is needed (got {quoted(value)})")
    raise _only_by_keyword(subject)


def _apart(hint: Any) -> tuple[Any, bool]:
    """A type without its None, and whether it had one."""
    if get_origin(hint) is Converted:
        hint = get_args(hint)[1]
    if not isinstance(hint, UnionType) and get_origin(hint) is not Union:
        return hint, False
    others = [part for part in get_args(hint) if part is not NoneType]
    return (others[0] if len(others) == 1 else hint), NoneType in get_args(hint)


def _is_list_of_texts(wanted: Any) -> bool:
    return get_origin(wanted) is tuple and get_args(wanted) == (str, ...)


def _is_table(wanted: Any) -> bool:
    return get_origin(wanted) is Mapping


def _pairs(wanted: Any, text: str, subject: str) -> dict[str, Any]:
    """What `name=value,name=value` says."""
    if text.strip().lower() == "none":
        return {}
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise SettingsError(f"{subject}: name=value, with commas between them (got {quoted(text)})")
        found[name] = _from_text(int, value, f"{subject}: {name}") if int in get_args(wanted) else value
    return found


def _is_text(wanted: Any) -> bool:
    return wanted is str or get_origin(wanted) is Literal


def _only_by_keyword(subject: str) -> SettingsError:
    return SettingsError(f"{subject}: this setting can only be given as a keyword argument")


def _is_of_others(variable: str) -> bool:
    return (
        variable in _OF_OTHERS
        or variable.startswith(_PREFIXES_OF_OTHERS)
        or _SERVICE_LINK.fullmatch(variable) is not None
    )


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(known))}"
