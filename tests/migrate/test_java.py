"""Values that Java wrote, as far as the tables of a real Quartz do not show them; and the URLs of databases."""

from __future__ import annotations

import re
import sys

import pytest

from quartzpy.errors import SettingsError, StoreUnavailableError
from quartzpy.installing import install_line
from quartzpy.migrate import java
from quartzpy.migrate.databases import boolean, checked_prefix, database_url, reading


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a=1\r\nb:2\rc 3\n", {"a": "1", "b": "2", "c": "3"}),
        (b"  # a comment\n! another\n\n \t\nkey   =   value with blanks  \n", {"key": "value with blanks  "}),
        (b"a\\ b\\=c\\:d=\\ x\\ty\\\\\n", {"a b=c:d": " x\ty\\"}),
        (b"long=one \\\n    two \\\n  three\nodd=\\\\\\\n x\n", {"long": "one two three", "odd": "\\x"}),
        (b"smile=\\uD83D\\uDE00 \\u00e9 \xe9\n", {"smile": "\U0001f600 é é"}),
        (b"empty\nnothing=\n", {"empty": "", "nothing": ""}),
        (b"last=\\", {"last": ""}),
        (b"", {}),
    ],
)
def test_properties(text: bytes, expected: dict[str, str]) -> None:
    assert java.read_properties(text) == expected


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("GMT", "UTC"),
        ("GMT+02:00", "+02:00"),
        ("GMT-3", "-03:00"),
        ("GMT+0530", "+05:30"),
        ("PST", "America/Los_Angeles"),
        ("EST", "-05:00"),
    ],
)
def test_time_zones(identifier: str, expected: str) -> None:
    assert java.zone_name(identifier) == expected


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        java.SERIALIZED,
        java.SERIALIZED + b"sr\x00\x05hello",
        java.SERIALIZED + b"\x75" * 20_000,
        java.SERIALIZED + b"ur\x00\x02[B\xac\xf3\x17\xf8\x06\x08T\xe0\x02\x00\x00xp\x7f\xff\xff\xff",
    ],
    ids=["empty", "header", "cut off", "nested", "longer than memory"],
)
def test_a_damaged_stream_is_reported(stream: bytes) -> None:
    with pytest.raises(java.UnreadableError, match="cannot be read"):
        java.as_python(java.read_object(stream))


def test_the_extra_is_named_where_its_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "javaobj.v2.main", None)
    with pytest.raises(SettingsError, match=re.escape(install_line("import"))):
        java.read_object(java.SERIALIZED)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("jdbc:postgresql://db:5433/app?user=me&password=p%40ss", "postgresql+psycopg://me:p%40ss@db:5433/app"),
        ("jdbc:postgresql://db/app", "postgresql+psycopg://db/app"),
        ("jdbc:mysql://db:3306/app?user=me&useSSL=false", "mysql+pymysql://me@db:3306/app"),
        ("jdbc:sqlserver://db:1433;databaseName=app;user=me", "mssql+pyodbc://me@db:1433/app"),
        ("postgresql://db/app", "postgresql+psycopg://db/app"),
        ("sqlite:////tmp/x", "sqlite:////tmp/x"),
    ],
)
def test_urls(given: str, expected: str) -> None:
    assert database_url(given) == expected


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("jdbc:h2:mem:x", SettingsError, "jdbc:h2 cannot be read; give the URL of SQLAlchemy, or jdbc:postgresql"),
        ("nonsense", SettingsError, "--from: "),
        ("oracle://db/app", SettingsError, "--from: "),
        ("sqlite:////nowhere/jobs.sqlite", SettingsError, "there is no file /nowhere/jobs.sqlite"),
        ("postgresql://127.0.0.1:1/app?connect_timeout=2", StoreUnavailableError, "refused"),
    ],
)
def test_a_database_that_cannot_be_read(url: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message), reading(url) as rows:
        list(rows("SELECT 1"))


def test_a_source_is_read_only(postgres_dsn: str) -> None:
    with pytest.raises(SettingsError, match="read-only transaction"), reading(postgres_dsn) as rows:
        list(rows("SELECT lo_create(0)"))


def test_the_password_is_not_shown() -> None:
    with pytest.raises(StoreUnavailableError) as caught, reading("postgresql://me:s3cret@127.0.0.1:1/app") as rows:
        list(rows("SELECT 1"))
    assert "s3cret" not in str(caught.value)


def test_columns_without_a_boolean_type() -> None:
    assert [boolean(one) for one in (True, 1, "1", "t", "TRUE", "Y ")] == [True] * 6
    assert [boolean(one) for one in (False, 0, "0", "f", "false", "N", None, "")] == [False] * 8


def test_prefixes() -> None:
    assert checked_prefix("other.QRTZ_") == "other.QRTZ_"
    with pytest.raises(SettingsError, match=r"got 'QRTZ_; '"):
        checked_prefix("QRTZ_; ")
