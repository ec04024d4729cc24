"""What the values of single settings must be."""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Mapping, Sequence

from quartzpy.config.notifying import Channel, channel_label, check_place
from quartzpy.errors import InvalidKeyError, SettingsError
from quartzpy.keys import check_name
from quartzpy.texts import quoted

# The longest name that follows it has 38 characters, and PostgreSQL keeps 63.
_TABLE_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,19}")
_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
MAX_GROUP_LIMIT = 1_000_000


def check_setting_name(name: object, subject: str) -> None:
    try:
        check_name(name, subject)
    except InvalidKeyError as error:
        raise SettingsError(str(error)) from None


def checked_texts(value: object, setting: str, items: str = "strings") -> tuple[str, ...]:
    if (
        not isinstance(value, Sequence)
        or isinstance(value, str)
        or not all(isinstance(text, str) and text for text in value)
    ):
        raise SettingsError(f"{setting} must be a tuple of {items} (got {quoted(value)})")
    return tuple(value)


def words_of_command(command: object) -> list[str]:
    """Return the words of the setting `password_command`, split as a shell splits them. No shell runs it.

    Raises:
        SettingsError: it is not a command.
    """
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError as error:
        raise SettingsError(f"password_command: {error}") from None
    if not words or not words[0] or "\0" in str(command):
        raise SettingsError(
            "password_command must be a program with its arguments, such as 'cat /run/secrets/db' or"
            f" 'aws rds generate-db-auth-token --hostname db.example.com --port 5432 --username app' (got"
            f" {quoted(command)})"
        )
    return words


def checked_schema(schema: object) -> str | None:
    """Return the name of the schema that holds the tables, or None.

    The name is always quoted in SQL, so reserved words (`order`) and upper case (`Mixed`) are allowed.

    Raises:
        SettingsError: `schema` is not a valid name, or PostgreSQL reserves it.
    """
    if schema is None:
        return None
    if not (isinstance(schema, str) and _SCHEMA.fullmatch(schema)):
        raise SettingsError(
            "schema: must consist of at most 63 letters (a-z, A-Z), digits and _, and must not begin with a digit"
            f" (got {quoted(schema)})"
        )
    if schema.startswith("pg_") or schema == "information_schema":
        raise SettingsError(f"schema: PostgreSQL reserves the name {schema!r}")
    return schema


def checked_groups(limits: object) -> dict[str, int]:
    """Return the limits of execution groups as a dict.

    Raises:
        SettingsError: `limits` is not a mapping from names to integers from 0 to MAX_GROUP_LIMIT.
    """
    if not isinstance(limits, Mapping):
        raise SettingsError(f"execution_groups must be a mapping of groups to limits (got {quoted(limits)})")
    for group, limit in limits.items():
        check_setting_name(group, "execution_groups: a group")
        if type(limit) is not int or limit < 0:
            raise SettingsError(
                f"execution_groups: the limit of {group!r} must be an integer of 0 or more (got {quoted(limit)})"
            )
        if limit > MAX_GROUP_LIMIT:
            raise SettingsError(
                f"execution_groups: the limit of {group!r} must be at most {MAX_GROUP_LIMIT} (got {quoted(limit)})"
            )
    return dict(limits)


def checked_table_prefix(prefix: object) -> str:
    """Return the prefix for the names of the tables.

    Raises:
        SettingsError: names with the prefix would not be valid without quotes, or would be too long.
    """
    if not (isinstance(prefix, str) and _TABLE_PREFIX.fullmatch(prefix)) or prefix.startswith("pg_"):
        raise SettingsError(
            "table_prefix: from 1 to 20 lower-case letters, digits and _, no digit first, not pg_..."
            f" (got {quoted(prefix)})"
        )
    return prefix


def checked_program(program: str) -> str:
    """Return an item of the setting `commands`."""
    if "\0" in program or ("/" in program and not program.startswith("/")):
        raise SettingsError(
            f"commands: {quoted(program)} must be an absolute path such as /usr/bin/pg_dump, a name such as pg_dump, or"
            " a directory such as /opt/jobs/"
        )
    if program.strip("/") in ("", ".", "..") or "/../" in f"{program}/":
        raise SettingsError(f"commands: {quoted(program)} is neither a program nor a directory of programs")
    return program


