"""Which names are those of secrets, and how secrets are hidden in values and in texts: URLs, command lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise
from typing import Any

REDACTED = "[redacted]"
SECRETS = (
    *("*password*", "*passwd*", "*passphrase*", "*passcode*", "*pwd*", "*secret*", "*token*", "*api_key*", "*apikey*"),
    *("*credential*", "*private_key*", "*access_key*", "*account_key*", "*signing_key*", "*encryption_key*"),
    *("*subscription_key*", "*function_key*", "*master_key*", "*authorization*", "*signature*", "sig", "*cookie*"),
    *("*jwt*", "*x_auth*"),
)
"""The patterns of names whose values are hidden unless others are given."""

_SEPARATORS = re.compile(r"[-_.\s]+")
_NAME = r"(?<![\w.%-])(?P<name>[\w.%-]++)"
_VALUE = r"""(?P<value>"[^"\n]*"|'[^'\n]*'|\\"[^"\n]*?\\"|[^\s"'&;,<>(){}]++)"""
_NAMED = re.compile(
    rf"""{_NAME}(?P<between>\\?["']?\s*+[=:](?!//)\s*+(?:(?:bearer|basic|token|digest)\s++)?){_VALUE}""", re.I
)
"""A name and its value: in a query, an option, an assignment, a header, a connection string or JSON."""
_OPTION = re.compile(r"""(?<![\w-])-{1,2}(?P<name>[A-Za-z][\w-]*+)(?P<between>\s++["']?)(?P<value>(?!-)[^\s"']++)""")
_USER = re.compile(r"(?P<before>\b[a-z][a-z0-9+.-]*+://[^\s/?#:@\"']*+:)[^\s/?#\"']*(?=@)", re.I)
_USER_ALONE = re.compile(r"(?P<before>\bhttps?://)[^\s/?#:@\"']++(?=@)", re.I)
_SCHEME = re.compile(r"(?P<before>\b(?:bearer|basic)\s++)[A-Za-z0-9._~+/=-]{8,}", re.I)
_PROGRAMS_WITH_P = re.compile(r"(?:^|[\s/;&|(])(?:mysql\w*|mariadb[\w-]*|sshpass)(?=\s|$)")
_SHORT = re.compile(r"""(?P<before>(?<!\S)["']?-p\s?)[^\s"']++""")
_PROGRAMS_WITH_USER = re.compile(r"(?:^|[\s/;&|(])(?:curl|wget)(?=\s|$)")
_LOGIN = re.compile(r"""(?P<before>(?<!\S)(?:-u|--user|--proxy-user)[\s=]?\s*+["']?[^\s:"']*+:)[^\s"']++""")


@lru_cache(maxsize=64)
def _plain(pattern: str) -> str:
    return _SEPARATORS.sub("", pattern.lower())


def is_secret(name: str, patterns: Sequence[str] = SECRETS) -> bool:
    """Return whether a name matches a pattern; case, hyphens, underscores and full stops make no difference."""
    lower, plain = name.lower(), _SEPARATORS.sub("", name.lower())
    return any(fnmatchcase(lower, pattern.lower()) or fnmatchcase(plain, _plain(pattern)) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Redaction:
    """Hides the values of names that match a pattern, at any depth, also in the middle of texts."""

    patterns: tuple[str, ...] = SECRETS

    def of(self, data: Any) -> Any:
        """Return a copy of `data` in which the values of matching names are `REDACTED`."""
        match data:
            case Mapping():
                is_pair = any(self.hides(data[key]) for key in ("name", "key") if isinstance(data.get(key), str))
                return {
                    key: REDACTED if self.hides(key) or (is_pair and key == "value") else self.of(value)
                    for key, value in data.items()
                }
            case str():
                return self.text(data)
            case bytes():
                return data
            case Sequence() | set() | frozenset():
                return self._words(list(data))
        return data

    def hides(self, key: object) -> bool:
        """Return True if the values of a key are hidden."""
        return is_secret(str(key), self.patterns)

    def text(self, text: str) -> str:
        """Return a text without the secrets that can be told by their names or by their places."""
        if not self.patterns or not any(sign in text for sign in "=:- "):
            return text
        text = _USER.sub(rf"\g<before>{REDACTED}", text)
        text = _USER_ALONE.sub(rf"\g<before>{REDACTED}", text)
        text = _NAMED.sub(self._named, text)
        text = _SCHEME.sub(rf"\g<before>{REDACTED}", text)
        text = _OPTION.sub(self._named, text)
        if _PROGRAMS_WITH_P.search(text):
            text = _SHORT.sub(rf"\g<before>{REDACTED}", text)
        if _PROGRAMS_WITH_USER.search(text):
            text = _LOGIN.sub(rf"\g<before>{REDACTED}", text)
        return text

    def _named(self, match: re.Match[str]) -> str:
        if match["value"] == REDACTED or not self.hides(match["name"]):
            return match[0]
        value, quote = match["value"], ""
        if value[0] in "\"'" or value.startswith('\\"'):
            quote = value[:2] if value[0] == "\\" else value[0]
        start = match.start("value") - match.start()
        return f"{match[0][:start]}{quote}{REDACTED}{quote}"

    def _words(self, items: list[Any]) -> list[Any]:
        """Return the items of a list, which may be the words of a command line: an option is followed by its value."""
        shown = [self.of(item) for item in items]
        if not self.patterns:
            return shown
        program = str(items[0]).rpartition("/")[2] if items and isinstance(items[0], str) else ""
        for number, (item, following) in enumerate(pairwise(items), start=1):
            if not isinstance(item, str) or not isinstance(following, str):
                continue
            is_option = item.startswith("-") and "=" not in item and self.hides(item.lstrip("-"))
            if is_option and not following.startswith("-"):
                shown[number] = REDACTED
            elif item in ("-u", "--user", "--proxy-user") and program in ("curl", "wget") and ":" in following:
                shown[number] = f"{following.partition(':')[0]}:{REDACTED}"
            elif item == "-p" and program == "sshpass":
                shown[number] = REDACTED
            if following.startswith("-p") and len(following) > 2 and _PROGRAMS_WITH_P.search(program):
                shown[number] = f"-p{REDACTED}"
        return shown
