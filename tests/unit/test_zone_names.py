"""Which names are zones, what a text that is none means, and how a machine names its zone."""

from __future__ import annotations

import zoneinfo
from pathlib import Path

import pytest

from quartzpy.embedded.machine_zone import zone_of_machine
from quartzpy.errors import SettingsError, UnknownTimeZoneError
from quartzpy.instants import zone
from quartzpy.zone_names import zone_names

ZONE_FILES = next(Path(base) for base in zoneinfo.TZPATH if (Path(base) / "Europe/Berlin").is_file())


@pytest.mark.parametrize(
    "name",
    ["Factory", "localtime", "posixrules", "leapseconds", "tzdata.zi", "zone.tab", "Europe", "Etc", "+VERSION", "",
     "posix/Europe/Berlin", "right/Europe/Berlin",
     "europe/berlin", "Europe/berlin", "../Europe/Berlin", "Europe/Berlin/",
     "/usr/share/zoneinfo/Europe/Berlin", " Europe/Berlin", "Europe//Berlin", "Europe/Berlin\0"],
)  # fmt: skip
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(UnknownTimeZoneError, match="is not known"):
        zone(name)


def test_each_zone_of_the_database_is_accepted() -> None:
    assert len(zone_names()) > 400
    for name in zone_names():
        zone(name)
    for name in ("UTC", "EST5EDT", "Etc/GMT+2", "GMT+0", "+02:00"):
        zone(name)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("UTC+2", r"write '\+02:00' .*'Europe/Berlin'"),
        ("utc -3", r"write '-03:00' .*'America/Sao_Paulo'"),
        ("GMT+1", r"write '\+01:00' .*'Europe/London', 'Europe/Berlin'"),
        ("+2", r"write '\+02:00'"),
        ("+0530", r"write '\+05:30' .*'Asia/Kolkata'"),
        ("\u22123", "write '-03:00'"),
        ("Z", "write 'UTC'"),
        ("CEST", r"abbreviation of \+02:00 \('Europe/Berlin'"),
        ("cest", r"abbreviation of \+02:00 \('Europe/Berlin'"),
        ("IST", r"\+05:30 \('Asia/Kolkata'.* or \+02:00 \('Asia/Jerusalem'.* or \+01:00 \('Europe/Dublin'"),
        ("PDT", r"-07:00 \('America/Los_Angeles'"),
        ("CET-1CEST", r"CET is an abbreviation of \+01:00 \('Europe/Berlin'"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", r"CET is an abbreviation of \+01:00 \('Europe/Berlin'"),
        ("<+03>-3", r"write '\+03:00'"),
        ("europe/berlin", "did you mean 'Europe/Berlin'"),
        ("posix/Europe/Berlin", "did you mean 'Europe/Berlin'"),
        ("Berlin", "did you mean 'Europe/Berlin'"),
        ("New York", "did you mean 'America/New_York'"),
        ("Europe/Berln", "did you mean 'Europe/Berlin'"),
        ("UTC+99", "use an IANA name"),
        ("W. Europe Standard Time", "use an IANA name"),
        ("Nowhere", "use an IANA name"),
    ],
)
def test_a_text_that_is_no_zone_is_answered_by_its_meaning(typed: str, answer: str) -> None:
    with pytest.raises(UnknownTimeZoneError, match=answer):
        zone(typed)


def machine(root: Path, **files: str | bytes | Path) -> Path:
    """A machine with such files in /etc; a path is the target of a link."""
    (root / "usr/share").mkdir(parents=True)
    (root / "usr/share/zoneinfo").symlink_to(ZONE_FILES)
    for name, content in files.items():
        path = root / "etc" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            path.symlink_to(content)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


