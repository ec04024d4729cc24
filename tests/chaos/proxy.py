"""A network that knows the PostgreSQL protocol: it sees round trips, and can lose exactly one of them at a chosen
point.

One process, one listening port for each node. A *round trip* is what a client sends up to Sync: our steps travel as
one. What a connection is for (work, control, jobs, listen) is read off the `application_name` of its startup message,
so each role of a node can be disturbed alone. The conductor speaks JSON lines with it on a control port:

    {"do": "gate", "node": "n1", "roles": ["control"], "up": false, "down": false}    black hole, or one way
    {"do": "latency", "node": "n1", "seconds": 0.3}
    {"do": "cut", "node": "n1"}                                                       reset what is open
    {"do": "heal", "node": "n1"}
    {"do": "lose", "node": "n1", "kind": "acquire", "at": "committed", "times": 1}       arms a loss; answers its number
    {"do": "lead", "port": 5433}                                                      new connections go there
    {"do": "hits"} {"do": "disarm"} {"do": "ports", "node": "n1"} {"do": "stats"} {"do": "connects"} {"do": "lost"}

Where a round trip is lost (`at`): "before" it reaches the server; once it is "sent", while the server works; when it is
"committed" and only the answer is missing; "late", held until the client has given up and delivered afterwards;
"half", delivered up to its COMMIT, so that the server holds the locks and waits.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import struct
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.pipelines import Pipeline, PipelineReader, changed_nothing

_CHUNK = 65_536
_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
_FLUSH = b"H\x00\x00\x00\x04"
_RESET = struct.pack("ii", 1, 0)
_SETTLE_SECONDS = 15.0

ROLES = ("work", "control", "jobs", "listen", "cancel", "other")
POINTS = ("before", "sent", "committed", "late", "half")


@dataclass
class Loss:
    """An armed loss: the next round trips of this kind meet it."""

    number: int
    node: str
    kind: str
    at: str
    role: str | None
    left: int
    delay: float
    hits: list[int] = field(default_factory=list)

    def fits(self, connection: Connection, pipeline: Pipeline) -> bool:
        if self.left <= 0 or connection.node.name != self.node or self.role not in (None, connection.role):
            return False
        # Only what decides: an answer that is missing before the COMMIT is no doubt about anything.
        return (
            pipeline.commits and bool(pipeline.commit_at) and (self.kind == "any" or self.kind in pipeline.transaction)
        )


class Gates:
    """Whether bytes of a role pass, each way."""

    def __init__(self) -> None:
        self.up, self.down = asyncio.Event(), asyncio.Event()
        self.latency = 0.0
        self.open()

    def open(self) -> None:
        self.up.set()
        self.down.set()
        self.latency = 0.0


@dataclass
class NodeLink:
    """The port of a node."""

    name: str
    port: int = 0
    gates: dict[str, Gates] = field(default_factory=lambda: {role: Gates() for role in ROLES})
    connections: set[Connection] = field(default_factory=set)


class Connection:
    """One client's connection, and its own to the server."""

    def __init__(self, proxy: Proxy, node: NodeLink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.proxy, self.node = proxy, node
        self.reader, self.writer = reader, writer
        self.role = "other"
        self.server_port = 0
        self._swallow = False
        self._ready = asyncio.Event()
        self._gone = asyncio.Event()
        self._answer = bytearray()
        self._tags: list[str] = []
        self._to_server: asyncio.StreamWriter | None = None

    async def run(self) -> None:
        pump: asyncio.Task[None] | None = None
        try:
            startup = await self._startup()
            if startup is None:
                return
            await self._gates.up.wait()
            from_server, self._to_server = await asyncio.open_connection(*self.proxy.upstream)
            self.server_port = self._to_server.get_extra_info("sockname")[1]
            self._to_server.write(startup)
            pump = asyncio.create_task(self._down(from_server))
            await self._up()
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            self.node.connections.discard(self)
            if pump is not None:
                pump.cancel()
            for one in (self.writer, self._to_server):
                if one is not None:
                    with contextlib.suppress(OSError):
                        one.close()

    @property
    def _gates(self) -> Gates:
        return self.node.gates[self.role]

    async def _startup(self) -> bytes | None:
        while True:
            head = await self.reader.readexactly(8)
            length, code = struct.unpack(">ii", head)
            if code in (_SSL, _GSS):
                self.writer.write(b"N")
                continue
            body = await self.reader.readexactly(length - 8)
            fields = body.split(b"\0")
            named = dict(zip(fields[::2], fields[1::2], strict=False))
            application = named.get(b"application_name", b"").decode(errors="replace")
            role = "cancel" if code == _CANCEL else application.rpartition(":")[2]
            self.role = role if role in ROLES else "other"
            return head + body

    def reset(self) -> None:
        """Break the client's side, as a network that breaks."""
        for one in (self.writer, self._to_server):
            if one is not None and one is not self._to_server:
                with contextlib.suppress(OSError, AttributeError):
                    one.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                one.transport.abort()

    def give_up(self) -> None:
        """Let go of what is held back: half a round trip is never completed."""
        self._gone.set()

    async def _up(self) -> None:
        pipelines = PipelineReader()
        while data := await self.reader.read(_CHUNK):
            for pipeline in pipelines.feed(data):
                self.proxy.stats[self.node.name].update(pipeline.kinds)
                if "check_in" in pipeline.kinds:
                    # Whatever the connection is called, it is the one that keeps its node alive.
                    self.role = "control"
                await self._gates.up.wait()
                if self._gates.latency:
                    await asyncio.sleep(self._gates.latency)
                    await self._gates.up.wait()
                loss = next((one for one in self.proxy.losses if one.fits(self, pipeline)), None)
                if loss is None:
                    await self._send(pipeline.data)
                else:
                    loss.left -= 1
                    loss.hits.append(boottime_ns())
                    if await self._lose(pipeline, loss):
                        return
                    loss.left += 1
                    loss.hits.pop()

    async def _send(self, data: bytes) -> None:
        assert self._to_server is not None
        self._to_server.write(data)
        await self._to_server.drain()

    async def _lose(self, pipeline: Pipeline, loss: Loss) -> bool:
        """Lose a round trip; whether it was lost: one that changed nothing is answered after all."""
        self._swallow = True
        if loss.at == "before":
            self.reset()
            return True
        if loss.at in ("late", "half"):
            if loss.at == "half":
                assert pipeline.commit_at is not None
                await self._send(b"".join(pipeline.messages[: pipeline.commit_at]) + _FLUSH)
            # Until the client has given up, and for a while after it.
            with contextlib.suppress(OSError):
                while await self.reader.read(_CHUNK):
                    pass
            # The network comes back at the latest with the end of the fault, and the server learns of it.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), loss.delay)
            if loss.at == "half":
                return True
        self._ready.clear()
        self._answer.clear()
        self._tags.clear()
        await self._send(pipeline.data)
        if loss.at == "sent":
            self.reset()
        # A server that finds the connection broken before it has read the round trip would not run it.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ready.wait(), _SETTLE_SECONDS)
        if loss.at == "committed" and changed_nothing(pipeline, self._tags):
            self._swallow = False
            self.writer.write(bytes(self._answer))
            await self.writer.drain()
            return False
        self.reset()
        return True

    async def _down(self, reader: asyncio.StreamReader) -> None:
        buffer = bytearray()
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self._swallow:
                    buffer += data
                    self._answer += data
                    self._look_for_ready(buffer)
                    continue
                await self._gates.down.wait()
                if not self._swallow:
                    self.writer.write(data)
                    await self.writer.drain()
        self._ready.set()
        if not self._swallow:
            await self._gates.down.wait()
            with contextlib.suppress(OSError):
                self.writer.close()

    def _look_for_ready(self, buffer: bytearray) -> None:
        while len(buffer) >= 5:
            length = int.from_bytes(buffer[1:5], "big") + 1
            if len(buffer) < length:
                return
            if buffer[:1] == b"C":
                self._tags.append(bytes(buffer[5 : length - 1]).decode(errors="replace"))
            elif buffer[:1] == b"Z":
                self._ready.set()
            del buffer[:length]


class Proxy:
    """All links, and what is done to them."""

    def __init__(self, host: str, port: int, nodes: list[str]) -> None:
        self.upstream = (host, port)
        self.nodes = {name: NodeLink(name) for name in nodes}
        self.losses: list[Loss] = []
        self.stats: dict[str, Counter[str]] = {name: Counter() for name in nodes}
        self.connects: Counter[str] = Counter()

    async def start(self, sockets: Path | None = None) -> None:
        """Listen on loopback, or on Unix sockets in a directory, as libpq looks for them."""
        for number, node in enumerate(self.nodes.values(), start=1):
            if sockets is None:
                server = await asyncio.start_server(self._accepted(node), "127.0.0.1", 0)
                node.port = server.sockets[0].getsockname()[1]
            else:
                node.port = number
                await asyncio.start_unix_server(self._accepted(node), sockets / f".s.PGSQL.{number}")

    def _accepted(self, node: NodeLink) -> Any:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connects[node.name] += 1
            connection = Connection(self, node, reader, writer)
            node.connections.add(connection)
            await connection.run()

        return accept

    def obey(self, told: dict[str, Any]) -> Any:
        """Carry out one command of the conductor; what it answers."""
        do = told.pop("do")
        node = self.nodes[told.pop("node")] if "node" in told else None
        roles = told.pop("roles", None)
        if do == "lose":
            assert node is not None
            assert told["at"] in POINTS
            values = {"role": None, "times": 1, "delay": 1.0, **told}
            loss = Loss(
                len(self.losses),
                node.name,
                values["kind"],
                values["at"],
                values["role"],
                values["times"],
                values["delay"],
            )
            self.losses.append(loss)
            return loss.number
        if do == "lead":
            self.upstream = (self.upstream[0], told["port"])
            return True
        if do == "disarm":
            for loss in self.losses:
                loss.left = 0
            return True
        if do == "hits":
            return {loss.number: loss.hits for loss in self.losses}
        if do == "lost":
            lost: Counter[str] = Counter()
            for loss in self.losses:
                lost[f"{loss.kind} {loss.at}"] += len(loss.hits)
            return lost
        if do == "stats":
            return self.stats
        if do == "connects":
            return self.connects
        assert node is not None
        if do == "ports":
            return [one.server_port for one in node.connections if roles is None or one.role in roles]
        if do == "cut":
            for one in list(node.connections):
                if roles is None or one.role in roles:
                    one.reset()
                    one.give_up()
            return True
        for gate in (node.gates[role] for role in roles or ROLES):
            if do == "heal":
                gate.open()
            elif do == "latency":
                gate.latency = told["seconds"]
            elif do == "gate":
                for way, event in (("up", gate.up), ("down", gate.down)):
                    event.set() if told.get(way, False) else event.clear()
        return True

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            try:
                answer = {"ok": self.obey(json.loads(line))}
            except (KeyError, AssertionError, TypeError, ValueError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()


def boottime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


async def _main(arguments: argparse.Namespace) -> None:
    proxy = Proxy(arguments.host, arguments.port, arguments.nodes.split(","))
    await proxy.start(arguments.sockets)
    control = await asyncio.start_server(proxy.control, "127.0.0.1", 0)
    ports = {name: node.port for name, node in proxy.nodes.items()}
    print(json.dumps({"control": control.sockets[0].getsockname()[1], "nodes": ports}), flush=True)
    # It ends with whoever started it.
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, _wait_for_end_of_input)


def _wait_for_end_of_input() -> None:
    import sys

    sys.stdin.read()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--nodes", required=True)
    parser.add_argument("--sockets", type=Path)
    asyncio.run(_main(parser.parse_args()))
