"""A limit of guesses at tokens and passwords, by the address that they come from and in all."""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

logger = logging.getLogger(__name__)

BURST = 10
"""The number of different wrong tokens after which an address has to wait."""
MAX_WAIT = 900.0
"""The longest time, in seconds, that an address has to wait. Each further wrong token doubles the wait up to it."""
FORGET_AFTER = 3_600.0
"""The time, in seconds, without a wrong token after which an address begins anew."""
MAX_A_MINUTE = 100
"""The number of different wrong tokens in a minute, from all addresses, after which only those go on from which a right
one has come before."""
_MINUTE = 60.0
_MAX_ADDRESSES = 10_000
_SAME = 16


_BURST_OF_USERS = 2 * BURST
"""The number of different wrong passwords of users who exist after which their address has to wait, whoever else is at
it: several people may share an address, so it is more than one of them may try."""
_BURST_OF_SITES = 5 * BURST
"""The same for a site of IPv6, which has 65,536 networks that count by themselves."""


@dataclass(slots=True)
class _Record:
    count: int = 0
    last: float = 0.0
    until: float = 0.0
    digests: deque[bytes] = field(default_factory=lambda: deque(maxlen=_SAME))

    def add(self, digest: bytes, now: float, patience: int) -> bool:
        """Count a wrong secret, and return whether it is a new one. After `patience` of them there is a wait."""
        self.last = now
        if digest in self.digests:
            return False
        self.digests.append(digest)
        self.count += 1
        if self.count >= patience:
            self.until = now + min(2.0 ** min(self.count - patience, 30), MAX_WAIT)
        return True


class LoginThrottle:
    """Counts wrong secrets. The same wrong one again is no further guess: a program may have an old token.

    An address is counted by itself, and where it names a user who exists, also with this user. What this remembers is
    bounded, and belongs to this process alone.
    """

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, *, most_addresses: int = _MAX_ADDRESSES
    ) -> None:
        self._monotonic = monotonic
        self._most = most_addresses
        self._records: OrderedDict[str, _Record] = OrderedDict()
        self._trusted: OrderedDict[str, None] = OrderedDict()
        self._recent: deque[tuple[float, str]] = deque(maxlen=MAX_A_MINUTE)
        """When the last ones came, and from which networks: of one network at most `BURST` in a minute."""
        self._guard = threading.Lock()

    @property
    def remembered(self) -> int:
        """The number of addresses that are remembered."""
        return len(self._records) + len(self._trusted)

    def wait(self, address: str, user: str = "") -> float:
        """Return the seconds for which no secret of this address is looked at; 0 if the next one is."""
        key, now = _key(address, user), self._monotonic()
        with self._guard:
            # Who has logged in from there goes on, whatever others try from the same address.
            keys = {key} if key in self._trusted else {key, _key(address), _network(address)}
            own = max((self._records[each].until - now for each in keys if each in self._records), default=0.0)
            is_full = len(self._recent) == MAX_A_MINUTE and key not in self._trusted
            of_all = self._recent[0][0] + _MINUTE - now if is_full else 0.0
        return max(own, of_all, 0.0)

    def wrong(self, address: str, secret: str, user: str = "") -> None:
        """Count a wrong secret, and log that it came. `user` is one who exists, or empty."""
        key, now = _key(address, user), self._monotonic()
        # Enough to recognize it, and of no use to whoever reads this process's memory.
        digest = hashlib.sha256(secret.encode(errors="surrogatepass")).digest()[:8]
        with self._guard:
            record = self._record(key, now)
            if not record.add(digest, now, BURST):
                return
            if user:
                self._record(_key(address), now).add(digest, now, _BURST_OF_USERS)
            if (site := _network(address)) != _key(address):
                self._record(site, now).add(digest, now, _BURST_OF_SITES)
            self._count_for_all(site, now)
            while len(self._records) > self._most:
                self._records.popitem(last=False)
            count, wait = record.count, max(0.0, record.until - now)
        rest = f"; it has to wait {wait:.0f} seconds" if wait else ""
        logger.warning("dashboard: wrong credentials from %s (%d in a row of different ones)%s", key, count, rest)

    def _record(self, key: str, now: float) -> _Record:
        record = self._records.pop(key, None)
        if record is None or now - record.last > FORGET_AFTER:
            record = _Record()
        self._records[key] = record
        return record

    def _count_for_all(self, network: str, now: float) -> None:
        """Count a wrong secret for the limit of all addresses, unless its network has used its part of it."""
        if sum(1 for at, of in self._recent if of == network and now - at < _MINUTE) < BURST:
            self._recent.append((now, network))

    def right(self, address: str, user: str = "") -> None:
        """Note that a right secret came. It does not clear the wrong ones: who has one token may guess another."""
        key = _key(address, user)
        with self._guard:
            self._trusted[key] = None
            self._trusted.move_to_end(key)
            while len(self._trusted) > self._most:
                self._trusted.popitem(last=False)


def _key(address: str, user: str = "") -> str:
    # One customer has a whole network of IPv6 addresses.
    place = _network(address, 64) or "an unknown address"
    return f"{place}, user {user[:100]!r}" if user else place


def _network(address: str, length: int = 48) -> str:
    """Return the network of an IPv6 address; that of a site, by default. An IPv4 address is one by itself."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = getattr(ip, "ipv4_mapped", None)
    if ip.version == 4 or mapped is not None:
        return str(mapped or ip)
    return str(ipaddress.ip_network((ip, length), strict=False))
