from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from quartzpy import Scheduler
from quartzpy.config import sources as config_sources
from quartzpy.config.config import SchedulerConfig
from quartzpy.config.setting_names import DATABASE, SETTINGS, TABLES, Setting
from quartzpy.config.sources import (
    find_config_file,
    load_settings,
    settings_from_environment,
    settings_from_toml,
)
from quartzpy.errors import SettingsError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "quartzpy.toml"


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for variable in [
        "QUARTZPY_CONFIG",
        "QUARTZPY_URL",
        *(setting.variable for setting in SETTINGS.values()),
    ]:
        monkeypatch.delenv(variable, raising=False)
    return monkeypatch


@pytest.fixture
def more_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Types that a setting may have one day."""
    types: dict[str, Any] = {"on": bool, "share": float, "mode": Literal["a", "b"], "maybe": int | None, "hook": object}
    monkeypatch.setattr(config_sources, "SETTINGS", {name: Setting(name, kind) for name, kind in types.items()})


def refusal(call: Any, *arguments: Any, **settings: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        call(*arguments, **settings)
    return str(caught.value)


@pytest.mark.parametrize(
    ("variable", "text", "setting", "value"),
    [
        ("QUARTZPY_URL", "memory://", "url", "memory://"),
        ("QUARTZPY_NAME", "billing", "name", "billing"),
        ("QUARTZPY_NAME", "none", "name", "none"),
        ("QUARTZPY_WORKERS", " 4 ", "workers", 4),
        ("QUARTZPY_CHECKIN_INTERVAL", "5s", "checkin_interval", timedelta(seconds=5)),
        ("QUARTZPY_IDLE_WAIT", "100ms", "idle_wait", timedelta(milliseconds=100)),
        ("QUARTZPY_HISTORY_RETENTION", "none", "history_retention", None),
        ("QUARTZPY_HISTORY_RETENTION", "1d", "history_retention", timedelta(days=1)),
        ("QUARTZPY_SCHEMA", "None", "schema", None),
        ("QUARTZPY_SCHEMA", "jobs", "schema", "jobs"),
        ("QUARTZPY_JOB_MODULES", "a.b, c", "job_modules", ("a.b", "c")),
        ("QUARTZPY_JOB_MODULES", "a", "job_modules", ("a",)),
        ("QUARTZPY_JOB_MODULES", "none", "job_modules", ()),
        (
            "QUARTZPY_EXECUTORS",
            "cpu=processes:4, io=threads:20",
            "executors",
            {"cpu": "processes:4", "io": "threads:20"},
        ),
        ("QUARTZPY_EXECUTORS", "none", "executors", {}),
        ("QUARTZPY_EXECUTION_GROUPS", "reports=2,*=0", "execution_groups", {"reports": 2, "*": 0}),
        ("QUARTZPY_LABELS", "gpu,eu", "labels", ("gpu", "eu")),
    ],
)
def test_texts_of_the_environment_are_read_by_the_type(variable: str, text: str, setting: str, value: object) -> None:
    assert settings_from_environment({variable: text, "HOME": "/root"}) == {setting: value}


@pytest.mark.usefixtures("more_types")
@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        *(("QUARTZPY_ON", text, True) for text in ("true", "Yes", "on", "1")),
        *(("QUARTZPY_ON", text, False) for text in ("false", "NO", "off", "0")),
        ("QUARTZPY_SHARE", "0.5", 0.5),
        ("QUARTZPY_SHARE", "2", 2.0),
        ("QUARTZPY_MODE", "a", "a"),
        ("QUARTZPY_MAYBE", "none", None),
        ("QUARTZPY_MAYBE", "3", 3),
    ],
)
def test_types_that_a_setting_may_have_one_day(variable: str, text: str, value: object) -> None:
    [found] = settings_from_environment({variable: text}).values()
    assert found == value
    assert type(found) is type(value)


@pytest.mark.usefixtures("more_types")
def test_those_types_in_a_file(file: Path) -> None:
    file.write_text('[quartzpy]\non = true\nshare = 2\nmode = "a"\nmaybe = "none"\n')
    assert settings_from_toml(file) == {"on": True, "share": 2.0, "mode": "a", "maybe": None}


@pytest.mark.usefixtures("more_types")
@pytest.mark.parametrize(
    ("variable", "text", "rule"),
    [
        ("QUARTZPY_ON", "maybe", " must be true or false (got 'maybe')"),
        ("QUARTZPY_SHARE", "nan", " must be a number (got 'nan')"),
        ("QUARTZPY_MAYBE", "nothing", " must be an integer (got 'nothing')"),
        ("QUARTZPY_HOOK", "x", ": this setting can only be given as a keyword argument"),
    ],
)
def test_wrong_texts_of_those_types(variable: str, text: str, rule: str) -> None:
    assert refusal(settings_from_environment, {variable: text}) == f"{variable}{rule}"


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"QUARTZPY_WORKERS": "many"}, "QUARTZPY_WORKERS must be an integer (got 'many')"),
        ({"QUARTZPY_WORKERS": "1.5"}, "QUARTZPY_WORKERS must be an integer (got '1.5')"),
        ({"QUARTZPY_WORKERS": "1" * 5_000}, "QUARTZPY_WORKERS must be an integer"),
        ({"QUARTZPY_IDLE_WAIT": "5x"}, "QUARTZPY_IDLE_WAIT: must be a length of time"),
        ({"QUARTZPY_IDLE_WAIT": "none"}, "QUARTZPY_IDLE_WAIT: must be a length of time"),
        ({"QUARTZPY_JOB_MODULES": "a,,b"}, "QUARTZPY_JOB_MODULES: an item between two commas is empty (got 'a,,b')"),
        ({"QUARTZPY_EXECUTORS": "cpu"}, "QUARTZPY_EXECUTORS must be name=value pairs, separated by commas (got 'cpu')"),
        ({"QUARTZPY_EXECUTION_GROUPS": "a=x"}, "QUARTZPY_EXECUTION_GROUPS: a must be an integer (got 'x')"),
        (
            {"QUARTZPY_WROKERS": "4"},
            "QUARTZPY_WROKERS in the environment is not a setting; did you mean QUARTZPY_WORKERS?",
        ),
        ({"QUARTZPY_WROKERS": ""}, "did you mean QUARTZPY_WORKERS?"),
        ({"QUARTZPY_UR": "memory://"}, "did you mean QUARTZPY_URL?"),
        ({"QUARTZPY_CONFIGS": "x"}, "did you mean QUARTZPY_CONFIG?"),
        ({"QUARTZPY_": "x"}, "QUARTZPY_ in the environment is not a setting"),
    ],
)
def test_a_wrong_variable_is_refused_by_its_name(environ: dict[str, str], message: str) -> None:
    assert message in refusal(settings_from_environment, environ)


def test_an_unknown_variable_like_none_of_ours_is_answered_with_all_of_them() -> None:
    message = refusal(settings_from_environment, {"QUARTZPY_0123456789012345678901234567890123456789": "4"})
    assert "; the settings are QUARTZPY_AUDIT_RETENTION, QUARTZPY_BATCH_SIZE, " in message


def test_an_empty_variable_counts_as_not_set() -> None:
    assert settings_from_environment({"QUARTZPY_WORKERS": "", "QUARTZPY_URL": ""}) == {}


def test_variables_that_the_repository_reads_elsewhere_are_let_through() -> None:
    read = {
        variable
        for folder in ("quartzpy", "tests", "benchmarks")
        for path in (ROOT / folder).glob("**/*.py")
        if path != Path(__file__)
        for variable in re.findall(r"""["'](QUARTZPY_[A-Z_]*[A-Z])["']""", path.read_text())
    }
    assert {"QUARTZPY_TEST_DSN", "QUARTZPY_PG_BIN", "QUARTZPY_DEMO_DSN"} <= read
    assert settings_from_environment(dict.fromkeys(read, "")) == {}


