"""`HttpJob`, the job that calls a URL. It needs the extra `http` (httpx).

Every hop of a call is checked against the node's setting `http_hosts`, and goes to an address that was checked, without
a second look-up of the name. No proxy, no cookie and no .netrc of the environment takes part.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urljoin
from weakref import WeakKeyDictionary

from quartzpy.errors import HttpFailedError, InvalidJobDataError, NotAllowedError
from quartzpy.installing import install_line
from quartzpy.instants import Span, as_span, span_text
from quartzpy.jobs.http_hosts import AllowedHosts, HttpTarget, target_of
from quartzpy.jobs.included import settings_of_node
from quartzpy.jobs.job import Job
from quartzpy.jobs.sent_secrets import SentSecrets
from quartzpy.logs.discretion import discreet
from quartzpy.outgoing import OutgoingError, webhook_headers
from quartzpy.secret_texts import is_secret
from quartzpy.texts import quoted, reason, storable_text

if TYPE_CHECKING:
    import httpx

    from quartzpy.jobs.context import JobExecutionContext

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
REDIRECTS = (301, 302, 303, 307, 308)
MAX_REDIRECTS = 10
MAX_READ = 1_048_576
"""The bytes of an answer after which the connection is closed."""
MAX_RESULT = 6_000
"""The most bytes of JSON that the beginning of an answer takes in the result."""
MAX_TOKEN_ANSWER = 65_536
CONNECT_TIMEOUT = 10.0
MAX_ADDRESSES = 4
"""The number of addresses of a host that are tried."""
EARLY = 30.0
"""The time, in seconds, before its end at which a token is no longer used."""
MAX_TOKENS = 200
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_PLACE = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|\{([A-Za-z_]\w*)\}", re.ASCII)
_RANGE = re.compile(r"([1-5][0-9]{2})(?:-([1-5][0-9]{2}))?")
_OWN_HEADERS = frozenset(
    {
        *(
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "keep-alive",
            "upgrade",
            "te",
            "trailer",
            "expect",
        ),
        *("proxy-authorization", "proxy-connection", "accept-encoding", "http2-settings"),
    }
)
FACTS: dict[str, Callable[[JobExecutionContext], Any]] = {
    "fire_id": lambda context: context.fire_id,
    "job": lambda context: str(context.job_key),
    "trigger": lambda context: str(context.trigger_key),
    "fire_time": lambda context: context.fire_time,
    "scheduled_fire_time": lambda context: context.scheduled_fire_time,
    "nominal_fire_time": lambda context: context.nominal_fire_time,
    "previous_fire_time": lambda context: context.previous_fire_time,
    "next_fire_time": lambda context: context.next_fire_time,
    "attempt": lambda context: context.attempt,
    "execution_key": lambda context: context.execution_key,
    "node": lambda context: context.instance_id,
}
"""The facts of a fire that texts can contain."""


@dataclass(frozen=True)
class HttpRequest:
    """The data of an `HttpJob`: `HttpRequest("https://api.example.com/reports", "POST", json={"day": "{day}"})`.

    - `url`, `headers`, `json` (its texts) and `body` may contain `{name}`, where the name is one of `values`, or a fact
      of the fire: fire_id, job, trigger, attempt, execution_key, node, and the instants fire_time, scheduled_fire_time,
      nominal_fire_time, previous_fire_time and next_fire_time. `{{name}}` is the text `{name}`. There are no other
      forms. A text in `json` that is nothing but `{name}` becomes the value itself, a number for instance. In the path
      and the query of the URL a value is escaped; the host cannot contain one.
    - `success`: the statuses that count as success, as numbers or ranges: `[200, "202-204"]`.
    - `retry`: the statuses after which the retry policy of the job applies. Without them it applies after each failure.
      It always applies if there was no answer.
    - `redirects`: the number of redirects that are followed, each to a host that the node allows.
    - `timeout`: the limit of the whole call.
    - `auth`: one of `{"bearer": NAME}`, `{"headers": {"X-Api-Key": NAME}}`, `{"hmac": NAME}` (the signature of Standard
      Webhooks) and `{"oidc": {"token_url": ..., "client_id": ..., "secret": NAME, "scope": ..., "audience": ...}}`
      (client credentials). NAME is that of a secret in the node's setting `http_secrets`.
    - `idempotency_header`: the header that carries the execution key; None for none.
    - `result_bytes`: the bytes of the beginning of the answer that are stored with the result.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    json: Any = None
    body: str | None = None
    values: Mapping[str, Any] | None = None
    success: Sequence[int | str] = ("200-299",)
    retry: Sequence[int | str] = ()
    redirects: int = 0
    timeout: Span = "30s"
    auth: Mapping[str, Any] | None = None
    idempotency_header: str | None = "Idempotency-Key"
    result_bytes: int = 2_000

    def __post_init__(self) -> None:
        """Validate all values.

        Raises:
            InvalidJobDataError: a value is wrong; the message names it.
        """
        assign = object.__setattr__
        if not isinstance(self.url, str) or not self.url:
            raise InvalidJobDataError(f"url must be a text (got {quoted(self.url)})")
        authority = self.url.partition("://")[2].partition("/")[0].partition("?")[0]
        if "{" in authority or "{" in self.url.partition("://")[0]:
            raise InvalidJobDataError(
                "url: the scheme and the host cannot contain values; give the job several triggers"
            )
        assign(self, "method", self.method.upper() if isinstance(self.method, str) else self.method)
        if self.method not in METHODS:
            raise InvalidJobDataError(f"method must be one of {', '.join(METHODS)} (got {quoted(self.method)})")
        for name in ("headers", "values", "auth"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                raise InvalidJobDataError(f"{name} must be a mapping (got {quoted(value)})")
        for name, value in (self.headers or {}).items():
            _check_header(name, value)
        if self.idempotency_header is not None:
            _check_header(self.idempotency_header, "")
        if taken := FACTS.keys() & (self.values or {}).keys():
            raise InvalidJobDataError(f"values: {min(taken)!r} is a fact of the fire; choose another name")
        if self.json is not None and self.body is not None:
            raise InvalidJobDataError("json and body exclude each other")
        if self.body is not None and not isinstance(self.body, str):
            raise InvalidJobDataError(f"body must be a text (got {quoted(self.body)}); values are json")
        for name in ("success", "retry"):
            value = getattr(self, name)
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise InvalidJobDataError(f'{name} must be a list such as [200, "202-204"] (got {quoted(value)})')
            _statuses(value, name)
            assign(self, name, list(value))
        if not self.success:
            raise InvalidJobDataError("success: at least one status is needed")
        for name, most in (("redirects", MAX_REDIRECTS), ("result_bytes", MAX_RESULT)):
            number = getattr(self, name)
            if type(number) is not int or not 0 <= number <= most:
                raise InvalidJobDataError(f"{name} must be from 0 to {most} (got {quoted(number)})")
        span = as_span(self.timeout, "timeout", InvalidJobDataError, above_zero=True)
        assign(self, "timeout", span_text(span))
        if self.auth is not None:
            _check_auth(self.auth)


def _statuses(items: Sequence[object], name: str) -> frozenset[int]:
    statuses: set[int] = set()
    for item in items:
        match = _RANGE.fullmatch(str(item)) if type(item) in (int, str) else None
        if match is None:
            raise InvalidJobDataError(f'{name}: a status is a number such as 200, or "200-299" (got {quoted(item)})')
        statuses.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(statuses)


def _check_header(name: object, value: object) -> None:
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise InvalidJobDataError(f"headers: {quoted(name)} is not the name of a header")
    if is_secret(name):
        raise InvalidJobDataError(f"headers: {name} is a secret, which no job contains; use auth")
    if name.lower() in _OWN_HEADERS:
        raise InvalidJobDataError(f"headers: {name} follows from the call and cannot be set")
    if not isinstance(value, str):
        raise InvalidJobDataError(f"headers: the value of {name} must be a text (got {quoted(value)})")
    _header_value(name, value)


def _header_value(name: str, value: str) -> str:
    if not value.isascii() or not value.isprintable():
        raise InvalidJobDataError(f"headers: the value of {name} has characters that a header cannot have")
    return value.strip(" ")


_OIDC = ("token_url", "client_id", "secret", "scope", "audience")


def _check_auth(auth: Mapping[str, Any]) -> None:
    kinds = ("bearer", "headers", "hmac", "oidc")
    if len(auth) != 1 or next(iter(auth)) not in kinds:
        raise InvalidJobDataError(f"auth must have one of the keys {', '.join(kinds)} (got {quoted(list(auth))})")
    [(kind, value)] = auth.items()
    if kind in ("bearer", "hmac"):
        names: list[Any] = [value]
    else:
        if not isinstance(value, Mapping) or not value:
            raise InvalidJobDataError(f"auth: {kind} must be a mapping (got {quoted(value)})")
        names = list(value.values())
        if kind == "headers":
            for name in value:
                if not isinstance(name, str) or not _TOKEN.fullmatch(name) or name.lower() in _OWN_HEADERS:
                    raise InvalidJobDataError(f"auth: {quoted(name)} is not the name of a header that can be set")
        elif unknown := value.keys() - set(_OIDC):
            raise InvalidJobDataError(f"auth: oidc has no {min(unknown)!r}; it has {', '.join(_OIDC)}")
        elif missing := set(_OIDC[:3]) - value.keys():
            raise InvalidJobDataError(f"auth: oidc needs {min(missing)!r}")
    if not all(isinstance(name, str) and name for name in names):
        raise InvalidJobDataError(f"auth: the values of {kind} must be texts")


class HttpJob(Job, type_name="quartzpy.HttpJob", data_type=HttpRequest, operators_set=("values",)):
    """Calls a URL: `JobDetail(HttpJob, "report", data=HttpRequest("https://api.example.com/reports", "POST"))`.

    Only nodes with the setting `http_hosts` run such jobs, and only to the hosts that it names. The status of the
    answer decides about success. The result is `{"status": 200, "body": "..."}`, with the beginning of the answer.

    Raises:
        NotAllowedError: the settings of the node do not allow the host, its address, a redirect or a secret.
        HttpFailedError: there is no answer in time, or its status is no success.
    """

    allowed_by = "http_hosts"

    async def execute(self, context: JobExecutionContext) -> Any:
        """Make the call of `context.data`."""
        if find_spec("httpx") is None:
            raise HttpFailedError(f"HttpJob needs httpx on its node: {install_line('http')}")
        settings = settings_of_node(context)
        request: HttpRequest = context.data
        values = {name: fact(context) for name, fact in FACTS.items()} | dict(request.values or {})
        target = target_of(fill(request.url, values, _in_url))
        hosts = AllowedHosts(settings.http_hosts)
        hosts.check(target)
        span = as_span(request.timeout, "timeout", InvalidJobDataError)
        caller = _Caller(hosts, settings.http_secrets, await asyncio.to_thread(_tls, *_certificates()))
        content, headers = _content(request, values)
        for name, value in (request.headers or {}).items():
            headers[name.lower()] = _header_value(name, fill(value, values))
        if request.idempotency_header is not None:
            headers[request.idempotency_header.lower()] = quote(context.execution_key, safe="@:.+-_ ")
        what = f"{request.method} {target.scheme}://{target.authority}"
        try:
            with discreet(caller.sent.scrub):
                await self._call(context, caller, target, headers, content, what, span)
        except Exception as error:
            # The error of a library, or of a redirect, may repeat what the server has repeated.
            caller.sent.scrub_error(error)
            raise

    async def _call(
        self,
        context: JobExecutionContext,
        caller: _Caller,
        target: HttpTarget,
        headers: dict[str, str],
        content: bytes | None,
        what: str,
        span: timedelta,
    ) -> None:
        import httpx

        request: HttpRequest = context.data
        try:
            async with asyncio.timeout(span.total_seconds()):
                secret = await caller.authorization(request, target, content, context.execution_key)
                answer = await caller.call(request, target, headers, secret, content)
                if answer.status == 401 and caller.forget_token():
                    secret = await caller.authorization(request, target, content, context.execution_key)
                    answer = await caller.call(request, target, headers, secret, content)
        except TimeoutError:
            raise HttpFailedError(f"{what}: no answer within {request.timeout}") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
            raise HttpFailedError(f"{what}: {type(error).__name__}: {reason(error)}") from error
        context.result = {"status": answer.status, "body": answer.text}
        if answer.status not in _statuses(request.success, "success"):
            retried = _statuses(request.retry, "retry")
            beginning = f"; the answer begins with:\n{answer.text[:500]}" if answer.text else ""
            raise HttpFailedError(
                f"{what} answered with status {answer.status}{answer.hint}{beginning}",
                answer.status,
                may_be_retried=not retried or answer.status in retried,
            )


# --- the texts


def fill(text: str, values: Mapping[str, Any], escape: Callable[[str], str] = str) -> str:
    """Return a text with values in place of `{name}`; other braces stay.

    Raises:
        InvalidJobDataError: a name is neither a value nor a fact of the fire.
    """

    def value_of(match: re.Match[str]) -> str:
        literal, name = match.groups()
        return f"{{{literal}}}" if literal else escape(_as_text(_value(name, values)))

    return _PLACE.sub(value_of, text)


def _value(name: str, values: Mapping[str, Any]) -> Any:
    if name not in values:
        raise InvalidJobDataError(
            f"{{{name}}} is neither a value nor a fact of the fire; write {{{{{name}}}}} for the text itself"
        )
    return values[name]


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _in_url(text: str) -> str:
    if text.strip(".") == "":
        raise InvalidJobDataError("a value in a URL is empty or consists of dots")
    return quote(text, safe="")


def fill_json(document: Any, values: Mapping[str, Any]) -> Any:
    """Return a JSON document with values in its texts. A text that is nothing but `{name}` becomes the value."""
    if isinstance(document, str):
        match = _PLACE.fullmatch(document)
        if match and match[2]:
            value = _value(match[2], values)
            return value.isoformat() if isinstance(value, datetime) else value
        return fill(document, values)
    if isinstance(document, Mapping):
        return {name: fill_json(value, values) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return [fill_json(value, values) for value in document]
    return document


def _content(request: HttpRequest, values: Mapping[str, Any]) -> tuple[bytes | None, dict[str, str]]:
    headers = {"accept-encoding": "identity", "user-agent": "quartzpy", "accept": "*/*"}
    if request.json is not None:
        text = json.dumps(fill_json(request.json, values), default=_as_text, ensure_ascii=False)
        return text.encode(), {**headers, "content-type": "application/json"}
    if request.body is not None:
        return fill(request.body, values).encode(), {**headers, "content-type": "text/plain; charset=utf-8"}
    return None, headers


# --- the secrets


def read_secret(places: Mapping[str, str], name: str, *targets: HttpTarget) -> str:
    """Return a secret of the setting `http_secrets` for these targets. No error shows it.

    Raises:
        NotAllowedError: there is none of this name, it cannot be read, or it is not for one of the targets.
    """
    if name not in places:
        raise NotAllowedError(f"the setting http_secrets of this node has no {quoted(name)}")
    kind, _, rest = places[name].partition(":")
    source, _, hosts = rest.rpartition("@")
    allowed = AllowedHosts(hosts.lower().split())
    for target in targets:
        if not allowed.allows(target):
            raise NotAllowedError(f"the secret {quoted(name)} is not for {target.scheme}://{target.authority}")
    if kind == "env":
        value = os.environ.get(source, "")
    else:
        try:
            with open(source, encoding="utf-8-sig") as file:
                value = file.read(MAX_TOKEN_ANSWER)
        except (OSError, UnicodeDecodeError):
            value = ""
    value = value.strip()
    if not value or not value.isascii() or not value.isprintable():
        raise NotAllowedError(f"the secret {quoted(name)} cannot be read on this node, or is not a line of ASCII")
    return value


# --- the call


@dataclass(frozen=True)
class _Answer:
    status: int
    text: str
    content: bytes
    location: str | None
    hint: str = ""


_tokens: dict[tuple[str, ...], tuple[str, float]] = {}
"""The tokens of this process, with the monotonic time until which each is used."""
_fetches: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, ...], asyncio.Lock]] = WeakKeyDictionary()
"""Jobs that begin at the same time wait for one token, instead of fetching one each."""


