"""Made-up histories: a small cluster that did everything right, to be broken in one place at a time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from tests.chaos.checker import Limits, Report, check
from tests.chaos.records import SECOND, Records

EPOCH = 1_700_000_000 * SECOND
"""The wall clock when the boot-time clock says zero."""
LIMITS = Limits(window=3.0, recovered_within=6.0, epsilon=2.0)
INSTANTS = range(10, 30)
UNTIL = 40


def iso(second: float) -> str:
    return datetime.fromtimestamp((EPOCH + round(second * SECOND)) / SECOND, UTC).isoformat()


class History:
    """Lines and an end state, with methods to make them."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = [{"event": "clock", "at": 0, "wall": EPOCH}]
        self.end: dict[str, Any] = {
            "checked_at": UNTIL * SECOND,
            "alive": {"n1": True, "n2": True},
            "statuses": {"n1": 0, "n2": 0},
            "counters": {},
            "triggers": [],
            "fired": [],
            "executions": [],
            "misfires": [],
            "fenced": [],
            "effects": [],
        }
        self.fire_id = 0

    def say(self, event: str, second: float, **fields: Any) -> None:
        self.lines.append({"event": event, "at": round(second * SECOND), "node": "n1", "pid": 1, **fields})

    def api(self, op: str, key: str, second: float, answer: str = "ok", **fields: Any) -> None:
        before = round((second - 0.01) * SECOND)
        self.say("api", second, op=op, key=key, before=before, after=round(second * SECOND), answer=answer, **fields)

    def schedule(self, key: str, second: float = 1, start: float = 10, period: float = 1, **flags: Any) -> None:
        spec = {"kind": "interval", "start": iso(start), "period_us": round(period * 1_000_000)}
        told = {"job": key.split(".")[1], "serial": False, "recovers": False, "policy": "exact", **flags}
        self.api("schedule", key, second, spec=spec, **told)

    def once(self, key: str, at: float, second: float = 1, answer: str = "ok", **flags: Any) -> None:
        told = {"job": key.split(".")[1], "serial": False, "recovers": False, "policy": "exact", **flags}
        self.api("schedule", key, second, answer, spec={"kind": "once", "start": iso(at)}, **told)

    def run(
        self, key: str, instant: float, *, at: float | None = None, seconds: float | None = 0.1, **more: Any
    ) -> int:
        """An execution, from its fire to its end; no end where `seconds` is None."""
        self.fire_id += 1
        at = instant + 0.02 if at is None else at
        repeats = more.get("recovering") or more.get("attempt", 1) > 1 or more.get("trigger", key) != key
        fire_id, job = more.get("fire_id", self.fire_id), more.get("job", key.split(".")[1])
        common = {
            "job": job,
            "trigger": more.get("trigger", key),
            "instant": iso(more.get("labelled", instant)),
            "fired": iso(more.get("fired", at)),
            "coalesced_fire_times": [iso(one) for one in more.get("coalesced_fire_times", [instant])],
            "fire_id": fire_id,
            "attempt": more.get("attempt", 1),
            "recovering": more.get("recovering", False),
            "execution_key": f"{key}@{iso(instant if repeats else more.get('labelled', instant))}",
            "node": more.get("node", "n1"),
            "pid": more.get("pid", 1),
        }
        self.say("start", at, **{**common, "seen": more.get("seen")})
        if seconds is not None:
            ended = more.get("ended", "end")
            self.say(ended, at + seconds, **common, **({"wrote": more["wrote"]} if "wrote" in more else {}))
            self.executed(
                key, instant, fire_id, "FAILED" if ended == "fail" else more.get("outcome", "SUCCEEDED"), job=job
            )
        return fire_id

    def executed(self, key: str, instant: float, fire_id: int, outcome: str, **more: Any) -> None:
        self.end["executions"].append(
            {
                "fire_id": fire_id,
                "trigger": key,
                "instant": iso(instant),
                "job": more.get("job", key.split(".")[1]),
                "outcome": outcome,
                "attempt": 1,
                "instance": more.get("node", "n1"),
                "fired": iso(instant),
                "ended": iso(more.get("ended", instant + 1)),
                "error": more.get("error"),
                "log": more.get("log"),
            }
        )

    def fault(self, name: str, node: str, begun: float, healed: float, family: str = "X1", **values: Any) -> None:
        ns = {"begun": round(begun * SECOND), "healed": round(healed * SECOND)}
        self.say("fault", healed, name=name, victim=node, family=family, values=values, **ns)

    def forget(self, **equals: Any) -> None:
        """Take lines out again."""
        self.lines = [line for line in self.lines if any(line.get(k) != v for k, v in equals.items())]

    def report(self, limits: Limits = LIMITS) -> Report:
        return check(Records.of(self.lines, self.end), limits)

    def violated(self, limits: Limits = LIMITS) -> set[str]:
        return {kind for kind, _ in self.report(limits).violations}


def good() -> History:
    """Everything went right: an interval, a serial one, a counter, a one-shot, and a pause at the end."""
    made = History()
    made.schedule("chaos.plain")
    made.schedule("chaos.serial", serial=True)
    made.schedule("chaos.counter", serial=True, counter=True)
    made.once("once.shot", 15)
    for number, instant in enumerate(INSTANTS):
        made.run("chaos.plain", instant)
        made.run("chaos.serial", instant, node="n2")
        made.run("chaos.counter", instant, seen=number, wrote=number + 1)
    made.run("once.shot", 15)
    made.end["counters"] = {"counter": len(INSTANTS)}
    made.api("pause_all", "*", INSTANTS.stop - 0.5)
    return made


def lines_of(made: History, event: str, **equals: Any) -> Iterator[dict[str, Any]]:
    return (line for line in made.lines if line["event"] == event and all(line.get(k) == v for k, v in equals.items()))
