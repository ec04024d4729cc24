"""The checker's rules beside targets: recovery, overlap, effects, data, verdicts, and the state at the end."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from quartzpy.cli.commands import UNHEALTHY
from tests.chaos.lives import Deadlines
from tests.chaos.records import SECOND, Run, wall_ns

if TYPE_CHECKING:
    from tests.chaos.checker import Check


def recoveries(check: Check) -> None:
    """Whose execution is cut short by a death runs again where its job asks for it, once for each death."""
    owed = made = 0
    for about, runs in check.runs_about.items():
        life = check.lives.get(about[0])
        again = [run for run in runs if run.recovering]
        made += len(again)
        if life is None:
            continue
        text = _text(about)
        if again and not life.flags.get("recovers"):
            check.report.wrong("recovery_not_owed", f"{text}: its job does not ask for recovery")
            continue
        if not life.flags.get("recovers"):
            continue
        chain = sorted(runs, key=lambda run: run.fire_id)
        for older, newer in pairwise(chain):
            owed += 1
            if check.excused(older.node, older.at, newer.at) is None and about not in check.vandalised:
                check.report.wrong("recovery_not_owed", f"{text}: {older.node} was well, and it ran again")
        last = chain[-1]
        died = check.excused(
            last.node, last.at, last.at + round((check.limits.window + 2 * check.limits.slowness) * SECOND)
        )
        if last.end is None and died is not None and about not in check.vandalised:
            due = Deadlines([died], round(check.limits.epsilon * SECOND), round(check.limits.recovered_within * SECOND))
            deadline = max(due.of(died.begin), check.deadlines.of(last.at))
            if deadline < check.until and not last.lease_lost:
                check.report.wrong("lost_recovery", f"{text}: cut short on {last.node} by {died.what}")
    check.report.figures["recovered"] = {"runs": made, "followed_a_death": owed}


def overlaps(check: Check) -> None:
    """No more executions of a job and key run at a time than its limit, but for what a zombie does before it looks."""
    zombies: list[float] = []
    limits: dict[str, int] = {}
    for life in check.lives.values():
        limit = life.flags.get("limit") or (1 if life.flags.get("serial") else None)
        if limit is not None and "job" in life.flags:
            limits[life.flags["job"]] = limit
    by_slots: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in check.records.runs:
        if run.job in limits:
            by_slots[run.job, _key_of(check, run)].append(run)
    for (job, key), runs in by_slots.items():
        running: list[Run] = []
        for newer in sorted(runs, key=lambda run: run.at):
            running = [older for older in running if older.last_seen > newer.at]
            if len(running) >= limits[job]:
                _above_limit(check, f"{job} of {key}" if key else job, limits[job], running, newer, zombies)
            running.append(newer)
    for line in check.records.named("audit"):
        for job in line["above_limit"]:
            check.report.wrong("fire_overlap", f"{job}: more rows of executions than its limit")
    check.report.figures["limited_runs"] = sum(map(len, by_slots.values()))
    check.report.figures["zombie_overlaps"] = {"count": len(zombies), "max_s": round(max(zombies, default=0.0), 3)}


def _key_of(check: Check, run: Run) -> str:
    """The concurrency key of a run: that of the trigger it is about, also where it is a recovery."""
    life = check.lives.get(run.about[0])
    return "" if life is None else str(life.flags.get("key", ""))


def _above_limit(check: Check, job: str, limit: int, running: list[Run], newer: Run, zombies: list[float]) -> None:
    """A run began while as many as are allowed were under way: whether zombies explain it."""
    alive = [
        older
        for older in running
        if not check.excused(older.node, older.at, newer.at) and older.about not in check.vandalised
    ]
    older = min(alive or running, key=lambda run: run.last_seen)
    seconds = (older.last_seen - newer.at) / SECOND
    if len(alive) < limit:
        zombies.append(seconds)
        return
    check.report.wrong(
        "body_overlap",
        f"{job}, limit {limit}: {older.about[0]} on {older.node} (fire_id {older.fire_id}) ran {seconds:.3f} s into"
        f" {newer.about[0]} on {newer.node} (fire_id {newer.fire_id})",
    )


def orders(check: Check) -> None:
    """What waited for one serial job begins in the order of its instants, where nothing was done to anybody."""
    ordered = {life.flags["job"] for life in check.lives.values() if life.flags.get("ordered") and "job" in life.flags}
    compared = 0
    for job in sorted(ordered):
        runs = [run for run in check.records.runs if run.job == job and not run.recovering and run.attempt == 1]
        for first, second in pairwise(sorted(runs, key=lambda run: (run.fired, run.fire_id))):
            soonest = check.records.boottime(min(first.instant, second.instant))
            if check.is_disturbed(soonest, second.at):
                continue
            compared += 1
            # What was not due yet when the other one was fired could not come first.
            due = check.records.boottime(second.instant) + SECOND // 2
            if second.instant < first.instant and due < check.records.boottime(first.fired):
                check.report.wrong(
                    "wrong_order", f"{_text(first.about)} (fire_id {first.fire_id}) before {_text(second.about)}"
                )
    check.report.figures["ordered_pairs"] = compared


def effects(check: Check) -> None:
    """No fenced effect follows one of a larger fire_id; what is committed with a success has one, and the reverse."""
    last: dict[str, int] = {}
    for row in check.records.end["fenced"]:
        if row["kind"] != "fenced":
            continue
        if row["fire_id"] < last.get(row["job"], 0):
            check.report.wrong("stale_effect", f"{row['job']}: fire_id {row['fire_id']} after {last[row['job']]}")
        last[row["job"]] = max(row["fire_id"], last.get(row["job"], 0))
    committed = Counter(row["fire_id"] for row in check.records.end["fenced"] if row["kind"] == "transaction")
    ended = {row["fire_id"]: row for row in check.records.end["executions"] if row["job"].startswith("transactional")}
    for fire_id, times in committed.items():
        outcome = ended.get(fire_id, {}).get("outcome")
        if outcome != "SUCCEEDED" or times > 1:
            check.report.wrong("half_committed", f"fire_id {fire_id}: {times} effects, and its execution is {outcome}")
    for fire_id, row in ended.items():
        if row["outcome"] == "SUCCEEDED" and fire_id not in committed:
            check.report.wrong("half_committed", f"fire_id {fire_id} SUCCEEDED, and its effect is not there")
    stale = _stale_plain(check)
    check.report.figures["stale_plain_effects"] = stale


def _stale_plain(check: Check) -> int:
    """Effects beside the scheduler's database cannot be fenced by it: counted."""
    last: dict[str, int] = {}
    stale = 0
    for row in check.records.end["effects"]:
        stale += row["fire_id"] < last.get(row["job"], 0)
        last[row["job"]] = max(row["fire_id"], last.get(row["job"], 0))
    return stale