def test_what_kubernetes_sets_for_a_service_quartzpy_metrics_is_no_port() -> None:
    assert settings_from_environment({"QUARTZPY_METRICS_PORT": "tcp://10.0.0.7:9464"}) == {}
    assert settings_from_environment({"QUARTZPY_METRICS_PORT": "9464"}) == {"metrics_port": 9464}
    with pytest.raises(SettingsError, match="QUARTZPY_METRICS_PORT must be an integer"):
        settings_from_environment({"QUARTZPY_METRICS_PORT": "http://10.0.0.7:9464"})


def test_what_kubernetes_sets_for_a_service_of_our_name_is_let_through() -> None:
    variables = [
        "QUARTZPY_SERVICE_HOST",
        "QUARTZPY_SERVICE_PORT",
        "QUARTZPY_SERVICE_PORT_HTTP",
        "QUARTZPY_PORT",
        "QUARTZPY_PORT_8080_TCP",
        "QUARTZPY_PORT_8080_TCP_PROTO",
        "QUARTZPY_DASHBOARD_PORT_8080_TCP_ADDR",
        "QUARTZPY_DASHBOARD_SERVICE_HOST",
    ]
    assert settings_from_environment(dict.fromkeys(variables, "tcp://10.0.0.1:8080")) == {}


