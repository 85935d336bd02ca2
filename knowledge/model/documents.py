"""What the pipeline passes from stage to stage: bytes, text, units, vectors. No row, no status, no queue.

Offsets count Unicode code points of `Material.text`, end exclusive.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from knowledge.model.budget import Meter
from knowledge.model.quality import Quality
from knowledge.model.status import Notice

Vector = npt.NDArray[np.float32]  #: shape (dimensions,)
Vectors = npt.NDArray[np.float32]  #: shape (n, dimensions)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that a reader is asked to read.

    `path` is where its bytes lie; `name` is what a person calls it (its suffix is a hint, never proof); `media_type` is what
    its bytes say it is, lower case, without parameters. Readers count against `budget` what a hostile file could make large.
    """

    path: Path
    name: str
    media_type: str
    budget: Meter = field(default_factory=Meter, repr=False, compare=False)

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix.lower()


@dataclass(frozen=True, slots=True)
class Document:
    """One stretch of text that no chunk may cross the end of: a page, a sheet, or a whole file."""

    text: str
    page: int | None = None  #: 1-based, only where the format has pages
    locator: str | None = None  #: another place inside the file, as a person names it: `sheet Sales`, `slide 3`, `chapter Two`
    shares: bool = False  #: a record, one of many: it shares its chunk with neighbours of its page and locator that do so too


@dataclass(frozen=True, slots=True)
class ReadResult:
    documents: Sequence[Document]
    media_type: str
    reader: str  #: name of the reader that produced it
    notices: frozenset[Notice] = frozenset()
    quality: Quality = field(default_factory=Quality)


@dataclass(frozen=True, slots=True)
class Unit:
    """One search unit: a verbatim slice of the material's text."""

    index: int  #: 0, 1, 2 … over the whole item
    text: str
    char_start: int
    char_end: int
    page: int | None = None
    locator: str | None = None  #: of its document

    @property
    def text_hash(self) -> str:
        return text_hash(self.text)


@dataclass(frozen=True, slots=True)
class Material:
    """All index rows of one leaf; replaced as a whole.

    `vectors` maps the text hash of a unit to its float32 vector of shape (dimensions,). It holds at least the hashes that the
    index does not know yet; it is None in a base without embedder.
    """

    item_id: str
    path: str  #: concept id, unique in the base
    text: str
    units: Sequence[Unit]
    vectors: Mapping[str, Vector] | None


@dataclass(frozen=True, slots=True)
class Chunking:
    """How text is cut. `size` and `overlap` are estimated tokens; 0 <= overlap < size."""

    size: int = 1024
    overlap: int = 200
    strategy: str = "structured"  #: or "delimiter"
    separator: str = "\\n\\n"  #: in escaped form: the four characters backslash n backslash n


@dataclass(frozen=True, slots=True)
class EmbedderSpec:
    """One embedder as `models.toml` declares it."""

    id: str
    kind: str  #: name in the entry point group `knowledge.embedders`: "minilm", "wordllama", "openai", "hashing" …
    dimensions: int
    model: str = ""  #: the provider's name of the model
    revision: str = ""
    endpoint: str = ""  #: base URL that `/embeddings` is appended to
    api_key: str = field(default="", repr=False)
    query_prefix: str = ""
    document_prefix: str = ""
    languages: tuple[str, ...] = ()  #: ISO 639-1 codes that the model knows; empty means any
    max_input_tokens: int = 8191  #: per text, estimated
    max_batch_texts: int = 10
    max_batch_tokens: int = 100_000  #: per request, estimated
    timeout_seconds: float = 60.0
    price_per_million_tokens: float | None = None
    billed: bool = False
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict, hash=False)
    """What only this kind knows, for example `threads`; never anything that changes a vector."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the same text could get another vector."""
        parts = (self.kind, self.endpoint, self.model, self.revision, str(self.dimensions), self.document_prefix)
        return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class EmbeddingUse:
    """What one request to an embedder cost."""

    texts: int
    tokens: int | None  #: as the provider counted, None if it did not say
    estimated_tokens: int


Checkpoint = Callable[[], None]  #: raises `Interrupted` when the run must stop; called between pages and batches


def text_hash(text: str) -> str:
    """SHA-256 of the UTF-8 text, hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
