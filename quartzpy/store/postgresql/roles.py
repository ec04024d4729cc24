"""Roles with the least privileges, for owning the tables, running jobs, their workers, scheduling and monitoring."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg

from quartzpy.config.config import DEFAULT_TABLE_PREFIX
from quartzpy.config.setting_checks import checked_schema, checked_table_prefix
from quartzpy.errors import SettingsError
from quartzpy.store.postgresql.connection.connection_sources import Connect, connect_once
from quartzpy.store.postgresql.connection.error_translation import translate
from quartzpy.store.postgresql.schema.naming import renamed
from quartzpy.store.postgresql.schema.operator_views import VIEWS
from quartzpy.store.postgresql.schema.privileges import SEQUENCES, TABLES, VIEW, Use
from quartzpy.store.postgresql.schema.trigger_keys import FUNCTION
from quartzpy.texts import quoted

OWNER = "owner"
DEFAULT_NAMES: Mapping[str, str] = {
    OWNER: "quartzpy_owner",
    Use.NODE: "quartzpy_node",
    Use.CLIENT: "quartzpy_client",
    Use.WORKER: "quartzpy_worker",
    Use.READER: "quartzpy_reader",
}
_LONGEST = 63
_RESERVED = ("public", "none")


def role_name(name: str) -> str:
    """Validate a role's name: any text that PostgreSQL accepts. Raises SettingsError."""
    rule = None
    if not name or not name.isprintable():
        rule = "must have at least one character, and none that cannot be printed"
    elif len(name.encode(errors="surrogatepass")) > _LONGEST:
        rule = f"must have at most {_LONGEST} bytes in UTF-8, beyond which PostgreSQL cuts it off"
    elif name.startswith("pg_") or name in _RESERVED:
        rule = "must not be public, none or pg_..., which belong to PostgreSQL"
    if rule is not None:
        raise SettingsError(f"role: {rule} (got {quoted(name)})")
    return name


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    # A backslash has a meaning of its own in a plain literal if the server has standard_conforming_strings off.
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    return f" E'{quoted}'" if "\\" in text else f"'{quoted}'"


def _creation(role: str) -> str:
    """Return the statement that creates a role if it is missing, which PostgreSQL has none for.

    The block is a quoted literal. Between dollar signs, a name with dollar signs could end it.
    """
    block = f"BEGIN CREATE ROLE {role} NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END"
    return f"DO {_literal(block)}"


def statements(
    names: Mapping[str, str] = DEFAULT_NAMES, schema: str | None = None, prefix: str = DEFAULT_TABLE_PREFIX
) -> list[str]:
    """Return the SQL that creates missing roles, and grants each role only the privileges that it needs.

    The roles cannot log in; grant them to login roles. The statements can be repeated, by the owner of the tables or
    by a superuser, after `quartzpy db upgrade`.

    Raises:
        SettingsError: the name of a role or schema, or the table prefix, is not valid.
    """
    checked_schema(schema)
    checked_table_prefix(prefix)
    roles = {use: _identifier(role_name(name)) for use, name in names.items()}
    place = f'"{schema}"' if schema else "public"
    commands = [_creation(role) for role in roles.values()]
    if OWNER in roles:
        owner = roles[OWNER]
        commands.append(f"GRANT USAGE, CREATE ON SCHEMA {place} TO {owner}")
        commands += [f"ALTER TABLE {place}.{renamed(table, prefix)} OWNER TO {owner}" for table in TABLES]
        commands += [f"ALTER VIEW {place}.{renamed(view, prefix)} OWNER TO {owner}" for view in VIEWS]
        commands += [f"ALTER SEQUENCE {place}.{renamed(sequence, prefix)} OWNER TO {owner}" for sequence in SEQUENCES]
        commands.append(f"ALTER FUNCTION {place}.{renamed(FUNCTION, prefix)}() OWNER TO {owner}")
    for use in Use:
        if use not in roles:
            continue
        role = roles[use]
        commands.append(f"GRANT USAGE ON SCHEMA {place} TO {role}")
        views = dict.fromkeys(VIEWS, VIEW)
        for kind, things in (("TABLE", {**TABLES, **views}), ("SEQUENCE", SEQUENCES)):
            for name, uses in things.items():
                thing = f"{kind} {place}.{renamed(name, prefix)}"
                # Privileges that only an earlier release needed are revoked.
                commands.append(f"REVOKE ALL ON {thing} FROM {role}")
                if granted := uses.get(use):
                    commands.append(f"GRANT {', '.join(granted)} ON {thing} TO {role}")
    return commands


def as_script(commands: list[str]) -> str:
    return "BEGIN;\n" + "".join(f"{statement};\n" for statement in commands) + "COMMIT;\n"


def apply(database: str | Connect, commands: list[str]) -> None:
    """Run the statements in one transaction.

    Raises:
        SchemaError: the tables do not exist, or this role lacks the privilege.
    """
    try:
        with connect_once(database) as connection:
            for statement in commands:
                connection.execute(statement.encode())
    except psycopg.Error as error:
        raise translate(error) from error