def test_every_setting_has_a_variable_that_is_read() -> None:
    samples = {bool: "true", int: "7", timedelta: "7s", str: "seven", tuple: "seven"}
    for setting in fields(SchedulerConfig):
        text = samples.get(type(setting.default), "none")
        assert list(settings_from_environment({SETTINGS[setting.name].variable: text})) == [setting.name]


@pytest.mark.parametrize(("name", "table"), [("quartzpy.toml", "quartzpy"), ("pyproject.toml", "tool.quartzpy")])
def test_a_file_has_toml_types(tmp_path: Path, name: str, table: str) -> None:
    path = tmp_path / name
    path.write_text(
        f"""
        [{table}]
        url = "memory://"
        name = "billing"
        workers = 4
        history_retention = "none"
        schema = "jobs"
        job_modules = ["a.b", "c"]
        labels = ["gpu"]
        executors.cpu = "processes:2"

        [{table}.executors.big]
        kind = "futures"
        workers = 16
        address = "billing.pools:pool"
        tickets = true

        [{table}.tuning]
        checkin_interval = "2s"
        execution_groups = {{ reports = 2, "*" = 0 }}

        [{table}.metrics]
        port = 9464

        [{table}.tell.notify_channels.ops]
        url = "env:OPS_URL"

        [another]
        wrokers = 4
        """
    )
    assert settings_from_toml(path) == {
        "url": "memory://",
        "name": "billing",
        "workers": 4,
        "checkin_interval": timedelta(seconds=2),
        "history_retention": None,
        "schema": "jobs",
        "job_modules": ("a.b", "c"),
        "labels": ("gpu",),
        "executors": {
            "cpu": "processes:2",
            "big": {"kind": "futures", "workers": 16, "address": "billing.pools:pool", "tickets": True},
        },
        "execution_groups": {"reports": 2, "*": 0},
        "metrics_port": 9464,
        "notify_channels": {"ops": {"url": "env:OPS_URL"}},
    }
    assert settings_from_toml(str(path)) == settings_from_toml(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("wrokers = 4", "{file}: wrokers is not a setting; did you mean workers?"),
        ("misfire-threshold = '1s'", "{file}: misfire-threshold is not a setting; did you mean misfire_threshold?"),
        ("checkin-interval = '1s'", "{file}: checkin-interval is not a setting; did you mean tuning.checkin_interval?"),
        ("tuning.btch_size = 3", "{file}: tuning.btch_size is not a setting; did you mean tuning.batch_size?"),
        ("zzz = 4", "{file}: zzz is not a setting; the settings are url, name, instance_id"),
        ("tuning = 4", "{file}: tuning must be a table, [quartzpy.tuning] (got 4)"),
        (
            "lock_timeout = 4",
            "{file}: lock_timeout is at the wrong place; write lock_timeout = ... under [quartzpy.database]",
        ),
        ("metrics_port = 4", "{file}: metrics_port is at the wrong place; write port = ... under [quartzpy.metrics]"),
        (
            "metrics.metrics_port = 4",
            "metrics.metrics_port is at the wrong place; write port = ... under [quartzpy.metrics]",
        ),
        ("allow.workers = 4", "{file}: allow.workers is at the wrong place; write workers = ... under [quartzpy]"),
        ("workers = '4'", "{file}: workers must be an integer (got '4')"),
        ("workers = true", "{file}: workers must be an integer (got True)"),
        ("workers = 4.0", "{file}: workers must be an integer (got 4.0)"),
        ("workers = 'none'", "{file}: workers must be an integer (got 'none')"),
        ("tuning.idle_wait = [5]", "{file}: tuning.idle_wait: must be a length of time"),
        ("tuning.idle_wait = 'none'", "{file}: tuning.idle_wait: must be a length of time"),
        ("history_retention = false", "{file}: history_retention: must be a length of time"),
        ("name = 7", "{file}: name must be a string (got 7)"),
        ("url = ['memory://']", "{file}: url must be a string"),
        ("job_modules = 'a,b'", "{file}: job_modules must be a list of strings (got 'a,b')"),
        ("job_modules = ['a', 1]", "{file}: job_modules must be a list of strings"),
        ("schema.x = 1", "{file}: schema must be a string"),
        ("executors = 'cpu'", "{file}: executors must be a table (got 'cpu')"),
    ],
)
def test_a_wrong_line_of_a_file_is_refused(file: Path, line: str, message: str) -> None:
    file.write_text(f"[quartzpy]\n{line}\n")
    assert message.format(file=file) in refusal(settings_from_toml, file)