def counters(check: Check) -> None:
    """A persisted counter is a chain: each accepted execution went on where the one accepted before had ended."""
    for job in sorted({str(life.flags.get("job")) for life in check.lives.values() if life.flags.get("counter")}):
        accepted = {
            row["fire_id"]
            for row in check.records.end["executions"]
            if row["job"] == job and row["outcome"] == "SUCCEEDED"
        }
        runs = sorted((run for run in check.records.runs if run.job == job), key=lambda run: run.fire_id)
        reached = 0
        for run in runs:
            if run.fire_id not in accepted:
                continue
            if run.seen != reached:
                check.report.wrong("lost_data", f"{job}: fire_id {run.fire_id} saw {run.seen}, {reached} were accepted")
            reached = run.wrote if run.wrote is not None else reached
        stored = check.records.end["counters"].get(job)
        if stored is not None and stored != reached:
            check.report.wrong("lost_data", f"{job}: {stored} is stored, {reached} were accepted")


def verdicts(check: Check) -> None:
    """Nobody who runs and is connected is declared dead."""
    found = 0
    for line in check.records.named("verdict"):
        for node in line["nodes"]:
            found += 1
            silent = line["at"] - round((check.limits.window + 2 * check.limits.slowness) * SECOND)
            is_excused = check.excused(node, silent, line["at"], after=False) is not None or any(
                one.begin <= silent and one.healed + SECOND >= line["at"] for one in check.slow
            )
            if not (is_excused or _is_former_life(check, node, line["at"])):
                check.report.wrong("false_verdict", f"{node}, by {line['node']}{_under_way(check, line['at'])}")
    check.report.figures["verdicts"] = found


