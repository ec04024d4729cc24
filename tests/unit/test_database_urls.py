"""URLs of databases: several hosts, what a session is told, names of schemas, and passwords that are not shown."""

from __future__ import annotations

import traceback
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import URL, make_url
from sqlalchemy.dialects.postgresql import psycopg as dialects

from quartzpy.config.config import SchedulerConfig
from quartzpy.config.setting_checks import checked_schema
from quartzpy.errors import SettingsError
from quartzpy.store.postgresql.connection.conninfo import connect_arguments
from quartzpy.store.postgresql.connection.urls import DatabaseUrl, parse_dsn, scrubbed

CANARY = "c4n4ry"


def told(url: str, **settings: Any) -> dict[str, Any]:
    config = SchedulerConfig.of(settings)
    return connect_arguments(parse_dsn(url), config, "work", pooled=config.pooled)


@pytest.mark.parametrize(
    ("given", "hosts", "ports"),
    [
        ("postgresql://u:p@h1:5432,h2:5433/db", "h1,h2", "5432,5433"),
        ("postgresql+psycopg://u:p@h1,h2:5433/db?sslmode=require", "h1,h2", "5432,5433"),
        ("postgresql://u:p@[::1]:5432,10.0.0.2/db", "::1,10.0.0.2", "5432,5432"),
        ("postgresql://u:p@/db?host=h1,h2&port=1,2", "h1,h2", "1,2"),
        ("postgresql://u:p@/db?host=h1,h2&port=1", "h1,h2", "1"),
    ],
)
def test_several_hosts_are_understood_in_both_forms(given: str, hosts: str, ports: str) -> None:
    url = parse_dsn(given)
    assert {name: url.parameters[name] for name in ("user", "password", "dbname", "host", "port")} == {
        "user": "u",
        "password": "p",
        "dbname": "db",
        "host": hosts,
        "port": ports,
    }
    assert url.parameters["target_session_attrs"] == "read-write"