def test_the_value_of_an_unknown_setting_is_not_shown_because_it_may_hold_a_password(file: Path) -> None:
    file.write_text('[quartzpy]\nurll = "postgresql+psycopg://app:geheim@db/app"\n')
    message = refusal(settings_from_toml, file)
    assert message == f"{file}: urll is not a setting; did you mean url?"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent.toml"
    assert refusal(settings_from_toml, path) == f"{path}: the file does not exist"
    assert refusal(load_settings, path, {}) == f"{path}: the file does not exist"
    assert refusal(load_settings, None, {"QUARTZPY_CONFIG": str(path)}) == f"{path}: the file does not exist"


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    assert refusal(settings_from_toml, tmp_path).startswith(f"{tmp_path} cannot be read: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[quartzpy\nworkers = 4\n", "line 1"),
        (b"[quartzpy]\nworkers = 4\nworkers = 5\n", "line 3"),
        (b"[quartzpy]\nname = \xff\n", "not UTF-8 (invalid start byte at byte 18)"),
        (b"[quartzpy]\nworkers = " + b"1" * 5_000 + b"\n", "digits"),
    ],
)
def test_broken_toml_says_where(file: Path, content: bytes, message: str) -> None:
    file.write_bytes(content)
    found = refusal(settings_from_toml, file)
    assert found.startswith(f"{file} is not valid TOML: ")
    assert message in found


