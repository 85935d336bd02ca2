"""A docling-serve that we own: a real HTTP server with its asynchronous v1 API, which converts nothing, and fails on command.

Start it in this process (`with FakeDocling() as server:`) or as a process of its own that outlives killed workers:

    python -m tests.fakes.docling_server --port-file PATH [--key SECRET]

    POST /v1/convert/file/async       multipart with `files`; answers {"task_id", "task_type", "task_status", "task_position"}
    GET  /v1/status/poll/{task_id}    the same; 404 {"detail": "Task not found."}
    GET  /v1/result/{task_id}         {"document": {"md_content", "json_content"}, "status", "errors", "processing_time"}; the
                                      result is given once, as docling-serve does, and is then unknown
    GET  /_stats                      {"submitted", "polled", "fetched", "forms": [fields of each submission], "names": [...]}
    POST /_control                    {"rules": [rule, ...], "pages": [text, ...], "after": n}

A task is `pending` at the first poll, `started` until it was polled `after` times (default 1), then `success`. Its Markdown is
that of `pages`, with the page break that the submission asked for; an empty page has neither text nor break, as in docling.

A rule is {"at": "submit" | "poll" | "result", "behaviour": …, "times": n}; the first that matches is applied, without `times`
always.

    status        answer "status" with a body that is no result
    unknown       404 for a task that is known
    never         (poll) it is `started`, for ever
    failure       (poll) the task has failed
    partial       (result) status `partial_success`
    failed        (result) status `failure`, with an error
    slow          answer after "seconds"
    close         close the connection without an answer
    cut           a body that ends in the middle, though its length is right
    short         a body shorter than its length says
    html          200 with a page
    zip           200 with a zip file, as for several files
    nothing       200 with an object that has nothing in it
    redirect      302 to "to"
"""

import argparse
import json
import signal
import threading
import time
import urllib.request
import uuid
from collections.abc import Mapping
from email import message_from_bytes
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self


class FakeDocling:
    """A server in threads of this process."""

    def __init__(self, *, key: str = "", port: int = 0) -> None:
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.state = _State(key)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def behave(self, *rules: Mapping[str, Any], pages: list[str] | None = None, after: int = 1) -> None:
        """Follow these rules from now on, and no others."""
        control(self.url, {"rules": list(rules), "pages": pages or ["# Converted\n\nThe fog signal."], "after": after})

    def stats(self) -> dict[str, Any]:
        return stats(self.url)


def control(url: str, wanted: Mapping[str, Any]) -> None:
    request = urllib.request.Request(f"{url}/_control", json.dumps(wanted).encode(), method="POST")
    urllib.request.urlopen(request, timeout=20).close()


