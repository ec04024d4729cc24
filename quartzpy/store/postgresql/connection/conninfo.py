"""libpq's connection parameters: the URL's own together with ours, neither silently overwriting the other.

A connection parameter in the URL (`keepalives_idle`, `application_name`, ...) overrides our default. Session settings
(`options=-c name=value`) are merged with ours; if both set the same one, the URL is refused, because the steps rely on
our value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import SettingsError
from quartzpy.store.postgresql.connection.urls import DatabaseUrl
from quartzpy.store.postgresql.schema.naming import scoped
from quartzpy.store.process_identity import own_process, session_tag
from quartzpy.texts import quoted

_ENCODINGS = frozenset({"utf8", "utf-8", "unicode"})
_WORDS = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SETTING = re.compile(r"([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
# The scheduler's settings that determine a setting of the session.
_OURS = {
    "lock_timeout": "set lock_timeout of the scheduler instead",
    "statement_timeout": "set statement_timeout of the scheduler instead",
    "idle_in_transaction_session_timeout": "it follows lock_timeout of the scheduler",
}


def session_settings(config: SchedulerConfig) -> dict[str, str]:
    """Return the settings of each of our sessions, or of each transaction if the sessions are not ours.

    The server ends a transaction of ours that is idle or waits for too long, so that a stopped process cannot hold
    the lock.
    """
    milliseconds = {
        "lock_timeout": config.lock_timeout,
        "statement_timeout": config.statement_timeout,
        "idle_in_transaction_session_timeout": config.lock_timeout,
    }
    settings = {name: f"{int(span.total_seconds() * 1000)}" for name, span in milliseconds.items()}
    # Statements touch few rows through an index: replanning or JIT compiling them, or the start of parallel workers,
    # costs more than running them.
    settings |= {"plan_cache_mode": "force_generic_plan", "jit": "off", "max_parallel_workers_per_gather": "0"}
    # Each statement has its index, and must use it even if the statistics describe yesterday's, smaller table.
    settings |= {"enable_seqscan": "off", "enable_bitmapscan": "off"}
    # Columns travel as arrays in which NULL stands for no value.
    return settings | {"timezone": "UTC", "synchronous_commit": "on", "array_nulls": "on"}


# A job's statements are planned and limited as the database's owner has configured; we only guarantee these settings.
JOB_SETTINGS = {"timezone": "UTC", "synchronous_commit": "on"}


def session_prefix(process: str, scheduler: str, table_prefix: str) -> str:
    """Return the common beginning of the names of a process's sessions for a scheduler."""
    return f"quartzpy:{session_tag(process, scoped(scheduler, table_prefix))}:"


def session_name(config: SchedulerConfig, role: str) -> str:
    """Return the name of a session, within the 63 bytes that the server keeps.

    The tag by which recovery finds the sessions of a dead node comes first; a long name is truncated at the end.
    """
    prefix = session_prefix(own_process(), config.name, config.table_prefix)
    readable = config.name.encode("ascii", "replace").decode()
    return f"{prefix}{readable[: 62 - len(prefix) - len(role)]}:{role}"


def connect_arguments(
    url: DatabaseUrl,
    config: SchedulerConfig,
    role: str,
    *,
    pooled: bool = False,
    settings: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return psycopg's parameters for a connection: those of the URL with ours. `settings` default to our session's.

    The keepalives detect a network that drops packets silently. The timeout applies to each host.

    Raises:
        SettingsError: the URL asks for something that is not supported.
    """
    parameters = url.parameters
    encoding = parameters.get("client_encoding", "UTF8")
    if encoding.lower() not in _ENCODINGS:
        raise SettingsError(f"database URL: client_encoding={encoding}: quartzpy uses UTF8; leave it out")
    arguments: dict[str, Any] = {
        "connect_timeout": max(2, round(config.connect_timeout.total_seconds())),
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,
        "application_name": session_name(config, role),
        **parameters,
        # Our statements are UTF-8, whatever the database's encoding or PGCLIENTENCODING is.
        "client_encoding": "UTF8",
    }
    if "connect_timeout" in parameters:
        arguments["connect_timeout"] = _connect_timeout(parameters["connect_timeout"])
    if pooled:
        if parameters.get("options"):
            raise SettingsError(
                "database URL: options have no effect behind a transaction-pooling pooler"
                " (pooled=True); use schema=... or ALTER ROLE ... SET"
            )
        # A statement that the driver prepared would be on another server connection the next time.
        return arguments | {"prepare_threshold": None}
    options = parameters.get("options", os.environ.get("PGOPTIONS", ""))
    # libpq ignores PGOPTIONS if options are given, and we give them, so they are merged here.
    return arguments | {"options": _joined(options, settings or session_settings(config))}


def _connect_timeout(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 3_600:
        raise SettingsError(f"database URL: connect_timeout must be from 1 to 3600 seconds (got {quoted(value)})")
    return max(2, int(value))


def _joined(options: str, settings: Mapping[str, str]) -> str:
    """Append our settings to the user's options."""
    ours = {**settings, "default_transaction_isolation": "read committed"}
    for name, value in _settings_of(options).items():
        if ours.get(name, value) != value:
            advice = _OURS.get(name, "leave it out; a job can set it on its own connection")
            raise SettingsError(f"database URL: options set {name}, which quartzpy sets for its sessions: {advice}")
    words = " ".join(f"-c {name}={_escaped(value)}" for name, value in ours.items())
    return f"{options.strip()} {words}" if options.strip() else words


def _settings_of(options: str) -> Mapping[str, str]:
    """Parse the session settings in a text of command-line options, as the server splits it."""
    settings: dict[str, str] = {}
    words = iter([_ESCAPED.sub(r"\1", word) for word in _WORDS.findall(options)])
    for word in words:
        if word == "-c":
            text = next(words, "")
        elif word.startswith(("-c", "--")):
            text = word[2:]
        else:
            continue
        setting = _SETTING.fullmatch(text)
        if setting is None:
            # The message does not show the value, which may be a secret.
            raise SettingsError("database URL: options: -c name=value is expected, with blanks in a value as '\\ '")
        settings[setting[1].lower().replace("-", "_")] = setting[2]
    return settings


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
