"""What libpq is told when we connect: the URL's own parameters together with ours, none of them overwritten in silence.

A parameter of the connection that the URL gives (`keepalives_idle`, `application_name`, ...) stands over our default.
What a session is told (`options=-c name=value`) is joined with what we tell it; where both set the same, the URL is
refused, because our steps rest on theirs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import URL

from quartzpy.config import SchedulerConfig
from quartzpy.errors import SettingsError
from quartzpy.process_identity import own_process, session_tag
from quartzpy.store.sql.naming import scoped

_ENCODINGS = frozenset({"utf8", "utf-8", "unicode"})
_WORDS = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SETTING = re.compile(r"([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
# Which setting of the scheduler decides a setting of the session.
_OURS = {
    "lock_timeout": "set lock_timeout of the scheduler instead",
    "statement_timeout": "set statement_timeout of the scheduler instead",
    "idle_in_transaction_session_timeout": "it follows lock_timeout of the scheduler",
}


def session_settings(config: SchedulerConfig) -> dict[str, str]:
    """What a session of ours is told, or each transaction where sessions are not ours.

    The server ends a transaction of ours that sits idle or waits too long, so that a stopped process cannot hold
    the lock.
    """
    milliseconds = {
        "lock_timeout": config.lock_timeout,
        "statement_timeout": config.statement_timeout,
        "idle_in_transaction_session_timeout": config.lock_timeout,
    }
    settings = {name: f"{int(span.total_seconds() * 1000)}" for name, span in milliseconds.items()}
    # Hot statements touch few rows by index: planning them anew or compiling them costs more than running them.
    settings |= {"plan_cache_mode": "force_generic_plan", "jit": "off"}
    # Each has its index, and stays on it also where the statistics are those of yesterday's, smaller table.
    settings |= {"enable_seqscan": "off", "enable_bitmapscan": "off"}
    return settings | {"timezone": "UTC", "synchronous_commit": "on"}


# What a job does is planned and limited as the database's owner has set it. The rest is what we promise of it.
JOB_SETTINGS = {"timezone": "UTC", "synchronous_commit": "on"}


def session_prefix(process: str, scheduler: str, table_prefix: str) -> str:
    """The beginning of the names of all sessions that a process has for a scheduler."""
    return f"quartzpy:{session_tag(process, scoped(scheduler, table_prefix))}:"


def session_name(config: SchedulerConfig, role: str) -> str:
    """The name of a session, within the 63 bytes that the server keeps.

    The tag that recovery finds the sessions of a dead node by comes first, and of a long name only the beginning.
    """
    prefix = session_prefix(own_process(), config.name, config.table_prefix)
    readable = config.name.encode("ascii", "replace").decode()
    return f"{prefix}{readable[: 62 - len(prefix) - len(role)]}:{role}"


def connect_arguments(
    url: URL, config: SchedulerConfig, role: str, *, pooled: bool = False, settings: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What libpq is told besides the URL, or instead of a part of it: `settings` of the session, ours where there are
    none. The keepalives find a network that swallows packets. The time-out counts for each host.

    Raises:
        SettingsError: the URL asks for what cannot be had.
    """
    given = {name: value for name, value in url.query.items() if isinstance(value, str)}
    _check_encoding(given.get("client_encoding"))
    arguments: dict[str, Any] = {
        "connect_timeout": max(2, round(config.connect_timeout.total_seconds())),
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,
        "application_name": session_name(config, role),
    }
    arguments = {name: given.get(name, value) for name, value in arguments.items()}
    if "connect_timeout" in given:
        arguments["connect_timeout"] = _connect_timeout(given["connect_timeout"])
    # Also where the database has another encoding, or PGCLIENTENCODING says one: our statements are UTF-8.
    arguments["client_encoding"] = "UTF8"
    if pooled:
        if given.get("options"):
            raise SettingsError(
                "database URL: options are lost behind a pooler that lends connections for a transaction"
                " (pooled=True); use schema=... or ALTER ROLE ... SET"
            )
        # What the driver prepared would be on another connection the next time.
        return arguments | {"prepare_threshold": None}
    options = given.get("options", os.environ.get("PGOPTIONS", ""))
    # PGOPTIONS is what libpq takes where nobody gives options, and we do.
    return arguments | {"options": _joined(options, settings or session_settings(config))}


def _check_encoding(encoding: str | None) -> None:
    if encoding is not None and encoding.lower() not in _ENCODINGS:
        raise SettingsError(f"database URL: client_encoding={encoding}: quartzpy speaks UTF8; leave it out")


def _connect_timeout(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 3_600:
        raise SettingsError(f"database URL: connect_timeout must be from 1 to 3600 seconds (got {value!r})")
    return max(2, int(value))


def _joined(given: str, settings: Mapping[str, str]) -> str:
    """The user's options with ours behind them."""
    ours = {**settings, "default_transaction_isolation": "read committed"}
    for name, value in _settings_of(given).items():
        if ours.get(name, value) != value:
            advice = _OURS.get(name, "leave it out; a job's own connection may be told otherwise")
            raise SettingsError(f"database URL: options set {name}, which quartzpy sets for its sessions: {advice}")
    told = " ".join(f"-c {name}={_escaped(value)}" for name, value in ours.items())
    return f"{given.strip()} {told}" if given.strip() else told


def _settings_of(options: str) -> Mapping[str, str]:
    """The session settings in a text of command-line options, as the server splits it."""
    found: dict[str, str] = {}
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
            # The value is not shown: it may be a secret.
            raise SettingsError("database URL: options: -c name=value is expected, with blanks in a value as '\\ '")
        found[setting[1].lower().replace("-", "_")] = setting[2]
    return found


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
