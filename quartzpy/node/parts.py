"""The parts of a node, and their wiring: each part is created from parts that exist."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from quartzpy.clock import Clock
from quartzpy.config.config import NodeRole, SchedulerConfig
from quartzpy.config.notifying import channel_label
from quartzpy.config.pools import ExecutorConfig
from quartzpy.events.listeners import Listeners
from quartzpy.jobs.context import Middleware
from quartzpy.jobs.internal_entries import Tracing
from quartzpy.jobs.job import JobFactory, JobTypes, load_allowed
from quartzpy.node.check_in import CheckInThread
from quartzpy.node.cluster_manager import ClusterManager
from quartzpy.node.completer import Announcer, Completer
from quartzpy.node.engines.registry import new_engine_runs
from quartzpy.node.engines.runs import EngineRuns
from quartzpy.node.health import NO_CHECK_IN, NO_LEASE, ProblemTimes, SchedulerHealth, health_of
from quartzpy.node.misfire_handler import MisfireHandler
from quartzpy.node.observers import Observers
from quartzpy.node.progress_writer import ProgressWriter
from quartzpy.node.reactions import NodeEvents, NodeModes, NotificationListener, Reactions
from quartzpy.node.registration import Epoch, Registration
from quartzpy.node.scheduler_thread import SchedulerThread
from quartzpy.node.service import Service, StoreWatch
from quartzpy.node.signals import Signals
from quartzpy.node.supervisor import Supervisor, Watchdog
from quartzpy.node.troubles import LISTENING, Troubles
from quartzpy.node.workers.capacity import Capacity, KnownTypes
from quartzpy.node.workers.deadlines import Deadlines
from quartzpy.node.workers.event_loop import EventLoopThread
from quartzpy.node.workers.executors import Executors
from quartzpy.node.workers.job_runner import Dispatcher, JobRunner, Slots
from quartzpy.node.workers.worker_pool import WorkerPool
from quartzpy.outgoing import OutgoingError, read_place
from quartzpy.states import NodeMode
from quartzpy.store.node_problems import NodeProblem
from quartzpy.store.protocol import CheckIn, JobStore
from quartzpy.store.records import LastingIncident
from quartzpy.store.store_time import StoreTime

logger = logging.getLogger(__name__)


class NodeParts:
    """Creates and connects the parts of one node. Nothing runs before `SchedulerNode` starts it."""

    def __init__(
        self,
        store: JobStore,
        config: SchedulerConfig,
        *,
        clock: Clock,
        job_types: JobTypes,
        scheduler: Any,
        listeners: Listeners,
        job_factory: JobFactory,
        middleware: Sequence[Middleware],
        tracing: Tracing | None = None,
        observers: Observers | None = None,
        judge: Callable[[], Sequence[LastingIncident]] = tuple,
        program_problems: Collection[NodeProblem] = (),
    ) -> None:
        observers = observers or Observers()
        self.config, self.clock, self.job_types, self.listeners = config, clock, job_types, listeners
        load_allowed(job_types, config)
        self.store_time = store_time = StoreTime(clock)
        self._program_problems = program_problems
        self._problem_times = ProblemTimes(store_time.now)
        self.signals = signals = Signals(store_time)
        events = NodeEvents(listeners)
        self.watch = watch = StoreWatch(logger, "node", clock, events.error)
        self.troubles = Troubles(logger, watch, clock.monotonic)
        self.store = store = observers.watched(store, self.troubles)
        self.registration = registration = Registration(store, config, clock, signals.stop)
        watch.what = f"node {registration.instance_id}"
        self.name = name = f"quartzpy-{registration.instance_id}"
        self.announcer = Announcer(store, clock)

        # What runs the jobs, and what follows their ends.
        runs_jobs = config.role is not NodeRole.SCHEDULER
        self.loop = EventLoopThread(f"{name}-event-loop", debug=config.debug)
        self.deadlines = Deadlines(f"{name}-deadlines", clock)
        self.engines: list[EngineRuns] = []

        def new_engine(executor: str, kind: ExecutorConfig | None, pool: WorkerPool) -> EngineRuns:
            runs = new_engine_runs(
                executor,
                kind,
                pool,
                name=name,
                settings=config,
                store=store,
                job_types=job_types,
                job_factory=job_factory,
                tracing=tracing,
                clock=clock,
                watch=watch,
                has_grown=signals.scheduler.look_again,
            )
            self.engines.append(runs)
            if kind is None:
                # The node has started already.
                self.supervisor.watch(runs, pool)
                runs.start()
            return runs

        self.executors = Executors(
            config.workers if runs_jobs else 0,
            {executor: ExecutorConfig.of(value) for executor, value in config.all_executors.items()}
            if runs_jobs
            else {},
            f"{name}-worker",
            new_engine,
            most_ahead=config.batch_size,
            clock=clock.monotonic,
        )
        labels = (*config.labels, *_labels_of_channels(config))
        self.capacity = Capacity(self.executors, labels, config.execution_groups, NodeRole(config.role))
        completes: dict[str, Any] = {
            "store": store,
            "clock": clock,
            "store_time": store_time,
            "unblocked": signals.scheduling_changed,
            "opened": signals.scheduler.open_gates,
            "takes_more": signals.takes_more,
            "watch": watch,
            "recorded_some": self.announcer.announce,
            "paused": events.job_paused,
            "observers": observers,
        }
        self.long_completer = Completer(f"{name}-completer-at-length", **completes, at_length=True)
        self.completer = Completer(f"{name}-completer", **completes, for_long=self.long_completer)
        self.progress = ProgressWriter(f"{name}-progress", store=store, clock=clock, watch=watch)
        slots = Slots(executors=self.executors, capacity=self.capacity, clock=clock, signals=signals.scheduler)
        self.runner = JobRunner(
            job_types=job_types,
            job_modules=config.job_modules,
            job_factory=job_factory,
            middleware=middleware,
            store_time=store_time,
            loop=self.loop,
            deadlines=self.deadlines,
            listeners=listeners,
            store=store,
            unblocked=signals.scheduling_changed,
            opened=signals.scheduler.open_gates,
            scheduler=scheduler,
            ended=self.completer.put,
            freed=slots.free,
            leaves_refires=signals.leaves_refires,
            report_progress=self.progress.report,
            follow_log=self.progress.follow_log,
            clock=clock.monotonic,
            max_job_data_bytes=config.max_job_data_bytes,
            max_captured_log_bytes=config.max_captured_log_bytes,
        )
        self.dispatcher = Dispatcher(
            scheduler_name=config.name,
            store=store,
            runner=self.runner,
            executors=self.executors,
            capacity=self.capacity,
        )

        # What follows the commands and the job types of the cluster.
        self.modes = NodeModes(store, partial(_apply_mode, signals))
        self.known_types = KnownTypes(
            store=store,
            job_types=job_types,
            settings=config,
            capacity=self.capacity,
            node=lambda: registration.present_epoch().node,
            changed=signals.scheduler.look_again,
            monotonic=clock.monotonic,
        )
        self.reactions = reactions = Reactions(
            store=store,
            store_time=store_time,
            signals=signals,
            registration=registration,
            capacity=self.capacity,
            dispatcher=self.dispatcher,
            known_types=self.known_types,
            modes=self.modes,
            announcer=self.announcer,
            events=events,
        )

        # The threads that keep the node and the cluster going.
        common: dict[str, Any] = {"store": store, "clock": clock, "config": config, "watch": watch}
        common |= {"epoch": registration.present_epoch, "lease_lost": reactions.epoch_lost}
        self.scheduler_thread = SchedulerThread(
            f"{name}-scheduler",
            **common,
            signals=signals.scheduler,
            store_time=store_time,
            capacity=self.capacity,
            decide=self.known_types.decide,
            executors=self.executors,
            submit=self.dispatcher.submit,
            adopt=self.dispatcher.adopt,
            hand_back=self.dispatcher.hand_back,
            running=self.runner.fire_ids_of,
            abandon=self.dispatcher.abandon,
            backlog=self.completer.backlog,
            listeners=listeners,
        )
        self.misfires = MisfireHandler(
            f"{name}-misfire-handler",
            **common,
            wakeup=signals.misfires,
            store_time=store_time,
            performs_maintenance=lambda: self.capacity.performs_maintenance and not self.cluster.schema.is_copy,
            scheduling_changed=signals.scheduling_changed,
            listeners=listeners,
        )
        self.cluster = ClusterManager(
            f"{name}-cluster-manager",
            **common,
            wakeup=signals.cluster,
            checked_in=reactions.checked_in,
            recovered=reactions.recovered,
            opened=signals.scheduler.open_gates,
            time_off=reactions.time_off,
            rejoin=reactions.rejoin,
            judge=judge,
            during=self.troubles.during,
            performs_maintenance=lambda: self.capacity.performs_maintenance,
            halt=signals.scheduler.halt,
        )
        self.check_in = CheckInThread(
            f"{name}-check-in",
            **common,
            wakeup=signals.check_in,
            store_time=store_time,
            answered=self._check_in_answered,
            problems=self._problems_to_report,
            failed=self.cluster.check_in_failed,
        )
        self.notifications = NotificationListener(
            f"{name}-notifications",
            store=store,
            on_notification=reactions.notified,
            watch=watch,
            failed=partial(self.troubles.note, LISTENING),
            works=partial(self.troubles.succeeded, LISTENING),
        )
        self.watchdog = Watchdog(
            f"{name}-watchdog",
            (
                self.deadlines.keep_running,
                self.executors.keep_running,
                self.loop.check,
                self.runner.check,
                listeners.check,
            ),
            is_busy=lambda: self.executors.occupied > 0 or listeners.is_busy,
        )
        for service in self.services():
            service.report_error = events.error
            service.is_told_elsewhere = True
        self.supervisor = Supervisor(f"{name}-supervisor", clock, then=self.watchdog.wake_if_busy)
        self.supervisor.watch(*self.services(), *self.executors.pools(), self.loop, self.deadlines)

    def services(self) -> tuple[Service, ...]:
        return (
            self.check_in,
            self.cluster,
            self.completer,
            self.long_completer,
            self.watchdog,
            self.misfires,
            self.notifications,
            self.progress,
            self.scheduler_thread,
            *self.engines,
        )

    def health(self) -> SchedulerHealth:
        """Return the present health of the node."""
        self.supervisor.ensure_alive()
        return health_of(
            instance_id=self.registration.instance_id,
            epoch=self.registration.present_epoch(),
            now=self.clock.monotonic(),
            answered_at=self.check_in.answered_at,
            outage=self.watch.outage,
            outage_error=self.watch.last_error,
            refusal=self.cluster.refusal,
            schema=self.cluster.schema.problem,
            failure=self.supervisor.failure,
            clock_skew=self.store_time.skew,
            connections=self.store.connections(),
            threads=self.supervisor.threads(),
            executors=self.executors.load(),
            unrecorded=self.completer.backlog(),
            is_oldest=self.reactions.is_oldest,
            is_draining=self.signals.is_draining,
            others=self._problems_of_parts(),
            dated=self._problem_times.dated,
            incidents=self.cluster.incidents,
        )

    def _problems_of_parts(self) -> list[NodeProblem]:
        found_by_parts = self.completer.problem(), self.loop.problem()
        full = {incident.subject for incident in self.cluster.incidents if incident.kind == "full-pool"}
        return [
            *self.troubles.problems(),
            *(problem for problem in found_by_parts if problem is not None),
            *self.executors.problems(full),
            *self.known_types.problems(),
            *tuple(self._program_problems),
        ]

    def _problems_to_report(self) -> list[NodeProblem]:
        """Return what a check-in reports: those that its success ends are over when others read it."""
        return [problem for problem in self.health().details if problem.kind not in (NO_CHECK_IN, NO_LEASE)]

    def _check_in_answered(self, answer: CheckIn, epoch: Epoch, asked_at: float) -> None:
        self.reactions.check_in_answered(answer, epoch)
        self.cluster.check_in_answered(answer, epoch, asked_at)


def _labels_of_channels(config: SchedulerConfig) -> list[str]:
    """Return the labels for the channels whose URL and secret this node can read: others leave them to other nodes."""
    labels = []
    for name, channel in config.channels.items():
        try:
            for place in (channel.url, channel.secret):
                if place is not None:
                    read_place(place)
        except OutgoingError as error:
            logger.warning("this node does not send to the channel %s: %s", name, error)
        else:
            labels.append(channel_label(name))
    return labels


def _apply_mode(signals: Signals, mode: NodeMode) -> None:
    signals.scheduler.set_standby(mode is not NodeMode.RUNNING)
    if not signals.is_leaving:
        signals.is_draining = mode is NodeMode.DRAINING
