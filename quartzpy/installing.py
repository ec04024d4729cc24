"""How the extras are installed: the line that messages show."""

IS_RELEASED = False
"""True once quartzpy is on a package index. Until then a line with its bare name would install somebody else's."""

EXTRAS = {"celery": "celery", "dask": "dask", "distributed": "dask"}
"""The extras by the packages that modules of quartzpy import as soon as they are imported themselves."""


def install_line(*extras: str) -> str:
    """Return the command that installs quartzpy with some extras."""
    names = f"[{','.join(extras)}]" if extras else ""
    return f"pip install 'quartzpy{names}'" if IS_RELEASED else f"pip install '.{names}' in a checkout of quartzpy"
