"""YAML as its writers mean it, files in other encodings, and characters that look like others."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from quartzpy.config.sources import load_settings
from quartzpy.cron_expressions.crontab import CrontabExpression
from quartzpy.cron_expressions.expression import CronExpression
from quartzpy.definitions.files import read_document
from quartzpy.definitions.yaml_text import parsed_yaml, written_yaml
from quartzpy.errors import InvalidCronError, InvalidValueError, SettingsError
from quartzpy.ics import calendar_from_ics
from quartzpy.instants import as_span


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("on: 1\nyes: 2\nno: 3\n1: x\n2026-01-01: y\n~: z",
         {"on": 1, "yes": 2, "no": 3, "1": "x", "2026-01-01": "y", "~": "z"}),
        ("at: 18:00\nuntil: 1:30:00\nother: 09:30\nlist: [18:00, 7:05]",
         {"at": "18:00", "until": "1:30:00", "other": "09:30", "list": ["18:00", "7:05"]}),
        ("a: true\nb: False\nc: null\nd:\ne: 0xff\nf: -5\ng: 1.5\nh: 1.0e+3\ni: 2026-12-24\nj: y",
         {"a": True, "b": False, "c": None, "d": None, "e": 255, "f": -5, "g": 1.5, "h": 1000.0,
          "i": date(2026, 12, 24), "j": "y"}),
        ("x: &x {b: 1}\ny: *x\nz: {<<: *x, c: 2}", {"x": {"b": 1}, "y": {"b": 1}, "z": {"b": 1, "c": 2}}),
        ("\ufeffa: 'yes'\nb: \"010\"", {"a": "yes", "b": "010"}),
    ],
)  # fmt: skip
def test_values_are_what_they_look_like(text: str, values: object) -> None:
    assert parsed_yaml(text, "jobs.yaml") == values


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("* * * * *", r"line 2: \* .*an alias.*: '\* \* \* \* \*'"),
        ("*/5 * * * *", r"line 2: \* .*an alias.*: '\*/5 \* \* \* \*'"),
        ("*there", r"line 2: \* .*an alias"),
        ("&echo hi", "line 2: &echo names a value"),
        ("%d", "line 2: % .*in quotes: '%d'"),
        ("@daily", "line 2: @ .*reserved.*'@daily'"),
        ("`date`", "line 2: ` .*reserved"),
        ("!x", r"could not determine a constructor.*line 2: ! .*a tag"),
        ("[a] b", r"line 2: \[ .*a list.*'\[a\] b'"),
        ("{{ x }}", r"line 2: \{ .*a mapping"),
        ("Note: this", "line 2: a value that contains ': ' must be in quotes"),
        ("no", "line 2: no has two readings.*true or false.*'no' in quotes"),
        ("NO", "line 2: NO has two readings"),
        ("On", "line 2: On has two readings"),
        ("~", "line 2: ~ has two readings.*null"),
        ("010", "line 2: 010 has two readings.*leading zero"),
        ("-010", "line 2: -010 has two readings"),
        ("089", "line 2: 089 has two readings"),
        ("0o17", "line 2: 0o17 has two readings"),
        ("0b11", "line 2: 0b11 has two readings"),
        ("1_000", "line 2: 1_000 has two readings.*without _"),
        ("1e3", "line 2: 1e3 has two readings"),
        ("[a, yes]", "line 2: yes has two readings"),
        ("2026-02-30", "day is out of range.*line 2"),
        ("9" * 50, "Exceeds the limit of 40 digits.*line 2"),
        ("0x" + "f" * 6_000, "Exceeds the limit of 40 digits.*line 2"),
        ("1\nx: 2", r"'x' is given twice in one table.*again in line 3"),
    ],
)
def test_what_has_two_readings_is_refused_with_its_line_and_what_to_write(value: str, answer: str) -> None:
    with pytest.raises(SettingsError, match=rf"jobs\.yaml: not YAML: {answer}"):
        parsed_yaml(f"a: 1\nx: {value}", "jobs.yaml")


def test_base_60_costs_nothing() -> None:
    long = ":".join(["59"] * 80_000)
    assert parsed_yaml(f"x: {long}", "jobs.yaml") == {"x": long}


def test_what_is_written_is_read_back_by_this_and_any_other_reader() -> None:
    import yaml

    texts = [
        "yes",
        "no",
        "on",
        "~",
        "null",
        "true",
        "010",
        "089",
        "0o7",
        "0b11",
        "1_000",
        "1e3",
        "18:00",
        "2026-01-01",
        "*",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "`",
        "=",
        "<<",
        "y",
        "-",
        "?",
        ":",
        "a:b",
    ]
    values = {"list": [*texts, "x: y", "a #b", " a ", "a\nb\n", ""], **dict.fromkeys(texts, 1)}
    written = written_yaml(values)
    assert parsed_yaml(written, "jobs.yaml") == values
    assert yaml.safe_load(written) == values


# --- files


def settings(path: Path) -> object:
    return load_settings(path, {})


TOML, YAML, ICS = "[quartzpy]\nname = 'a'\n", "job: []\n", "BEGIN:VCALENDAR\nEND:VCALENDAR\n"
READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "quartzpy.toml": (TOML, settings),
    "jobs.toml": ("job = []\n", read_document),
    "jobs.yaml": (YAML, read_document),
    "events.ics": (ICS, lambda path: calendar_from_ics(path.read_bytes(), years=2026)),
}


@pytest.mark.parametrize("name", READERS)
def test_a_mark_at_the_beginning_of_a_file_is_no_part_of_it(tmp_path: Path, name: str) -> None:
    text, read = READERS[name]
    path = tmp_path / name
    path.write_bytes(text.encode())
    plain = read(path)
    path.write_bytes(codecs.BOM_UTF8 + text.encode())
    assert read(path) == plain


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    ("encoding", "answer"),
    [("utf-16", "UTF-16.*UTF-8"), ("utf-16-le", "NUL.*UTF-16"), ("utf-32", "UTF-32"), ("cp1252", "not UTF-8")],
)
def test_a_file_in_another_encoding_is_refused_in_words(tmp_path: Path, name: str, encoding: str, answer: str) -> None:
    text, read = READERS[name]
    path = tmp_path / name
    path.write_bytes(f"{text}# ü".encode(encoding))
    with pytest.raises(InvalidValueError, match=answer):
        read(path)


# --- characters


@pytest.mark.parametrize(
    ("character", "name"),
    [
        ("\u00a0", "U.00A0 .NO-BREAK SPACE.; write a space"),
        ("\u200b", "U.200B .ZERO WIDTH SPACE.; write nothing"),
        ("\ufeff", "U.FEFF .ZERO WIDTH NO-BREAK SPACE."),
        ("\u2013", "U.2013 .EN DASH.; write a hyphen"),
        ("\u2212", "U.2212 .MINUS SIGN.; write a hyphen"),
        ("\uff0a", r"U.FF0A .FULLWIDTH ASTERISK.; write \*"),
        ("\u3000", "U.3000 .IDEOGRAPHIC SPACE.; write a space"),
        ("\u202f", "U.202F .NARROW NO-BREAK SPACE."),
        ("\u2019", "U.2019 .RIGHT SINGLE QUOTATION MARK."),
        ("\u0661", None),
    ],
)
def test_a_character_that_looks_like_another_is_named(character: str, name: str | None) -> None:
    for expression, read in (
        ("*/5{} * * * *", CrontabExpression),
        ("0 0{}1 * * ?", CronExpression),
        ("{}0 * * * *", CrontabExpression),
    ):
        with pytest.raises(InvalidCronError, match=name or ".") as caught:
            read(expression.format(character))
        if name is not None:
            assert caught.value.expression[caught.value.position] == character
    if name is not None and not character.isspace():
        with pytest.raises(InvalidValueError, match=name):
            as_span(f"5{character}m", "timeout")


def test_an_invisible_character_in_a_file_is_named(tmp_path: Path) -> None:
    for name, text in (("a.toml", "job\u00a0= []\n"), ("b.toml", "[[job]]\n\u2003name = 'a'\n")):
        (tmp_path / name).write_text(text)
        with pytest.raises(SettingsError, match=r"NO-BREAK SPACE|EM SPACE"):
            read_document(tmp_path / name)


@pytest.mark.parametrize("value", ["0.0000001s", "1e-300", 1e-300, 1e-7, "0.0001us", "0.0000000000001"])
def test_a_span_below_the_smallest_unit_is_not_rounded_to_nothing(value: object) -> None:
    for above_zero in (False, True):
        with pytest.raises(InvalidValueError, match="must be"):
            as_span(value, "interval", above_zero=above_zero)
    assert not as_span(0, "delay")
    assert not as_span("0s", "delay")
