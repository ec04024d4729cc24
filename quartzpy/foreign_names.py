"""The names of other schedulers and what stands for them here, by rules and tables: part of errors only.

What the page "Coming from Quartz" says about each name of Quartz is in `quartz_names.txt`, which
`python -m tools.quartz_names` writes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dis import opmap
from functools import cache
from typing import TYPE_CHECKING, Any

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CALLER = 2
"""The frame that looks for a name, seen from `is_imported`."""


def snake_case(name: str) -> str:
    """Return a name of Java's as Python writes it: "addJob" is "add_job"."""
    return _HUMP.sub("_", name).lower()


@cache
def _quartz() -> Mapping[str, tuple[tuple[str, str, str], ...]]:
    """Return the section, the name and the answer of each name of Quartz, by the name in lower case."""
    # A twentieth of the time that `import quartzpy` takes.
    from importlib.resources import files

    by_name: dict[str, tuple[tuple[str, str, str], ...]] = {}
    for line in files("quartzpy").joinpath("quartz_names.txt").read_text(encoding="utf-8").splitlines():
        section, name, here = line.split("\t")
        by_name[_key(name)] = (*by_name.get(_key(name), ()), (section, name, here))
    return by_name


def _key(name: str) -> str:
    return name.replace("_", "").replace(".", "").lower()


def _spellings(name: str) -> list[str]:
    """Return the names of Quartz that a name can mean: a property by its end, and an attribute by its accessors."""
    last = name.rpartition(".")[2]
    return [name, last, f"get_{last}", f"is_{last}", f"set_{last}"]


def quartz_answer(name: str, *sections: str, only_methods: bool = False) -> str | None:
    """Return what stands here for a name of Quartz, in Java's spelling or in Python's; None if there is no such name.

    Of several names that are the same, the one of the first of `sections` that has it is meant. With `only_methods`, no
    name is that of a class.
    """
    for spelling in _spellings(name):
        entries = [
            entry
            for entry in _quartz().get(_key(spelling), ())
            if not (only_methods and entry[1].rpartition(".")[2][0].isupper())
        ]
        if entries:
            break
    else:
        return None
    of_section = {section: (quartz, here) for section, quartz, here in reversed(entries)}
    quartz, here = next((of_section[section] for section in sections if section in of_section), entries[0][1:])
    none, _, instead = here.partition("none")
    if not none and here.startswith("none"):
        return f"Quartz's {quartz} has no equivalent{instead}"
    return f"for Quartz's {quartz} write {here}"


def answer(
    name: str,
    has: Callable[[str], bool],
    answers: Mapping[str, str],
    sections: Iterable[str] = (),
    *,
    only_methods: bool = True,
) -> str | None:
    """Return the end of an error about an unknown name; None if it is of no other library.

    The name may be one of ours in Java's spelling; else `answers` and the page about Quartz are asked, in both
    spellings.
    """
    snake = snake_case(name)
    if name in answers:
        return f"hint: {answers[name]}"
    if name.endswith("Impl") and has(name.removesuffix("Impl")):
        return f"did you mean {name.removesuffix('Impl')}?"
    if snake != name and has(snake):
        return f"did you mean {snake}?"
    if snake in answers:
        return f"hint: {answers[snake]}"
    of_quartz = quartz_answer(name, *sections, only_methods=only_methods)
    if of_quartz is not None:
        return f"hint: {of_quartz}"
    attribute = re.sub(r"^(get|is|set)_", "", snake)
    return f"did you mean {attribute}?" if attribute != snake and has(attribute) else None


