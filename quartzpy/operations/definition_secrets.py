"""The secrets of definitions: hidden in what is read, and kept where a hidden value is sent back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from quartzpy.operations.source import REDACTED, Redaction
from quartzpy.scheduler.document_faults import Faults, Place


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
    if isinstance(sent, Mapping):
        own = stored if isinstance(stored, Mapping) else {}
        values = {}
        for name, value in sent.items():
            if value == REDACTED and redaction.hides(name):
                if name not in own:
                    faults.add(
                        (*place, name),
                        f"{REDACTED} stands for the stored value, and none is stored here; send the value itself",
                    )
                values[name] = own.get(name)
            else:
                values[name] = _with_secrets(value, own.get(name), redaction, faults, (*place, name))
        return values
    if isinstance(sent, list):
        items = stored if isinstance(stored, list) and len(stored) == len(sent) else [None] * len(sent)
        return [
            _with_secrets(item, items[number], redaction, faults, (*place, number)) for number, item in enumerate(sent)
        ]
    return sent


def _follower(entry: object) -> str:
    values = entry if isinstance(entry, Mapping) else {"job": entry}
    return json.dumps([values.get("group", "DEFAULT"), values.get("job")], default=str)