@pytest.mark.parametrize(
    ("name", "content", "table"),
    [
        ("settings.toml", "workers = 4\n", "[quartzpy]"),
        ("settings.toml", "quartzpy = 4\n", "[quartzpy]"),
        ("settings.toml", "[tool.quartzpy]\nworkers = 4\n", "[quartzpy]"),
        ("pyproject.toml", "[quartzpy]\nworkers = 4\n", "[tool.quartzpy]"),
        ("pyproject.toml", "tool = 4\n", "[tool.quartzpy]"),
    ],
)
def test_a_file_without_the_table_is_refused(tmp_path: Path, name: str, content: str, table: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    only = "" if name == "pyproject.toml" else "; only a file named quartzpy.toml needs none"
    assert refusal(settings_from_toml, path) == f"{path} has no table {table}{only}"


@pytest.mark.parametrize("content", ["workers = 4\n", "[quartzpy]\nworkers = 4\n"])
def test_quartzpy_toml_needs_no_table(tmp_path: Path, content: str) -> None:
    path = tmp_path / "quartzpy.toml"
    path.write_text(content)
    assert settings_from_toml(path) == {"workers": 4}
    path.write_text("wokers = 4\n")
    assert refusal(settings_from_toml, path) == f"{path}: wokers is not a setting; did you mean workers?"
    path.write_text("[metrics]\nport = 9464\n")
    assert settings_from_toml(path) == {"metrics_port": 9464}
    path.write_text("[metrics]\nworkers = 4\n")
    assert refusal(settings_from_toml, path).endswith("write workers = ... before the first table")
    path.write_text("[quartzpy]\nworkers = 4\n\n[metrics]\nport = 9464\n")
    message = f"{path}: [metrics] is not read beside [quartzpy]; write [quartzpy.metrics]"
    assert refusal(settings_from_toml, path) == message


def test_every_setting_has_one_place_in_a_file(file: Path) -> None:
    places = [setting.dotted for setting in SETTINGS.values()]
    assert len(set(places)) == len(places) == len(fields(SchedulerConfig)) + len(DATABASE)
    assert len([place for place in places if "." not in place]) == 13
    assert set(TABLES) & set(SETTINGS) == set()


def test_the_nearest_file_is_found(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "a"):
        (folder / "quartzpy.toml").write_text("")
    assert find_config_file(below) == tmp_path / "a" / "quartzpy.toml"
    assert find_config_file(tmp_path) == tmp_path / "quartzpy.toml"


def test_a_file_of_another_user_is_not_used_unless_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "quartzpy.toml"
    path.write_text("workers = 4\n")
    owner = path.stat().st_uid
    if owner == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert "belongs to another user" in refusal(find_config_file, tmp_path)
    assert settings_from_toml(path) == {"workers": 4}


def test_keywords_override_the_environment_the_file_and_the_defaults(file: Path) -> None:
    file.write_text('[quartzpy]\nworkers = 1\nurl = "memory://"\ntuning.batch_size = 1\ndatabase.pool_size = 6\n')
    environ = {"QUARTZPY_WORKERS": "2", "QUARTZPY_BATCH_SIZE": "2"}
    settings = load_settings(file, environ, workers=3)
    assert settings == {"workers": 3, "batch_size": 2, "pool_size": 6, "url": "memory://"}
    assert load_settings(None, {}) == {}


def test_none_and_the_empty_list_of_a_source_override_a_weaker_source(file: Path) -> None:
    file.write_text('[quartzpy]\nhistory_retention = "1d"\njob_modules = ["a"]\nschema = "jobs"\n')
    environ = {"QUARTZPY_HISTORY_RETENTION": "none", "QUARTZPY_JOB_MODULES": "none"}
    assert load_settings(file, environ, schema=None) == {"history_retention": None, "job_modules": (), "schema": None}


def test_the_environment_names_the_file_unless_a_path_is_given(tmp_path: Path) -> None:
    named, given = tmp_path / "named.toml", tmp_path / "given.toml"
    named.write_text("[quartzpy]\nworkers = 1\n")
    given.write_text("[quartzpy.database]\npool_size = 6\n")
    assert load_settings(environ={"QUARTZPY_CONFIG": str(named)}) == {"workers": 1}
    assert load_settings(given, {"QUARTZPY_CONFIG": str(named)}) == {"pool_size": 6}
    assert load_settings(environ={"QUARTZPY_CONFIG": ""}) == {}


def test_a_value_out_of_range_is_refused_with_its_source(file: Path) -> None:
    file.write_text("[quartzpy]\nworkers = 5001\n")
    assert refusal(load_settings, file, {}) == f"workers=5001 must be from 0 to 5000 (workers is from {file})"
    assert refusal(load_settings, file, {"QUARTZPY_WORKERS": "-1"}).endswith("(workers is from QUARTZPY_WORKERS)")
    assert refusal(load_settings, file, {}, workers=-2).endswith("(workers is from a keyword argument)")
    # The wrong one is overruled.
    assert load_settings(file, {"QUARTZPY_WORKERS": "3"}) == {"workers": 3}


def test_a_rule_between_settings_is_refused_with_the_sources_of_both(file: Path) -> None:
    file.write_text('[quartzpy]\ntuning.failure_window = "10s"\nworkers = 3\n')
    message = refusal(load_settings, file, {"QUARTZPY_CHECKIN_INTERVAL": "4s"}, pool_size=6)
    assert message.startswith("failure_window 0:00:10 must be at least checkin_interval x 3 + lock_timeout = 0:00:17")
    assert message.endswith(
        f" (tuning.failure_window is from {file}, checkin_interval is from QUARTZPY_CHECKIN_INTERVAL)"
    )
    # Each source alone may be wrong where all together are right.
    assert load_settings(file, {"QUARTZPY_CHECKIN_INTERVAL": "1s"})["failure_window"] == timedelta(seconds=10)


def test_an_unknown_keyword_is_refused_with_the_nearest_name() -> None:
    message = refusal(load_settings, None, {}, wrokers=3)
    assert message.startswith("wrokers is not a setting; did you mean workers?")


def test_a_scheduler_is_built_from_all_sources(clean_environment: pytest.MonkeyPatch, file: Path) -> None:
    file.write_text('[quartzpy]\nurl = "memory://"\nname = "billing"\nworkers = 1\n')
    clean_environment.setenv("QUARTZPY_WORKERS", "2")
    clean_environment.setenv("QUARTZPY_CONFIG", str(file))
    scheduler = Scheduler.from_config(pool_size=6)
    assert (scheduler.config.name, scheduler.config.workers, scheduler.config.pool_size) == ("billing", 2, 6)
    assert type(scheduler) is Scheduler
    scheduler.shutdown()


@pytest.mark.parametrize("source", ["keyword", "environment", "file"])
def test_the_url_comes_from_any_source(clean_environment: pytest.MonkeyPatch, file: Path, source: str) -> None:
    file.write_text('[quartzpy]\nurl = "memory://"\n' if source == "file" else "[quartzpy]\n")
    if source == "environment":
        clean_environment.setenv("QUARTZPY_URL", "memory://")
    settings = {"url": "memory://"} if source == "keyword" else {}
    Scheduler.from_config(file, **settings).shutdown()


@pytest.mark.usefixtures("clean_environment")
def test_without_a_url_the_three_ways_are_named() -> None:
    message = refusal(Scheduler.from_config)
    for way in ("url=...", "QUARTZPY_URL", "TOML file"):
        assert way in message


def test_explicit_construction_reads_no_environment(clean_environment: pytest.MonkeyPatch) -> None:
    clean_environment.setenv("QUARTZPY_WORKERS", "wrong")
    clean_environment.setenv("QUARTZPY_CONFIG", "/absent.toml")
    scheduler = Scheduler("memory://")
    assert scheduler.config.workers == SchedulerConfig().workers
    scheduler.shutdown()


def test_the_example_of_the_manual_is_read(file: Path) -> None:
    [example] = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "settings.md").read_text(), re.S | re.M)
    file.write_text(example)
    assert load_settings(file, {})["name"] == "billing"
