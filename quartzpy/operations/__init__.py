"""What operators read and do: the models behind the command line, the web page and the JSON API."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quartzpy.operations.exports import *  # noqa: F403 - its `__all__` says which


def __getattr__(name: str) -> Any:
    # A node uses half of these modules to judge its cluster. It imports no others, which would take some megabytes, and
    # delay its jobs for 40 ms. The public names begin with capitals; those of modules do not.
    if name != "__all__" and not name[:1].isupper():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module("quartzpy.operations.exports"), name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = value
    return value
