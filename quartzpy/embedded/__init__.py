"""A real PostgreSQL server from a wheel, without any setup. Only the programs of the wheel are used."""

from quartzpy.embedded.postgres import EmbeddedPostgres
from quartzpy.embedded.schedule_server import ScheduleServer

__all__ = ["EmbeddedPostgres", "ScheduleServer"]
