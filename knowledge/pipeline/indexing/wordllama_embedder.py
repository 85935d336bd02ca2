"""Static word vectors of the package `wordllama`, opt-in: some hundred times faster than a transformer, no sense of word order.

Its vectors are derived from Llama's token embeddings; read `deploy/decisions/local-embedder.md` before you install the extra.
The package's own loader wants a network, so the two files it ships are read here directly.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from knowledge.errors import ConfigurationError
from knowledge.model.documents import EmbedderSpec, EmbeddingUse, Vector
from knowledge.pipeline.indexing.embedder import EmbeddedBatch
from knowledge.pipeline.indexing.per_process import PerProcess
from knowledge.pipeline.indexing.pinned_file import package_folder, pinned_bytes
from knowledge.pipeline.indexing.registry import EmbedderKind

BATCH_TEXTS: Final = 64
WIDTHS: Final = frozenset({64, 128, 256})  #: the first dimensions carry most: the vectors were trained to be cut at these

_FULL_WIDTH: Final = 256
_WEIGHTS_SHA256: Final = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
_TOKENIZER_SHA256: Final = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
_PACKAGE: Final = "wordllama"
_EXTRA: Final = "wordllama"


class WordLlamaEmbedder:
    """Mean of a text's token vectors, scaled to length 1; texts may be of any length."""

    def __init__(self, spec: EmbedderSpec) -> None:
        self.spec = spec
        self._model = PerProcess(lambda: _Model(spec.dimensions))

    def embed(self, texts: Sequence[str]) -> Iterator[EmbeddedBatch]:
        model = self._model.get()
        for start in range(0, len(texts), BATCH_TEXTS):
            rows = [model.tokens(self.spec.document_prefix + text) for text in texts[start : start + BATCH_TEXTS]]
            tokens = sum(map(len, rows))
            yield EmbeddedBatch(
                positions=range(start, start + len(rows)),
                vectors=np.stack([model.vector(row) for row in rows]),
                use=EmbeddingUse(len(rows), tokens=tokens, estimated_tokens=tokens),
            )

    def embed_query(self, text: str) -> Vector:
        model = self._model.get()
        return model.vector(model.tokens(self.spec.query_prefix + text))


class _Model:
    """Tokenizer and table, loaded once a process (about 0.2 s, 80 MB)."""

    def __init__(self, width: int) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ConfigurationError(f"tokenizers is not installed; install knowledge-pipeline[{_EXTRA}].") from error
        folder = package_folder(_PACKAGE, extra=_EXTRA)
        table = _read_table(pinned_bytes(folder / "weights" / "l2_supercat_256.safetensors", _WEIGHTS_SHA256))
        vocabulary = pinned_bytes(folder / "tokenizers" / "l2_supercat_tokenizer_config.json", _TOKENIZER_SHA256)
        self._table = np.ascontiguousarray(table[:, :width], dtype=np.float32)
        self._tokenizer = Tokenizer.from_str(vocabulary.decode())

    def tokens(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids or [0]  # <unk>: an empty text still needs a vector

    def vector(self, tokens: Sequence[int]) -> Vector:
        summed = self._table[tokens].sum(axis=0)
        vector: Vector = summed / np.linalg.norm(summed)
        return vector


def _read_table(content: bytes) -> npt.NDArray[np.float16]:
    """The only tensor of a safetensors file: 8 bytes of header length, a JSON header, then the numbers."""
    header_end = 8 + int.from_bytes(content[:8], "little")
    rows, width = json.loads(content[8:header_end])["embedding.weight"]["shape"]
    return np.frombuffer(content, dtype="<f2", count=rows * width, offset=header_end).reshape(rows, width)


KIND: Final = EmbedderKind(
    open=WordLlamaEmbedder,
    required=frozenset(),
    defaults={
        "dimensions": _FULL_WIDTH,
        "model": "wordllama-l2-supercat",
        "revision": f"sha256-{_WEIGHTS_SHA256[:12]}",
        "languages": ("en",),
    },
    widths=WIDTHS,
    needs=frozenset({_PACKAGE, "tokenizers"}),
)
