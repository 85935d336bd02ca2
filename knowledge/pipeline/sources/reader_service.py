"""Pages by a reader service: Jina Reader, or any that speaks as it does.

One GET to the service with the page's address behind its own, as it is. The answer is JSON: `content` (or `text`) and `title`,
directly or under `data`.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from knowledge.errors import FetchFault, FetchRefused, FetchSlowDown, NoTextExtracted
from knowledge.model.documents import Checkpoint
from knowledge.model.urls import host_of
from knowledge.pipeline.http.client import WebClient
from knowledge.pipeline.http.retry_after import retry_after_seconds
from knowledge.pipeline.readers.decoding import clean

JINA: Final = "https://r.jina.ai"


@dataclass(frozen=True, slots=True)
class ServedPage:
    text: str  #: Markdown, never empty
    title: str | None


class ReaderService:
    """Args:
    endpoint: of the service.
    client: may ask the service wherever it is: its address is the operator's, not a stranger's.
    key: sent as a bearer token; anonymous without one.
    """

    def __init__(self, endpoint: str, client: WebClient, key: str | None = None) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._client = client
        self._key = key

    @property
    def host(self) -> str:
        return host_of(self._endpoint)

    def read(self, url: str, checkpoint: Checkpoint) -> ServedPage:
        """Raises:
        FetchSlowDown, FetchRefused, FetchFault. NoTextExtracted: the page says nothing.
        """
        headers = {"accept": "application/json", "x-retain-images": "none"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        answer = self._client.get(f"{self._endpoint}/{url}", headers=headers, checkpoint=checkpoint)
        wait = retry_after_seconds(answer.headers.get("retry-after"))
        details: dict[str, Any] = {"status": answer.status, "service": self.host}
        if answer.status == 429 or (answer.status == 503 and wait is not None):
            raise FetchSlowDown(
                "The reader service asks to wait.", retry_after_seconds=30.0 if wait is None else wait, **details
            )
        if answer.status >= 500 or answer.status in (408, 425):
            raise FetchFault("The reader service does not work now.", **details)
        if not 200 <= answer.status < 300:
            raise FetchRefused("The reader service does not give this page.", **details)
        return self._page(answer.content)

    def _page(self, content: bytes) -> ServedPage:
        try:
            payload = json.loads(content)
        except (ValueError, RecursionError):
            raise FetchFault("The reader service's answer is no JSON.", service=self.host) from None
        payload = payload.get("data", payload) if isinstance(payload, dict) else payload
        if not isinstance(payload, dict):
            raise FetchFault("The reader service's answer holds no page.", service=self.host)
        text = clean(_text(payload.get("content")) or _text(payload.get("text")))
        if not text:
            raise NoTextExtracted("The reader service found no text on this page.", service=self.host)
        return ServedPage(text, " ".join(clean(_text(payload.get("title"))).split()) or None)


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
