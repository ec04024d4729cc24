"""`CommandJob`, the job that runs a program of the machine, and what a node allows it to run.

The node starts a small process of its own for each command, `keeper.py`, which ends the command with all its children
when the execution is over, and when the node itself is gone.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import spawn
from typing import IO, TYPE_CHECKING, Any

from quartzpy.errors import CommandFailedError, InvalidJobDataError, NotAllowedError
from quartzpy.instants import Span, as_span, span_text
from quartzpy.jobs import keeper
from quartzpy.jobs.included import settings_of_node
from quartzpy.jobs.job import Job
from quartzpy.jobs.keeper import Order
from quartzpy.texts import quoted

if TYPE_CHECKING:
    from datetime import datetime

    from quartzpy.config.config import SchedulerConfig
    from quartzpy.jobs.context import JobExecutionContext

SHELL = "/bin/sh"
MAX_LINE = 4_000
"""The characters of a line of output that are logged."""
MAX_LOGGED = 1_048_576
"""The characters of output that are logged as they arrive. Of what follows, the last lines are."""
LAST_LINES = 100
"""The number of lines that are logged of an output that is longer than `MAX_LOGGED`."""
SHOWN_LINES, SHOWN_CHARACTERS = 5, 1_000
"""What the error of a failed command shows of the end of its output."""
LOOK_EVERY = 0.2
"""The time, in seconds, between two looks whether the execution was asked to stop."""
LAST_OUTPUT = 1.0
"""The time, in seconds, for which output is awaited from processes that have survived the command."""
PATIENCE = 10.0
"""The time, in seconds, beyond `grace` after which the keeper itself is killed."""
MAX_GRACE = timedelta(minutes=10)
"""The longest `grace`: a drain waits for it, and so does whoever recovers a node's work."""
MAX_VALUES = 65_536
"""The characters of JSON of the values that are passed in the environment."""
_PASSED_TO_PYTHON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""The variables without which some builds of Python do not start."""
KEEPER = keeper.__file__


@dataclass(frozen=True)
class Command:
    """The data of a `CommandJob`: `Command(["/usr/bin/pg_dump", "--file=/backup/app", "app"])`.

    - `argv`: the program and its arguments. Each element is passed to the program as it is: nothing is split, expanded
      or substituted.
    - `shell`: instead of `argv`, a line for `/bin/sh -c`. A node runs it if its setting `commands` contains "/bin/sh".
    - `directory`: the absolute path of the working directory; by default that of the node.
    - `success`: the exit statuses that count as success.
    - `retry`: the exit statuses after which the retry policy of the job applies. Without them it applies after each
      failure.
    - `grace`: the time between SIGTERM and SIGKILL when the command has to end, at most ten minutes. When its node is
      gone, SIGKILL follows before another node recovers the execution.
    - `values`: values for the program, which it reads as JSON from the variable QUARTZPY_FIRE_VALUES.
    """

    argv: Sequence[str] = ()
    shell: str | None = None
    directory: str | None = None
    success: Sequence[int] = (0,)
    retry: Sequence[int] = ()
    grace: Span = "10s"
    values: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Validate all values.

        Raises:
            InvalidJobDataError: a value is wrong; the message names it.
        """
        assign = object.__setattr__
        assign(self, "argv", _texts(self.argv, "argv"))
        if (self.shell is None) == (not self.argv):
            raise InvalidJobDataError(
                'a command needs either argv, as in argv=["/usr/bin/pg_dump", "app"], or shell, a line for /bin/sh'
            )
        if self.argv and not self.argv[0]:
            raise InvalidJobDataError("argv: the program is empty")
        if self.shell is not None:
            _check_text(self.shell, "shell")
        if self.directory is not None:
            _check_text(self.directory, "directory")
            if not self.directory.startswith("/"):
                raise InvalidJobDataError(f"directory must be an absolute path (got {quoted(self.directory)})")
        for name in ("success", "retry"):
            assign(self, name, _statuses(getattr(self, name), name))
        if not self.success:
            raise InvalidJobDataError("success: at least one exit status is needed")
        if both := set(self.success) & set(self.retry):
            raise InvalidJobDataError(f"success and retry both contain {min(both)}")
        grace = as_span(self.grace, "grace", InvalidJobDataError)
        if grace > MAX_GRACE:
            raise InvalidJobDataError(f"grace: at most {span_text(MAX_GRACE)} (got {quoted(self.grace)})")
        assign(self, "grace", span_text(grace))
        if self.values is not None and not isinstance(self.values, Mapping):
            raise InvalidJobDataError(f"values must be a mapping (got {quoted(self.values)})")

    @property
    def words(self) -> list[str]:
        """The program and its arguments."""
        return list(self.argv) if self.shell is None else [SHELL, "-c", self.shell]


