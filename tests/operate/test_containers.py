"""The image, the compose file and the manifests are valid, agree with each other, and run as a user without a name."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import psycopg
import pytest
import yaml
from click.testing import CliRunner

from quartzpy import Scheduler
from quartzpy.cli.main import cli
from quartzpy.errors import SettingsError
from quartzpy.store.postgresql.connection.error_translation import translate
from tests.docs.code_blocks import ROOT, check_command
from tests.ports import free_port
from tests.waiting import wait_until
from tests.worlds.world import PYTHONS
from tools.release import EXTRAS

CONTAINERS = ROOT / "docs" / "operate" / "containers"
OVERLAYS = ROOT / "docs" / "operate" / "kubernetes" / "overlays"
KUBERNETES = [f"1.{minor}" for minor in range(30, 38)]
UNNAMED = 10001


def instructions(text: str) -> list[tuple[str, str]]:
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line and line[0] != "#")]


DOCKERFILE = instructions((CONTAINERS / "Dockerfile").read_text())
COMPOSE = yaml.safe_load((CONTAINERS / "compose.yaml").read_text())


def last(name: str) -> str:
    return [rest for word, rest in DOCKERFILE if word == name][-1]


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


COMMAND: list[str] = json.loads(last("CMD"))
HEALTH: list[str] = json.loads(last("HEALTHCHECK").partition("CMD ")[2])
PORT = option(COMMAND, "--metrics-port")


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def test_the_image_starts_a_node_that_is_reachable_from_outside_and_is_not_root() -> None:
    check_command(COMMAND)
    assert option(COMMAND, "--metrics-host") == "0.0.0.0"
    assert PORT in last("EXPOSE").split()
    assert f"127.0.0.1:{PORT}/healthz" in HEALTH[-1]
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", last("USER")), "a number, which Kubernetes can check"
    images = [rest.split()[0] for word, rest in DOCKERFILE if word == "FROM"]
    assert len(images) == 2, "what builds is not in the image"
    assert [image for image in images if image.partition(":")[2].removesuffix("-slim") not in PYTHONS] == []


def test_what_the_image_copies_and_installs_exists() -> None:
    admitted = {
        line[1:] for line in (CONTAINERS / "Dockerfile.dockerignore").read_text().splitlines() if line[0] == "!"
    }
    copied = [rest.split()[:-1] for word, rest in DOCKERFILE if word == "COPY" and "--from" not in rest]
    names = {name for each in copied for name in each}
    assert names == admitted
    assert [name for name in names if not (ROOT / name).exists()] == []
    [extras] = re.findall(r"'\.\[([a-z,]+)\]'", (CONTAINERS / "Dockerfile").read_text())
    assert set(extras.split(",")) <= set(EXTRAS)
    assert {"binary", "yaml", "dashboard"} <= set(extras.split(",")), "the slim image has no libpq"


def test_the_image_of_your_jobs_is_that_of_the_page() -> None:
    [text] = re.findall(r"^```dockerfile\n(.*?)^```", (CONTAINERS.parent / "containers.md").read_text(), re.S | re.M)
    found = dict(instructions(text))
    check_command(json.loads(found["CMD"]))
    assert option(json.loads(found["CMD"]), "--metrics-port") == PORT
    assert found["USER"] == last("USER")


# --- compose


def test_the_compose_file_is_one() -> None:
    command = ["check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(CONTAINERS / "compose.yaml")]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_services_upgrade_first_may_drain_and_write_nothing() -> None:
    services = COMPOSE["services"]
    ours = {name: service for name, service in services.items() if service["image"] == "quartzpy"}
    assert set(ours) == {"upgrade", "node", "page"}
    for service in ours.values():
        if "command" in service:
            check_command(service["command"])
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "user" not in service, "the image says it"
    assert services["node"]["deploy"]["replicas"] == 2
    assert seconds(services["node"]["stop_grace_period"]) > seconds(option(COMMAND, "--drain-timeout"))
    for name in ("node", "page"):
        assert services[name]["depends_on"]["upgrade"]["condition"] == "service_completed_successfully"
    assert (CONTAINERS / services["upgrade"]["build"]["context"]).resolve() == ROOT
    assert (ROOT / services["upgrade"]["build"]["dockerfile"]).is_file()
    [volume] = services["node"]["volumes"]
    source, target, mode = volume.split(":")
    assert (CONTAINERS / source).is_file()
    assert (target, mode) == (COMMAND[2], "ro")
    assert all(port.startswith("127.0.0.1:") for port in services["page"]["ports"])
    assert "ports" not in services["db"]


# --- Kubernetes


def resources(overlay: str) -> Iterator[dict[str, Any]]:
    done = subprocess.run(
        ["kubectl", "kustomize", OVERLAYS / overlay], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    yield from yaml.safe_load_all(done.stdout)


def files() -> list[Path]:
    return [path for path in OVERLAYS.parent.rglob("*.yaml") if path.name != "kustomization.yaml"]


@pytest.mark.parametrize("version", KUBERNETES)
def test_each_manifest_is_valid(version: str) -> None:
    documents = [document for path in files() for document in yaml.safe_load_all(path.read_text())]
    assert len(documents) == 5
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("overlay", [path.name for path in OVERLAYS.iterdir()])
def test_what_an_overlay_builds_is_valid_and_confined(overlay: str) -> None:
    built = list(resources(overlay))
    for document in built:
        kubernetes_validate.validate(document, KUBERNETES[-1], strict=True)
        if "template" not in document["spec"]:
            continue
        pod = document["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == last("USER")
        assert pod["automountServiceAccountToken"] is False
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            check_command(container["command"])
            assert container["image"] == "shop:1.4"
            assert container["securityContext"] == {
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }
    [budget] = [document["spec"] for document in built if document["kind"] == "PodDisruptionBudget"]
    assert budget["maxUnavailable"] == 1, "with minAvailable, a single node never leaves its machine"
    [nodes] = [
        document["spec"]
        for document in built
        if document["metadata"]["name"] == "shop-nodes" and "replicas" in document["spec"]
    ]
    assert nodes["replicas"] == {"one-node": 1, "three-nodes": 3}[overlay]
    assert nodes["template"]["metadata"]["labels"].items() >= budget["selector"]["matchLabels"].items()
    pages = [document["spec"] for document in built if document["metadata"]["name"] == "shop-page"]
    if overlay == "one-node":
        assert pages == []
        return
    service, page = sorted(pages, key=lambda spec: "template" in spec)
    [container] = page["template"]["spec"]["containers"]
    assert page["template"]["metadata"]["labels"].items() >= service["selector"].items()
    assert service["ports"][0]["targetPort"] == container["ports"][0]["name"]
    assert option(container["command"], "--port") == str(container["ports"][0]["containerPort"])
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert page["template"]["spec"]["terminationGracePeriodSeconds"] > pause


# --- a user without a name, in a file system that is read-only

CLOSED = """
mount --make-rprivate /
for place in /tmp /var/tmp /dev/shm; do mount --bind $place $place; mount -o remount,bind,ro $place; done
mount --bind /dev/null /etc/passwd
mount --bind /dev/null /etc/group
exec "$@"
"""


def in_a_container(dsn: str, *command: str) -> list[str]:
    """The line that runs a command as the image does."""
    variables = {"QUARTZPY_URL": dsn, "PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}
    variables |= COMPOSE["services"]["node"]["environment"] | {"QUARTZPY_URL": dsn}
    settings = [f"{name}={value}" for name, value in variables.items()]
    user = ["setpriv", f"--reuid={UNNAMED}", f"--regid={UNNAMED}", "--clear-groups", "--no-new-privs"]
    return ["unshare", "--mount", "sh", "-ec", CLOSED, "sh", *user, "env", "-i", *settings, *command]


def quartzpy(*words: str) -> list[str]:
    return [sys.executable, "-m", "quartzpy", *words]


def run(line: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, cwd=ROOT / "docs", capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def closed(postgres_dsn: str) -> str:
    """The database, where a process without a name may run and reach it."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("setpriv") is None:
        pytest.skip("only root can start a process as another user, with mounts of its own")
    if run(in_a_container(postgres_dsn, sys.executable, "-c", "import quartzpy")).returncode:
        pytest.skip("other users cannot reach this Python or this checkout, or nobody may mount here")
    if run(in_a_container(postgres_dsn, *quartzpy("db", "check"))).returncode == 3:
        pytest.skip("the socket of this world's server is closed to other users")
    return postgres_dsn


