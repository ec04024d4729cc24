"""A real PostgreSQL server from a wheel, without any setup. Only the programs of the wheel are used."""

from quartzpy.embedded.schedule_server import ScheduleServer
from quartzpy.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "ScheduleServer"]
