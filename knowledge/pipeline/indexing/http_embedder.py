"""Any OpenAI-compatible `/embeddings` endpoint.

Sends strings only, never token ids, because many compatible servers know nothing else. Errors carry the endpoint, the model and
positions; neither keys, nor texts, nor the provider's prose (which may quote both) reach an error or a log.
"""

import json
import logging
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import numpy as np

from knowledge.errors import (
    ConfigurationError,
    EmbedderBadAnswer,
    EmbedderRefused,
    EmbedderSlowDown,
    EmbedderUnavailable,
    EmbeddingFault,
)
from knowledge.model.documents import EmbedderSpec, EmbeddingUse, Vector
from knowledge.pipeline.http.retry_after import retry_after_seconds
from knowledge.pipeline.indexing.embedder import EmbeddedBatch
from knowledge.pipeline.indexing.per_process import PerProcess
from knowledge.pipeline.indexing.registry import EmbedderKind
from knowledge.pipeline.indexing.tokens import estimate_tokens

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 10.0
QUERY_SECONDS: Final = 10.0  #: somebody waits for the answer, and words alone give one
DEFAULT_RETRY_SECONDS: Final = 5.0  #: where a provider says "slow down" but not for how long
MAX_REFUSALS_BY_SIZE: Final = 24  #: of one `embed` call; finding the one text of 1,000 that is too long takes 10
BYTES_PER_NUMBER: Final = 40  #: of JSON, generous
SPARE_BYTES: Final = 1 << 20  #: of an answer beside its vectors

#: published with the model; used when the declaration has no query prefix
QWEN3_QUERY_PREFIX: Final = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"

_SIZE_WORDS: Final = re.compile(
    r"too (?:long|large|many)|exceed|\bmax(?:imum)?\b|at most|limit|(?:less|more|larger|longer) than|context length|batch size",
    re.IGNORECASE,
)
_SAFE_CODE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]{0,63}")
_NEVER_RECOVERS: Final = frozenset({"insufficient_quota", "billing_not_active", "billing_hard_limit_reached"})


