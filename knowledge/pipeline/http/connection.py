"""Connections for httpx that go to vetted addresses only, and that a slow server cannot hold for ever.

The name is resolved once, here; what it resolved to is vetted and connected to. The name stays in the `Host` header and in TLS,
so certificates are checked as ever. A name that answers differently the next time is vetted again with the next connection.
"""

import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import httpcore
import httpx

from knowledge import clock
from knowledge.errors import FetchFault, FetchRefused
from knowledge.model.documents import Checkpoint
from knowledge.pipeline.http.address import AllowList, Resolver, vetted

_SLICE_SECONDS: Final = 1.0  #: of one wait on the network, so that a cancelled job stops soon


@dataclass(frozen=True, slots=True)
class Route:
    """How connections are made. `proxy` connects in our place, and must refuse private addresses itself."""

    allow: AllowList
    resolver: Resolver
    connect_seconds: float
    read_seconds: float  #: without a byte
    proxy: str | None = None


class Deadline:
    """The end of one fetch, redirects included."""

    def __init__(self, seconds: float, checkpoint: Checkpoint) -> None:
        self._until = clock.monotonic() + seconds
        self._checkpoint = checkpoint

    def left(self) -> float:
        """Seconds, more than 0.

        Raises:
            FetchFault: none is left. Interrupted: the job must stop.
        """
        self._checkpoint()
        left = self._until - clock.monotonic()
        if left <= 0:
            raise FetchFault("The web server was too slow.", reason="timeout")
        return left


class GuardedTransport(httpx.BaseTransport):
    """One fetch's connections."""

    def __init__(self, route: Route, deadline: Deadline) -> None:
        backend = _Backend(route, deadline)
        if route.proxy is None:
            self._pool = httpcore.ConnectionPool(
                ssl_context=tls_context(), max_keepalive_connections=0, network_backend=backend
            )
        else:
            self._pool = httpcore.HTTPProxy(route.proxy, ssl_context=tls_context(), network_backend=backend)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.SyncByteStream)
        asked = httpcore.Request(
            method=request.method,
            url=httpcore.URL(
                scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _as_faults():
            answer = self._pool.handle_request(asked)
        assert isinstance(answer.stream, Iterable)
        return httpx.Response(
            status_code=answer.status, headers=answer.headers, stream=_Body(answer.stream), extensions=answer.extensions
        )

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        with _as_faults():
            yield from self._stream

    def close(self) -> None:
        self._stream.close()


class _Backend(httpcore.NetworkBackend):
    def __init__(self, route: Route, deadline: Deadline) -> None:
        self._route = route
        self._deadline = deadline
        self._real = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = [host] if self._is_proxy(host, port) else self._vetted(host, port)
        failed: Exception | None = None
        for address in addresses:
            seconds = min(self._route.connect_seconds, self._deadline.left())
            try:
                stream = self._real.connect_tcp(address, port, seconds, local_address, socket_options)
                return _Stream(stream, self._route, self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed or httpcore.ConnectError(host)

    def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.NetworkStream:
        raise httpcore.ConnectError("A page is never behind a local socket.")

    def _vetted(self, host: str, port: int) -> list[str]:
        seconds = min(self._route.connect_seconds, self._deadline.left())
        return vetted(host, port, self._route.allow, self._route.resolver, seconds)

    def _is_proxy(self, host: str, port: int) -> bool:
        if self._route.proxy is None:
            return False
        proxy = httpx.URL(self._route.proxy)
        return (proxy.host, proxy.port or (443 if proxy.scheme == "https" else 80)) == (host, port)


class _Stream(httpcore.NetworkStream):
    """A connection that looks at the deadline once a second while it waits."""

    def __init__(self, real: httpcore.NetworkStream, route: Route, deadline: Deadline) -> None:
        self._real = real
        self._route = route
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        idle_until = clock.monotonic() + self._route.read_seconds
        while True:
            try:
                return self._real.read(max_bytes, min(_SLICE_SECONDS, self._deadline.left()))
            except httpcore.ReadTimeout:
                if clock.monotonic() >= idle_until:
                    raise

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._real.write(buffer, min(self._route.read_seconds, self._deadline.left()))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        seconds = min(self._route.connect_seconds, self._deadline.left())
        return _Stream(self._real.start_tls(ssl_context, server_hostname, seconds), self._route, self._deadline)

    def close(self) -> None:
        self._real.close()

    def get_extra_info(self, info: str) -> Any:
        return self._real.get_extra_info(info)


@cache
def tls_context() -> ssl.SSLContext:
    """Made once a process: reading the certificates takes longer than a request."""
    return httpx.create_ssl_context(trust_env=False)


@contextmanager
def _as_faults() -> Iterator[None]:
    """httpcore's errors as ours; never with an address inside, which a stranger could read."""
    try:
        yield
    except httpcore.TimeoutException as error:
        raise FetchFault("The web server does not answer.", reason="timeout") from error
    except httpcore.ConnectError as error:
        raise _connection_fault(error) from error
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol, httpcore.ProxyError) as error:
        raise FetchFault("The connection to the web server broke.", reason=type(error).__name__) from error


def _connection_fault(error: Exception) -> FetchFault:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return FetchRefused("The certificate of this web server is not valid.", reason=cause.verify_message)
        cause = cause.__cause__ or cause.__context__
    return FetchFault("The web server cannot be reached.", reason="connection")
