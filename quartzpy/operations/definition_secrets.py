"""The secrets of definitions: hidden in what is read, and kept where a hidden value is sent back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from quartzpy.definitions.faults import Faults, Place
from quartzpy.secret_texts import REDACTED, Redaction

_NOT_STORED = f"{REDACTED} stands for the stored value, and none is stored here; send the value itself"


def hidden(document: dict[str, Any], redaction: Redaction) -> dict[str, Any]:
    """Return a document with its secrets hidden, which are in job data only."""
    shown = dict(document)
    if "data" in shown:
        shown["data"] = redaction.of(shown["data"])
    if "continuations" in shown:
        shown["continuations"] = [hidden(continuation, redaction) for continuation in shown["continuations"]]
    return shown


def revealed(document: object, stored: Mapping[str, Any], redaction: Redaction, faults: Faults) -> object:
    """Return a document in which the hidden values of the stored one, sent back as they were shown, are the stored.

    So whoever reads a definition and changes something else need not know its secrets.
    """
    if not isinstance(document, Mapping):
        return document
    is_same = all(document.get(word, stored.get(word)) == stored.get(word) for word in ("type", "job"))
    own: dict[str, Any] = stored.get("data", {}) if is_same else {}
    shown = dict(document)
    if "data" in shown:
        shown["data"] = _with_secrets(shown["data"], own, redaction, faults, ("data",))
    if isinstance(shown.get("continuations"), list):
        of_stored = {_follower(entry): entry for entry in stored.get("continuations", ())}
        shown["continuations"] = [
            {
                **entry,
                "data": _with_secrets(
                    entry["data"],
                    of_stored.get(_follower(entry), {}).get("data", {}),
                    redaction,
                    faults,
                    ("continuations", number, "data"),
                ),
            }
            if isinstance(entry, Mapping) and "data" in entry
            else entry
            for number, entry in enumerate(shown["continuations"])
        ]
    return shown


def _with_secrets(sent: Any, stored: Any, redaction: Redaction, faults: Faults, place: Place) -> Any:
    return _revealed(sent, stored, redaction.of(stored), redaction, faults, place)


def _revealed(sent: Any, stored: Any, shown: Any, redaction: Redaction, faults: Faults, place: Place) -> Any:
    """Return what was sent, with the stored value wherever it is sent as it was shown."""
    if isinstance(sent, Mapping):
        own = stored if isinstance(stored, Mapping) else {}
        displayed = shown if isinstance(shown, Mapping) else {}
        values = {}
        for name, value in sent.items():
            if value == REDACTED and name not in own and redaction.hides(name):
                faults.add((*place, name), _NOT_STORED)
            values[name] = _revealed(value, own.get(name), displayed.get(name), redaction, faults, (*place, name))
        return values
    if isinstance(sent, list):
        is_alike = isinstance(stored, list) and isinstance(shown, list) and len(stored) == len(shown) == len(sent)
        pairs = zip(stored, shown, strict=True) if is_alike else [(None, None)] * len(sent)
        return [
            _revealed(item, own, displayed, redaction, faults, (*place, number))
            for number, (item, (own, displayed)) in enumerate(zip(sent, pairs, strict=True))
        ]
    if isinstance(sent, str) and REDACTED in sent and shown != stored:
        if sent == shown:
            return stored
        faults.add(place, _NOT_STORED)
    return sent


def _follower(entry: object) -> str:
    values = entry if isinstance(entry, Mapping) else {"job": entry}
    return json.dumps([values.get("group", "DEFAULT"), values.get("job")], default=str)