_SCHEDULER = 'Scheduler("postgresql+psycopg://user@host/database"), or AsyncScheduler for coroutines'
MODULE_NAMES: Mapping[str, str] = {
    # APScheduler
    **dict.fromkeys(
        (
            "BackgroundScheduler",
            "BlockingScheduler",
            "AsyncIOScheduler",
            "BaseScheduler",
            "GeventScheduler",
            "TornadoScheduler",
            "TwistedScheduler",
            "QtScheduler",
            "APScheduler",
        ),
        f"{_SCHEDULER}; scheduler.start() returns at once, and scheduler.run() blocks",
    ),
    **dict.fromkeys(
        (
            "MemoryJobStore",
            "SQLAlchemyJobStore",
            "RedisJobStore",
            "MongoDBJobStore",
            "ZooKeeperJobStore",
            "SQLAlchemyDataStore",
            "MemoryDataStore",
        ),
        'the URL is the store: Scheduler("postgresql+psycopg://..."), or Scheduler("memory://") for tests',
    ),
    **dict.fromkeys(
        ("ThreadPoolExecutor", "ProcessPoolExecutor", "AsyncIOExecutor"),
        'executors are settings: Scheduler(url, workers=10, executors={"heavy": "processes:2"})',
    ),
    **dict.fromkeys(("AndTrigger",), "AllOf(triggers=[...])"),
    **dict.fromkeys(("OrTrigger",), "AnyOf(triggers=[...])"),
    **dict.fromkeys(("ConflictingIdError",), "quartzpy.errors.ObjectAlreadyExistsError"),
    **dict.fromkeys(("JobLookupError", "ScheduleLookupError"), "quartzpy.errors.JobNotFoundError"),
    **dict.fromkeys(
        ("SchedulerAlreadyRunningError", "SchedulerNotRunningError"), "quartzpy.errors.SchedulerStateError"
    ),
    **dict.fromkeys(
        ("EVENT_JOB_EXECUTED", "EVENT_JOB_ERROR", "EVENT_JOB_MISSED", "EVENT_ALL"),
        "events are classes of quartzpy.events: scheduler.listeners.add_listener(callback, JobWasExecuted)",
    ),
    # Celery, schedule, rq and others
    **dict.fromkeys(
        ("shared_task", "task", "Task", "periodic_task", "actor", "huey"),
        "@job makes a job type of a function, and scheduler.schedule_job(function, trigger) schedules it",
    ),
    **dict.fromkeys(("Celery", "Huey", "Queue", "Worker", "App", "Flow"), _SCHEDULER),
    **dict.fromkeys(
        ("crontab", "Crontab", "crontab_schedule"),
        'a crontab line is a schedule: schedule_job(function, "0 2 * * *"); CrontabExpression reads one',
    ),
    **dict.fromkeys(("repeat", "interval"), 'every("10s")'),
    **dict.fromkeys(("run_pending",), "scheduler.run() starts the node and blocks until Ctrl-C"),
    **dict.fromkeys(("Retry", "MaxRetriesExceededError"), "RetryPolicy(attempts=5)"),
    **dict.fromkeys(("chain", "chord", "group"), "continuations=[...] and after=[...] of a job run it after others"),
    **dict.fromkeys(("schedule", "solar"), "scheduler.schedule_job(function, every(minutes=10))"),
}
"""Names of other libraries that are looked for in `quartzpy`, each with what to write here."""


def is_imported() -> bool:
    """Return True if the caller of the function that asks is an import, `from quartzpy import JobBuilder`."""
    frame = sys._getframe(_CALLER)
    if frame.f_code.co_name == "_handle_fromlist":
        return True
    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and code[frame.f_lasti] == opmap["IMPORT_FROM"]


def missing_name(module: str, name: str, names: Iterable[str], *, imported: bool) -> ImportError | AttributeError:
    """Return the error about a name that a module of ours does not have.

    An import would replace an AttributeError by an ImportError without its text.
    """
    if name.startswith("_"):
        # Each import of a name asks the module for its `__path__`.
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    own = {_key(each): each for each in names}.get(_key(name))
    hint = answer(name, set(names).__contains__, MODULE_NAMES, only_methods=False)
    if own is not None and name not in MODULE_NAMES:
        hint = f"did you mean {own}?"
    if hint is not None and imported:
        return ImportError(f"cannot import name {name!r} from {module!r}; {hint}", name=module)
    text = f"module {module!r} has no attribute {name!r}"
    return AttributeError(text if hint is None else f"{text}; {hint}")


