"""Which network addresses may be asked: public ones, and those that the operator has allowed.

What counts is the address that is connected to, never the name: whatever a name or a spelling resolves to is vetted, and the
vetted address is the one that is used. Special networks are listed here and not taken from `ipaddress`, whose lists change with
the version of Python. Sources: IANA IPv4 and IPv6 Special-Purpose Address Registries; RFC 6052 (NAT64), 3056 (6to4), 4380.
"""

import re
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from knowledge.errors import AddressRefused, ConfigurationError, FetchFault

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolver = Callable[[str, int], Sequence[str]]  #: (host, port) -> addresses as text; raises `OSError`

_NOT_PUBLIC_4: Final = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # between a provider and its customers; a metadata service of one cloud
        "127.0.0.0/8",
        "168.63.129.16/32",  # a cloud's service for its machines, on a public address
        "169.254.0.0/16",  # link-local, with the metadata services
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",  # multicast, reserved, broadcast
    )
)
_PUBLIC_6: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_6: Final = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4: an IPv4 address in other clothes, and out of use
        "3fff::/20",
    )
)
_ENTRY: Final = re.compile(
    r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[^\s/:@*\[\]]*[^\s/:@*\[\].]\.?))(?::(?P<port>[0-9]{1,5}))?", re.A
)
_NAT64: Final = IPv6Network("64:ff9b::/96")  #: how a network without IPv4 reaches it; public if the address inside is


def is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    is_isatap = (int(address) >> 32) & 0xFDFF_FFFF == 0x0000_5EFE  # RFC 5214: an IPv4 address in the lowest 32 bits
    if is_isatap and not is_public(IPv4Address(int(address) & 0xFFFF_FFFF)):
        return False
    return address in _PUBLIC_6 and not any(address in network for network in _NOT_PUBLIC_6)


@dataclass(frozen=True, slots=True)
class AllowList:
    """What may be asked although it is not public: addresses, networks, and names whatever they resolve to.

    Each with the one port that is open there, or None for all of them.
    """

    names: frozenset[tuple[str, int | None]] = frozenset()
    networks: tuple[tuple[Network, int | None], ...] = ()

    @classmethod
    def of(cls, entries: Iterable[str]) -> "AllowList":
        """From texts such as `wiki.example`, `wiki.example:8080`, `10.1.0.0/16`, `10.1.2.3:80`, `::1` or `[::1]:8080`.

        Raises:
            ConfigurationError: an entry is none of these; one with a scheme or a path, for example.
        """
        names: set[tuple[str, int | None]] = set()
        networks: list[tuple[Network, int | None]] = []
        for entry in entries:
            place, port = _entry(entry)
            if isinstance(place, str):
                names.add((place, port))
            else:
                networks.append((place, port))
        return cls(frozenset(names), tuple(networks))

    def with_host(self, host: str) -> "AllowList":
        """The same and this host, on every port."""
        return AllowList(self.names | {(host, None)}, self.networks)

    def allows(self, host: str, address: Address, port: int) -> bool:
        name = host.rstrip(".").lower()
        if (name, None) in self.names or (name, port) in self.names:
            return True
        inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        forms = [one for one in (address, inner) if one is not None]
        return any(opened in (None, port) and one in network for network, opened in self.networks for one in forms)


def _entry(text: str) -> tuple[str | Network, int | None]:
    """(name or network, port) of an entry; raises `ConfigurationError`."""
    entry = text.strip().lower()
    try:
        return ip_network(entry, strict=False), None
    except ValueError:
        pass
    found = _ENTRY.fullmatch(entry)
    port = int(found["port"]) if found and found["port"] else None
    if found is None or (port is not None and not 0 < port < 65_536):
        raise ConfigurationError(f"{text!r} is no host name, address or network, nor a host with a port.", entry=text)
    try:
        if found["v6"] is not None:
            return IPv6Network(found["v6"]), port
        return IPv4Network(found["name"]), port
    except ValueError as error:
        if found["v6"] is not None:
            raise ConfigurationError(f"{text!r} has no IPv6 address in its brackets.", entry=text) from error
    return found["name"].rstrip("."), port


def system_resolver(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def vetted(host: str, port: int, allow: AllowList, resolver: Resolver, seconds: float) -> list[str]:
    """The addresses of a host, all of them allowed on this port, in the order in which to try them.

    One that is not spoils all: no honest name is public and private at once.

    Raises:
        AddressRefused. FetchFault: the name is not known, or its server does not answer in time.
    """
    texts = [literal] if (literal := _literal(host)) is not None else _resolved(host, port, resolver, seconds)
    if not texts:
        raise FetchFault("This host has no address.", host=host)
    for text in texts:
        address = ip_address(text.partition("%")[0])
        if not is_public(address) and not allow.allows(host, address, port):
            raise AddressRefused(host=host)  # not which address: that would tell a stranger about the network inside
    return texts


def _literal(host: str) -> str | None:
    """The address that a host is, also as 2130706433, 0177.1 or 0x7f.0.0.1; None for a name."""
    try:
        return str(ip_address(host.strip("[]")))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return None


def _resolved(host: str, port: int, resolver: Resolver, seconds: float) -> list[str]:
    """Asked in a thread: the system's resolver knows no time limit."""
    answer: list[Sequence[str] | Exception] = []

    def ask() -> None:
        try:
            answer.append(resolver(host, port))
        except (OSError, UnicodeError) as error:
            answer.append(error)

    asking = threading.Thread(target=ask, name="resolve", daemon=True)
    asking.start()
    asking.join(seconds)
    if not answer:
        raise FetchFault("The name of this host was not resolved in time.", host=host, reason="timeout")
    if isinstance(answer[0], Exception):
        raise FetchFault("This host is not known.", host=host, reason="name")
    return list(answer[0])