_HOST = re.compile(
    r"(?P<scheme>https?://)?(?P<host>(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:(?P<port>[0-9]{1,5}))?"
)


def checked_host(item: str) -> str:
    """Return an item of the setting `http_hosts`, in lower case."""
    text = item.strip().lower()
    if "/" in text.removeprefix("https://").removeprefix("http://"):
        try:
            return str(ipaddress.ip_network(text))
        except ValueError as error:
            raise SettingsError(f"http_hosts: {quoted(item)} is no network: {error}") from None
    match = _HOST.fullmatch(text)
    if match is None or int(match["port"] or 1) not in range(1, 65_536):
        raise SettingsError(
            f"http_hosts: {quoted(item)} is not a host; write api.example.com, *.example.com, api.example.com:8443,"
            " http://reports.internal:8080, or a network such as 10.1.0.0/16 (names with other letters as xn--...)"
        )
    return text


def checked_variables(jobs: object) -> dict[str, dict[str, str]]:
    """Return the setting `command_variables`. No error shows a value."""
    if not isinstance(jobs, Mapping):
        raise SettingsError("command_variables must be a mapping of jobs to their variables")
    for job, variables in jobs.items():
        check_setting_name(job, "command_variables: a job")
        if not isinstance(variables, Mapping):
            raise SettingsError(f"command_variables: {job}: must be a mapping of names to texts")
        for name, value in variables.items():
            if not isinstance(name, str) or not name or not name.isprintable() or "=" in name:
                raise SettingsError(f"command_variables: {job}: {quoted(name)} is not the name of a variable")
            if not isinstance(value, str) or "\0" in value:
                raise SettingsError(f"command_variables: {job}: {name} must be a text without NUL")
    return {job: dict(variables) for job, variables in jobs.items()}


def checked_secrets(secrets: object) -> dict[str, str]:
    """Return the setting `http_secrets`. Errors do not show the values, which may contain a secret by mistake."""
    if not isinstance(secrets, Mapping):
        raise SettingsError("http_secrets must be a mapping of names to places")
    for name, place in secrets.items():
        check_setting_name(name, "http_secrets: a name")
        kind, _, rest = place.partition(":") if isinstance(place, str) else ("", "", "")
        source, _, hosts = rest.rpartition("@")
        if kind not in ("env", "file") or not source or not hosts.split() or (kind == "file" and source[0] != "/"):
            raise SettingsError(
                f"http_secrets: {name!r} must be the place of a secret and the hosts that may receive it, as in"
                " env:ERP_TOKEN@api.example.com or file:/run/secrets/erp@api.example.com; never the secret itself"
            )
        for host in hosts.split():
            checked_host(host)
    return dict(secrets)


def checked_channels(channels: object) -> dict[str, Channel]:
    """Return the setting `notify_channels`. No error shows a URL."""
    if not isinstance(channels, Mapping):
        raise SettingsError("notify_channels must be a mapping of names to channels")
    checked = {}
    for name, value in channels.items():
        check_setting_name(name, "notify_channels: a name")
        try:
            # The label of the nodes that have the channel has to be a name, too.
            check_setting_name(channel_label(name), "its label")
            checked[name] = Channel.of(value)
        except SettingsError as error:
            raise SettingsError(f"notify_channels: {name!r}: {error}") from None
    return checked


NO_MONITOR = "none"


def checked_monitors(monitors: object) -> dict[str, str]:
    """Return the setting `monitors`. No error shows a URL."""
    if not isinstance(monitors, Mapping):
        raise SettingsError("monitors must be a mapping of patterns of keys to URLs")
    for pattern, place in monitors.items():
        check_setting_name(pattern, "monitors: a pattern")
        if place != NO_MONITOR:
            check_place(place, f"monitors: {pattern!r}")
    return dict(monitors)
