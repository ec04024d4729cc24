"""Which hosts and addresses an `HttpJob` may reach: the setting `http_hosts`, and the addresses behind a name.

A host is compared as text, then its name is looked up once, each address is checked, and the call goes to one of these
addresses. A name that leads elsewhere a moment later changes nothing.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import SplitResult, urlsplit

from quartzpy.errors import NotAllowedError
from quartzpy.texts import quoted

PORTS = {"http": 80, "https": 443}
MAX_URL = 8_000
_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_METADATA = frozenset(
    map(ipaddress.ip_address, ("169.254.169.254", "fd00:ec2::254", "168.63.129.16", "100.100.100.200"))
)
"""Addresses at which clouds give credentials to every process of a machine. A network does not allow them."""
_TRANSLATED = (
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),
    (ipaddress.IPv6Network("::/96"), 0),
    (ipaddress.IPv6Network("2002::/16"), 80),
)
"""Networks of IPv6 whose addresses stand for one of IPv4, with the place of that in bits from the right."""

_SPECIAL_4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
            *("192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
            *("224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)
"""IANA's special-purpose networks of IPv4 and those of multicast. Python's `is_global` differs between its releases."""
_GIVEN_6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL_6 = tuple(
    map(
        ipaddress.IPv6Network,
        ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
    )
)
"""IANA's special-purpose networks among the addresses of IPv6 that are given to anybody."""

Address = IPv4Address | IPv6Address


@dataclass(frozen=True)
class HttpTarget:
    """A URL that is allowed, in parts: what is connected to, and what is asked for."""

    scheme: str
    host: str
    port: int
    path: str
    """The path with the query."""

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port == PORTS[self.scheme] else f"{shown}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """What two URLs of one server have in common."""
        return self.scheme, self.host, self.port

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def split(url: str) -> SplitResult:
    """Return the parts of a URL in which no character can mean different things to different programs.

    Raises:
        NotAllowedError: the URL is not of this kind.
    """
    if len(url) > MAX_URL:
        raise NotAllowedError(f"the URL has {len(url)} characters, at most {MAX_URL}")
    if not url.isascii() or not url.isprintable() or any(character in ' \\<>"`{}|^' for character in url):
        raise NotAllowedError(
            f"the URL {quoted(url)} has characters that must be written as %20 and the like; a host with other letters"
            " is written as xn--..."
        )
    try:
        return urlsplit(url)
    except ValueError as error:
        raise NotAllowedError(f"the URL {quoted(url)} cannot be read: {error}") from None


def target_of(url: str) -> HttpTarget:
    """Return a URL in parts, whether its host is allowed or not.

    Raises:
        NotAllowedError: it has another scheme, a user name, or a host that different programs read differently.
    """
    parts = split(url)
    if parts.scheme not in PORTS:
        raise NotAllowedError(f"the URL {quoted(url)} must begin with https:// or http://")
    if "@" in parts.netloc:
        raise NotAllowedError("the URL has a user name or a password; use auth")
    try:
        host, port = (parts.hostname or "").lower(), parts.port or PORTS[parts.scheme]
    except ValueError as error:
        raise NotAllowedError(f"the URL {quoted(url)} cannot be read: {error}") from None
    if parts.netloc.endswith(":") or parts.port == 0:
        raise NotAllowedError(f"the port of the URL {quoted(url)} is not a number from 1 to 65535")
    segments = parts.path.lower().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/").split("/")
    if "." in segments or ".." in segments:
        raise NotAllowedError(f"the path of the URL {quoted(url)} contains . or ..")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return HttpTarget(parts.scheme, checked_host(host, parts.netloc.startswith("[")), port, path)


def checked_host(host: str, is_bracketed: bool = False) -> str:
    """Return the name or the address of a host in the one form in which it is compared and used.

    Raises:
        NotAllowedError: it is neither, or an address in a form that not all programs understand (2130706433, 0x7f.1).
    """
    if is_bracketed:
        if "%" in host:
            raise NotAllowedError(f"the host {quoted(host)} has a zone")
        try:
            return str(IPv6Address(host))
        except ValueError:
            raise NotAllowedError(f"the host {quoted(host)} is not an address of IPv6") from None
    name = host.removesuffix(".")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise NotAllowedError(
                f"the host {quoted(host)} is a number; write an address of IPv4 as four decimal numbers"
            ) from None
    if not _NAME.fullmatch(name):
        raise NotAllowedError(f"the host {quoted(host)} is not a name of a host")
    return name


class AllowedHosts:
    """The hosts and networks of a setting."""

    def __init__(self, items: Sequence[str]) -> None:
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self._hosts: list[tuple[str, str, int]] = []
        """Scheme, name (or `.example.com` for all names below it) and port."""
        for item in items:
            if "/" in item.partition("://")[2 if "://" in item else 0]:
                self._networks.append(ipaddress.ip_network(item))
                continue
            scheme, separator, rest = item.rpartition("://")
            parts = urlsplit(f"//{rest.replace('*', 'any', 1) if rest.startswith('*.') else rest}")
            scheme = scheme if separator else "https"
            host = checked_host(parts.hostname or "", rest.startswith("["))
            if rest.startswith("*."):
                host = host.removeprefix("any")
            self._hosts.append((scheme, host, parts.port or PORTS[scheme]))

    def allows(self, target: HttpTarget) -> bool:
        """Return whether the scheme, the host and the port are those of an item."""
        return any(
            (scheme, port) == (target.scheme, target.port)
            and (target.host == host or (host[0] == "." and target.host.endswith(host) and target.host != host))
            for scheme, host, port in self._hosts
        )

    def check(self, target: HttpTarget) -> None:
        """Refuse a target that is not allowed.

        Raises:
            NotAllowedError: as said.
        """
        if not self.allows(target):
            raise NotAllowedError(
                f"the setting http_hosts of this node does not allow {target.scheme}://{target.authority}"
            )

    def check_addresses(self, target: HttpTarget, addresses: Iterable[str]) -> list[str]:
        """Return the addresses of a host.

        Raises:
            NotAllowedError: there is none, or one of them is neither public nor allowed.
        """
        checked = []
        for text in addresses:
            try:
                address = ipaddress.ip_address(text)
            except ValueError:
                raise NotAllowedError(f"the address {quoted(text)} of {target.host} cannot be read") from None
            meant = _meant_by(address)
            # An address among the hosts allows calls to it by that address, and no name to lead there.
            is_listed = target.host in (str(address), str(meant)) and self.allows(target)
            # A network of one address names it, whatever is there.
            is_listed = is_listed or any(network.num_addresses == 1 and meant in network for network in self._networks)
            if not is_listed and (meant in _METADATA or not (_is_public(meant) or self._has(meant))):
                raise NotAllowedError(
                    f"{target.host} leads to {address}, which is not a public address; the setting http_hosts of this"
                    " node can allow its network"
                )
            checked.append(str(address))
        if not checked:
            raise NotAllowedError(f"{target.host} has no address")
        return checked

    def _has(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self._networks)


def _meant_by(address: Address) -> Address:
    """Return the address of IPv4 that one of IPv6 stands for, and otherwise the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        for network, shift in _TRANSLATED:
            if address in network and int(address) > 1:
                return IPv4Address((int(address) >> shift) & 0xFFFFFFFF)
    return address


def _is_public(address: Address) -> bool:
    special = _SPECIAL_4 if address.version == 4 else _SPECIAL_6
    # Of IPv6, only these are given to anybody.
    is_given = address.version == 4 or address in _GIVEN_6
    return is_given and not any(address in network for network in special)
