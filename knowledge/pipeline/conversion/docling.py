"""A docling-serve over HTTP: submit, ask, fetch; never its synchronous call, which gives up while the server goes on.

Protocol: the asynchronous endpoints of its v1 API (https://docling-project.github.io/docling/usage/api_server/rest_api/). A
result is kept by the server for minutes only, so it is copied by the look that learns of it. A task that the server does not
know (any more) is lost for good.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from knowledge.errors import (
    ConversionFault,
    ConversionLost,
    ConverterBadAnswer,
    ConverterMissing,
    ConverterRefused,
    ConverterUnavailable,
)
from knowledge.model.documents import SourceFile
from knowledge.pipeline.conversion import artefact
from knowledge.pipeline.conversion.pictures import IMAGE_TYPES, SUFFIXES_OF
from knowledge.pipeline.conversion.port import CALL_SECONDS, Converted, Order, Ticket, Waiting
from knowledge.pipeline.readers.media_type import PDF

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS: Final = 3.0
MAX_RESULT_BYTES: Final = 512 << 20
PAGE_BREAK: Final = "<!-- knowledge: page ends -->"
_RESULT: Final = "result.md"
_SAID_CHARACTERS: Final = 300  #: of what the server says; it may quote the document
_DONE: Final = frozenset({"success", "partial_success"})


class DoclingProcessor:
    """See the module.

    Args:
        url: of the server, for example `http://localhost:5001`; None: there is none.
        api_key: sent as `X-Api-Key`.
        billed: a submission of which nobody knows whether it arrived is not repeated.
    """

    name: ClassVar[str] = "docling"
    only_without_text: ClassVar[bool] = False

    def __init__(self, *, url: str | None = None, api_key: str = "", billed: bool = False) -> None:
        self._url = url.rstrip("/") if url else None
        self._api_key = api_key
        self._billed = billed

    def claims(self, media_type: str) -> bool:
        return media_type == PDF or media_type in IMAGE_TYPES

    def missing(self) -> str | None:
        return None if self._url else "No docling-serve is set up; name one in KNOWLEDGE_DOCLING_URL."

    def start(self, order: Order) -> Ticket:
        if (complaint := self.missing()) is not None:
            raise ConverterMissing(complaint)
        wanted = {
            "to_formats": ["md", "json"],  # the JSON says which pages the text is on
            "image_export_mode": "placeholder",
            "do_ocr": "true",
            "force_ocr": "false",  # a text layer that is there is better than any reading of its picture
            "abort_on_error": "false",
            "md_page_break_placeholder": PAGE_BREAK,
            "document_timeout": str(order.seconds),
        }
        with order.source.path.open("rb") as file:
            parts = {"files": (_name(order.source), _Timed(file), order.source.media_type)}
            answer = self._json("POST", "/v1/convert/file/async", data=wanted, files=parts)
        task = answer.get("task_id")
        if not isinstance(task, str) or not task:
            raise ConverterBadAnswer("The converter took the file and did not name its task.")
        return {"task": task, "media_type": order.source.media_type, "name": order.source.name}

    def poll(self, ticket: Ticket, work: Path) -> Waiting | Converted:
        if (work / _RESULT).exists():  # fetched by an earlier look, which could not place it; the server has forgotten it
            return Converted(work / _RESULT)
        task = quote(str(ticket["task"]), safe="")
        answer = self._json("GET", f"/v1/status/poll/{task}", params={"wait": "0"})
        status = answer.get("task_status")
        if status in ("pending", "started"):
            return Waiting("queued" if status == "pending" else "reading")
        if status in ("failure", "skipped"):
            raise ConversionFault("The converter could not read this file.", status=status, said=_said(answer))
        if status not in _DONE:
            raise ConverterBadAnswer(
                "The converter tells of a status that its protocol does not have.", status=str(status)[:40]
            )
        found = _found(self._json("GET", f"/v1/result/{task}"), ticket)
        artefact.write(work / f"{_RESULT}.part", found)
        return Converted((work / f"{_RESULT}.part").rename(work / _RESULT))

    def cancel(self, ticket: Ticket, work: Path) -> None:
        """Its protocol has no way to stop a task; the server forgets results by itself."""

    def _json(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        """The object that the server answers.

        Raises:
            ConversionLost: 404. ConverterRefused, ConverterBadAnswer. ConverterUnavailable: it may answer another time.
        """
        with self._spoken_to(method) as client, client.stream(method, path, **request) as response:
            content = _content(response)
            self._check(response.status_code, method, content)
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ConverterBadAnswer("The converter's answer is no JSON.", content_type=kind[:80])
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            raise ConverterBadAnswer("The converter's answer is cut off, or no JSON.", bytes=len(content)) from None
        if not isinstance(answer, dict):
            raise ConverterBadAnswer("The converter's answer is no object.")
        return answer

    def _check(self, status: int, method: str, content: bytes) -> None:
        if status < 300:
            return
        if status == 404 and method == "GET":
            raise ConversionLost(status=status)
        if status >= 500 or status in (408, 425, 429):
            if method == "POST" and self._billed and status != 429:
                raise ConversionLost("Whether the converter began is not known.", status=status)
            raise ConverterUnavailable(status=status)
        raise ConverterRefused(status=status, said=content[:_SAID_CHARACTERS].decode(errors="replace") if status == 422 else "")

    @contextmanager
    def _spoken_to(self, method: str) -> Iterator["httpx.Client"]:
        import httpx

        assert self._url is not None  # else nothing has begun
        headers = {"Accept": "application/json"} | ({"X-Api-Key": self._api_key} if self._api_key else {})
        timeout = httpx.Timeout(CALL_SECONDS, connect=CONNECT_SECONDS)
        try:
            # Proxies and .netrc logins of the environment are not ours to use; redirects are not followed.
            with httpx.Client(base_url=self._url, headers=headers, timeout=timeout, trust_env=False) as client:
                yield client
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise ConverterUnavailable(reason=type(error).__name__) from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError) as error:
            raise ConverterRefused("The request could not be built.", reason=type(error).__name__) from None
        except httpx.DecodingError:
            raise ConverterBadAnswer("The converter's answer cannot be unpacked.") from None
        except (httpx.TransportError, TimeoutError) as error:
            if method == "POST" and self._billed:
                raise ConversionLost("Whether the converter began is not known.", reason=type(error).__name__) from None
            raise ConverterUnavailable(reason=type(error).__name__) from None


def _name(source: SourceFile) -> str:
    """With a suffix that says what the bytes are: the server goes by it."""
    fitting = SUFFIXES_OF.get(source.media_type, ())
    return source.name if not fitting or source.suffix in fitting else f"{source.name}{fitting[0]}"


class _Timed:
    """A file that is sent: the whole of it has to be through in the time of one call."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._until = time.monotonic() + CALL_SECONDS

    def read(self, size: int = -1) -> bytes:
        if time.monotonic() > self._until:
            raise TimeoutError
        return self._file.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _content(response: "httpx.Response") -> bytes:
    until = time.monotonic() + CALL_SECONDS
    content = bytearray()
    for part in response.iter_bytes():
        content += part
        if len(content) > MAX_RESULT_BYTES:
            raise ConverterBadAnswer("The converter's answer is far too large.", max_bytes=MAX_RESULT_BYTES)
        if time.monotonic() > until:  # each read has its own time-out, so a slow drip would never end
            raise TimeoutError
    return bytes(content)


