"""The command: `python -m benchmarks [SCENARIO ...] [--quick]`, and `python -m benchmarks install [PEER ...]`."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import make_url

from benchmarks import report
from benchmarks.bench import FULL, QUICK, Bench, Scale
from benchmarks.figures import Result
from benchmarks.machine import ROOT, machine
from benchmarks.peers.known import PEERS
from benchmarks.report import Run
from benchmarks.scenarios import (
    alone,
    calm_soak,
    contention,
    cost,
    distance,
    engines,
    fire_times,
    growth,
    latency,
    memory_store,
    misfires,
    not_takeable,
    operations,
    several_nodes,
    size,
    soak,
    throughput,
    transactions,
)
from benchmarks.server import running_server

Scenario = Callable[[Bench], Result]

SCENARIOS: dict[str, Scenario] = {
    "throughput": throughput.run,
    "distance": distance.run,
    "nodes": several_nodes.run,
    "latency": latency.run,
    "size": size.run,
    "alone": alone.run,
    "misfires": misfires.run,
    "not-takeable": not_takeable.run,
    "cost": cost.run,
    "contention": contention.run,
    "transactions": transactions.run,
    "fire-times": fire_times.run,
    "memory-store": memory_store.run,
    "operations": operations.run,
    "engines": engines.run,
    "growth": growth.run,
    "soak": soak.run,
    "calm-soak": calm_soak.run,
}
RESULTS = ROOT / "benchmarks" / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["install"]:
        return install(words[1:])
    options = _parser().parse_args(words)
    scale = QUICK if options.quick else FULL
    if options.rounds is not None:
        scale = replace(scale, rounds=options.rounds, size_rounds=options.rounds)
    if options.operated is not None:
        scale = replace(scale, operated_triggers=options.operated[0], operated_executions=options.operated[1])
    if options.alone_minutes is not None:
        scale = replace(scale, alone_seconds=options.alone_minutes * 60)
    if options.kinds is not None:
        scale = replace(scale, growth_kinds=options.kinds)
    if options.soak_minutes is not None:
        scale = replace(scale, soak_seconds=options.soak_minutes * 60, calm_seconds=options.soak_minutes * 60)
    started = datetime.now(UTC)
    directory = options.out or RESULTS / f"{started:%Y-%m-%d-%H%M}"
    run = measure(
        options.scenarios or list(SCENARIOS),
        scale,
        url=options.url,
        with_peers=not options.no_peers,
        command=command_of(words, options.url),
        started=started,
        directory=directory,
    )
    print(f"\n{directory}/report.md, results.json and the charts are written.")
    return 1 if run.failures else 0


def command_of(words: Sequence[str], url: str | None) -> str:
    """Return the command for the report, without the password of the server's URL."""
    command = shlex.join(["python", "-m", "benchmarks", *words])
    if url is None:
        return command
    return command.replace(url, make_url(url).render_as_string(hide_password=True))


def measure(
    scenarios: Sequence[str],
    scale: Scale,
    *,
    url: str | None,
    with_peers: bool,
    command: str,
    started: datetime,
    directory: Path,
    known: Mapping[str, Scenario] | None = None,
) -> Run:
    """Run scenarios one after the other, print their goals, and write the report after each.

    A scenario that fails does not keep the others from running; its error is part of the report.
    """
    known = SCENARIOS if known is None else known
    missing = {peer.name: peer.missing() for peer in PEERS} if with_peers else {}
    for name, how in missing.items():
        if how is not None:
            print(f"{name} is skipped because it is not installed. To install it: {how}")
    with running_server(url) as server:
        run = Run(
            started=started,
            command=command,
            machine=machine(server.version),
            server_settings=server.settings,
            peers={
                peer.name: peer.settings if missing[peer.name] is None else f"skipped; {missing[peer.name]}"
                for peer in PEERS
                if with_peers
            },
        )
        there = tuple(peer for peer in PEERS if with_peers and missing[peer.name] is None)
        bench = Bench(server, scale, there)
        for name in scenarios:
            print(f"\n{name}", flush=True)
            began = time.monotonic()
            try:
                result = known[name](bench)
            except Exception as error:
                traceback.print_exc()
                run.failures[name] = f"{type(error).__name__}: {error}"
            else:
                result.seconds = time.monotonic() - began
                run.results.append(result)
                _print(result)
            report.write(run, directory)
    return run


def install(names: Sequence[str]) -> int:
    """Install the named peers, or all: environments for those in Python, compiled programs for Quartz."""
    peers = {peer.name: peer for peer in PEERS}
    if unknown := [name for name in names if name not in peers]:
        print(f"{', '.join(unknown)}: not a peer; the peers are {', '.join(peers)}")
        return 2
    failed = False
    for peer in [peers[name] for name in names] or list(PEERS):
        try:
            peer.install()
        except Exception as error:
            failed = True
            print(f"{peer.name}: not installed: {error}")
        else:
            print(f"{peer.name}: installed")
    return int(failed)


def _print(result: Result) -> None:
    for table in result.tables:
        print(f"  {table.title}")
        for row in [table.columns, *table.rows]:
            print("    " + " | ".join(row))
    for note in result.notes:
        print(f"  {note}")
    for goal in result.goals:
        text, target, measured, verdict = report.goal_cells(goal)
        print(f"  {verdict.strip('*'):12} {text}: {measured or '-'} ({target})")
    print(f"  {result.seconds:.0f} s", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measures quartzpy beside its peers. Without names, all scenarios run.",
        epilog="python -m benchmarks install [PEER ...] installs the peers.",
    )
    parser.add_argument("scenarios", nargs="*", type=_scenario, metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--quick", action="store_true", help="small numbers and one round: about two minutes")
    parser.add_argument("--rounds", type=int, help="the number of interleaved repeats")
    parser.add_argument(
        "--alone-minutes", type=float, help="the duration of each situation of `alone` (1 in a full run)"
    )
    parser.add_argument("--soak-minutes", type=float, help="the duration of each soak (20 in a full run)")
    parser.add_argument(
        "--operated",
        type=int,
        nargs=2,
        metavar=("TRIGGERS", "EXECUTIONS"),
        help="the rows beside which operations are measured (1,000,000 and 10,000,000 in a full run)",
    )
    parser.add_argument(
        "--kinds",
        type=_kinds,
        metavar="KIND,...",
        help=f"only these kinds of rows of growth: {', '.join(growth.KINDS)}",
    )
    parser.add_argument("--no-peers", action="store_true", help="measure quartzpy and the ceiling only")
    parser.add_argument("--url", help="the URL of a server to use; without it an embedded one is started")
    parser.add_argument("--out", type=Path, help="the directory of the report (benchmarks/results/<date> by default)")
    return parser


def _scenario(name: str) -> str:
    if name not in SCENARIOS:
        raise argparse.ArgumentTypeError(f"{name!r} is not a scenario; they are {', '.join(SCENARIOS)}")
    return name


def _kinds(names: str) -> tuple[str, ...]:
    if unknown := [name for name in names.split(",") if name not in growth.KINDS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not a kind; they are {', '.join(growth.KINDS)}")
    return tuple(names.split(","))


if __name__ == "__main__":
    sys.exit(main())
