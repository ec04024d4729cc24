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
    *("*jwt*", "*x_auth*", "*auth_key*", "*functions_key*", "*app_key*", "*application_key*", "*storage_key*"),
    *("*ssh_key*", "*passkey*", "*license_key*", "*session_id*", "*connection_string*", "*client_assertion*", "bearer"),
    *("oauth2_bearer", "authentication", "pass", "*db_pass", "*user_pass", "*smtp_pass", "*mysql_pass", "*mail_pass"),
    *("*postgres_pass", "*redis_pass", "*admin_pass", "*root_pass", "*ftp_pass", "*http_pass"),
)
"""The patterns of names whose values are hidden unless others are given."""

_MAX_NAME = 1_000
_SEPARATORS = re.compile(r"[-_.\s]+")
_NAME = r"(?<![\w.%-])(?P<name>[\w.%-]++)"
_QUOTED = r"""\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'"""
_PLAIN = r"""\\[ "'](?=\S)|[^\s"'&;,<>(){}\\]|\\(?!["' ])|[,<(){](?=[^\s"'])(?![\w.-]++[=:])|[>)}](?=\w)"""
_VALUE = rf"""(?P<value>\[[^\[\]\n]*+\]|\\+"[^"\n]*?\\+"|(?:{_QUOTED}|\\['"](?=['"])|{_PLAIN})++)"""
"""A word as a shell reads it, in parts with and without quotation marks; a list; or a text within JSON in a text."""
_NAMED = re.compile(
    rf"""{_NAME}(?P<between>\\*["']?\s*+(?:=>|[=:](?!//))\s*+(?:(?:bearer|basic|token|digest)\s++)?){_VALUE}""",
    re.I,
)
"""A name and its value: in a query, an option, an assignment, a header, a connection string or JSON."""
_ESCAPED = re.compile(
    r"(?:%3F|%26|(?<![\w%-]))(?P<name>[A-Za-z][\w-]*+)(?P<between>%3D)(?P<value>(?:[\w.~+/-]|%(?!26)\w\w)++)", re.I
)
"""The same in a URL within a query."""
_ELEMENT = re.compile(r"<(?P<name>[A-Za-z][\w:.-]*+)(?P<between>(?:\s[^<>]*+)?>)(?P<value>[^<>\s][^<>]*+)(?=</)")
_OPTION = re.compile(r"""(?<![\w-])-{1,2}(?P<name>[A-Za-z][\w-]*+)(?P<between>\s++["']?)(?P<value>(?!-)[^\s"']++)""")
_USER = re.compile(
    r"(?P<before>\b[a-z][a-z0-9+.-]*+://[^\s/?#:@\"']*+:)(?!\d{1,5}(?:[/?#]|$))[^\s\"'\[]{0,300}(?=@)|"
    r"(?P<short>(?<![\w:/])//[^\s/?#:@\"']++:)[^\s/?#\"'\[]{0,300}(?=@)",
    re.I,
)
_USER_ALONE = re.compile(r"(?P<before>\bhttps?://)[^\s/?#:@\"']++(?=@)", re.I)
_HEADER = re.compile(
    r"""(?P<before>(?<![\w-])(?:(?:proxy-|x-)?authorization|(?:set-)?cookie)(?:\\?["']\s*+)?:\s*+\\?["']?"""
    r"""(?:(?:basic|bearer|digest|token|negotiate)(?:\s|\\\s)++)?+)(?:[^\n"'\\\[]|\\[^n"'])(?:[^\n'"\\]|\\[^n"']|(?<==)"[^"\n]*+")*+""",
    re.I,
)
"""Headers whose whole value is secret, up to the end of the line or of the text in quotation marks."""
_SHAPES = re.compile(
    r"\b(?:gh[pousr]_\w{30,}|github_pat_\w{30,}|glpat-[\w-]{20,}|xox[abeoprs]-[\w-]{10,}|sk_live_\w{10,}"
    r"|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*)|(?<=hooks\.slack\.com/services/)[\w/-]++"
    r"|(?<=PRIVATE KEY-----)[^-]{20,}(?=-----END)"
)
"""Secrets that are known by their form: of code hosts, chats and payments, JSON web tokens, and private keys."""
_SCHEME = re.compile(r"(?P<before>\b(?:bearer|basic)\s++)[A-Za-z0-9._~+/=-]{8,}", re.I)