class _Caller:
    """Makes the calls of one execution."""

    def __init__(self, hosts: AllowedHosts, secrets: Mapping[str, str], tls: ssl.SSLContext) -> None:
        self._hosts = hosts
        self._secrets = secrets
        self._tls = tls
        self._token_key: tuple[str, ...] | None = None
        self._used_token: str | None = None
        self._was_stored = False
        """Whether the token was fetched for a call before, so that it may be refused because it has expired."""
        self.sent = SentSecrets()
        self._showed_secret = False
        """Whether the last request had the secret: a redirect to another server has not."""

    async def call(
        self,
        request: HttpRequest,
        target: HttpTarget,
        headers: dict[str, str],
        secret: dict[str, str],
        content: bytes | None,
    ) -> _Answer:
        """Make the call, and follow as many redirects as the job allows."""
        method = request.method
        for followed in range(request.redirects + 1):
            limit = request.result_bytes
            self._showed_secret = bool(secret)
            answer = await self._send(method, target, {**headers, **secret}, content, limit)
            if answer.status not in REDIRECTS or not answer.location:
                return answer
            if followed == request.redirects:
                return _Answer(
                    answer.status, answer.text, b"", None, f", redirect {followed + 1} of at most {followed}"
                )
            following = target_of(urljoin(str(target), answer.location))
            if (target.scheme, following.scheme) == ("https", "http"):
                raise NotAllowedError(f"a redirect leads from HTTPS to {following.scheme}://{following.authority}")
            self._hosts.check(following)
            if following.origin != target.origin:
                secret = {}
            if answer.status == 303 or (answer.status in (301, 302) and method == "POST"):
                method, content = ("HEAD" if method == "HEAD" else "GET"), None
                headers = {name: value for name, value in headers.items() if name != "content-type"}
            target = following
        raise AssertionError("the loop returns")

    async def _send(
        self, method: str, target: HttpTarget, headers: Mapping[str, str], content: bytes | None, limit: int
    ) -> _Answer:
        """Send a request to one of the addresses of its host."""
        import httpx

        addresses = self._hosts.check_addresses(target, await resolve(target.host, target.port))
        # Without the environment: a proxy would look the name up once more, and .netrc adds a password.
        async with httpx.AsyncClient(verify=self._tls, trust_env=False, timeout=CONNECT_TIMEOUT) as client:
            client.headers.clear()
            for number, address in enumerate(addresses[:MAX_ADDRESSES], start=1):
                sent = client.build_request(
                    method,
                    httpx.URL(
                        scheme=target.scheme, host=address, port=target.port, raw_path=target.path.encode("ascii")
                    ),
                    headers={"host": target.authority, **headers},
                    content=content,
                    # The certificate has to be that of the name, although the connection goes to an address.
                    extensions={"sni_hostname": target.host, "timeout": {"connect": CONNECT_TIMEOUT}},
                )
                try:
                    response = await client.send(sent, stream=True, follow_redirects=False)
                except (httpx.ConnectError, httpx.ConnectTimeout):
                    if number == min(len(addresses), MAX_ADDRESSES):
                        raise
                    continue
                try:
                    return await _read(response, limit, self.sent)
                finally:
                    await response.aclose()
        raise AssertionError("the loop returns")

    # --- who calls

    async def authorization(
        self, request: HttpRequest, target: HttpTarget, content: bytes | None, execution_key: str
    ) -> dict[str, str]:
        """Return the headers that show who calls. They go to no other server than that of the URL."""
        if request.auth is None:
            return {}
        [(kind, value)] = request.auth.items()
        if kind == "bearer":
            return {"authorization": f"Bearer {self._secret(value, target)}"}
        if kind == "headers":
            return {name.lower(): self._secret(secret, target) for name, secret in value.items()}
        if kind == "hmac":
            return signature(self._secret(value, target), content or b"", execution_key, int(time.time()))
        token = await self._token(value, target)
        self.sent.add(token)
        return {"authorization": f"Bearer {token}"}

    def _secret(self, name: str, *targets: HttpTarget) -> str:
        secret = read_secret(self._secrets, name, *targets)
        self.sent.add(secret)
        return secret

    async def _token(self, oidc: Mapping[str, str], target: HttpTarget) -> str:
        issuer = target_of(oidc["token_url"])
        self._hosts.check(issuer)
        # A token of a client that is meant for one server must not be sent to another one.
        secret = self._secret(oidc["secret"], issuer, target)
        digest = hashlib.sha256(secret.encode()).hexdigest()
        self._token_key = key = (*(oidc.get(name, "") for name in _OIDC), digest)
        locks = _fetches.setdefault(asyncio.get_running_loop(), {})
        if len(locks) >= MAX_TOKENS:
            locks.clear()
        async with locks.setdefault(key, asyncio.Lock()):
            stored = _tokens.get(key)
            self._was_stored = stored is not None and time.monotonic() < stored[1]
            if stored is not None and self._was_stored:
                self._used_token = stored[0]
            else:
                self._used_token = await self._fetch(oidc, issuer, secret, key)
        return self._used_token

    async def _fetch(self, oidc: Mapping[str, str], issuer: HttpTarget, secret: str, key: tuple[str, ...]) -> str:
        form = {"grant_type": "client_credentials"} | {
            name: oidc[name] for name in ("scope", "audience") if name in oidc
        }
        credentials = f"{quote(oidc['client_id'], safe='')}:{quote(secret, safe='')}".encode()
        self.sent.add(base64.b64encode(credentials).decode())
        headers = {
            "authorization": f"Basic {base64.b64encode(credentials).decode()}",
            "content-type": "application/x-www-form-urlencoded",
            "accept": "application/json",
            "accept-encoding": "identity",
        }
        answer = await self._send("POST", issuer, headers, urlencode(form).encode(), MAX_TOKEN_ANSWER)
        try:
            document = json.loads(answer.content) if answer.status == 200 else {}
            token, lasts = document["access_token"], float(document.get("expires_in", 0))
        except (ValueError, TypeError, KeyError, RecursionError):
            token, lasts = None, 0.0
        if lasts != lasts or lasts == float("inf"):
            lasts = 0.0
        if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
            raise HttpFailedError(f"{oidc['token_url']} gave no token; it answered with status {answer.status}")
        if lasts > EARLY:
            while len(_tokens) >= MAX_TOKENS:
                _tokens.pop(next(iter(_tokens)))
            _tokens[key] = token, time.monotonic() + lasts - EARLY
        return token

    def forget_token(self) -> bool:
        """Forget a token that the server has refused. Return whether a fresh one may be taken."""
        if self._token_key is None or not self._showed_secret:
            return False
        stored = _tokens.get(self._token_key)
        # Another execution may have fetched a fresh one in the meantime.
        if stored is not None and stored[0] == self._used_token:
            del _tokens[self._token_key]
        return self._was_stored


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host.

    Raises:
        OSError: the name has none, or cannot be looked up.
    """
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in entries))


def signature(secret: str, content: bytes, execution_key: str, now: int) -> dict[str, str]:
    """Return the headers of Standard Webhooks (https://www.standardwebhooks.com) for a body."""
    # The same in all attempts, and without a full stop, which separates the parts.
    identity = f"fire_{hashlib.sha256(execution_key.encode()).hexdigest()[:32]}"
    try:
        return webhook_headers(secret, content, identity, now)
    except OutgoingError as error:
        raise NotAllowedError(str(error)) from None


async def _read(response: httpx.Response, limit: int, sent: SentSecrets) -> _Answer:
    """Read the beginning of an answer. What follows is read up to `MAX_READ`, so that its server can end it."""
    head = bytearray()
    read = 0
    # A secret that the end would cut has to be known as one.
    enough = limit + 4 * sent.longest
    async for piece in response.aiter_raw():
        head += piece[: max(enough - len(head), 0)]
        read += len(piece)
        if read > MAX_READ:
            break
    content = _decoded(bytes(head), response.headers.get("content-encoding", ""), enough)
    text = sent.beginning(content.decode(errors="replace"), len(content[:limit].decode(errors="replace")))
    return _Answer(response.status_code, _shown(text), content[:limit], response.headers.get("location"))


def _decoded(head: bytes, encoding: str, limit: int) -> bytes:
    """Return the beginning of the content, without the compression that nobody has asked for."""
    if encoding.lower() in ("", "identity"):
        return head
    if encoding.lower() not in ("gzip", "x-gzip", "deflate"):
        return b""
    try:
        # At most so many bytes, however many the whole would give.
        return zlib.decompressobj(47).decompress(head, max(limit, 1))
    except zlib.error:
        return b""


def _shown(text: str) -> str:
    text = storable_text(text).rstrip("\ufffd")
    while len(json.dumps(text)) > MAX_RESULT:
        text = text[: len(text) // 2]
    return text


def _certificates() -> tuple[str | None, str | None]:
    return os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")


@lru_cache(maxsize=4)
def _tls(file: str | None, directory: str | None) -> ssl.SSLContext:
    """Return the context for these certificates, which takes tens of milliseconds to make."""
    import httpx

    return httpx.create_ssl_context()
