"""A real PostgreSQL from a wheel: nothing to set up. Only the wheel's programs are used."""

from quartzpy.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres"]
