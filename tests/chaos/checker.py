"""The checker: from the records of a run to its figures and its violations. Pure, and itself checked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.chaos.faults import DEADLY, ZOMBIES
from tests.chaos.lives import MARGIN, Deadlines, Life, Target, lives, targets
from tests.chaos.records import SECOND, Disturbance, Records, Run, wall_ns
from tests.chaos.tempo import Limits

RECOVERING, RETRYING, MANUAL = "RECOVERING_JOBS", "RETRYING_JOBS", "MANUAL_TRIGGERS"
EXACT = (
    "lost", "duplicated", "unexpected", "wrong_order", "fire_overlap", "body_overlap", "stale_effect", "lost_data",
    "lost_recovery", "recovery_not_owed", "lost_retry", "fired_while_quiet", "rolled_back_ran", "false_verdict",
    "stuck", "error_state", "not_accounted", "labels_lie", "half_committed", "unplanned_failure", "rate_exceeded",
    "wrong_log", "two_tickets",
)  # fmt: skip
"""What is never excused by a slow machine, but a verdict about a node that it kept from checking in."""


@dataclass
class Report:
    """What a run showed."""

    figures: dict[str, Any] = field(default_factory=dict)
    violations: list[tuple[str, str]] = field(default_factory=list)

    def wrong(self, kind: str, text: str) -> None:
        self.violations.append((kind, text))

    def counts(self) -> dict[str, int]:
        return dict(Counter(kind for kind, _ in self.violations))

    def all_counts(self) -> dict[str, int]:
        """Each of the exact rules, also those that nothing broke."""
        return dict.fromkeys(EXACT, 0) | self.counts()


class Check:
    """One run under the checker."""

    def __init__(self, records: Records, limits: Limits) -> None:
        self.records = records
        self.limits = limits
        self.report = Report()
        self.lives = lives(records)
        self.until = records.end["checked_at"]
        self.deadlines = Deadlines(
            (one for one in records.disturbances if one.what != "twin"),
            round(limits.epsilon * SECOND),
            round(limits.recovered_within * SECOND),
            min((line["before"] for line in records.named("api") if line["op"] == "pause_all"), default=self.until),
        )
        self.slow = [one for one in records.disturbances if one.what == "machine_slow"]
        self.runs_about: dict[tuple[str, int], list[Run]] = defaultdict(list)
        self.first_runs: dict[str, list[Run]] = defaultdict(list)
        for run in records.runs:
            self.runs_about[run.about].append(run)
            # A run that stands for missed instants is about each of them. A misfire fires now, perhaps within the
            # millisecond of an instant that it has missed.
            for instant in run.coalesced_fire_times:
                if not run.recovering and run.attempt == 1 and instant not in (run.instant, run.about[1]):
                    self.runs_about[run.trigger, instant].append(run)
            if not run.recovering and run.attempt == 1:
                self.first_runs[run.about[0]].append(run)
        self.next_times = {row["trigger"]: row for row in records.end["triggers"]}
        self.executions: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
        for row in records.end["executions"]:
            self.executions[row["trigger"], wall_ns(row["instant"])].append(row)
        self.terminated = {row["trigger"]: row for row in records.end["executions"] if row["outcome"] == "TERMINATED"}
        self.missed: set[tuple[str, int]] = {
            (row["trigger"], wall_ns(instant)) for row in records.end["misfires"] for instant in row["missed"]
        }
        self.vandalised = {(line["trigger"], wall_ns(line["instant"])) for line in records.named("vandalised")}

    def all(self) -> Report:
        """Every rule; the report."""
        from tests.chaos import invariants

        self._targets()
        self._strangers()
        invariants.recoveries(self)
        invariants.overlaps(self)
        invariants.orders(self)
        invariants.effects(self)
        invariants.counters(self)
        invariants.verdicts(self)
        invariants.end_state(self)
        invariants.audits(self)
        invariants.failures(self)
        invariants.rates(self)
        invariants.logs(self)
        invariants.tickets(self)
        invariants.figures(self)
        return self.report

    # --- what others need

    def excused(self, node: str, begin: int, end: int, *, after: bool = True) -> Disturbance | None:
        """What was done to a node in this span, or `after` allowing until it is known just before, that lets others
        take over its work.
        """
        for one in self.records.disturbances:
            long = one.healed - one.begin >= self.limits.lease * SECOND
            serious = (
                one.what in DEADLY
                or one.what == "exited"
                or (one.what in ZOMBIES and long and one.what != "latency")
                or (one.what in ("stall", "machine_stall") and one.healed - one.begin >= self.limits.slowness * SECOND)
                or (one.what == "vandalise" and one.values.get("row") in ("state", "fired"))
            )
            if serious and one.touches(node) and one.begin <= end and one.healed + after * self._slack >= begin:
                return one
        return None

    def is_disturbed(self, begin: int, end: int) -> bool:
        """Whether anything was done to anybody in this span, or so shortly before that it had consequences in it."""
        after = round(self.limits.recovered_within * SECOND)
        return any(one.begin <= end and one.healed + after >= begin for one in self.records.disturbances)

    @property
    def _slack(self) -> int:
        return round((self.limits.window + 2 * self.limits.slowness) * SECOND)

    # --- targets and runs

    def _targets(self) -> None:
        figures = Counter[str]()
        lateness: dict[str, list[float]] = {"calm": [], "fault": []}
        for life in self.lives.values():
            expected = targets(self.records, life, self.deadlines, self.until)
            for target in expected:
                self._one(life, target, figures, lateness)
            if life.policy == "exact" and not any(
                run.coalesced_fire_times != [run.instant] for run in self.first_runs[life.key]
            ):
                self._blind(life, expected)
            figures["instants"] += len(expected)
        self.report.figures.update(figures)
        for name, values in lateness.items():
            self.report.figures[f"lateness_{name}"] = percentiles(values)
        self.report.figures["lateness"] = percentiles([late for values in lateness.values() for late in values])

    def _one(self, life: Life, target: Target, figures: Counter[str], lateness: dict[str, list[float]]) -> None:
        about = (target.key, target.instant)
        runs = self.runs_about.get(about, [])
        first = [run for run in runs if not run.recovering and run.attempt == 1]
        if target.required:
            figures["targets"] += 1
        if len(first) > target.most:
            self.report.wrong(
                "duplicated", f"{about_text(about)}: {len(first)} runs, fire_ids {[r.fire_id for r in first]}"
            )
        if first:
            late = (first[0].at - target.at) / SECOND
            calm = target.deadline <= target.at + round(self.limits.epsilon * SECOND)
            lateness["calm" if calm else "fault"].append(late)
            if late < -0.005:
                self.report.wrong("early", f"{about_text(about)}: {late:.3f} s")
            if target.required:
                figures["matched"] += 1
                if first[0].at > target.deadline and life.policy == "exact":
                    over = (first[0].at - target.deadline) / SECOND
                    self._late(f"{about_text(about)}: by {late:.1f} s, {over:.1f} s beyond its deadline")
            self._retries(life, about, runs)
        elif target.required:
            self._not_run(life, target, runs, figures)

    def _not_run(self, life: Life, target: Target, runs: list[Run], figures: Counter[str]) -> None:
        about = (target.key, target.instant)
        if about in self.vandalised:
            return
        ended = self.executions.get(about, [])
        outcomes = [row["outcome"] for row in ended]
        recovered = any(run.recovering for run in runs)
        if recovered:
            figures["recovered_before_start"] += 1
        elif "TERMINATED" in outcomes and not life.flags.get("recovers"):
            figures["terminated_before_start"] += 1
            [row] = [row for row in ended if row["outcome"] == "TERMINATED"][:1]
            if not self._ended_with_its_node(life, row):
                self.report.wrong("lost", f"{about_text(about)}: fired on {row['instance']}, which was well, not begun")
        elif (
            life.flags.get("poison") in ("init", "loop", "process") or life.flags.get("engine")
        ) and "FAILED" in outcomes:
            # It could not be made, or its time was over before its process had begun, or no process was left for it.
            figures["matched"] += 1
        elif (life.policy == "merge" and (about in self.missed or self._is_covered(about))) or (
            about in self.missed and self._may_misfire(target)
        ):
            figures["misfired"] += 1
        elif not self._has_passed(about):
            figures["backlog"] += 1
            if life.policy == "exact":
                self._late(f"{about_text(about)}: its trigger had not come to it when the run ended")
        elif about in self.missed:
            self._late(f"{about_text(about)}: so late that it misfired")
        elif life.policy == "merge":
            self.report.wrong("not_accounted", f"{about_text(about)}: neither run, nor covered, nor missed {outcomes}")
        else:
            self.report.wrong("lost", f"{about_text(about)}: no run; history {outcomes or 'has nothing'}")

    def _may_misfire(self, target: Target) -> bool:
        """Whether the machine was slow, and what it left behind may be later than the misfire threshold."""
        return target.deadline - target.at > round(self.limits.misfires_after * SECOND) and any(
            one.begin <= target.deadline and one.healed >= target.at for one in self.slow
        )

    def _late(self, text: str) -> None:
        # The last phase is no measure if the machine was as slow in it as before.
        if not any(one.begin <= self.deadlines.settled < one.healed for one in self.slow):
            self.report.wrong("late", text)

    def _ended_with_its_node(self, life: Life, row: dict[str, Any]) -> bool:
        """Whether a fire that never began was lost with a node that something ended."""
        slack = life.flags["slack"] if life.flags.get("in_process") else 0
        return self._ended_soon(row["instance"], self.records.boottime(wall_ns(row["fired"])), slack)

    def _ended_soon(self, node: str, fired: int, slack: float) -> bool:
        """Whether something ended a node before it had to have begun what it fired, or recorded what has ended.

        A process takes `slack` longer.
        """
        begins_by = fired + round((5 * self.limits.slowness + slack) * SECOND)
        for one in self.records.disturbances:
            if one.touches(node) and one.what != "lose" and one.begin <= begins_by and one.healed >= fired - SECOND:
                begins_by = max(begins_by, one.healed + round(self.limits.recovered_within * SECOND))
        return self.excused(node, fired, begins_by) is not None

    def _is_covered(self, about: tuple[str, int]) -> bool:
        if not hasattr(self, "_covered"):
            self._covered = {
                (run.trigger, instant) for run in self.records.runs for instant in run.coalesced_fire_times
            }
        return about in self._covered

    def _has_passed(self, about: tuple[str, int]) -> bool:
        """Whether its trigger has moved on beyond this instant."""
        row = self.next_times.get(about[0])
        return row is None or row["next"] is None or wall_ns(row["next"]) > about[1] or row["state"] == "ERROR"

    def _retries(self, life: Life, about: tuple[str, int], runs: list[Run]) -> None:
        fails = life.flags.get("fails", [])
        for attempt in fails:
            made = [run for run in runs if run.attempt == attempt]
            again = [run for run in runs if run.attempt == attempt + 1]
            if len(again) > 1:
                self.report.wrong("duplicated", f"{about_text(about)}: attempt {attempt + 1} ran {len(again)} times")
            if made and made[0].end is not None and not again and self.deadlines.of(made[0].end) < self.until:
                died = self._ended_soon(made[0].node, made[0].at, 0)
                key = f"{RETRYING}.retry_{attempt}_{made[0].fire_id}"
                retry = self.terminated.get(key)
                lost_with_its_node = (
                    retry is not None and not life.flags.get("recovers") and self._ended_with_its_node(life, retry)
                )
                if key in self.next_times:
                    self._late(f"{about_text(about)}: attempt {attempt} failed, and the next had not come yet")
                elif not died and not lost_with_its_node:
                    self.report.wrong("lost_retry", f"{about_text(about)}: attempt {attempt} failed, and no other came")

    def _blind(self, life: Life, expected: Sequence[Target]) -> None:
        """Match starts to windows without looking at what they say they are about."""
        starts = sorted(run.at for run in self.first_runs[life.key])
        without = {
            target.instant
            for target in expected
            if target.required
            and not any(
                not run.recovering and run.attempt == 1 for run in self.runs_about.get((life.key, target.instant), [])
            )
        }
        # A run outside its window is told of by name; blind it is one too few and one too many.
        outside = any(
            not target.at - SECOND // 200 <= run.at <= target.deadline
            for target in expected
            for run in self.runs_about.get((life.key, target.instant), [])
            if not run.recovering and run.attempt == 1
        )
        windows = [(t.at - SECOND // 200, t.deadline, t.required) for t in expected]
        windows += [(t.at - SECOND // 200, t.deadline, False) for t in expected for _ in range(t.most - 1)]
        unmatched, extra = match(windows, starts)
        named_extra = self._named_extra(life, expected)
        # One doubled and another lost by name, and nothing wrong by time: the one ran under the other's label.
        swapped = named_extra > extra and len(without) > unmatched
        if not outside and (unmatched > len(without) or extra > named_extra or swapped):
            self.report.wrong(
                "labels_lie",
                f"{life.key}: blind {unmatched} without a run and {extra} too many, by name {len(without)}",
            )

    def _named_extra(self, life: Life, expected: Sequence[Target]) -> int:
        known = {target.instant: target.most for target in expected}
        counted = Counter(run.about[1] for run in self.first_runs[life.key])
        return sum(max(0, count - known.get(instant, 0)) for instant, count in counted.items())

    def _strangers(self) -> None:
        """Runs that nothing asked for, and fires where a pause or a deletion had been acknowledged."""
        known: dict[str, set[int]] = {
            life.key: {t.instant for t in targets(self.records, life, self.deadlines, self.until)}
            for life in self.lives.values()
        }
        for run in self.records.runs:
            key, instant = run.about
            life = self.lives.get(key)
            if life is None:
                self.report.wrong("unexpected", f"{about_text(run.about)}: a trigger that nobody scheduled")
                continue
            # Execution keys are in whole milliseconds.
            named = run.trigger, run.instant - run.instant % 1_000_000
            if run.trigger in self.lives and run.about != named:
                self.report.wrong("labels_lie", f"{about_text(run.about)}: its execution key is {run.execution_key}")
            if life.never:
                self.report.wrong("rolled_back_ran", about_text(run.about))
                continue
            coalesced_fire_times = set(run.coalesced_fire_times) - {run.instant}
            if instant not in known[key] and not (coalesced_fire_times and coalesced_fire_times <= known[key]):
                self.report.wrong("unexpected", f"{about_text(run.about)}: no such instant, fire_id {run.fire_id}")
            fired = self.records.boottime(run.fired)
            if run.recovering or run.attempt > 1 or self._clock_is_wrong(run):
                continue
            for begin, end in life.quiet:
                if begin + MARGIN < fired < end:
                    self.report.wrong(
                        "fired_while_quiet",
                        f"{about_text(run.about)}: {(fired - begin) / SECOND:.3f} s after the answer",
                    )

    def _clock_is_wrong(self, run: Run) -> bool:
        return any(one.what == "database_clock" for one in self.records.disturbances)


def about_text(about: tuple[str, int]) -> str:
    from datetime import UTC, datetime

    at = datetime.fromtimestamp(about[1] / SECOND, UTC)
    return f"{about[0]}@{at.strftime('%H:%M:%S.%f')[:-3]}"


def match(windows: Sequence[tuple[int, int, bool]], starts: Sequence[int]) -> tuple[int, int]:
    """Give each start a window; the required windows left, and the starts left.

    Each number is the least that is possible by itself. The window that closes first takes a start: for intervals that
    is a largest matching. For the windows left, the required ones go before all others.
    """
    unmatched, _ = _match_in_order(windows, starts)
    # A required window that stays open would else take the start of one that is about to close.
    _, extra = _match_in_order([(begin, deadline, True) for begin, deadline, _ in windows], starts)
    return unmatched, extra


def _match_in_order(windows: Sequence[tuple[int, int, bool]], starts: Iterable[int]) -> tuple[int, int]:
    """Give each start the window that closes first, a required one if there is one."""
    import heapq

    waiting = sorted(windows)
    opened: list[tuple[int, int]] = []
    optional: list[tuple[int, int]] = []
    unmatched = extra = place = 0
    for start in starts:
        while place < len(waiting) and waiting[place][0] <= start:
            begin, deadline, required = waiting[place]
            heapq.heappush(opened if required else optional, (deadline, begin))
            place += 1
        for heap, counts in ((opened, True), (optional, False)):
            while heap and heap[0][0] < start:
                heapq.heappop(heap)
                unmatched += counts
        if opened:
            heapq.heappop(opened)
        elif optional:
            heapq.heappop(optional)
        else:
            extra += 1
    unmatched += len(opened) + sum(required for _, _, required in waiting[place:])
    return unmatched, extra


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """The median, the 99th percentile and the largest, in seconds."""
    if not values:
        return {}
    ordered = sorted(values)
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 3) for name, part in at.items()}


def check(records: Records, limits: Limits) -> Report:
    """Everything that a run's records say."""
    return Check(records, limits).all()


__all__ = ["EXACT", "MANUAL", "RETRYING", "Check", "Limits", "Report", "about_text", "check", "pairwise"]