def _texts(value: object, name: str) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidJobDataError(f"{name} must be a list of texts (got {quoted(value)}); a line for a shell is shell=")
    for text in value:
        _check_text(text, name)
    return list(value)


def _check_text(text: object, name: str) -> None:
    if not isinstance(text, str):
        raise InvalidJobDataError(f"{name}: must be a text (got {quoted(text)}); write numbers in quotation marks")
    if "\0" in text:
        raise InvalidJobDataError(f"{name}: a program cannot receive NUL (in {quoted(text)})")


def _statuses(value: object, name: str) -> list[int]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidJobDataError(f"{name} must be a list of exit statuses (got {quoted(value)})")
    for status in value:
        if type(status) is not int or not 0 <= status <= 255:
            raise InvalidJobDataError(f"{name}: an exit status is a number from 0 to 255 (got {quoted(status)})")
    return list(value)


class AllowedPrograms:
    """The programs that the setting `commands` of a node allows."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._programs: dict[tuple[str, str], str] = {}
        """The path of each program, by its directory without symbolic links and its name."""
        self._directories: set[str] = set()
        for item in allowed:
            if item.endswith("/"):
                self._directories.add(os.path.realpath(item))
            elif path := (item if "/" in item else shutil.which(item)):
                self._programs[_place(path)] = path

    def path_of(self, program: str) -> str:
        """Return the path of a program that a job names by its path, or by the name of an allowed program.

        The name of the file itself is compared as it stands: where one file is many programs, as in BusyBox, a symbolic
        link names one of them only.

        Raises:
            NotAllowedError: the program is not allowed on this node.
        """
        if "/" not in program:
            paths = sorted({path for (_, name), path in self._programs.items() if name == program})
            if len(paths) == 1:
                return paths[0]
        elif program.startswith("/"):
            directory, name = place = _place(program)
            if place in self._programs:
                return self._programs[place]
            if directory in self._directories and name not in ("", ".", ".."):
                return f"{directory}/{name}"
        hint = " That is the shell: to allow it is to allow every command." if program == SHELL else ""
        raise NotAllowedError(f"the setting commands of this node does not allow the program {quoted(program)}.{hint}")


def _place(path: str) -> tuple[str, str]:
    directory, name = os.path.split(path)
    return os.path.realpath(directory), name


def environment(
    context: JobExecutionContext, allowed: Sequence[str], variables: Mapping[str, str], values: Mapping[str, Any]
) -> dict[str, str]:
    """Return the environment of a command: the variables that are allowed, its own, and the facts of the fire.

    Raises:
        InvalidJobDataError: the values are longer than an environment takes.
    """
    text = json.dumps(values, ensure_ascii=False, default=str)
    if len(text) > MAX_VALUES:
        raise InvalidJobDataError(f"values: {len(text)} characters of JSON, at most {MAX_VALUES}")
    facts = {
        "ID": str(context.fire_id),
        "JOB": str(context.job_key),
        "TRIGGER": str(context.trigger_key),
        "TIME": _instant(context.fire_time),
        "SCHEDULED_TIME": _instant(context.scheduled_fire_time),
        "NOMINAL_TIME": _instant(context.nominal_fire_time),
        "PREVIOUS_TIME": _instant(context.previous_fire_time),
        "NEXT_TIME": _instant(context.next_fire_time),
        "ATTEMPT": str(context.attempt),
        "KEY": context.execution_key,
        "NODE": context.instance_id,
        "VALUES": text,
    }
    inherited = {name: os.environ[name] for name in allowed if name in os.environ}
    return (
        inherited
        | dict(variables)
        | {f"QUARTZPY_FIRE_{name}": value.replace("\0", "") for name, value in facts.items()}
    )


def _instant(instant: datetime | None) -> str:
    return "" if instant is None else instant.isoformat()


class CommandJob(Job, type_name="quartzpy.CommandJob", data_type=Command, operators_set=("values",)):
    """Runs a program: `JobDetail(CommandJob, "backup", data=Command(["/usr/bin/pg_dump", "app"]))`.

    Only nodes with the setting `commands` run such jobs, and only the programs that it names. The program gets no
    input, and of the environment the variables of the setting `command_environment`, those of `command_variables` for
    its job, and the facts of the fire, QUARTZPY_FIRE_ID and others. Its output is logged line by line and so kept with
    the execution. Its exit status is the result, `{"exit_status": 0}`, and decides about success.

    At the end of the command, at a timeout, a cancellation and the end of the node, what is still running of the
    program and its children gets SIGTERM, and after `grace` SIGKILL.

    Raises:
        NotAllowedError: the settings of the node do not allow the program.
        CommandFailedError: the program cannot be started, or its exit status is no success.
    """

    captures_logs = "INFO"
    allowed_by = "commands"

    def execute(self, context: JobExecutionContext) -> None:
        """Run the program of `context.data` to its end."""
        settings = settings_of_node(context)
        command: Command = context.data
        words = command.words
        program = AllowedPrograms(settings.commands).path_of(words[0])
        run = _CommandRun(
            Order.text(
                grace := as_span(command.grace, "grace", InvalidJobDataError).total_seconds(),
                min(grace, _alone(settings)),
                command.directory or os.getcwd(),
                program,
                words,
                environment(
                    context,
                    settings.command_environment,
                    settings.command_variables.get(str(context.job_key), {}),
                    command.values or {},
                ),
            ),
            grace,
            _CommandOutput(lambda line: context.log.info("%s", line)),
        )
        run.wait(lambda: context.cancelled)
        if run.was_stopped:
            context.raise_if_cancelled()
        if run.refusal is not None:
            raise CommandFailedError(f"{quoted(words[0])} cannot be started: {run.refusal}")
        if run.status is None:
            raise CommandFailedError(f"{quoted(words[0])}: its end is not known, because its keeper was killed")
        context.result = {"exit_status": run.status}
        if run.status not in command.success:
            raise CommandFailedError(
                f"{quoted(words[0])} {_ended(run.status)}{run.output.end()}",
                run.status,
                may_be_retried=not command.retry or run.status in command.retry,
            )


def _alone(settings: SchedulerConfig) -> float:
    """Return the seconds that a command has to end after its node: others recover the node's work after its window.

    The last check-in may be as old as the interval between two of them, and the killing takes a moment as well.
    """
    return max((settings.failure_window - settings.checkin_interval).total_seconds() / 2, 0.0)


def _ended(status: int) -> str:
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


class _CommandOutput:
    """The output of a command, which is logged line by line and within limits."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._room = MAX_LOGGED
        self._begun: dict[str, bytearray] = {}
        """The line of each stream that has begun, by the prefix of the stream."""
        self._cut: dict[str, int] = {}
        """The number of bytes of that line that are left out."""
        self._recent: deque[str] = deque(maxlen=LAST_LINES)
        self._unlogged = 0

    def add(self, prefix: str, data: bytes) -> None:
        """Take a piece of a stream."""
        *whole, rest = data.split(b"\n")
        for line in whole:
            self._extend(prefix, line)
            self._end_line(prefix)
        if rest:
            self._extend(prefix, rest)

    def _extend(self, prefix: str, piece: bytes) -> None:
        begun = self._begun.setdefault(prefix, bytearray())
        # A character has at most four bytes.
        taken = piece[: max(4 * MAX_LINE - len(begun), 0)]
        begun += taken
        self._cut[prefix] = self._cut.get(prefix, 0) + len(piece) - len(taken)

    def _end_line(self, prefix: str) -> None:
        text = self._begun.pop(prefix).decode(errors="replace").rstrip("\r")
        cut = self._cut.pop(prefix, 0) + max(len(text) - MAX_LINE, 0)
        line = f"{prefix}{text[:MAX_LINE]}{f' [{cut} more]' if cut else ''}"
        self._recent.append(line)
        if self._room > 0:
            self._room -= len(line) + 1
            self._log(line)
        else:
            self._unlogged += 1

    def close(self) -> None:
        """Log the lines that have not ended, and the last ones of a long output."""
        for prefix in list(self._begun):
            self._end_line(prefix)
        last = list(self._recent)[-self._unlogged :] if self._unlogged else []
        if more := self._unlogged - len(last):
            self._log(f"[{more} lines of output are left out here]")
        for line in last:
            self._log(line)

    def end(self) -> str:
        """Return the last lines, for an error; empty if there is no output."""
        text = "\n".join(list(self._recent)[-SHOWN_LINES:])[-SHOWN_CHARACTERS:]
        return f"; the end of its output:\n{text}" if text else ""


