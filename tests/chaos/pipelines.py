"""The PostgreSQL protocol as far as a client speaks it: bytes are cut into round trips, each with its kinds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

# The first pattern that matches a statement decides its kind. `tests/chaos/test_proxy.py` compares them with the
# statements as they are sent.
_MARKS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.S))
    for kind, pattern in (
        ("check_in", r"checkin_count = checkin_count \+ 1"),
        ("recover", r"its node stopped while executing"),
        ("register", r"INSERT INTO \S*scheduler_state"),
        ("leave", r"DELETE FROM \S*scheduler_state"),
        ("misfire", r"INSERT INTO \S*qrtz_misfires"),
        # With the lock, and without it.
        ("complete", r"AS e\(fire_id, started_.*INSERT INTO \S*qrtz_executions"),
        ("acquire", r"'REFILL'"),
        ("refill", r"SET upcoming = r\.upcoming::"),
        ("reconcile", r"held_by_mode = \w+\.new_hold"),
        ("settle", r"fire_id <> ALL"),
        ("schedule", r"INSERT INTO \S*qrtz_triggers"),
        ("pause", r"SET trigger_state = 'PAUSED'.*paused_by = [$%]"),
        ("lock", r"FROM \S*qrtz_locks.*FOR UPDATE"),
    )
)


def kind_of(sql: str) -> str:
    """What a statement of the scheduler is for; "other" where no mark fits."""
    return next((kind for kind, mark in _MARKS if mark.search(sql)), "other")


def _named(text: str) -> str:
    """What a statement begins or ends, else its kind; a BEGIN may say how isolated its transaction is."""
    word = text.split(maxsplit=1)[0].upper() if text else ""
    return word if word in ("BEGIN", "COMMIT", "ROLLBACK") else kind_of(text)


@dataclass
class Pipeline:
    """What a client sent up to a Sync."""

    messages: list[bytes] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    begins: bool = False
    commits: bool = False
    commit_at: int | None = None
    """The message that begins the COMMIT."""
    statements: int = 0
    decides_at: int | None = None
    """The position, among the statements, of the one that fires."""
    transaction: set[str] = field(default_factory=set)
    """The kinds of all round trips of its transaction up to this one."""

    @property
    def data(self) -> bytes:
        return b"".join(self.messages)


def changed_nothing(pipeline: Pipeline, tags: Sequence[str]) -> bool:
    """Return whether an acquire step found nothing, by the tags with which the server answered its statements."""
    place = pipeline.decides_at
    return place is not None and len(tags) > place and tags[place] == "SELECT 0"


class PipelineReader:
    """Cuts a client's bytes into round trips, and knows what was prepared under which name."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._names: dict[bytes, str] = {}
        self._pipeline = Pipeline()
        self._transaction: set[str] = set()

    def feed(self, data: bytes) -> list[Pipeline]:
        self._buffer += data
        done = []
        while len(self._buffer) >= 5:
            length = int.from_bytes(self._buffer[1:5], "big") + 1
            if len(self._buffer) < length:
                break
            message = bytes(self._buffer[:length])
            del self._buffer[:length]
            self._note(message)
            if message[:1] not in (b"P", b"B", b"D", b"E", b"C", b"H"):
                done.append(self._ended())
        return done

    def _ended(self) -> Pipeline:
        pipeline, self._pipeline = self._pipeline, Pipeline()
        pipeline.transaction = pipeline.kinds | (set() if pipeline.begins else self._transaction)
        self._transaction = set() if pipeline.commits else pipeline.transaction
        return pipeline

    def _note(self, message: bytes) -> None:
        pipeline, kind, body = self._pipeline, message[:1], message[5:]
        if kind == b"P":
            name, sql, _ = body.split(b"\0", 2)
            text = sql.decode(errors="replace")
            self._names[name] = _named(text)
        elif kind == b"B":
            _, name, _ = body.split(b"\0", 2)
            self._executes(self._names.get(name, "other"))
        elif kind == b"Q":
            text = body[:-1].decode(errors="replace").strip()
            self._executes(_named(text))
        pipeline.messages.append(message)

    def _executes(self, what: str) -> None:
        pipeline = self._pipeline
        if what == "BEGIN":
            pipeline.begins = True
        elif what == "COMMIT":
            pipeline.commits = True
            # The Parse of the COMMIT is the message before its Bind.
            pipeline.commit_at = max(0, len(pipeline.messages) - 1)
        else:
            pipeline.kinds.add(what)
            if what == "acquire":
                pipeline.decides_at = pipeline.statements
        pipeline.statements += 1
