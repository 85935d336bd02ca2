"""A paid embedder that we own: a real HTTP server with the OpenAI embeddings protocol, which counts, and fails on command.

Start it in this process (`with FakeEmbedderServer() as server:`) or as a process of its own that outlives killed workers:

    python -m tests.fakes.embedder_server --port-file PATH [--port N] [--dimensions 384] [--key SECRET]

It writes the port it listens on to PATH once it is ready, listens on loopback only, and ends on SIGTERM. `RemoteEmbedderServer`
talks to such a process; both classes have the same methods (`Controls`).

Vectors depend on the text alone (word hashes: texts that share words are near), so asking again gives the same ones.

    POST /v1/embeddings   the protocol. Inputs that are not strings get 400; a wrong key gets 401.
    GET  /_stats          {"requests": n, "answered": n, "held": n, "max_texts_in_request": n,
                           "texts": {sha256: {"sent": [seconds since the epoch, ...], "answered": [...]}}}
                          `sent`: a request with this text arrived. `answered`: an answer 200 with a good vector for it was
                          made (a client that died meanwhile may not have got it): what a provider would bill. The hash is
                          `knowledge.model.documents.text_hash` of what was sent, prefixes included.
    POST /_control        {"rules": [rule, ...]}   replaces all rules; resets nothing else.
    POST /_release        opens every gate: requests held go on, and `gate` rules are dropped.
    POST /_reset          forgets counts and rules and opens every gate.

A rule is an object. The first rule that matches a request is applied, and used up once it has been applied `times` times.

    "behaviour"   one of the below
    "times"       how often it applies; without it, always
    "skip"        how many matching requests pass untouched before it begins (default 0)
    "contains"    only requests in which a text contains this

    status        answer "status" (an HTTP status) with "headers" (object) and "message" (string) in an OpenAI error body, whose
                  `code` is "code"; nothing counts as answered
    delay         answer well after "seconds"
    gate          hold the request until /_release, then answer well
    short         leave the last vector out
    nan           the vector of one text holds NaN            } the text at "position" (default 0), or the first that
    infinity      the vector of one text holds Infinity       } contains "contains"; the other vectors are good
    zeros         the vector of one text is all zeros         }
    empty         the vector of one text is []                }
    wide          all vectors are one number too wide
    shuffle       the elements come in reverse order, with right indexes
    indexes       every element has index 0
    close         close the connection without an answer
    html          answer 200 with a page
    token_limit   refuse with 400 and size wording if the request holds more than "tokens" estimated tokens; else answer well
    text_limit    refuse with 413 if the request holds more than "texts" texts; else answer well
"""

import argparse
import json
import os
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from knowledge.model.documents import EmbedderSpec, text_hash
from knowledge.pipeline.indexing.hashing_embedder import HashingEmbedder
from knowledge.pipeline.indexing.tokens import estimate_tokens
from tests.waiting import eventually

ONE_BAD_VECTOR = frozenset({"nan", "infinity", "zeros", "empty"})
LONGEST_HOLD_SECONDS = 600.0  #: a gate that nobody opens ends here, so that no test run hangs for ever


class Controls:
    """What a test does with a server, wherever it runs."""

    port: int

    @property
    def endpoint(self) -> str:
        """What a declaration gives as `endpoint`."""
        return f"http://127.0.0.1:{self.port}/v1"

    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = self._call("GET", "/_stats")
        return found

    def behave(self, *rules: Mapping[str, Any]) -> None:
        """Follow these rules from now on, and no others."""
        self._call("POST", "/_control", {"rules": list(rules)})

    def release(self) -> None:
        self._call("POST", "/_release", {})

    def reset(self) -> None:
        self._call("POST", "/_reset", {})

    def requests(self) -> int:
        return int(self.stats()["requests"])

    def sent(self) -> dict[str, int]:
        """How often each text (by hash) was asked for."""
        return {key: len(times["sent"]) for key, times in self.stats()["texts"].items()}

    def answered(self) -> dict[str, int]:
        """How often each text (by hash) was answered with a vector: what a provider would bill."""
        return {key: len(times["answered"]) for key, times in self.stats()["texts"].items()}

    def wait_until_called(self, requests: int = 1) -> None:
        """Return once at least this many requests have arrived in all."""
        self._wait("requests", requests)

    def wait_until_held(self, requests: int = 1) -> None:
        """Return once at least this many requests stand at a gate."""
        self._wait("held", requests)

    def _wait(self, what: str, count: int) -> None:
        eventually(lambda: int(self.stats()[what]) >= count, f"{count} requests: {what}")

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", content, method=method)
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.load(response)