class _CommandRun:
    """A command under its keeper."""

    def __init__(self, order: str, grace: float, output: _CommandOutput) -> None:
        self.output = output
        self.status: int | None = None
        self.refusal: str | None = None
        self.was_stopped = False
        self._grace = grace
        self._pid: int | None = None
        self._reported = bytearray()
        data = os.fsencode(order)
        reading, writing = os.pipe()
        self._report = os.fdopen(reading, "rb", buffering=0)
        try:
            python = os.fsdecode(spawn.get_executable() or sys.executable)
            self._keeper = subprocess.Popen(
                [python, "-I", "-S", KEEPER, str(writing), str(os.getpid()), str(len(data))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(writing,),
                start_new_session=True,
                cwd="/",
                env={name: os.environ[name] for name in _PASSED_TO_PYTHON if name in os.environ},
            )
        except BaseException:
            self._report.close()
            raise
        finally:
            os.close(writing)
        try:
            self._send(data)
        except BaseException:
            self._keeper.kill()
            self._close()
            raise

    def _send(self, data: bytes) -> None:
        pipe = self._keeper.stdin
        assert pipe is not None
        try:
            pipe.write(data)
            pipe.flush()
        except BrokenPipeError:  # It has ended, which the report says as well.
            return

    def wait(self, must_stop: Callable[[], bool]) -> None:
        """Wait for the end of the command and of its keeper, and log the output."""
        kill_at = float("inf")
        with selectors.DefaultSelector() as selector:
            streams: list[tuple[IO[bytes] | None, str | None]] = [
                (self._keeper.stdout, ""),
                (self._keeper.stderr, "stderr: "),
                (self._report, None),
            ]
            for stream, prefix in streams:
                assert stream is not None
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ, prefix)
            end_at = float("inf")
            try:
                while selector.get_map() and time.monotonic() < end_at:
                    for key, _ in selector.select(LOOK_EVERY):
                        if not self._take(key.fd, key.data):
                            selector.unregister(key.fileobj)
                            if key.data is None:
                                # The keeper has ended. Somebody who has survived it may hold the other pipes.
                                end_at = time.monotonic() + LAST_OUTPUT
                    if not self.was_stopped and must_stop():
                        self.was_stopped = True
                        kill_at = time.monotonic() + self._grace + PATIENCE
                        self._send(b"T")
                    if time.monotonic() >= kill_at:
                        self._keeper.kill()
            except BaseException:
                self._keeper.kill()
                raise
            finally:
                self._close()
        self.output.close()

    def _take(self, descriptor: int, prefix: str | None) -> bool:
        """Read from a pipe, and return False at its end."""
        data = os.read(descriptor, 65_536)
        if prefix is not None:
            self.output.add(prefix, data)
            return bool(data)
        self._reported += data
        *lines, self._reported = self._reported.split(b"\n")
        for line in lines:
            what, _, value = line.decode(errors="replace").partition(" ")
            if what == "pid":
                self._pid = int(value)
            elif what == "status":
                self.status = int(value)
            else:
                self.refusal = value
        return bool(data)

    def _close(self) -> None:
        for pipe in (self._keeper.stdin, self._keeper.stdout, self._keeper.stderr, self._report):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue
        self._keeper.wait()
        if self.status is None and self.refusal is None and self._pid is not None:
            # The keeper was killed. The kernel has ended the command itself, but not its children.
            try:
                os.killpg(self._pid, signal.SIGKILL)
            except OSError:
                return
