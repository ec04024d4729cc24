"""The definitions of jobs, triggers and calendars over HTTP: what their requests consist of, and the answers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.requests import Request

from quartzpy.dashboard.api.reads import Parameter, boolean
from quartzpy.definitions.documents import check_nesting
from quartzpy.errors import InvalidValueError
from quartzpy.jobs.internal_entries import BatchKey
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.definition_records import Definition, DefinitionResult, Expected
from quartzpy.operations.definitions import Definitions
from quartzpy.scheduler.sync import Existing
from quartzpy.text_files import decoded
from quartzpy.texts import quoted, reason

JSON_TYPE = "application/json"
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
MAX_YAML_BYTES = 262_144
"""The largest body in YAML. Its parser reads about 200 kB in a second, and that of JSON a hundred times as much."""
WRITERS = 4
"""The number of changes of definitions that are made at the same time. They wait for each other in the database."""
APPLY = "/apply"
BATCHES = "batches"
BATCH_PARTS = ("group", "name", "batch")
"""The job that runs at the end of a batch, and the name of the batch."""
_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"')
_MAX_TAGS = 100

DRY_RUN = Parameter(
    "dry_run",
    "Answer what would be changed, and change nothing.",
    {"type": "boolean", "default": False},
    boolean,
)
REASON = Parameter("reason", "A sentence for the audit log.", {"type": "string"})
OWNER = Parameter("owner", "The owner of what the file declares.", {"type": "string", "minLength": 1}, required=True)
PRUNE = Parameter(
    "prune",
    "Remove what the owner declared before and no longer declares.",
    {"type": "boolean", "default": False},
    boolean,
)
EXISTING = Parameter(
    "existing",
    "keep: what is stored already does not change.",
    {"type": "string", "enum": [str(word) for word in Existing], "default": str(Existing.UPDATE)},
)
VERSION = Parameter("version", "The version of the owner's program: a newer one prevails.", {"type": "string"})
CHANGE_PARAMETERS = (DRY_RUN, REASON)
APPLY_PARAMETERS = (OWNER, PRUNE, EXISTING, VERSION, DRY_RUN, REASON)


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of definitions, each of which has an address."""

    collection: str
    kind: str
    parts: tuple[str, ...]
    """The names of the parts of its key, in the order of the address."""
    key: Callable[..., Any]
    read: Callable[[Definitions, Any], Definition]
    put: Callable[..., DefinitionResult]
    delete: Callable[..., DefinitionResult]

    @property
    def path(self) -> str:
        """Its path with the names of the parts."""
        return f"/{self.collection}/{'/'.join(f'{{{part}}}' for part in self.parts)}"

    def key_of(self, request: Request) -> Any:
        """Return the key in the address of a request. Raises as `key_parts`, or InvalidKeyError."""
        return self.key(*key_parts(request, self.collection, len(self.parts)))


RESOURCES = (
    Resource(
        "jobs",
        "job",
        ("group", "name"),
        lambda group, name: JobKey(name, group),
        Definitions.job,
        Definitions.put_job,
        Definitions.delete_job,
    ),
    Resource(
        "triggers",
        "trigger",
        ("group", "name"),
        lambda group, name: TriggerKey(name, group),
        Definitions.trigger,
        Definitions.put_trigger,
        Definitions.delete_trigger,
    ),
    Resource(
        "calendars",
        "calendar",
        ("name",),
        lambda name: name,
        Definitions.calendar,
        Definitions.put_calendar,
        Definitions.delete_calendar,
    ),
)


def batch_of(request: Request) -> BatchKey:
    """Return the batch in the address of a request. Raises as `key_parts`, or InvalidKeyError."""
    group, name, batch = key_parts(request, BATCHES, len(BATCH_PARTS))
    return BatchKey(JobKey(name, group), batch)


def key_parts(request: Request, collection: str, number: int) -> list[str]:
    """Return the last parts of the path of a request, decoded one by one: a part may contain an encoded slash.

    Raises:
        HTTPException: the path has another number of parts.
        InvalidValueError: a part is empty, not UTF-8, or cannot stand in a path.
    """
    path: str = request.scope["path"]
    prefix = f"{request.scope.get('root_path', '')}/{collection}"
    segments = path.split("/")
    raw = request.scope.get("raw_path")
    if raw is not None:
        text = raw.partition(b"?")[0].decode("latin-1")
        # What stands before the application may have changed the path; Starlette's test client decodes it twice.
        if path in (unquote(text), unquote(unquote(text))):
            segments = text.split("/")
    parts = [_decoded(segment) for segment in segments[-number:]]
    if len(segments) <= number or "/".join(map(_lenient, segments[:-number])) != prefix:
        raise HTTPException(404, f"the address has {number} parts after {collection}/; a / in a name is written as %2F")
    for part in parts:
        if part in (".", ".."):
            raise InvalidValueError(f"path: {quoted(part)} cannot stand in an address; use {APPLY} for such a name")
    return parts