def _found(answer: Mapping[str, Any], ticket: Ticket) -> artefact.Artefact:
    """The text with its pages, as far as they are certain.

    Raises:
        ConversionFault: the server says that it failed. ConverterBadAnswer.
    """
    status, document = answer.get("status"), answer.get("document")
    if status not in _DONE:
        raise ConversionFault("The converter could not read this file.", status=str(status)[:40], said=_said(answer))
    text = document.get("md_content") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(text, str):
        raise ConverterBadAnswer("The converter's result holds no Markdown.")
    parts = [part.strip() for part in text.split(PAGE_BREAK)]
    numbers, count = _pages(document.get("json_content"))
    has_pages = bool(numbers) and len(numbers) == len(parts)
    pages = [""] * max(count, *numbers) if has_pages else ["\n\n".join(part for part in parts if part)]
    if has_pages:
        for number, part in zip(numbers, parts, strict=True):
            pages[number - 1] = part
    return artefact.Artefact(
        pages=pages,
        media_type=str(ticket["media_type"]),
        converter="docling",
        has_pages=has_pages and ticket["media_type"] == PDF,
        is_partial=status == "partial_success",
        extra={"resource": str(ticket["name"])},
    )


def _pages(content: Any) -> tuple[list[int], int]:
    """(the pages that something of the document stands on, ascending; how many it has), from the document as JSON."""
    if not isinstance(content, dict):
        return [], 0
    found: set[int] = set()
    for kind in ("texts", "tables", "pictures", "key_value_items", "form_items"):
        for item in content.get(kind) or ():
            places = item.get("prov") if isinstance(item, dict) else None
            for place in places or ():
                number = place.get("page_no") if isinstance(place, dict) else None
                if isinstance(number, int) and 0 < number <= 100_000 and item.get("content_layer", "body") == "body":
                    found.add(number)
    pages = content.get("pages")
    return sorted(found), min(len(pages), 100_000) if isinstance(pages, dict) else 0


def _said(answer: Mapping[str, Any]) -> str:
    """What the server gives as a reason."""
    errors = answer.get("errors")
    told = (
        [str(error.get("error_message", "")) for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
    )
    return " ".join(filter(None, told))[:_SAID_CHARACTERS]