class HttpEmbedder:
    """One declared model behind an HTTP endpoint."""

    def __init__(self, spec: EmbedderSpec) -> None:
        self.spec = spec
        self._client = PerProcess(self._connect)
        self._url = _embeddings_url(spec.endpoint)
        self._where = _without_secrets(spec.endpoint)
        self._query_prefix = spec.query_prefix
        if not spec.query_prefix and "qwen3-embedding" in f"{spec.id} {spec.model}".lower():
            self._query_prefix = QWEN3_QUERY_PREFIX

    def embed(self, texts: Sequence[str]) -> Iterator[EmbeddedBatch]:
        """One request a batch, in order; each within the declared texts and estimated tokens.

        A request that the provider refuses for its size is halved, and what follows stays below what was refused. If vectors of
        an answer are unusable, the good ones, or none, are yielded before `EmbedderBadAnswer` is raised: they are paid for.
        """
        prepared = [self.spec.document_prefix + text for text in texts]
        tokens = [estimate_tokens(text) for text in prepared]
        max_texts, max_tokens = max(self.spec.max_batch_texts, 1), self.spec.max_batch_tokens
        refusals, start = 0, 0
        while start < len(prepared):
            end = _batch_end(tokens, start, max_texts, max_tokens)
            try:
                answer = self._ask(prepared[start:end], first_position=start)
            except _TooLarge as refusal:
                refusals += 1
                if end - start == 1 or refusals > MAX_REFUSALS_BY_SIZE:
                    raise refusal.as_error from None
                max_texts = (end - start + 1) // 2
                max_tokens = max(sum(tokens[start:end]) // 2, 1)
                log.info("embedder refused a request by size", extra={"model": self.spec.id, "texts": end - start})
                continue
            good = sorted(answer.vectors)
            yield EmbeddedBatch(
                positions=[start + index for index in good],
                vectors=np.array([answer.vectors[index] for index in good], np.float32).reshape(-1, self.spec.dimensions),
                use=EmbeddingUse(end - start, tokens=answer.tokens, estimated_tokens=sum(tokens[start:end])),
            )
            if answer.fault:
                raise answer.fault
            start = end

    def embed_query(self, text: str) -> Vector:
        """See `Embedder.embed_query`. Waits `QUERY_SECONDS` at most for each part of the answer."""
        try:
            answer = self._ask([self._query_prefix + text], first_position=0, seconds=QUERY_SECONDS)
        except _TooLarge as refusal:
            raise refusal.as_error from None
        if answer.fault:
            raise answer.fault
        return answer.vectors[0]

    def _ask(self, inputs: Sequence[str], *, first_position: int, seconds: float = math.inf) -> "_Answer":
        body: dict[str, Any] = {"model": self.spec.model, "input": list(inputs), "encoding_format": "float"}
        if self.spec.options.get("send_dimensions"):
            body["dimensions"] = self.spec.dimensions
        status, headers, content = self._post(body, min(seconds, self.spec.timeout_seconds))
        if status != 200:
            raise self._refusal(status, headers, content, texts=len(inputs), first_position=first_position)
        try:
            payload = json.loads(content)
        except (ValueError, RecursionError):
            raise self._fault(EmbedderBadAnswer, "The embedder's answer is no JSON.") from None
        return self._decoded(payload, len(inputs), first_position)

    def _post(self, body: Mapping[str, Any], seconds: float) -> tuple[int, Mapping[str, str], bytes]:
        import httpx

        max_bytes = len(body["input"]) * self.spec.dimensions * BYTES_PER_NUMBER + SPARE_BYTES
        deadline = time.monotonic() + seconds
        timeout = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
        sent = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        content = bytearray()
        try:
            with self._client.get().stream("POST", self._url, content=sent, timeout=timeout) as response:
                for part in response.iter_bytes():
                    content += part
                    if len(content) > max_bytes:
                        raise self._fault(EmbedderBadAnswer, "The embedder's answer is far too large.", max_bytes=max_bytes)
                    if time.monotonic() > deadline:  # each read has its own time-out, so a slow drip would never end
                        raise self._fault(EmbedderUnavailable, reason="timeout")
                return response.status_code, response.headers, bytes(content)
        except httpx.TimeoutException:
            raise self._fault(EmbedderUnavailable, reason="timeout") from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError) as error:
            raise self._fault(EmbedderRefused, "The request could not be built.", reason=type(error).__name__) from None
        except httpx.DecodingError:
            raise self._fault(EmbedderBadAnswer, "The embedder's answer cannot be unpacked.") from None
        except httpx.TransportError as error:
            raise self._fault(EmbedderUnavailable, reason=type(error).__name__) from None

    def _connect(self) -> "httpx.Client":
        import httpx

        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self.spec.api_key:
            headers["Authorization"] = f"Bearer {self.spec.api_key}"
        return httpx.Client(headers=headers, trust_env=False)  # the environment's proxies and .netrc are not ours to use

    def _refusal(
        self, status: int, headers: Mapping[str, str], content: bytes, *, texts: int, first_position: int
    ) -> Exception:
        message, code = _explained(content)
        details: dict[str, Any] = {"status": status}
        if code and code != self.spec.api_key:
            details["provider_code"] = code
        wait = retry_after_seconds(headers.get("retry-after"))
        if code in _NEVER_RECOVERS:
            return self._fault(EmbedderRefused, "The embedder's account has no credit left.", **details)
        if status == 429 or (status == 503 and wait is not None):
            return self._fault(EmbedderSlowDown, retry_after_seconds=DEFAULT_RETRY_SECONDS if wait is None else wait, **details)
        if status >= 500 or status in {408, 425}:
            return self._fault(EmbedderUnavailable, **details)
        if status == 413 or (status in {400, 422} and _SIZE_WORDS.search(message)):
            return _TooLarge(
                self._fault(
                    EmbedderRefused, "The embedder refused a text as too long.", position=first_position, texts=texts, **details
                )
            )
        if 200 <= status < 300:
            return self._fault(EmbedderBadAnswer, "The embedder answered without vectors.", **details)
        return self._fault(EmbedderRefused, **details)

    def _decoded(self, payload: Any, count: int, first_position: int) -> "_Answer":
        data = payload.get("data") if isinstance(payload, dict) else None
        tokens = _counted_tokens(payload)
        if not isinstance(data, list):
            fault = self._fault(EmbedderBadAnswer, "The embedder's answer has no list of vectors.")
            if tokens is None:
                raise fault  # nothing says that a model was asked
            return _Answer(tokens, {}, fault)
        vectors: dict[int, Vector] = {}
        try:
            problems = self._sort(data, count, vectors)
        except EmbedderBadAnswer as fault:
            return _Answer(tokens, {}, fault)
        if not problems:
            return _Answer(tokens, vectors, None)
        index, problem = next(iter(problems.items()))
        message = f"The embedder's answer holds {problem}."
        return _Answer(
            tokens, vectors, self._fault(EmbedderBadAnswer, message, position=first_position + index, bad=len(problems))
        )

    def _sort(self, data: Sequence[Any], count: int, vectors: dict[int, Vector]) -> dict[int, str]:
        """Puts the good ones into `vectors`. Returns what is wrong with the others, by index."""
        if len(data) != count:
            raise self._fault(
                EmbedderBadAnswer, "The embedder's answer has the wrong number of vectors.", want=count, got=len(data)
            )
        by_index: dict[int, Any] = {}
        for place, element in enumerate(data):
            if not isinstance(element, dict):
                raise self._fault(EmbedderBadAnswer, "The embedder's answer has an element without a vector.", position=place)
            index = element.get("index", place)
            if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count or index in by_index:
                raise self._fault(EmbedderBadAnswer, "The embedder's answer has wrong indexes.", position=place)
            by_index[index] = element.get("embedding")
        problems: dict[int, str] = {}
        for index in range(count):
            vector, problem = _vector(by_index[index], self.spec.dimensions)
            if vector is None:
                problems[index] = problem
            else:
                vectors[index] = vector
        return problems

    def _fault(self, kind: type[EmbeddingFault], message: str | None = None, **details: Any) -> EmbeddingFault:
        return kind(message, embedder=self.spec.id, model=self.spec.model, endpoint=self._where, **details)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came back and is billed, whatever it is good for."""

    tokens: int | None  #: as the provider counted
    vectors: dict[int, Vector]  #: the good ones, by index
    fault: EmbeddingFault | None  #: what is wrong with the others


class _TooLarge(Exception):
    """The provider refuses this request for its size; a smaller one may pass."""

    def __init__(self, as_error: EmbeddingFault) -> None:
        super().__init__()
        self.as_error = as_error


def _batch_end(tokens: Sequence[int], start: int, max_texts: int, max_tokens: int) -> int:
    """End of the batch that begins at `start`: at least one text, whatever its size."""
    end, total = start + 1, tokens[start]
    while end < len(tokens) and end - start < max_texts and total + tokens[end] <= max_tokens:
        total += tokens[end]
        end += 1
    return end


def _vector(values: Any, dimensions: int) -> tuple[Vector | None, str]:
    """The numbers as a vector, or None and what is wrong with them."""
    if not isinstance(values, list):
        return None, "something that is no vector"
    if not values:
        return None, "an empty vector"
    if len(values) != dimensions:
        return None, f"a vector of {len(values)} instead of {dimensions} numbers"
    if not all(type(value) in (float, int) for value in values):
        return None, "a vector with something that is no number"
    try:
        with np.errstate(over="ignore"):
            vector = np.array(values, dtype=np.float64).astype(np.float32)
    except OverflowError:
        return None, "a vector with a number that is not finite"
    if not np.isfinite(vector).all():
        return None, "a vector with a number that is not finite"
    if not vector.any():
        return None, "a vector of zeros only"
    return vector, ""


def _counted_tokens(payload: Any) -> int | None:
    usage = payload.get("usage") if isinstance(payload, dict) else None
    if not isinstance(usage, dict):
        return None
    for name in ("prompt_tokens", "total_tokens"):
        count = usage.get(name)
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            return count
    return None


def _explained(content: bytes) -> tuple[str, str | None]:
    """The provider's prose (to search for words, never to show) and its short code, if it has one."""
    text = content[:10_000].decode("utf-8", "replace")
    try:
        payload = json.loads(content)
    except (ValueError, RecursionError):
        return text, None
    error = payload.get("error") if isinstance(payload, dict) else None
    for name in ("code", "type"):
        code = error.get(name) if isinstance(error, dict) else None
        if isinstance(code, str) and _SAFE_CODE.fullmatch(code) and not code.startswith("sk-"):
            return text, code
    return text, None


def _embeddings_url(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    path = parts.path.rstrip("/").removesuffix("/embeddings") + "/embeddings"
    return parts._replace(path=path).geturl()


def _without_secrets(endpoint: str) -> str:
    """Scheme, host and path: what a log may show of an address."""
    parts = urlsplit(endpoint)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def _open(spec: EmbedderSpec) -> HttpEmbedder:
    parts = urlsplit(spec.endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError(f"Embedder {spec.id!r} needs an http or https endpoint.", model=spec.id, field="endpoint")
    return HttpEmbedder(spec)


KIND: Final = EmbedderKind(
    open=_open,
    required=frozenset({"dimensions", "endpoint", "model"}),
    defaults={"billed": True},  # who forgets to say so must not pay twice
    options=frozenset({"send_dimensions"}),
)