def _is_former_life(check: Check, node: str, at: int) -> bool:
    """Return whether the node's row is still that of a process which has ended: the next one takes long to start."""
    spawns = [line["at"] for line in check.records.named("spawn") if line["name"] == node and line["at"] <= at]
    if len(spawns) < 2:
        return False
    before, now = (_epoch(check, node, instant) for instant in (spawns[-1], at))
    return now is not None and before == now


def _epoch(check: Check, node: str, at: int) -> int | None:
    samples = [dict(line["nodes"]) for line in check.records.named("epochs") if line["at"] <= at]
    return samples[-1].get(node) if samples else None


def _under_way(check: Check, at: int) -> str:
    """What was going on, for the reader of a violation."""
    near = [
        f"{one.family} {one.what} {one.node} {dict(one.values)}"
        for one in check.records.disturbances
        if one.family and one.begin <= at <= one.healed + 8 * SECOND
    ]
    return f" (near: {'; '.join(near)})" if near else " (no fault near)"


def end_state(check: Check) -> None:
    """When all has come to rest nothing runs, is blocked or in error, and everybody lives."""
    end = check.records.end
    for row in end["fired"]:
        about = (row["trigger"], wall_ns(row["instant"]))
        started = [run for run in check.records.runs if run.fire_id == row["fire_id"]]
        what = "its body ended" if started and started[0].end else "its body began" if started else "it never began"
        check.report.wrong("stuck", f"{_text(about)} is held by {row['instance']} (fire_id {row['fire_id']}): {what}")
    for row in end["triggers"]:
        planted = "poison-init" in row["trigger"]
        if row["state"] == "ERROR" and not planted:
            check.report.wrong("error_state", f"{row['trigger']}: {row['error']}"[:300])
        elif row["state"] in ("BLOCKED", "PAUSED_BLOCKED"):
            check.report.wrong("stuck", f"{row['trigger']} is {row['state']}")
    for name, alive in end["alive"].items():
        if not alive:
            check.report.wrong("node_gone", name)
    for name, status in end["statuses"].items():
        if status != 0:
            check.report.wrong("bad_exit", f"{name}: status {status} after SIGTERM")
    for line in check.records.named("deployed"):
        if line["status"] != 0:
            check.report.wrong("bad_exit", f"{line['name']}: status {line['status']} as it made room for a deploy")
    exits = Counter((line["name"], line["status"]) for line in check.records.named("exited"))
    for (name, status), count in sorted(exits.items()):
        # A node may say of itself that only a new process helps: it is started again, and that is counted.
        if status != UNHEALTHY:
            check.report.wrong("node_exit", f"{name} ended by itself {count} times with status {status}")
    check.report.figures["gave_up"] = sum(count for (_, status), count in exits.items() if status == UNHEALTHY)


def audits(check: Check) -> None:
    """What the audit finds is settled within R of the last disturbance."""
    since: dict[tuple[str, str], int] = {}
    told: set[tuple[str, str]] = set()
    calm = round((check.limits.recovered_within + check.limits.epsilon) * SECOND)
    spans = [(one.begin, one.healed) for one in check.records.disturbances]
    for line in check.records.named("audit"):
        present = {(name, row) for name, rows in line["found"].items() for row in rows}
        since = {one: since.get(one, line["at"]) for one in present}
        for one, first in since.items():
            begin = max([first, *(healed for began, healed in spans if began <= line["at"] and healed >= first)])
            if line["at"] - begin > calm and one not in told and not _is_excused(check, *one, line["at"] - calm):
                told.add(one)
                check.report.wrong("stuck", f"audit {one[0]}: {one[1]} for {(line['at'] - first) / SECOND:.1f} s")


