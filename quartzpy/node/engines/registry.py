"""The engines of a node, made as its settings say."""

from __future__ import annotations

from collections.abc import Callable

from quartzpy.clock import Clock
from quartzpy.config.config import SchedulerConfig
from quartzpy.config.engine_names import engine_reference
from quartzpy.config.pools import MAX_WORKERS, ExecutorConfig, ExecutorKind, as_bytes
from quartzpy.errors import SettingsError
from quartzpy.jobs.internal_entries import Tracing
from quartzpy.jobs.job import JobFactory, JobTypes
from quartzpy.node.engines.absent import AbsentEngine
from quartzpy.node.engines.judgement import SILENT_TOUCHES
from quartzpy.node.engines.messages import MessageMaker, factory_reference, reference_of
from quartzpy.node.engines.protocol import Engine, EngineSettings
from quartzpy.node.engines.runs import EngineRuns
from quartzpy.node.service import StoreWatch
from quartzpy.node.workers.worker_pool import WorkerPool
from quartzpy.object_references import object_at
from quartzpy.store.protocol import JobStore


def new_engine_runs(
    executor: str,
    config: ExecutorConfig | None,
    pool: WorkerPool,
    *,
    name: str,
    settings: SchedulerConfig,
    store: JobStore,
    job_types: JobTypes,
    job_factory: JobFactory,
    tracing: Tracing | None,
    clock: Clock,
    watch: StoreWatch,
    has_grown: Callable[[], None],
) -> EngineRuns:
    """Return what runs the jobs of an executor on its engine. `name` begins the names of all threads of the node.

    Without a configuration, it waits for the jobs of executors that the node does not have.

    Raises:
        SettingsError: the engine cannot be imported, refuses its settings, or takes tickets that the store has not.
        InvalidValueError: the engine cannot use `job_factory`.
    """
    # Most nodes have no engine, and do not need its modules.
    make: Callable[[EngineSettings], Engine] = (
        AbsentEngine
        if config is None
        else object_at(engine_reference(config.kind), f"executors: {executor}", "my_program.engines:engine")
    )
    config = config or ExecutorConfig(ExecutorKind.PROCESSES, MAX_WORKERS)
    engine = make(
        EngineSettings(
            executor=executor,
            kind=config.kind,
            address=config.address,
            workers=config.workers,
            name=f"{name}-{config.kind}-{executor}",
            memory_limit=None if config.memory_limit is None else as_bytes(config.memory_limit, executor),
            max_job_data_bytes=settings.max_job_data_bytes,
            job_factory=job_factory,
            tracing=tracing,
            monotonic=clock.monotonic,
        )
    )
    tickets = engine.abilities.repeats if config.tickets is None else config.tickets
    if tickets and not (store.has_tickets or isinstance(engine, AbsentEngine)):
        raise SettingsError(f"executors: {executor}: memory:// has no tickets for its calls; use a database")
    is_named = config.kind != ExecutorKind.PROCESSES
    touch_every = settings.checkin_interval.total_seconds()
    window = max(settings.engine_window.total_seconds(), SILENT_TOUCHES * touch_every)
    common = {
        "scheduler": settings.name,
        "schema": settings.schema,
        "prefix": settings.table_prefix,
        "touch_every": touch_every,
        "window": window,
        # Child processes get these two when they start, and can use more than names.
        "job_factory": factory_reference(job_factory) if is_named else None,
        "within": reference_of(tracing.within, "the tracing of workers") if is_named and tracing else None,
        "max_job_data_bytes": settings.max_job_data_bytes,
        "max_captured_log_bytes": settings.max_captured_log_bytes,
    }
    return EngineRuns(
        f"{name}-engine-{executor}",
        engine,
        executor=executor,
        workers=config.workers,
        tickets=tickets,
        pool=pool,
        store=store,
        job_types=job_types,
        messages=MessageMaker(common, tracing),
        touch_every=touch_every,
        window=window,
        clock=clock,
        watch=watch,
        has_grown=has_grown,
    )
