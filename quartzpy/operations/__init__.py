"""What operators read and do: the models behind the command line, the web page and the JSON API."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quartzpy.operations.exports import *  # noqa: F403 - its `__all__` says which


def __getattr__(name: str) -> Any:
    # A node uses half of these modules to judge its cluster. It imports no others, which would take some megabytes, and
    # delay its jobs for 40 ms. The public names begin with capitals; those of modules do not.
    if name == "__all__" or name[:1].isupper():
        from quartzpy.operations import exports

        if hasattr(exports, name):
            value = globals()[name] = getattr(exports, name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
