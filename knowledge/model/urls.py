"""Addresses of pages: which are taken, and when two are the same. Pure; nothing is looked up."""

import re
from typing import Final
from urllib.parse import urlsplit

from knowledge.errors import InvalidUrl

MAX_CHARACTERS: Final = 4_096
_PORTS: Final = {"http": 80, "https": 443}
_UNSAFE: Final = re.compile(
    r"[\s\\\x00-\x1f\x7f-\x9f\ud800-\udfff]"
)  # parsers disagree on these, which is how guards are fooled


def normal_url(text: str) -> str:
    """The address as it is kept: scheme and host in lower case, no default port, no fragment, no slash after a bare host.

    Two addresses that differ only in these are one page.

    Raises:
        InvalidUrl: not http or https, no host, a user name or password, or characters that no address has.
    """
    text = text.strip()
    if not text or len(text) > MAX_CHARACTERS or _UNSAFE.search(text):
        raise InvalidUrl("This address is empty, too long, or holds characters that no address has.", url=_shown(text))
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise InvalidUrl(url=_shown(text), reason=str(error)) from None
    if parts.scheme not in _PORTS:
        raise InvalidUrl("Only http:// and https:// addresses can be fetched.", url=_shown(text), scheme=parts.scheme)
    if parts.username is not None or parts.password is not None:
        raise InvalidUrl("An address must not hold a user name or a password.", host=parts.hostname)
    if not parts.hostname or "%" in parts.hostname or port == 0:
        raise InvalidUrl("This address names no host that can be asked.", url=_shown(text))
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    netloc = host if port in (None, _PORTS[parts.scheme]) else f"{host}:{port}"
    path = "" if parts.path == "/" and not parts.query else parts.path
    return parts._replace(netloc=netloc, path=path, fragment="").geturl()


def host_of(url: str) -> str:
    """The host of an address, in lower case, without its port; empty if there is none."""
    return urlsplit(url).hostname or ""


def place_of(url: str) -> str:
    """Host and port of an address as `normal_url` gives it, which names no usual port: what one server is."""
    return urlsplit(url).netloc.rpartition("@")[2].lower()


def is_same_place(before: str, after: str) -> bool:
    """Whether a secret that was meant for the first address may go to the second: same scheme, host and port, or the same host
    by its usual ports with TLS now. Both as `normal_url` gives them.
    """
    old, new = urlsplit(before), urlsplit(after)
    is_upgrade = (old.scheme, new.scheme) == ("http", "https") and old.port is None
    return old.netloc == new.netloc and (old.scheme == new.scheme or is_upgrade)


def _shown(text: str) -> str:
    """Fit for an error: short, without what is in front of an @, which may be a password."""
    return re.sub(r"//[^/@]*@", "//", text.encode(errors="replace").decode())[:200]
