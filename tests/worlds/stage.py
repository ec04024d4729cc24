"""The server of a world, and the way of its clients to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from psycopg import sql
from sqlalchemy import URL, make_url

from quartzpy.embedded import EmbeddedPostgres
from tests.database import Server
from tests.worlds import bouncer, role
from tests.worlds.inside import sitecustomize as inside
from tests.worlds.installed import missing, servers
from tests.worlds.world import World

CHOOSES_ITERATIONS = 16
"""The first major version that has `scram_iterations`."""


class NotInstalledError(Exception):
    """A world cannot be entered here; the message says what to install."""


def binaries_of(world: World) -> Path:
    """The programs of a world's server. Raises NotInstalledError."""
    if lacking := missing(world):
        raise NotInstalledError(f"the world {world.name} needs {'; '.join(lacking)}")
    return servers()[world.server]


@contextmanager
def server(shared: Path, world: World) -> Iterator[Server]:
    """The embedded server of a world, which all processes that know the directory share; this process enters it.

    Raises:
        NotInstalledError: something that the world needs is not installed.
    """
    # The server's user is another one where the tests run as root.
    shared.chmod(0o755)
    directory = shared / f"pg{world.server}"
    sockets = directory / "data"
    # Where autovacuum has left room depends on when it ran, and triggers with the same fire time and priority fire in
    # the order of their rows. Without it, this is the order in which a test has stored or changed them.
    settings = {"unix_socket_directories": str(sockets), "autovacuum": "off"}
    if world.server >= CHOOSES_ITERATIONS:
        settings["scram_iterations"] = "1"
    embedded = EmbeddedPostgres(directory, durable=False, removed=True, settings=settings, binaries=binaries_of(world))
    with embedded, way(make_url(embedded.dsn), world, sockets) as url:
        found = Server(_text(url), world.title, administrator=embedded.dsn)
        if world.server >= CHOOSES_ITERATIONS:
            _store_password_again(found)
        if world.restricted:
            with found.connect() as administrator:
                role.create(administrator)
        yield found


def _store_password_again(server: Server) -> None:
    """Hash the superuser's password with the iterations of the settings.

    The 4,096 of `initdb` cost each connection 2 of its 3 ms of processor time, and the tests open thousands.
    """
    name, password = server.administrator.username, server.administrator.password
    assert name is not None
    with server.connect() as administrator, administrator.transaction():
        # Each worker does it, and some at the same time.
        administrator.execute("SELECT pg_advisory_xact_lock(1)")
        administrator.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(name), str(password)))


@contextmanager
def way(direct: URL, world: World, sockets: Path | None = None) -> Iterator[URL]:
    """Give the URL by which clients of this world reach a server, whose superuser's URL is `direct`.

    What a URL cannot say is changed in this process, and in those that it starts.
    """
    change: dict[str, int] = {}
    url = direct
    with ExitStack() as stack:
        if world.connection == "unix" and sockets is not None:
            url = url.set(host=None, port=None).update_query_dict({"host": str(sockets), "port": str(direct.port)})
        if world.restricted:
            url = role.login(url)
        if world.send_buffer is not None:
            change["send_buffer"] = world.send_buffer
        if world.pooled:
            port = stack.enter_context(bouncer.pooler(direct)).port
            assert direct.port is not None
            change |= {"pooler": port, "direct": direct.port}
            url = url.set(port=port)
        if change:
            inside.enter(change)
        yield url


def _text(url: URL) -> str:
    return url.render_as_string(hide_password=False)
