"""The plugin that measures a scheduler, and serves what it measured."""

from __future__ import annotations

import logging

from quartzpy.errors import SchedulerStateError, SettingsError
from quartzpy.metrics.collector import Collector
from quartzpy.metrics.endpoints import Asgi, MetricsServer, Responder, Wsgi, asgi_of, wsgi_of
from quartzpy.metrics.families import PLAIN, rendered
from quartzpy.metrics.recorder import Recorder
from quartzpy.node.observers import Observer
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.texts import quoted

logger = logging.getLogger(__name__)

MAX_GROUPS = 10_000


class Metrics(Observer):
    """Measures a scheduler: `Scheduler(url, plugins=[Metrics()])`.

    With a `port`, it listens at `host` for as long as the scheduler is not shut down, and answers `/metrics`,
    `/healthz` (liveness) and `/readyz` (readiness). It has no authentication, so by default only this machine reaches
    it. Port 0 takes any free port. Without a port, mount `asgi` or `wsgi` into an application, or call `text`.

    Values are kept for each job group, or with `by_job=True` for each job; at most for `most_groups` of them, and all
    others share one. `cluster` says whether the load of the cluster is read: by default only the oldest node of the
    cluster does; True lets this process do it always, which suits a scheduler that was not started or a cluster in
    which not every node is scraped; False never.

    Raises:
        SettingsError: a value is invalid.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        host: str = "127.0.0.1",
        by_job: bool = False,
        most_groups: int = 100,
        cluster: bool | None = None,
    ) -> None:
        if port is not None and (type(port) is not int or not 0 <= port <= 65_535):
            raise SettingsError(f"port: must be an integer from 0 to 65535, or None (got {quoted(port)})")
        if type(most_groups) is not int or not 1 <= most_groups <= MAX_GROUPS:
            raise SettingsError(f"most_groups: must be an integer from 1 to {MAX_GROUPS} (got {quoted(most_groups)})")
        self._host, self._wanted_port = host, port
        self._cluster = cluster
        self._recorder = Recorder(by_job=by_job, most=most_groups)
        self._collector: Collector | None = None
        self._responder: Responder | None = None
        self._server: MetricsServer | None = None

    # --- the plugin

    def initialize(self, scheduler: BaseScheduler) -> None:
        """Begin to measure a scheduler.

        Raises:
            SchedulerStateError: this object already measures a scheduler.
        """
        if self._collector is not None:
            raise SchedulerStateError("metrics: this object already measures a scheduler; create one for each")
        self._collector = Collector(scheduler, self._recorder, cluster=self._cluster)
        self._responder = Responder(scheduler, self._collector)
        scheduler.observers.add(self._recorder)
        scheduler.observers.add(self)

    def start(self) -> None:
        """Begin to listen, if there is a port and nothing listens yet.

        Raises:
            PluginStartError: the address cannot be used, for example because another process listens there.
        """
        if self._wanted_port is not None and self._server is None:
            self._server = MetricsServer(self._responder_of_one(), self._host, self._wanted_port)
            logger.info("metrics and probes are at http://%s:%d", self._host, self._server.port)

    def shutdown(self) -> None:
        """Do nothing: the probes answer until the scheduler has stopped."""

    def stopped(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    # --- what it measured

    @property
    def port(self) -> int | None:
        """The port that it listens at. None if it does not listen."""
        return None if self._server is None else self._server.port

    @property
    def asgi(self) -> Asgi:
        """An ASGI application for `/metrics`, `/healthz` and `/readyz`. Its root path answers as `/metrics` does."""
        return asgi_of(self._responder_of_one())

    @property
    def wsgi(self) -> Wsgi:
        """A WSGI application with the same paths."""
        return wsgi_of(self._responder_of_one())

    def text(self) -> str:
        """Return the present values in the text format of Prometheus.

        Raises:
            SchedulerStateError: it was not passed to a scheduler.
        """
        if self._collector is None:
            raise self._unused()
        return rendered(self._collector.collect(), PLAIN)

    def _responder_of_one(self) -> Responder:
        if self._responder is None:
            raise self._unused()
        return self._responder

    def _unused(self) -> SchedulerStateError:
        return SchedulerStateError("metrics: pass it to a scheduler first: Scheduler(url, plugins=[metrics])")
