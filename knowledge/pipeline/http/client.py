"""The one client for addresses that people or pages name. It trusts neither the address nor what comes back.

Every hop of a redirect is vetted like the first address. Bodies have a limit before and after unpacking, and a fetch as a
whole has a deadline, so nothing that a server does costs more than that. Proxies, logins and certificates named by the
environment are ignored; nothing that one site sets reaches another.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

from knowledge.errors import AddressRefused, FetchFault, FetchRefused, FetchTooLarge, InvalidUrl
from knowledge.model.documents import Checkpoint
from knowledge.model.urls import is_same_place, normal_url
from knowledge.pipeline.http.address import AllowList, Resolver, system_resolver, vetted

if TYPE_CHECKING:
    import httpx

MAX_REDIRECTS: Final = 10
ERROR_BYTES: Final = 64 * 1024  #: of the page that comes with an error: enough to tell a wall from a missing page
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PIECE_BYTES: Final = 256 * 1024  #: unpacked at once, whatever the ratio
_FOR_ONE_HOST: Final = frozenset({"authorization", "cookie", "proxy-authorization"})


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one fetch."""

    connect_seconds: float = 10.0
    read_seconds: float = 20.0  #: without a byte
    total_seconds: float = 60.0  #: redirects included
    max_bytes: int = 50 << 20  #: of a body, as it comes and unpacked


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server gave at last."""

    url: str  #: after redirects
    status: int
    headers: "httpx.Headers" = field(repr=False)
    content: bytes = field(repr=False)  #: unpacked; of an error its beginning only

    @property
    def content_type(self) -> str:
        """Lower case, without parameters; empty if the server does not say."""
        return str(self.headers.get("content-type", "")).partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        """The charset that the header declares."""
        for part in str(self.headers.get("content-type", "")).split(";")[1:]:
            name, _, value = part.partition("=")
            if name.strip().lower() == "charset":
                return value.strip().strip("\"'") or None
        return None


def _never() -> None:
    pass


def _anywhere(_url: str) -> None:
    pass


class WebClient:
    """May be shared by threads and survive a fork: it holds no connection between fetches.

    Args:
        allow: hosts, addresses and networks that may be asked although they are not public.
        proxy: what connects in our place; it must refuse private addresses itself.
        resolver: asked for each name; the system's unless a test says otherwise.
    """

    def __init__(
        self,
        *,
        user_agent: str = "Mozilla/5.0 (compatible; Knowledge)",
        limits: Limits | None = None,
        allow: AllowList | None = None,
        proxy: str | None = None,
        resolver: Resolver = system_resolver,
    ) -> None:
        self._user_agent = user_agent
        self.limits = limits or Limits()
        self._allow = allow or AllowList()
        self._proxy = proxy
        self._resolver = resolver

    def allowing(self, host: str) -> "WebClient":
        """The same for a host that the operator named, wherever it is."""
        return WebClient(
            user_agent=self._user_agent,
            limits=self.limits,
            allow=self._allow.with_host(host),
            proxy=self._proxy,
            resolver=self._resolver,
        )

    def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        max_bytes: int | None = None,
        checkpoint: Checkpoint = _never,
        permit: Callable[[str], None] = _anywhere,
    ) -> Answer:
        """Fetch, whatever the status.

        Args:
            headers: `Authorization` and `Cookie` go to the first host only.
            max_bytes: instead of the limit of the client.
            checkpoint: called at least once a second.
            permit: asked before each hop; raises to stop it.

        Raises:
            InvalidUrl, AddressRefused: where it leads. FetchRefused: too many redirects, a bad certificate, odd packing.
            FetchTooLarge. FetchFault: no connection, too slow, broken off.
        """
        import httpx

        from knowledge.pipeline.http.connection import Deadline, GuardedTransport, Route

        first = url = normal_url(url)
        limit = self.limits.max_bytes if max_bytes is None else max_bytes
        route = Route(self._allow, self._resolver, self.limits.connect_seconds, self.limits.read_seconds, self._proxy)
        deadline = Deadline(self.limits.total_seconds, checkpoint)
        given = {"user-agent": self._user_agent, "accept-encoding": "gzip, deflate"} | _lower(headers or {})
        cookies = httpx.Cookies()  # some sites lead in a ring until they get back what they set
        with GuardedTransport(route, deadline) as transport:
            for _ in range(MAX_REDIRECTS + 1):
                permit(url)
                if not is_same_place(first, url):
                    given = {name: value for name, value in given.items() if name not in _FOR_ONE_HOST}
                # httpx's own client would look at where a redirect leads before we do, and fail in its own way
                response = transport.handle_request(request := _request(url, given, cookies))
                response.request = request
                try:
                    cookies.extract_cookies(response)
                    where = response.headers.get("location")
                    if response.status_code in _REDIRECTS and where:
                        url = _next(url, where)
                        continue
                    is_error = response.status_code >= 400
                    content = _body(response, ERROR_BYTES if is_error else limit, cut=is_error)
                    return Answer(url, response.status_code, response.headers, content)
                finally:
                    response.close()
        raise FetchRefused("This page leads from one address to the next without an end.", redirects=MAX_REDIRECTS)

    def require_outside(self, url: str) -> None:
        """Refuse an address inside before its name is told to a service that fetches in our place.

        A name that is not known here is left to the service.

        Raises:
            InvalidUrl, AddressRefused.
        """
        parts = urlsplit(normal_url(url))
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            vetted(parts.hostname or "", port, self._allow, self._resolver, self.limits.connect_seconds)
        except AddressRefused:
            raise
        except FetchFault:
            return


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _request(url: str, headers: Mapping[str, str], cookies: "httpx.Cookies") -> "httpx.Request":
    import httpx

    try:
        return httpx.Request("GET", url, headers=dict(headers), cookies=cookies)
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise InvalidUrl(url=url[:200], reason=str(error)) from None


def _next(url: str, where: str) -> str:
    """Where a redirect leads; blanks in it are taken as browsers take them.

    Raises:
        AddressRefused: it is no address that could be fetched: another scheme, a login, no host.
    """
    try:
        return normal_url(urljoin(url, where.strip().replace(" ", "%20")))
    except (InvalidUrl, ValueError) as error:
        raise AddressRefused("This page leads to an address that may not be fetched.", reason=str(error)) from None


def _body(response: "httpx.Response", limit: int, *, cut: bool) -> bytes:
    """The body unpacked, at most `limit` bytes on the way and at the end; of an error (`cut`) what fits."""
    declared = response.headers.get("content-length", "")
    if not cut and declared.isascii() and declared.isdigit() and int(declared) > limit:
        raise FetchTooLarge(bytes=int(declared), limit=limit)
    content = bytearray()
    try:
        for piece in _unpacked(_counted(response.iter_raw(), limit, cut=cut), response.headers.get("content-encoding", "")):
            content += piece
            if len(content) > limit:
                if cut:
                    break
                raise FetchTooLarge(limit=limit)
    except FetchFault:
        if not cut:
            raise
    return bytes(content[:limit])


def _counted(pieces: Iterator[bytes], limit: int, *, cut: bool) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > limit and not cut:
            raise FetchTooLarge(limit=limit)
        yield piece
        if size > limit:
            return


def _unpacked(pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Unpacked in small pieces: one packed kilobyte can be a megabyte."""
    names = [name.strip().lower() for name in encoding.split(",") if name.strip().lower() not in ("", "identity")]
    if not names:
        yield from pieces
        return
    if names not in (["gzip"], ["x-gzip"], ["deflate"]):
        raise FetchRefused("The web server packs its pages in a way that was not asked for.", encoding=encoding[:100])
    unpacker = _unpacker(b"", names[0])
    is_open = False
    for packed in pieces:
        while packed:
            if not is_open:
                if _is_padding(packed, names[0], unpacker):
                    return
                unpacker, is_open = _unpacker(packed, names[0]), True
            try:
                yield unpacker.decompress(packed, _PIECE_BYTES)
            except zlib.error:
                raise FetchFault("The page cannot be unpacked.", reason="encoding") from None
            is_open = not unpacker.eof
            packed = unpacker.unconsumed_tail if is_open else unpacker.unused_data
    if is_open:
        raise FetchFault("The page breaks off.", reason="encoding")


def _is_padding(packed: bytes, encoding: str, last: "zlib._Decompress") -> bool:
    """Whether what follows the end of a packed body is no further part of it."""
    return last.eof and (encoding == "deflate" or not packed.startswith(b"\x1f\x8b"))


def _unpacker(packed: bytes, encoding: str) -> "zlib._Decompress":
    if encoding != "deflate":
        return zlib.decompressobj(zlib.MAX_WBITS | 16)
    has_header = len(packed) > 1 and packed[0] & 0x0F == 8 and int.from_bytes(packed[:2]) % 31 == 0
    return zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)  # the standard, and what some servers send