def _programs(names: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|[\s/;&|(])(?:{names})(?=\s|$)")


_OPTIONS = (
    (_programs(r"mysql\w*|mariadb[\w-]*"), "-p", "glued"),
    (_programs("sshpass"), "-p", "any"),
    (_programs(r"mongo\w*|(?:docker|podman) +login"), "-p", "apart"),
    (_programs("redis-cli|keydb-cli|valkey-cli"), "-a", "apart"),
    (_programs("ldap(?:search|add|modify|delete|passwd|whoami|compare)"), "-w", "apart"),
    (_programs("curl"), "-b", "any"),
)
"""Programs with short options for a secret, which is glued to the option, apart from it, or either."""
_SEPARATE = {"glued": "", "apart": r"\s++", "any": r"\s*+"}
_SHORT = {
    (option, how): re.compile(rf"""(?P<before>(?<!\S)["']?{option}{_SEPARATE[how]})(?![-\s]){_VALUE}""")
    for _, option, how in _OPTIONS
}
_PROGRAMS_WITH_USER = _programs("curl|wget|https?")
_LOGIN = re.compile(
    r"""(?P<before>(?<!\S)["']?(?:-[A-Za-z]*[uUa]|--user|--proxy-user|--auth)[\s=]?\s*+["']?[^\s:"']*+:)[^\s"']++"""
)

_USERS = ("-u", "-U", "-a", "--user", "--proxy-user", "--auth")


@lru_cache(maxsize=256)
def _plain(pattern: str) -> str:
    return _SEPARATORS.sub("", pattern.lower())


def is_secret(name: str, patterns: Sequence[str] = SECRETS) -> bool:
    """Return whether a name matches a pattern; case, hyphens, underscores and full stops make no difference."""
    return _matches(name[:_MAX_NAME], tuple(patterns))


@lru_cache(maxsize=4_096)
def _matches(name: str, patterns: tuple[str, ...]) -> bool:
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
                is_pair = any(
                    self.hides(value)
                    for key, value in data.items()
                    if isinstance(value, str) and str(key).lower() in ("name", "key")
                )
                return {
                    key: REDACTED
                    if self.hides(key) or (is_pair and str(key).lower() in ("value", "val"))
                    else self.of(value)
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
        if not self.patterns:
            return text
        text = _SHAPES.sub(REDACTED, text)
        if not any(sign in text for sign in "=:- "):
            return text
        text = _USER.sub(lambda match: f"{match['before'] or match['short']}{REDACTED}", text)
        text = _USER_ALONE.sub(rf"\g<before>{REDACTED}", text)
        text = _HEADER.sub(self._header, text)
        text = _NAMED.sub(self._named, text)
        text = _ESCAPED.sub(self._named, text)
        text = _ELEMENT.sub(self._named, text)
        text = _SCHEME.sub(rf"\g<before>{REDACTED}", text)
        text = _OPTION.sub(self._named, text)
        if _PROGRAMS_WITH_USER.search(text):
            text = _LOGIN.sub(rf"\g<before>{REDACTED}", text)
        for programs, option, how in _OPTIONS:
            if programs.search(text):
                text = _SHORT[option, how].sub(rf"\g<before>{REDACTED}", text)
        return text

    def _header(self, match: re.Match[str]) -> str:
        shown = match[0][len(match["before"]) :]
        return match[0] if shown.strip() == REDACTED else f"{match['before']}{REDACTED}"

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
        words = [item if isinstance(item, str) else "" for item in items]
        if len(items) == 2 and all(words) and self.hides(words[0]):
            return [shown[0], REDACTED]
        line = " ".join(word for word in words if " " not in word)
        options = [(option, how) for programs, option, how in _OPTIONS if programs.search(line)]
        has_user = _PROGRAMS_WITH_USER.search(line) is not None
        for number, (item, following) in enumerate(pairwise(words), start=1):
            is_option = item.startswith("-") and "=" not in item and self.hides(item.lstrip("-"))
            is_short = any(item == option and how != "glued" for option, how in options)
            if following and (is_option or is_short) and not following.startswith("-"):
                shown[number] = REDACTED
            elif has_user and (item in _USERS or following.startswith(("-u", "-U"))) and ":" in following:
                shown[number] = f"{following.partition(':')[0]}:{REDACTED}"
            for option, how in options:
                if how != "apart" and following.startswith(option) and len(following) > len(option):
                    shown[number] = f"{option}{REDACTED}"
        return shown
