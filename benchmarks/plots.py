"""The charts of a run, drawn as SVG by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.figures import Chart
from quartzpy.installing import install_line

HOW_TO_INSTALL = install_line("bench")


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True


def draw(chart: Chart, directory: Path) -> Path:
    """Draw a chart and return its file. The same values give the same file."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import ScalarFormatter

    # Text stays text, and identifiers do not depend on chance.
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": chart.name, "font.size": 10}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        axes = figure.subplots()
        for line in chart.lines:
            marker = "o" if len(line.points) <= 10 else ""
            axes.plot([x for x, _ in line.points], [y for _, y in line.points], label=line.label, marker=marker)
        if chart.log_x:
            axes.set_xscale("log")
        if chart.log_y:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        for axis, is_log in ((axes.xaxis, chart.log_x), (axes.yaxis, chart.log_y)):
            if is_log:
                axis.set_major_formatter(ScalarFormatter())
        if chart.ticks:
            axes.set_xticks(list(chart.ticks))
        axes.set_title(chart.title)
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel(chart.y_label)
        axes.grid(alpha=0.3, which="both" if chart.log_x and chart.log_y else "major")
        if len(chart.lines) > 1:
            axes.legend(fontsize=8)
        path = directory / f"{chart.name}.svg"
        figure.savefig(path, format="svg", metadata={"Date": None})
    return path