def missing_in_package(package: str, name: str) -> ImportError | AttributeError:
    """Return the error about a name that a package within ours does not have, but perhaps ours does.

    Names of modules stay an AttributeError, by which the import system looks for the module.
    """
    public = getattr(sys.modules["quartzpy"], "__all__", ())
    if name in public and name[:1].isupper():
        return ImportError(
            f"cannot import name {name!r} from {package!r}; hint: from quartzpy import {name}", name=package
        )
    return AttributeError(f"module {package!r} has no attribute {name!r}")


class NamedByQuartz(type):
    """The class of classes whose methods Quartz's people call by other names, `GroupMatcher.groupEquals("eu")`."""

    if not TYPE_CHECKING:  # A type checker would accept every attribute.

        def __getattr__(cls, name: str) -> Any:
            # The decorator of dataclasses asks for the default of each field.
            is_own = name.startswith("_") or any(name in vars(base).get("__annotations__", ()) for base in cls.__mro__)
            hint = None if is_own else answer(name, set(dir(cls)).__contains__, {})
            text = f"type object {cls.__name__!r} has no attribute {name!r}"
            raise AttributeError(text if hint is None else f"{text}; {hint}", name=name, obj=None if hint else cls)


_CODES: Mapping[int, tuple[str, ...]] = {
    -1: ("ignore",),
    0: ("smart",),
    1: ("fire_once_now", "fire_now"),
    2: ("do_nothing", "reschedule_now_with_existing_repeat_count"),
    3: ("reschedule_now_with_remaining_repeat_count",),
    4: ("reschedule_next_with_remaining_count",),
    5: ("reschedule_next_with_existing_count",),
}
"""The codes of Quartz's misfire instructions, of which each kind of trigger has one."""
_INSTRUCTIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("smart_policy", "default"), ("smart",)),
    **dict.fromkeys(("ignore_misfire_policy", "ignore_misfires", "ignore_misfire"), ("ignore",)),
    **dict.fromkeys(
        ("fire_and_proceed", "fire_once", "fire_once_now", "fire_now", "coalesce", "run_once", "once"),
        ("fire_once_now", "fire_now"),
    ),
    **dict.fromkeys(
        ("skip", "drop", "discard", "none", "do_nothing", "nothing"),
        ("do_nothing", "reschedule_next_with_remaining_count"),
    ),
    **dict.fromkeys(("all", "fire_all", "run_all", "catch_up", "catchup"), ("fire_all",)),
    "now_with_existing_count": ("reschedule_now_with_existing_repeat_count",),
    "now_with_remaining_count": ("reschedule_now_with_remaining_repeat_count",),
    "next_with_existing_count": ("reschedule_next_with_existing_count",),
    "next_with_remaining_count": ("reschedule_next_with_remaining_count",),
}
"""Other words for misfire instructions, each with those of which a kind of trigger has one."""
_PREFIXES = re.compile(
    r"^(?:.*\.)?(?:with_)?(?:misfire_(?:handling_)?instruction_|misfire_policy_|misfire_)?", re.IGNORECASE
)


def misfire_instruction(value: object, allowed: Iterable[str]) -> str | None:
    """Return the misfire instruction that Quartz's users mean by a code or by a name; None if there is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        candidates = _CODES.get(value, ())
    elif isinstance(value, str):
        word = snake_case(_PREFIXES.sub("", snake_case(value.strip()).replace("-", "_").replace(" ", "_")))
        candidates = (word, *_INSTRUCTIONS.get(word, ()))
    else:
        return None
    accepted = {str(word) for word in allowed}
    return next((word for word in candidates if word in accepted), None)