odd = st.text("aZ9-._~ +%:/?#[]@!$&'()*,;=|\\\"\u00e9\u20ac\n", max_size=8)
hosts = st.sampled_from(["", "db", "db.example.org", "10.0.0.1", "[::1]", "[2001:db8::7]", "h_1"])
parameters = st.dictionaries(
    st.sampled_from(["sslmode", "application_name", "options", "service", "passfile", "target_session_attrs"]), odd
)
places_in_the_query = st.sampled_from(
    [
        *({}, {"host": "/var/run/postgresql"}, {"host": "h1,h2", "port": "1,2"}, {"host": "h1,h2"}, {"host": "h1:7"}),
        *({"host": "::1"}, {"host": ["h1:1", "h2:2"]}, {"port": "6543"}),
    ]
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """URLs in which a password is escaped in full, or only as far as it must be."""
    user, password, database = draw(odd), draw(st.none() | odd), draw(st.none() | odd)
    text = draw(st.sampled_from(["postgresql", "postgresql+psycopg"])) + "://"
    if draw(st.booleans()):
        text += quote(user, safe="")
        if password is not None:
            text += ":" + quote(password, safe=draw(st.sampled_from(["", "/:?#[]!$&'()*,;= |"])))
        text += "@"
    text += draw(hosts) + draw(st.sampled_from(["", ":5432", ":65535"]))
    if database is not None:
        text += "/" + quote(database, safe=draw(st.sampled_from(["", "/:,"])))
    query = draw(parameters) | draw(places_in_the_query)
    return text + ("?" + urlencode(query, doseq=True) if query else "")


def same(ours: DatabaseUrl, theirs: URL) -> bool:
    """True if psycopg gets the same parameters from us and from SQLAlchemy's dialect."""
    given = dialects.dialect().create_connect_args(theirs)[1]
    wanted = dict(ours.parameters)
    if "," in str(wanted.get("host")):
        given.setdefault("target_session_attrs", "read-write")
        if given.get("port") == ",":
            # The default port of each host, which libpq assumes anyway. We keep a port before the path, for all hosts.
            given["port"] = wanted.setdefault("port", None)
    assert {name: str(value) for name, value in wanted.items()} == {name: str(value) for name, value in given.items()}
    return True


@given(texts())
def test_a_url_means_what_it_means_to_sqlalchemy(text: str) -> None:
    assert same(parse_dsn(text), make_url(text.strip()))


@given(texts())
def test_a_url_that_is_handed_to_sqlalchemy_stays_the_same(text: str) -> None:
    url = parse_dsn(text)
    assert same(url, url.as_sqlalchemy())


def test_a_url_does_not_show_its_password_in_its_representation() -> None:
    url = parse_dsn(f"postgresql://u:{CANARY}@h/db?password={CANARY}")
    assert isinstance(url, DatabaseUrl)
    assert CANARY not in repr(url)


def test_a_chosen_server_is_used() -> None:
    assert parse_dsn("postgresql://h1,h2/db?target_session_attrs=any").parameters["target_session_attrs"] == "any"
    assert "target_session_attrs" not in parse_dsn("postgresql://h1/db").parameters


@pytest.mark.parametrize(
    "wrong",
    [
        "postgresql://h1:x,h2/db",
        "postgresql://h1:99999,h2/db",
        "postgresql://h1,,h2/db",
        "postgresql://h1,h2/db?host=h3",
        "postgresql:///db?host=a,b&port=1,2,3",
        "postgresql:///db?host=a,b&port=1,x",
        "postgresql://u@h:/db",
        "postgresql://h1:,h2/db",
        "postgresql://u@h:0/db",
        "postgresql://u@h:65536/db",
        "postgresql://u@h/db?sslmode=require&sslmode=disable",
        "postgresql://u@h/db?autocommit=true",
        "postgresql://u@h/db?prepare_threshold=5",
        "postgresql://u@h/db?client_encoding=latin1",
        "postgresql://u@h/db?connect_timeout=0",
        "postgresql://u@h/db?connect_timeout=soon",
        "postgresql://u@h/db?options=-c%20statement_timeout%3D5s",
        "postgresql://u@h/db?options=--default-transaction-isolation%3Dserializable",
        "postgresql://u@h/db?options=-c%20nothing",
    ],
)
def test_what_cannot_be_had_is_refused_in_words(wrong: str) -> None:
    with pytest.raises(SettingsError, match="database URL: "):
        told(wrong)


def test_options_of_the_url_are_kept_beside_ours() -> None:
    arguments = told("postgresql://u@h/db?options=-c%20search_path%3Dapp2%20--work-mem=8MB")
    assert arguments["options"].startswith("-c search_path=app2 --work-mem=8MB -c lock_timeout=5000 ")
    assert r"-c default_transaction_isolation=read\ committed" in arguments["options"]
    # The same as ours is no conflict.
    assert told("postgresql://u@h/db?options=-cjit%3Doff%20-c%20timezone%3DUTC")


def test_options_of_the_environment_are_kept_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c search_path=app3")
    assert told("postgresql://u@h/db")["options"].startswith("-c search_path=app3 -c ")
    assert "app3" not in told("postgresql://u@h/db?options=-c%20search_path%3Dapp2")["options"]


def test_behind_a_pooler_options_are_refused() -> None:
    with pytest.raises(SettingsError, match="pooled=True"):
        told("postgresql://u@h/db?options=-c%20search_path%3Dapp2", pooled=True)


def test_parameters_of_the_connection_override_the_defaults() -> None:
    arguments = told("postgresql://u@h/db?keepalives_idle=60&application_name=mine&connect_timeout=9")
    assert (arguments["keepalives_idle"], arguments["application_name"], arguments["connect_timeout"]) == (
        "60",
        "mine",
        9,
    )
    assert told("postgresql://u@h/db")["client_encoding"] == "UTF8"


BAD_SCHEMAS: list[object] = [
    *("", " ", "a b", "1a", "a-b", "a.b", 'a"b', "a'b", "x; drop table t", "x;--", "a\n", "a\0", "$now", "%(sched)s"),
    *("é", "schema\u202e", "a" * 64, "pg_catalog", "pg_x", "information_schema", "a/b", "a\\b", "(a)", "a,b", "*"),
    *("a\tb", "{a}", "a@b", "a:b", "#", 5, b"a", ["a"], True),
]


@pytest.mark.parametrize("bad", BAD_SCHEMAS)
def test_bad_names_of_schemas_are_refused(bad: object) -> None:
    with pytest.raises(SettingsError, match="schema: "):
        SchedulerConfig.of({"schema": bad})


def test_thirty_bad_names_were_tried() -> None:
    assert len(BAD_SCHEMAS) >= 30
    assert checked_schema("user") == "user"


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://u:{CANARY}@h/db",
        f"postgresql://u:{CANARY}@h1:1,h2:2/db",
        f"postgresql://u:a@{CANARY}@h/db",
        f"postgresql://u:a/{CANARY}@h/db",
        f"postgresql://u:a {CANARY}@h/db",
        f"postgresql://:{CANARY}@h/db",
        f"postgresql:///db?user=u&password={CANARY}",
        f"host=h user=u password={CANARY} dbname=db",
        f"host=h password='a b {CANARY}' dbname=db",
        f"PGPASSWORD={CANARY} psql",
        f"could not connect: postgresql://u:{CANARY}@h/db?options=-c%20x=1",
    ],
)
def test_passwords_are_not_shown(text: str) -> None:
    assert CANARY not in scrubbed(text)


@pytest.mark.parametrize(
    "wrong",
    [
        f"mysql://u:{CANARY}@h/db",
        f"mysql:///db?password={CANARY}",
        f"postgresql://u:{CANARY}@h:port/db",
        f"postgresql://u:{CANARY}@h1:port,h2/db",
        f"postgresql://u:a@{CANARY}@h/db",
        f"postgresql://u:{CANARY}@h:1:2/db",
        f"postgresql://u:a@{CANARY}@h:port,h2/db",
        f"postgresql://u:{CANARY}@h1,h2/db?host=h3",
        f"host=h user=u password={CANARY} dbname=db",
        f"host=h user=u password='a b {CANARY}' dbname=db",
    ],
)
def test_an_error_about_a_url_shows_no_password_nor_does_its_cause(wrong: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_dsn(wrong)
    assert CANARY not in "".join(traceback.format_exception(caught.value))