class RemoteEmbedderServer(Controls):
    """A server that runs as its own process, known by the file it wrote its port to."""

    def __init__(self, port_file: Path) -> None:
        eventually(port_file.exists, f"a server has written {port_file}")
        self.port = int(port_file.read_text())


class FakeEmbedderServer(Controls):
    """A server in threads of this process."""

    def __init__(self, *, dimensions: int = 384, key: str = "", port: int = 0) -> None:
        self.state = _State(dimensions, key)
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.state = self.state
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self.state.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def vector(self, text: str) -> list[float]:
        """What the server answers for this text."""
        return self.state.vector(text)


class _State:
    def __init__(self, dimensions: int, key: str) -> None:
        self.key = key
        self._lock = threading.Lock()
        self._embedder = HashingEmbedder(EmbedderSpec(id="fake", kind="hashing", dimensions=dimensions))
        self._gate = threading.Event()
        self._rules: list[dict[str, Any]] = []
        self._forget()

    def _forget(self) -> None:
        self.requests = self.answers = self.held = self.most_texts = 0
        self.texts: dict[str, dict[str, list[float]]] = {}

    def reset(self) -> None:
        self.release()
        with self._lock:
            self._rules = []
            self._forget()

    def behave(self, rules: Sequence[Mapping[str, Any]]) -> None:
        with self._lock:
            self._rules = [dict(rule) for rule in rules]

    def release(self) -> None:
        with self._lock:
            self._rules = [rule for rule in self._rules if rule["behaviour"] != "gate"]
            opened, self._gate = self._gate, threading.Event()
        opened.set()

    def vector(self, text: str) -> list[float]:
        with self._lock:
            return [float(number) for number in self._embedder.embed_query(text)]

    def arrived(self, texts: Sequence[str]) -> dict[str, Any]:
        """Count a request and choose the rule for it."""
        now = time.time()
        with self._lock:
            self.requests += 1
            self.most_texts = max(self.most_texts, len(texts))
            for text in texts:
                self.texts.setdefault(text_hash(text), {"sent": [], "answered": []})["sent"].append(now)
            for rule in self._rules:
                if not any(rule.get("contains", "") in text for text in texts):
                    continue
                if rule.get("skip", 0) > 0:
                    rule["skip"] -= 1
                    continue
                if "times" in rule:
                    if rule["times"] <= 0:
                        continue
                    rule["times"] -= 1
                return dict(rule)
        return {"behaviour": "answer"}

    def answered(self, texts: Sequence[str]) -> None:
        now = time.time()
        with self._lock:
            self.answers += 1
            for text in texts:
                self.texts.setdefault(text_hash(text), {"sent": [], "answered": []})["answered"].append(now)

    def hold(self) -> None:
        with self._lock:
            gate = self._gate
            self.held += 1
        gate.wait(LONGEST_HOLD_SECONDS)
        with self._lock:
            self.held -= 1

    def stats(self) -> dict[str, Any]:
        with self._lock:
            return {
                "requests": self.requests,
                "answered": self.answers,
                "held": self.held,
                "max_texts_in_request": self.most_texts,
                "texts": json.loads(json.dumps(self.texts)),
            }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    state: _State


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # so that connections are kept, as real providers do
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the parent's name for it)
        """Quiet."""

    def do_GET(self) -> None:
        if self.path == "/_stats":
            self._answer(200, self.server.state.stats())
        else:
            self._answer(404, _error("no such path"))

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        state = self.server.state
        with self._client_may_die():
            if self.path == "/v1/embeddings":
                self._embeddings(content)
            elif self.path == "/_control":
                state.behave(json.loads(content)["rules"])
                self._answer(200, {})
            elif self.path == "/_release":
                state.release()
                self._answer(200, {})
            elif self.path == "/_reset":
                state.reset()
                self._answer(200, {})
            else:
                self._answer(404, _error("no such path"))

    def _embeddings(self, content: bytes) -> None:
        state = self.server.state
        if state.key and self.headers.get("Authorization") != f"Bearer {state.key}":
            return self._answer(401, _error(f"Incorrect API key: {self.headers.get('Authorization')}", "invalid_api_key"))
        texts = json.loads(content)["input"]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            return self._answer(400, _error("input must be a list of strings"))
        if any(not text for text in texts):
            return self._answer(400, _error("input[0] must not be empty"))
        rule = state.arrived(texts)
        behaviour = rule["behaviour"]
        if behaviour == "status":
            body = _error(rule.get("message", "as ordered"), rule.get("code"))
            return self._answer(rule["status"], body, rule.get("headers", {}))
        if behaviour == "close":
            self.close_connection = True
            return None
        if behaviour == "html":
            return self._write(200, b"<html>Welcome</html>", "text/html", {})
        tokens = sum(map(estimate_tokens, texts))
        if behaviour == "token_limit" and tokens > rule["tokens"]:
            return self._answer(400, _error(f"This request has {tokens} tokens; the maximum is {rule['tokens']}."))
        if behaviour == "text_limit" and len(texts) > rule["texts"]:
            return self._answer(413, _error("Request too large."))
        if behaviour == "delay":
            time.sleep(rule["seconds"])
        if behaviour == "gate":
            state.hold()
        data, billed = _elements([state.vector(text) for text in texts], texts, rule)
        state.answered(billed)  # before it leaves: who has the answer must find it counted
        self._answer(200, {"object": "list", "data": data, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}})
        return None

    def _answer(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        self._write(status, json.dumps(body).encode(), "application/json", headers or {})

    def _write(self, status: int, content: bytes, media_type: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    @contextmanager
    def _client_may_die(self) -> Iterator[None]:
        try:
            yield
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


def _elements(
    vectors: list[list[float]], texts: Sequence[str], rule: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The answer's elements as the rule bends them, and the texts that got a good vector."""
    behaviour = rule["behaviour"]
    billed = list(texts)
    if behaviour in ONE_BAD_VECTOR:
        wanted = rule.get("contains", "")
        place = next(index for index, text in enumerate(texts) if wanted in text) if wanted else rule.get("position", 0)
        width = len(vectors[place])
        vectors[place] = {
            "nan": [float("nan")] * width,
            "infinity": [float("inf")] * width,
            "zeros": [0.0] * width,
            "empty": [],
        }[behaviour]
        billed.pop(place)
    if behaviour == "wide":
        vectors = [[*vector, 0.5] for vector in vectors]
        billed = []
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    if behaviour == "short":
        data.pop()
        billed = []
    if behaviour == "shuffle":
        data.reverse()
    if behaviour == "indexes":
        data = [{**element, "index": 0} for element in data]
        billed = []
    return data, billed


def _error(message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}


def main() -> None:
    parser = argparse.ArgumentParser(description="A paid embedder that counts, and fails on command.")
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--key", default="")
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with FakeEmbedderServer(dimensions=options.dimensions, key=options.key, port=options.port) as server:
        written = options.port_file.with_name(f"{options.port_file.name}.{os.getpid()}")
        written.write_text(str(server.port))
        written.replace(options.port_file)  # whoever sees the file sees the whole number
        stop.wait()


if __name__ == "__main__":
    main()
