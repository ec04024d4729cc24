"""The unit, the manifests, the commands and the SQL of `docs/operate` are right."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from quartzpy import Scheduler
from tests.database import Server, connect_to
from tests.docs.code_blocks import ROOT, check_command

OPERATE = ROOT / "docs" / "operate"
KUBERNETES = OPERATE / "kubernetes"
PAGES = sorted(OPERATE.glob("*.md"))
PROBES = {"startupProbe": "/readyz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^[ ]*```{language}\n(.*?)^[ ]*```", page.read_text(), re.S | re.M)


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def test_the_systemd_unit_starts_a_node_and_leaves_it_time_to_drain() -> None:
    [text] = blocks(OPERATE / "systemd.md", "ini")
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text)
    command = shlex.split(unit["Service"]["ExecStart"].replace("%i", "1"))
    check_command(command)
    assert int(unit["Service"]["TimeoutStopSec"]) > seconds(option(command, "--drain-timeout"))


# --- Kubernetes


def manifests(*names: str) -> list[dict[str, Any]]:
    return [document for name in names for document in yaml.safe_load_all((KUBERNETES / "base" / name).read_text())]


def containers(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    pod = manifest["spec"]["template"]["spec"]
    return [*pod.get("initContainers", ()), *pod["containers"]]


def test_the_manifests_upgrade_first_and_start_nodes_that_may_drain() -> None:
    job, deployment, budget = manifests("upgrade.yaml", "nodes.yaml")
    for manifest in (job, deployment):
        for container in containers(manifest):
            check_command(container["command"])
    assert containers(job)[0]["command"][1:] == ["db", "upgrade"]
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    wait, node = containers(deployment)
    assert wait["command"][1:3] == ["db", "wait"], "a node does not start before the tables are upgraded"
    pod = deployment["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > seconds(option(node["command"], "--drain-timeout"))
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == budget["spec"]["selector"]["matchLabels"] == labels
    assert deployment["spec"]["replicas"] > budget["spec"]["maxUnavailable"]


def test_the_probes_ask_what_the_node_serves() -> None:
    [deployment] = [one for one in manifests("nodes.yaml") if one["kind"] == "Deployment"]
    node = containers(deployment)[-1]
    [port] = node["ports"]
    assert str(port["containerPort"]) == option(node["command"], "--metrics-port")
    assert option(node["command"], "--metrics-host") == "0.0.0.0"
    for probe, path in PROBES.items():
        assert node[probe]["httpGet"] == {"path": path, "port": port["name"]}
    liveness = node["livenessProbe"]
    # A thread that ends is restarted within seconds, and a node that stalls for less than its failure window recovers.
    assert liveness["periodSeconds"] * liveness["failureThreshold"] >= 30
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])


def test_the_kustomizations_name_files_and_resources_that_exist() -> None:
    names = {one["metadata"]["name"] for one in manifests("upgrade.yaml", "nodes.yaml")}
    for path in KUBERNETES.rglob("kustomization.yaml"):
        found = yaml.safe_load(path.read_text())
        for resource in found["resources"]:
            target = path.parent / resource
            assert target.is_file() or (target / "kustomization.yaml").is_file()
        assert {one["name"] for one in found.get("replicas", ())} <= names
        assert {one["target"]["name"] for one in found.get("patches", ())} <= names
        assert {one["name"] for one in found["images"]} == {"shop"}


# --- Prometheus


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_alerts_begin_and_end_when_they_should() -> None:
    """Their syntax and their metrics are checked without promtool, by `tests/metrics/test_dashboards.py`."""
    cases = Path(__file__).with_name("alerts_test.yml")
    done = subprocess.run(["promtool", "test", "rules", cases], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# --- pages


@pytest.fixture(scope="module")
def database(postgres_server: Server) -> Iterator[psycopg.Connection[Any]]:
    with postgres_server.temporary("quartzpy_operate", postgres_server.tables) as dsn, connect_to(dsn) as connection:
        yield connection


def queries() -> list[tuple[str, str]]:
    of_blocks = [(page.name, text) for page in PAGES for text in blocks(page, "sql")]
    runbook = (OPERATE / "runbook.md").read_text()
    inline = [
        ("runbook.md", text)
        for text in re.findall(r'psql -c "([^"]+)"|`(SELECT [^`]+)`', runbook)
        for text in text
        if text
    ]
    return [pair for pair in of_blocks + inline if "CREATE ROLE" not in pair[1]]


@pytest.mark.parametrize(("page", "query"), queries(), ids=lambda value: "" if " " in value else value)
def test_each_statement_of_a_page_runs(database: psycopg.Connection[Any], page: str, query: str) -> None:
    for statement in query.split(";"):
        if statement.strip():
            database.execute(statement.encode())


def test_the_pages_have_statements_and_commands() -> None:
    """Otherwise the tests that run them would check nothing."""
    assert len(queries()) >= 4
    assert len(commands()) > 30


def commands() -> list[str]:
    named = r"`(quartzpy [a-z][^`@]*)`"
    of_lines = [
        line
        for page in PAGES
        for text in blocks(page, "bash")
        for line in text.splitlines()
        if line.startswith("quartzpy ")
    ]
    return sorted({*of_lines, *(found for page in PAGES for found in re.findall(named, page.read_text()))})


@pytest.mark.parametrize("line", commands())
def test_each_command_of_a_page_exists(line: str) -> None:
    check_command(shlex.split(line, comments=True))


def test_methods_that_the_pages_name_exist() -> None:
    found = {name for page in PAGES for name in re.findall(r"`scheduler\.(\w+)", page.read_text())}
    assert found
    assert not {name for name in found if not hasattr(Scheduler, name)}
