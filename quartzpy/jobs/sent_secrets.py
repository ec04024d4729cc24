"""The secrets that a call has sent, taken out of what comes back: a server may repeat what it was sent."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable

from quartzpy.secret_texts import REDACTED

_SHORTEST = 4
"""The fewest characters that are looked for: shorter ones are part of ordinary words."""


class SentSecrets:
    """Secrets, and all forms in which a text may contain one of them."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._patterns: re.Pattern[str] | None = None

    def add(self, *values: str) -> None:
        """Note what is sent."""
        self._values.update(value for value in values if len(value) >= _SHORTEST)
        self._patterns = None

    @property
    def longest(self) -> int:
        """The most characters that a form of a secret has."""
        # Each character as \u0041 or %2541, and some more.
        return max((10 * len(value) for value in self._values), default=0)

    def scrub(self, text: str) -> str:
        """Return a text without the secrets."""
        return self.beginning(text, len(text))

    def beginning(self, text: str, length: int) -> str:
        """Return the first characters of a text without the secrets, also without one that the end would cut."""
        if not self._values:
            return text[:length]
        if self._patterns is None:
            forms = sorted({form for value in self._values for form in _forms(value)}, key=len, reverse=True)
            self._patterns = re.compile("|".join(forms))
        parts, position = [], 0
        for match in self._patterns.finditer(text):
            if match.start() >= length:
                break
            parts += [text[position : match.start()], REDACTED]
            position = match.end()
        return "".join([*parts, text[position : max(length, position)]])

    def scrub_error(self, error: BaseException) -> None:
        """Take the secrets out of the texts of an error and of those that it came from."""
        scrubbed: set[int] = set()
        pending: list[BaseException | None] = [error]
        while pending:
            current = pending.pop()
            if current is None or id(current) in scrubbed:
                continue
            scrubbed.add(id(current))
            current.args = tuple(self.scrub(part) if isinstance(part, str) else part for part in current.args)
            if isinstance(current, OSError) and isinstance(current.strerror, str):
                current.strerror = self.scrub(current.strerror)
            pending += [current.__cause__, current.__context__]


def _forms(value: str) -> Iterable[str]:
    """Yield patterns: the secret with any of its characters escaped, in base64 at any offset, and in hexadecimal."""
    # Servers write the values of headers in small letters as well.
    yield f"(?i:{''.join(map(_character, value))})"
    data = value.encode()
    yield f"(?i:{data.hex()})"
    for offset in range(3):
        # What the neighbours do not decide: without the characters that share bits with what is before and behind.
        encoded = base64.b64encode(b"\0" * offset + data).decode().rstrip("=")
        first = (offset * 8 + 5) // 6
        last = len(encoded) if (offset + len(data)) % 3 == 0 else len(encoded) - 1
        inner = encoded[first:last]
        if len(inner) >= _SHORTEST:
            yield "".join({"+": "[+-]", "/": r"(?:[/_]|\\/|%2[Ff])"}.get(sign, sign) for sign in inner) + "={0,2}"


def _character(sign: str) -> str:
    code = ord(sign)
    plain = re.escape(sign)
    escapes = [rf"%(?:25)*{code:02x}", rf"\\+u{code:04x}", rf"\\+x{code:02x}", rf"&\#0*{code};", rf"&\#x0*{code:x};"]
    named = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;", " ": r"\+"}.get(sign)
    return rf"(?:\\*{plain}|{'|'.join([*escapes, *([named] if named else [])])})"