def _decoded(segment: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise InvalidValueError(f"path: {quoted(segment)} is not UTF-8") from None


def _lenient(segment: str) -> str:
    return unquote(segment)


# --- conditions


def expected_by(request: Request) -> Expected:
    """Return what the headers If-Match and If-None-Match of a request expect.

    Raises:
        InvalidValueError: one of them is not a list of entity tags, or "*".
    """
    tags = _tags(request, "If-Match")
    others = _tags(request, "If-None-Match") or ()
    # A weak tag never matches where a strong comparison is needed.
    strong = None if tags is None else [tag for is_weak, tag in tags if not is_weak]
    return Expected(strong, [tag for _, tag in others])


def _tags(request: Request, name: str) -> list[tuple[bool, str]] | None:
    values = request.headers.getlist(name)
    if not values:
        return None
    text = ",".join(values).strip()
    if text == "*":
        return [(False, "*")]
    tags: list[tuple[bool, str]] = []
    for position, part in enumerate(text.split(",")):
        match = _TAG.fullmatch(part.strip())
        if match is None or match[2] == "*" or position >= _MAX_TAGS:
            raise InvalidValueError(f'{name}: must be * or a list of entity tags such as "5f1c" (got {quoted(text)})')
        tags.append((match[1] is not None, match[2]))
    return tags


# --- bodies


def json_document(request: Request, body: bytes) -> Any:
    """Return the document of a request in JSON.

    Raises:
        HTTPException: the body is of another media type.
        InvalidValueError: it is not JSON, has a key twice, or is nested too deep.
    """
    _check_type(request, (JSON_TYPE,))
    return _parsed(body)


def file_document(request: Request, body: bytes) -> Any:
    """Return the document of a declared file, in JSON or YAML. Raises as `json_document`."""
    media_type = _check_type(request, (JSON_TYPE, *YAML_TYPES))
    if media_type == JSON_TYPE:
        return _parsed(body)
    # Imported here, because YAML is an extra.
    from quartzpy.definitions.yaml_text import parsed_yaml

    if len(body) > MAX_YAML_BYTES:
        raise InvalidValueError(
            f"body: must have at most {MAX_YAML_BYTES:,} bytes in YAML (got {len(body):,}); send JSON, which may have"
            " more"
        )
    return parsed_yaml(_text(body), "body", takes_aliases=False)


def _check_type(request: Request, accepted: Sequence[str]) -> str:
    media_type, _, parameters = request.headers.get("content-type", "").partition(";")
    name, _, charset = parameters.strip().partition("=")
    is_utf8 = not parameters.strip() or (name.lower() == "charset" and charset.strip('"').lower() == "utf-8")
    if media_type.strip().lower() not in accepted or not is_utf8:
        raise HTTPException(
            415, f"the header Content-Type must be {' or '.join(accepted)}, in UTF-8", {"Accept": ", ".join(accepted)}
        )
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415, "the body must not be compressed")
    return media_type.strip().lower()


def _text(body: bytes) -> str:
    return decoded(body, "body", InvalidValueError)


def _parsed(body: bytes) -> Any:
    try:
        document = json.loads(_text(body), object_pairs_hook=without_repetition, parse_constant=no_constant)
    except InvalidValueError:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"body: must be JSON ({reason(error)})") from None
    check_nesting(document)
    return document


def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the values of a JSON object. Raises InvalidValueError if a key is given twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise InvalidValueError(f"body: the key {quoted(twice)} is given twice in one object")
    return values


def no_constant(name: str) -> Any:
    """Raise InvalidValueError for NaN and the infinities, which Python's reader takes for JSON."""
    raise InvalidValueError(f"body: must be JSON ({name} is not)")


def etag(tag: str | None) -> Mapping[str, str]:
    """Return the header with the tag of a definition."""
    return {} if tag is None else {"ETag": f'"{tag}"'}
