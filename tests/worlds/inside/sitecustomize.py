"""What a process of a test changes in its own connections, so that it lives in the world of the test.

The process of pytest calls `enter`. Python imports this file in all processes that this one starts, because `enter`
puts its directory first on `PYTHONPATH`; it may therefore import only the standard library before it is needed.
"""

from __future__ import annotations

import dataclasses
import importlib.abc
import importlib.util
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

VARIABLE = "QUARTZPY_TEST_WORLD"
"""JSON: `send_buffer`, the bytes of SO_SNDBUF; `pooler`, the port of PgBouncer; `direct`, the port of its server."""


def enter(change: Mapping[str, int]) -> None:
    """Change this process, and all that it starts."""
    os.environ[VARIABLE] = json.dumps(dict(change))
    places = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(places)
    _change_all(change)


def _change_all(change: Mapping[str, int]) -> None:
    for name, function in _CHANGES.items():
        if name in sys.modules:
            function(sys.modules[name], change)
        else:
            sys.meta_path.insert(0, _AfterImport(name, function, change))


def _psycopg(module: Any, change: Mapping[str, int]) -> None:
    """A small buffer to send from, and no prepared statements where sessions are a pooler's."""

    def made(connection: Any) -> Any:
        if (size := change.get("send_buffer")) is not None:
            # The descriptor is libpq's.
            with socket.socket(fileno=os.dup(connection.pgconn.socket)) as copy:
                copy.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        if "pooler" in change and connection.info.port != change["direct"]:
            connection.prepare_threshold = None
        return connection

    ordinary, asynchronous = module.Connection.connect.__func__, module.AsyncConnection.connect.__func__

    def connect(cls: Any, *arguments: Any, **options: Any) -> Any:
        return made(ordinary(cls, *arguments, **options))

    async def connect_async(cls: Any, *arguments: Any, **options: Any) -> Any:
        return made(await asynchronous(cls, *arguments, **options))

    module.Connection.connect = classmethod(connect)
    module.AsyncConnection.connect = classmethod(connect_async)
    module.connect = module.Connection.connect


def behind_pooler(module: Any, change: Mapping[str, int]) -> None:
    """A store whose URL leads to PgBouncer has the settings that the documentation asks for.

    One that gets there by a proxy of a test is pooled as well, but does not listen past what the test cuts.
    """
    if "pooler" not in change:
        return
    ordinary = module.SqlJobStore.__init__

    def initialize(store: Any, source: Any, config: Any, **options: Any) -> None:
        if isinstance(source, str) and f":{change['direct']}/" not in source:
            direct = None
            if f":{change['pooler']}/" in source:
                direct = source.replace(f":{change['pooler']}/", f":{change['direct']}/")
            config = dataclasses.replace(config, pooled=True, listen_url=config.listen_url or direct)
        ordinary(store, source, config, **options)

    module.SqlJobStore.__init__ = initialize


Change = Callable[[Any, Mapping[str, int]], None]
_CHANGES: Mapping[str, Change] = {"psycopg": _psycopg, "quartzpy.store.postgresql.store": behind_pooler}


class _AfterImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Changes a module once it is imported."""

    def __init__(self, name: str, function: Change, change: Mapping[str, int]) -> None:
        self._name, self._function, self._change = name, function, change
        self._loader: Any = None

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        # Whoever asks the module for its source or its data asks the loader that knows them.
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._function(module, self._change)


if __name__ == "sitecustomize" and VARIABLE in os.environ:
    _change_all(json.loads(os.environ[VARIABLE]))
