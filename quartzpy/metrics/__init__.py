"""Metrics of a node for Prometheus, and probes for an orchestrator; `docs/operate/metrics.md` lists them."""

from quartzpy.metrics.plugin import Metrics

__all__ = ["Metrics"]
