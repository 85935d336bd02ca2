"""robots.txt: which pages of a site may be fetched by a program that found them by itself. RFC 9309."""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from knowledge import clock
from knowledge.errors import FetchDisallowed, FetchFault, FetchSlowDown, FetchTooLarge
from knowledge.model.documents import Checkpoint
from knowledge.pipeline.http.client import WebClient
from knowledge.pipeline.http.retry_after import retry_after_seconds

AGENT: Final = "Knowledge"  #: the name that a robots.txt may give rules for
MAX_BYTES: Final = 512_000  #: the standard asks for 500 KiB at least
_KEEP_SECONDS: Final = 3600.0
_SITES: Final = 500


@dataclass(frozen=True, slots=True)
class _Rules:
    parsed: Any  #: None: everything is allowed
    until: float  #: seconds, monotonic


class Robots:
    """The rules of the sites asked lately, kept for an hour in this process."""

    def __init__(self, client: WebClient) -> None:
        self._client = client
        self._known: OrderedDict[str, _Rules] = OrderedDict()
        self._lock = threading.Lock()

    def require_allowed(self, url: str, checkpoint: Checkpoint) -> None:
        """Raises:
        FetchDisallowed. FetchFault, FetchSlowDown: the rules cannot be had now, and without them nothing is fetched.
        """
        parts = urlsplit(url)
        site = f"{parts.scheme}://{parts.netloc}"
        rules = self._rules(site, checkpoint)
        if rules.parsed is not None and not rules.parsed.can_fetch(url, AGENT):
            raise FetchDisallowed(host=parts.hostname)

    def _rules(self, site: str, checkpoint: Checkpoint) -> _Rules:
        with self._lock:
            known = self._known.get(site)
        if known is not None and known.until > clock.monotonic():
            return known
        rules = _Rules(self._fetched(site, checkpoint), clock.monotonic() + _KEEP_SECONDS)
        with self._lock:
            self._known[site] = rules
            while len(self._known) > _SITES:
                self._known.popitem(last=False)
        return rules

    def _fetched(self, site: str, checkpoint: Checkpoint) -> Any:
        from protego import Protego

        try:
            answer = self._client.get(f"{site}/robots.txt", max_bytes=MAX_BYTES, checkpoint=checkpoint)
        except FetchTooLarge:
            return None
        if answer.status == 429:
            raise FetchSlowDown(retry_after_seconds=retry_after_seconds(answer.headers.get("retry-after")) or 30.0)
        if answer.status >= 500:
            raise FetchFault("The robots.txt of this web server cannot be read now.", status=answer.status)
        if answer.status >= 400:
            return None
        return Protego.parse(answer.content.decode("utf-8", "replace"))