BERLIN = (ZONE_FILES / "Europe/Berlin").read_bytes()
KATHMANDU = (ZONE_FILES / "Asia/Kathmandu").read_bytes()


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (":Europe/Berlin", "Europe/Berlin"),
        ("/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        (":/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        ("/usr/share/zoneinfo/posix/Europe/Berlin", "Europe/Berlin"),
        ("posix/Europe/Berlin", "Europe/Berlin"),
        ("/etc/localtime", "Asia/Tokyo"),
        (":/etc/localtime", "Asia/Tokyo"),
        ("/etc/copy", "Europe/Berlin"),
        ("", "UTC"),
        (":", "UTC"),
        ("UTC0", "UTC"),
        ("EST5EDT", "EST5EDT"),
        ("CET-1", "+01:00"),
        ("<-03>3", "-03:00"),
    ],
)
def test_the_variable_names_the_zone(tmp_path: Path, variable: str, name: str) -> None:
    root = machine(tmp_path, localtime=Path("/usr/share/zoneinfo/Asia/Tokyo"), copy=BERLIN)
    found = zone_of_machine({"TZ": variable}, root)
    assert found.name == name
    assert "TZ" in found.source
    zone(found.name)


@pytest.mark.parametrize(
    "variable", ["CET-1CEST,M3.5.0,M10.5.0/3", "Nowhere", "/etc/nothing", "/etc/passwd", "CEST", "x"]
)
def test_a_variable_that_names_no_zone_is_refused_whatever_the_files_say(tmp_path: Path, variable: str) -> None:
    root = machine(tmp_path, localtime=Path("/usr/share/zoneinfo/Asia/Tokyo"), passwd="root:x:0:0::/root:/bin/sh\n")
    with pytest.raises(SettingsError, match=r"time zone of this machine is unknown.*--time-zone"):
        zone_of_machine({"TZ": variable}, root)


@pytest.mark.parametrize(
    ("files", "name", "source"),
    [
        ({"localtime": Path("/usr/share/zoneinfo/Europe/Berlin")}, "Europe/Berlin", "localtime"),
        ({"localtime": Path("../usr/share/zoneinfo/Europe/Berlin")}, "Europe/Berlin", "localtime"),
        (
            {"localtime": Path("/etc/other"), "other": Path("/usr/share/zoneinfo/Europe/Berlin")},
            "Europe/Berlin",
            "localtime",
        ),
        ({"localtime": Path("/var/db/timezone/zoneinfo/Europe/Berlin")}, "Europe/Berlin", "localtime"),
        ({"localtime": BERLIN}, "Europe/Berlin", "localtime"),
        ({"localtime": KATHMANDU, "timezone": "Asia/Katmandu\n"}, "Asia/Katmandu", "localtime"),
        # What the programs of the machine follow counts.
        ({"localtime": BERLIN, "timezone": "America/New_York\n"}, "Europe/Berlin", "localtime"),
        ({"timezone": "\ufeff# a comment\nEurope/Berlin\n"}, "Europe/Berlin", "timezone"),
        ({"sysconfig__clock": 'UTC=true\nZONE="Europe/Berlin"\n'}, "Europe/Berlin", "clock"),
        ({"conf.d__clock": "TIMEZONE=Europe/Berlin\n"}, "Europe/Berlin", "clock"),
        ({"localtime": b"", "timezone": "Europe/Berlin"}, "Europe/Berlin", "timezone"),
    ],
)  # fmt: skip
def test_the_files_name_the_zone(tmp_path: Path, files: dict[str, str | bytes | Path], name: str, source: str) -> None:
    found = zone_of_machine({}, machine(tmp_path, **files))
    assert found.name == name
    assert source in found.source


@pytest.mark.parametrize("files", [{}, {"localtime": b"nothing"}, {"timezone": "n/a"}, {"localtime": Path("/gone")}])
def test_a_zone_that_nothing_names_is_not_guessed(tmp_path: Path, files: dict[str, str | bytes | Path]) -> None:
    with pytest.raises(SettingsError, match=r"unknown.*time_zone: Europe/Berlin.*--time-zone"):
        zone_of_machine({}, machine(tmp_path, **files))
