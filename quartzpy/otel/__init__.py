"""Traces and metrics by OpenTelemetry (the extra `otel`); see `docs/operate/traces.md`."""

from quartzpy.otel.plugin import OpenTelemetry

__all__ = ["OpenTelemetry"]