def _is_excused(check: Check, name: str, row: str, settled_since: int) -> bool:
    if name == "endless_fire":
        return _waited_for_its_process(check, int(row.partition(" ")[0]), settled_since)
    # Somebody's own transaction, or a backlog of its own, explains what is overdue.
    life = check.lives.get(row.split("@")[0])
    if life is not None and life.flags.get("rated") and name == "blocked_by_nobody":
        # It works off a backlog at its rate, and is seen between two runs each time.
        return any(run.at > settled_since for run in check.first_runs[life.key])
    return life is not None and life.policy == "merge"


def _waited_for_its_process(check: Check, fire_id: int, at: int) -> bool:
    """Whether a child process was still being started then, which takes as long as the start of a node.

    What it executes has as long as everything else from there.

    One that never begins is not excused: it has no run, and the end finds it.
    """
    nodes = {line["child"] for line in check.records.named("spawn")}
    return any(run.fire_id == fire_id and run.at > at and run.pid not in nodes for run in check.records.runs)


def failures(check: Check) -> None:
    """What fails was to fail, or met a fault."""
    planned = {run.fire_id for run in check.records.runs if run.failed}
    poison = {life.flags["job"] for life in check.lives.values() if life.flags.get("poison")}
    for row in check.records.end["executions"]:
        if row["outcome"] != "FAILED" or row["fire_id"] in planned or row["job"] in poison:
            continue
        begin, end = (check.records.boottime(wall_ns(row[name])) for name in ("fired", "ended"))
        met = any(
            one.begin <= end and one.healed + round(check.limits.recovered_within * SECOND) >= begin
            for one in check.records.disturbances
        )
        # What it failed of in the end. A statement that is prepared no more is sent anew: that may meet a fault.
        last = (row["error"] or "").rpartition("Traceback (most recent call last):")[2]
        error = last.strip().splitlines()[-1:] or [""]
        if not met or "26000" in last or "does not exist" in last:
            check.report.wrong("unplanned_failure", f"{row['job']} (fire_id {row['fire_id']}): {error[0][:200]}")


def rates(check: Check) -> None:
    """The fires of a job with a limit of one a second are a second apart, less what a step may take.

    Two steps read the clock and decide under the same lock. If the clock of the database steps, it says nothing.
    """
    if any(one.what == "database_clock" for one in check.records.disturbances):
        return
    limited = {life.flags["job"] for life in check.lives.values() if life.flags.get("rated")}
    fired: dict[str, list[int]] = defaultdict(list)
    for row in check.records.end["executions"]:
        if row["job"] in limited:
            fired[row["job"]].append(wall_ns(row["fired"]))
    for job, instants in fired.items():
        for older, newer in pairwise(sorted(instants)):
            if newer - older < SECOND // 2:
                check.report.wrong("rate_exceeded", f"{job}: two fires within {(newer - older) / SECOND:.3f} s")
    check.report.figures["rate_limited_fires"] = sum(map(len, fired.values()))


def logs(check: Check) -> None:
    """An execution that succeeded has captured its own line, and no line of another."""
    logging = {life.flags["job"] for life in check.lives.values() if life.flags.get("logs")}
    keys = {run.fire_id: run.execution_key for run in check.records.runs if run.job in logging}
    captured = 0
    for row in check.records.end["executions"]:
        if row["job"] not in logging or row["outcome"] != "SUCCEEDED":
            continue
        captured += 1
        lines = (row["log"] or "").splitlines()
        if len(lines) != 1 or not lines[0].endswith(f"executing {keys.get(row['fire_id'])}"):
            check.report.wrong("wrong_log", f"{row['job']} (fire_id {row['fire_id']}) captured {row['log']!r}"[:300])
    check.report.figures["captured_logs"] = captured


