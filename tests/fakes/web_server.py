"""A web server on loopback that serves what a test tells it to, well or badly, and remembers what it was asked."""

import gzip
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Answerer = Callable[[BaseHTTPRequestHandler], None]


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    path: str
    headers: Mapping[str, str] = field(repr=False)  #: names in lower case
    at: float  #: seconds, monotonic


class WebServer:
    """`with WebServer() as web: web.page("/a", "<p>…"); fetch(web.url("/a"))`"""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._routes: dict[str, list[Answerer]] = {}
        self._lock = threading.Lock()
        self._answering: set[int] = set()  #: threads
        self.most_at_once = 0
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                web._answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "/") -> str:
        return f"http://{self.host}{path}"

    def count(self, path: str) -> int:
        return sum(asked.path == path for asked in self.asked)

    # what it serves ----------------------------------------------------------------------------------------------------------

    def page(
        self,
        path: str,
        body: str | bytes,
        *,
        status: int = 200,
        content_type: str | None = "text/html; charset=utf-8",
        headers: Mapping[str, str] | None = None,
        seconds: float = 0.0,
    ) -> None:
        """From now on, answer with this; `seconds` is how long it takes."""
        self._routes[path] = [self._whole(body, status, content_type, headers or {}, seconds)]

    def then(self, path: str, body: str | bytes, **more: Any) -> None:
        """After what is there was given once, answer with this."""
        before = self._routes.get(path, [])
        self.page(path, body, **more)
        self._routes[path] = before + self._routes[path]

    def redirect(self, path: str, where: str, *, status: int = 302) -> None:
        self.page(path, b"", status=status, headers={"Location": where})

    def gzipped(self, path: str, body: bytes, *, content_type: str = "text/html") -> None:
        self.page(path, gzip.compress(body), content_type=content_type, headers={"Content-Encoding": "gzip"})

    def endless(self, path: str, piece: bytes = b"x" * 65_536, *, content_type: str = "text/html", pause: float = 0.0) -> None:
        """Chunks without an end."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Type", content_type)
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            while not self._stopped.wait(pause):
                handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")

        self._routes[path] = [answer]

    def silent(self, path: str) -> None:
        """Takes the request and says nothing."""
        self._routes[path] = [lambda _: self._stopped.wait(60) and None]

    def dripping_headers(self, path: str, *, pause: float) -> None:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
            while not self._stopped.wait(pause):
                handler.wfile.write(b"a")
                handler.wfile.flush()

        self._routes[path] = [answer]

    def broken_off(self, path: str, body: bytes, *, missing: int = 100) -> None:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Type", "text/html")
            handler.send_header("Content-Length", str(len(body) + missing))
            handler.end_headers()
            handler.wfile.write(body)
            handler.close_connection = True

        self._routes[path] = [answer]

    def by(self, path: str, answer: Answerer) -> None:
        self._routes[path] = [answer]

    def _whole(
        self, body: str | bytes, status: int, content_type: str | None, headers: Mapping[str, str], seconds: float
    ) -> Answerer:
        content = body.encode() if isinstance(body, str) else body

        def answer(handler: BaseHTTPRequestHandler) -> None:
            if seconds:
                time.sleep(seconds)
            self._left()  # before it leaves: who has the answer may ask again at once
            handler.send_response(status)
            if content_type is not None:
                handler.send_header("Content-Type", content_type)
            handler.send_header("Content-Length", str(len(content)))
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(content)

        return answer

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        self._came()
        try:
            headers = {name.lower(): value for name, value in handler.headers.items()}
            self.asked.append(Asked(handler.path, headers, time.monotonic()))
            with self._lock:
                waiting = self._routes.get(handler.path) or self._routes.get("*")
                answer = (waiting.pop(0) if len(waiting) > 1 else waiting[0]) if waiting else None
            try:
                if answer is None:
                    answer = self._whole(b"nothing here", 404, "text/plain", {}, 0.0)
                answer(handler)
            except (BrokenPipeError, ConnectionResetError):  # the client had enough
                handler.close_connection = True
        finally:
            self._left()

    def _came(self) -> None:
        with self._lock:
            self._answering.add(threading.get_ident())
            self.most_at_once = max(self.most_at_once, len(self._answering))

    def _left(self) -> None:
        """This thread's request is answered, or will be as far as it can."""
        with self._lock:
            self._answering.discard(threading.get_ident())


def served() -> Iterator[WebServer]:
    """For a fixture."""
    with WebServer() as web:
        yield web