def test_a_node_of_the_image_runs_is_healthy_and_drains(closed: str, tmp_path: Path) -> None:
    port = str(free_port())
    health = in_a_container(closed, sys.executable, *[word.replace(PORT, port) for word in HEALTH[1:]])
    assert run(health).returncode != 0
    words = {COMMAND[2]: str(CONTAINERS / "jobs.yaml"), PORT: port}
    line = in_a_container(closed, *quartzpy(*[words.get(word, word) for word in COMMAND[1:]], "--name", "contained"))
    scheduler = Scheduler(closed, name="contained")
    with (tmp_path / "log").open("w") as log, subprocess.Popen(line, cwd=ROOT / "docs", stdout=log, stderr=log) as node:
        try:
            wait_until(lambda: [each for each in scheduler.executions() if each.outcome == "SUCCEEDED"])
            checked = run(health)
            assert checked.returncode == 0, checked.stderr
        finally:
            node.terminate()
        assert node.wait(60) == 0, (tmp_path / "log").read_text()
    scheduler.shutdown()


def test_commands_run_without_a_name_and_say_what_to_do_where_they_need_one(closed: str) -> None:
    done = run(in_a_container(closed, *quartzpy("jobs", "--name", "contained")))
    assert done.returncode == 0, done.stderr
    unnamed = re.sub(r"//[^@/]*@", "//", closed)
    done = run(in_a_container(unnamed, *quartzpy("jobs", "--name", "contained")))
    assert done.returncode == 2
    assert "name the user, as in postgresql+psycopg://USER@host/database" in done.stderr


@pytest.mark.parametrize("error", [KeyError("getpwuid(): uid not found: 10001"), OSError("No username set")])
def test_the_crontab_of_the_system_asks_whose_lines_are_meant(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_name() -> str:
        raise error

    monkeypatch.setattr("getpass.getuser", no_name)
    done = CliRunner().invoke(cli, ["import", "crontab", "--system", "-"], input="@daily root x\n")
    assert "--user root" in done.output


@pytest.mark.parametrize(
    "text",
    ["could not look up local user ID 10001: No such file or directory", "local user with ID 10001 does not exist"],
)
def test_a_url_without_a_user_is_a_setting_to_change(text: str) -> None:
    assert isinstance(translate(psycopg.OperationalError(f"connection is bad: {text}")), SettingsError)