def stats(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/_stats", timeout=20) as response:
        found: dict[str, Any] = json.load(response)
        return found


class _State:
    def __init__(self, key: str) -> None:
        self.key = key
        self.lock = threading.Lock()
        self.rules: list[dict[str, Any]] = []
        self.pages = ["# Converted\n\nThe fog signal."]
        self.after = 1
        self.tasks: dict[str, dict[str, Any]] = {}
        self.counts = {"submitted": 0, "polled": 0, "fetched": 0}
        self.forms: list[dict[str, list[str]]] = []
        self.names: list[str] = []

    def rule(self, at: str) -> dict[str, Any]:
        with self.lock:
            for rule in self.rules:
                if rule["at"] != at or rule.get("times", 1) <= 0:
                    continue
                if "times" in rule:
                    rule["times"] -= 1
                return rule
        return {"behaviour": "answer"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    state: _State


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the parent's name for it)
        """Quiet."""

    def do_POST(self) -> None:
        state = self.server.state
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/_control":
            wanted = json.loads(content)
            with state.lock:
                state.rules, state.pages, state.after = wanted["rules"], wanted["pages"], wanted["after"]
            return self._answer({})
        if self.path != "/v1/convert/file/async":
            return self._answer({"detail": "Not Found"}, 404)
        if self._refused() or not self._goes_on(rule := state.rule("submit")):
            return None
        form, names = _parted(self.headers.get("Content-Type", ""), content)
        if not names:
            return self._answer({"detail": [{"loc": ["body", "files"], "msg": "Field required"}]}, 422)
        with state.lock:
            state.counts["submitted"] += 1
            state.forms.append(form)
            state.names += names
            task = str(uuid.uuid4())
            state.tasks[task] = {"polls": 0, "form": form, "pages": list(state.pages)}
        return self._answer({} if rule["behaviour"] == "nothing" else _status(task, "pending"))

    def do_GET(self) -> None:
        state = self.server.state
        path = self.path.partition("?")[0]
        if path == "/_stats":
            with state.lock:
                return self._answer({**state.counts, "forms": state.forms, "names": state.names})
        at, _, task = path.removeprefix("/v1/").rpartition("/")
        if self._refused():
            return None
        if at == "status/poll":
            return self._poll(task)
        if at == "result":
            return self._result(task)
        return self._answer({"detail": "Not Found"}, 404)

    def _poll(self, task: str) -> None:
        state = self.server.state
        rule = state.rule("poll")
        with state.lock:
            state.counts["polled"] += 1
            known = state.tasks.get(task)
            if known is not None:
                known["polls"] += 1
        if not self._goes_on(rule):
            return None
        if known is None or rule["behaviour"] == "unknown":
            return self._answer({"detail": "Task not found."}, 404)
        match rule["behaviour"]:
            case "never":
                status = "started"
            case "failure":
                status = "failure"
            case "nothing":
                return self._answer({})
            case _:
                status = "success" if known["polls"] > state.after else "pending" if known["polls"] == 1 else "started"
        return self._answer(_status(task, status))

    def _result(self, task: str) -> None:
        state = self.server.state
        rule = state.rule("result")
        if not self._goes_on(rule):
            return None
        with state.lock:
            state.counts["fetched"] += 1
            known = state.tasks.pop(task, None)
        if known is None or rule["behaviour"] == "unknown":
            return self._answer({"detail": "Task not found."}, 404)
        return self._answer(_result(known, rule["behaviour"]))

    def _refused(self) -> bool:
        key = self.server.state.key
        if key and self.headers.get("X-Api-Key") != key:
            self._answer({"detail": "Api key is required"}, 401)
            return True
        return False

    def _goes_on(self, rule: Mapping[str, Any]) -> bool:
        """Whether the request is to be served; else it has been answered as the rule says."""
        good = json.dumps({"document": {"md_content": "words"}, "status": "success", "task_id": "x", "task_status": "success"})
        match rule["behaviour"]:
            case "status":
                self._answer({"detail": "as ordered"}, rule["status"])
            case "slow":
                time.sleep(rule["seconds"])
                return True
            case "close":
                self.close_connection = True
            case "cut":
                self._send(good[: len(good) // 2].encode(), "application/json")
            case "short":
                self._send(good.encode(), "application/json", length=len(good) * 2)
                self.close_connection = True
            case "html":
                self._send(b"<html><body>Welcome</body></html>", "text/html")
            case "zip":
                self._send(b"PK\x05\x06" + bytes(18), "application/zip")
            case "redirect":
                self.send_response(302)
                self.send_header("Location", rule["to"])
                self.send_header("Content-Length", "0")
                self.end_headers()
            case _:
                return True
        return False

    def _answer(self, body: Mapping[str, Any], status: int = 200) -> None:
        self._send(json.dumps(body).encode(), "application/json", status=status)

    def _send(self, content: bytes, kind: str, *, status: int = 200, length: int | None = None) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content) if length is None else length))
            self.end_headers()
            self.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


def _status(task: str, status: str) -> dict[str, Any]:
    return {"task_id": task, "task_type": "convert", "task_status": status, "task_position": None, "task_meta": None}


def _result(known: Mapping[str, Any], behaviour: str) -> dict[str, Any]:
    if behaviour == "nothing":
        return {}
    if behaviour == "failed":
        return {
            "document": {},
            "status": "failure",
            "errors": [{"error_message": "the model ran away"}],
            "processing_time": 1.0,
        }
    placeholder = known["form"].get("md_page_break_placeholder", [""])[0]
    texts = [(number, text) for number, text in enumerate(known["pages"], start=1) if text]
    document: dict[str, Any] = {"md_content": f"\n\n{placeholder}\n\n".join(text for _, text in texts)}
    if "json" in known["form"].get("to_formats", []):
        document["json_content"] = {
            "texts": [{"text": text, "content_layer": "body", "prov": [{"page_no": number}]} for number, text in texts],
            "pages": {str(number): {} for number in range(1, len(known["pages"]) + 1)},
        }
    status = "partial_success" if behaviour == "partial" else "success"
    return {"document": document, "status": status, "errors": [], "processing_time": 1.0, "timings": {}}


def _parted(kind: str, content: bytes) -> tuple[dict[str, list[str]], list[str]]:
    """(fields, names of files) of a multipart body."""
    message = message_from_bytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + content, policy=HTTP)
    fields: dict[str, list[str]] = {}
    names: list[str] = []
    for part in message.iter_parts() if message.is_multipart() else ():
        name = part.get_param("name", header="content-disposition")
        if (filename := part.get_filename()) is not None:
            names.append(filename)
        else:
            fields.setdefault(str(name), []).append(part.get_payload(decode=True).decode())
    return fields, names


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--key", default="")
    given = parser.parse_args()
    with FakeDocling(key=given.key) as server:
        part = given.port_file.with_suffix(".part")
        part.write_text(str(server.port))
        part.rename(given.port_file)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
