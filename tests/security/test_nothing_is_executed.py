"""What a database, a file or a setting says is never code: only registered types run, and nothing is unpickled."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

import quartzpy
from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.definitions.files import load_definitions
from quartzpy.errors import InvalidJobDataError, SettingsError
from quartzpy.job_data import decode
from quartzpy.jobs.job import JobTypes
from tests.facade import jobs

PACKAGE = Path(quartzpy.__file__).parent
FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "code"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "input"}
FORBIDDEN_ATTRIBUTES = {
    ("yaml", "load"), ("yaml", "full_load"), ("yaml", "unsafe_load"), ("yaml", "Loader"), ("yaml", "UnsafeLoader"),
    ("yaml", "FullLoader"), ("os", "system"), ("os", "popen"), ("subprocess", "getoutput"),
}  # fmt: skip
IMPORTING = {
    "__init__.py": "the package's own module of a name that is used",
    "jobs/job.py": "a module that the setting job_modules or a file of declared jobs allows",
    "cli/main.py": "the package's own module of a command",
    "cli/node.py": "the program that the command line names",
    "cli/definitions.py": "a module that the command line names",
    "config/sources.py": "the function that the setting connect names",
    "embedded/schedule_file.py": "a function that a file of the machine names",
    "definitions/calendars.py": "a class of calendars that a file of declarations names",
    "object_references.py": "what the four files above ask for",
    "operations/incidents/kinds/__init__.py": "the modules of its own package, one for each kind of incident",
    "triggers/recurrence_rule.py": "dateutil",
    "calendars/days.py": "holidays",
    "zone_rules.py": "tzdata",
    "ext/django/__init__.py": "the package's own module of a name that is used",
    "ext/django/backend.py": "Django's tasks, from one of two packages",
    "node/engines/registry.py": "the engine that the setting executors names, by an entry point",
    "node/engines/messages.py": "asks whether a worker will find the function job_factory of this program",
    "node/engines/futures.py": "the function that the setting executors names",
    "ext/celery/engine.py": "the Celery app that the setting executors names",
    "node/engines/worker.py": "on a worker: the modules of the types that its node has registered, and its job_factory",
    "node/engines/process_messages.py": "in a worker process: the modules of the types that its node has registered",
}
"""Where the functions that import a module by its name may be called, and for what."""
IMPORTERS = {"import_module", "imported_module", "object_at"}


def _violations(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [name.name for name in names if name.name.partition(".")[0] in FORBIDDEN_MODULES]
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in FORBIDDEN_MODULES:
                found.append(module)
            case ast.Call(func=ast.Name(id=name)) if name in FORBIDDEN_CALLS:
                found.append(f"{name}()")
            case ast.Attribute(value=ast.Name(id=module), attr=name) if (module, name) in FORBIDDEN_ATTRIBUTES:
                found.append(f"{module}.{name}")
            case ast.keyword(arg="shell", value=ast.Constant(value=True)):
                found.append("shell=True")
    return found


@pytest.mark.parametrize(
    "source",
    [
        "import pickle", "from pickle import loads", "import marshal", "eval(x)", "exec(x)", "yaml.load(x)",
        "import subprocess\nsubprocess.run(x, shell=True)", "__import__(x)", "os.system(x)", "from dill import loads",
    ],
)  # fmt: skip
def test_the_scan_sees_what_is_forbidden(source: str) -> None:
    assert _violations(source)


def test_no_module_unpickles_evaluates_or_starts_a_shell() -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
    assert len(modules) > 100
    wrong = {str(path.relative_to(PACKAGE)): _violations(path.read_text()) for path in modules}
    assert {path: found for path, found in wrong.items() if found} == {}


def test_modules_are_imported_by_name_in_known_places_only() -> None:
    importing = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Attribute) and node.attr in IMPORTERS)
        or (isinstance(node, ast.Name) and node.id in IMPORTERS)
    }
    assert importing == set(IMPORTING)


UNUSED = "antigravity"
"""A module of the standard library that nothing here imports: importing it has an effect, which is the point."""


@pytest.mark.parametrize(
    "job_type", [f"{UNUSED}:system", "os:system", "subprocess:Popen", "builtins:eval", f"{UNUSED}"]
)
def test_a_row_that_names_code_imports_and_runs_nothing(postgres_dsn: str, job_type: str) -> None:
    """Whoever may write to the tables cannot run code: no node takes a type that is not registered in its process."""
    jobs.reset()
    scheduler = Scheduler(postgres_dsn, **jobs.arguments(job_modules=("tests.facade",)))
    engine = create_engine(postgres_dsn)
    try:
        scheduler.schedule_job(JobDetail(jobs.Recorded, "tampered"), SimpleTrigger("tampered"))
        with engine.begin() as connection:
            for table in ("qrtz_job_details", "qrtz_triggers"):
                tampered = text(
                    f"UPDATE {table} SET job_type = :type WHERE job_name = 'tampered' AND sched_name = :name"
                )
                assert connection.execute(tampered, {"type": job_type, "name": scheduler.name}).rowcount == 1
        scheduler.schedule_job(JobDetail(jobs.Recorded, "honest"), SimpleTrigger("honest"))
        scheduler.start()
        assert jobs.ran.get(timeout=30).job_key.name == "honest"
        assert jobs.ran.empty()
        record = scheduler.trigger_record(SimpleTrigger("tampered").key)
        assert record is not None
        assert record.progress.times_triggered == 0 or str(record.state) == "ERROR"
        assert UNUSED not in sys.modules
    finally:
        scheduler.shutdown()
        engine.dispose()


def test_a_type_is_imported_from_an_allowed_module_only() -> None:
    types = JobTypes()
    for name in (f"{UNUSED}:x", "os:system", ":x", "tests.facade_and_more:x"):
        assert not types.load(name, ("tests.facade",)), name
    assert UNUSED not in sys.modules


class Effect:
    happened = 0

    def __init__(self) -> None:
        Effect.happened += 1


@pytest.mark.parametrize(
    "value",
    [
        '{"$dataclass": ["os:system", {"command": "true"}]}',
        '{"$dataclass": ["tests.security.test_nothing_is_executed:Effect", {}]}',
        '{"$dataclass": ["subprocess:Popen", {"args": ["true"]}]}',
        '{"$enum": ["builtins:eval", "1+1"]}',
        '{"$enum": ["antigravity:X", "x"]}',
        '{"$dataclass": ["quartzpy.jobs.job:dataclass", {}]}',
        '{"$dataclass": ["tests.security.test_nothing_is_executed:JobDetail", {"job": "x"}]}',
        '{"$model": ["os:system", {"command": "true"}]}',
        '{"$model": ["tests.security.test_nothing_is_executed:Effect", {}]}',
        '{"$model": ["antigravity:X", {}]}',
        '{"$model": "x"}',
        '{"$path": 5}',
        '{"$python": "os.system"}',
        '{"$object": "x"}',
        '{"$tuple": "abc"}',
    ],
)
def test_data_builds_nothing_but_the_program_s_own_data_classes(value: str) -> None:
    with pytest.raises(InvalidJobDataError):
        decode(f'{{"a": {value}}}')
    assert Effect.happened == 0
    assert UNUSED not in sys.modules


def test_a_file_of_jobs_builds_no_objects(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text("job: !!python/object/apply:os.system ['touch owned']\n")
    with pytest.raises(SettingsError, match="not YAML"):
        load_definitions(path)