def tickets(check: Check) -> None:
    """A fire runs once, whatever its engine repeats: another attempt or a recovery is another fire."""
    on_engines = {
        life.flags["job"] for life in check.lives.values() if life.flags.get("engine") and "job" in life.flags
    }
    runs = [run for run in check.records.runs if run.job in on_engines]
    for fire_id, times in Counter(run.fire_id for run in runs).items():
        if times > 1:
            check.report.wrong("two_tickets", f"fire_id {fire_id} ran {times} times")
    check.report.figures["worker_signals"] = dict(
        Counter(line["signal"] for line in check.records.named("worker_signal"))
    )
    check.report.figures["engine_runs"] = dict(Counter(run.job for run in runs))


def figures(check: Check) -> None:
    """The rest of the table."""
    from tests.chaos.checker import percentiles

    report, records = check.report, check.records
    report.figures["faults"] = dict(Counter(one.family for one in records.disturbances if one.family))
    report.figures["runs"] = len(records.runs)
    report.figures["outcomes"] = dict(Counter(row["outcome"] for row in records.end["executions"]))
    report.figures["handed_back"] = report.figures["outcomes"].get("SNOOZED", 0)
    settled = _settled_times(check)
    report.figures["settled_after_death"] = {**percentiles(settled), "bound": check.limits.recovered_within}
    answers = Counter(f"{line['op']} {line['answer']}" for line in records.named("api"))
    report.figures["answers"] = dict(sorted(answers.items()))
    samples = records.named("epochs")
    if samples:
        # A server that crashed counts from nothing again.
        counts = [0, *(line["deadlocks"] for line in samples)]
        report.figures["deadlocks"] = sum(new - old if new >= old else new for old, new in pairwise(counts))
        report.figures["connections"] = {
            "first": samples[min(20, len(samples) - 1)]["connections"],
            "max": max(line["connections"] for line in samples),
            "last": samples[-1]["connections"],
        }
    sizes: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for line in records.named("size"):
        sizes[line["pid"]].append(line)
    longest = max(sizes.values(), key=len, default=[])
    if longest:
        # Of the process that lived longest: from its second sample to its last.
        first, last = longest[min(1, len(longest) - 1)], longest[-1]
        report.figures["size_of_a_node"] = {
            name: f"{first[name]} -> {last[name]}" for name in ("rss_kb", "threads", "files")
        }
    stalls = [one for one in records.disturbances if one.what in ("stall", "machine_stall")]
    report.figures["machine_stalls"] = len(stalls)
    slow = [(one.healed - one.begin) / SECOND for one in check.slow]
    report.figures["machine_slow"] = {"spans": len(slow), "seconds": round(sum(slow), 1)}
    report.figures["lost_pipelines"] = records.end.get("lost_pipelines", {})
    report.figures["outages"] = records.end.get("outages", {})
    report.figures["pipelines"] = records.end.get("pipelines", {})


def _settled_times(check: Check) -> list[float]:
    """How long after a death its epoch held nothing any more."""
    samples = check.records.named("epochs")
    found = []
    for one in check.records.disturbances:
        if one.what not in ("kill", "kill_in_pipeline", "restart_at_once"):
            continue
        before = [line for line in samples if line["at"] < one.begin]
        epochs = [epoch for name, epoch in before[-1]["nodes"] if name == one.node] if before else []
        for line in samples:
            if epochs and line["at"] > one.begin and epochs[0] not in [*line["held"], *(e for _, e in line["nodes"])]:
                found.append((line["at"] - one.begin) / SECOND)
                break
    return found


def _text(about: tuple[str, int]) -> str:
    from tests.chaos.checker import about_text

    return about_text(about)


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1, default=str)
