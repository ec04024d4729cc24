"""Installs what the tests of high availability need and this machine lacks: `python -m tests.ha.install`.

Patroni comes from PyPI into an environment of its own; etcd and PostgreSQL are Debian's packages, which need root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv

from tests.ha.parts import environment, find_parts

PATRONI = ("patroni[etcd3]>=4", "psycopg[binary]>=3.2")
PACKAGES = {"etcd": ["etcd-server"], "PostgreSQL's server programs": ["postgresql"]}


def main() -> None:
    _, missing = find_parts()
    if "Patroni" in missing:
        _install_patroni()
    packages = [package for part in missing for package in PACKAGES.get(part, [])]
    if packages:
        _install_packages(packages)
    parts, missing = find_parts()
    if parts is None:
        sys.exit(f"still missing: {', '.join(missing)}")
    print(f"installed: {parts.versions()}")


def _install_patroni() -> None:
    directory = environment()
    directory.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    venv.create(directory, with_pip=True, clear=True)
    pip = [directory / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *PATRONI], check=True)


def _install_packages(packages: list[str]) -> None:
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        sys.exit(f"install these packages, as root, and run this again: {' '.join(packages)}")
    apt = ["apt-get", "--quiet", "--yes", "--no-install-recommends"]
    quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*apt, "update"], check=True, env=quietly)
    subprocess.run([*apt, "install", *packages], check=True, env=quietly)


if __name__ == "__main__":
    main()
