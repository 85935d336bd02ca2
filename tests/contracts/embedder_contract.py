"""What every `Embedder` must do. A subclass provides `embedder`; third-party kinds can use it as well."""

import os
import pickle
from collections.abc import Sequence

import numpy as np
import pytest

from knowledge.model.documents import Unit, Vectors
from knowledge.pipeline.indexing.embedder import Embedder
from knowledge.pipeline.indexing.embedding import embed_missing

TEXTS = (
    "The keeper lit the lamp of the lighthouse at dusk.",
    "a",
    "台北市中山區民生東路的營造公司",
    "naïve café — “quotes”, emoji 👩‍👩‍👧 and a tab\there",
    "---",
    "The keeper lit the lamp of the lighthouse at dusk. " * 60,
    "مرحبا بالعالم",
    "0x1F 3.14 POL-358 don't",
    "\ufffd",
    "line one\nline two\n\n# heading",
    "Quarterly revenue grew by ten percent.",
    "x" * 5_000,
)


def all_vectors(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """The vectors of these texts in their order, shape (len(texts), dimensions)."""
    vectors = np.full((len(texts), embedder.spec.dimensions), np.nan, dtype=np.float32)
    for batch in embedder.embed(texts):
        vectors[list(batch.positions)] = batch.vectors
    return vectors


class EmbedderContract:
    """Subclass it and provide `embedder`."""

    tolerance = 1e-5  #: between two answers for one text

    @pytest.fixture
    def embedder(self) -> Embedder:
        raise NotImplementedError

    def test_every_position_is_answered_once(self, embedder):
        """Together the batches cover the request exactly."""
        positions = [position for batch in embedder.embed(TEXTS) for position in batch.positions]

        assert list(range(len(TEXTS))) == sorted(positions)

    def test_vectors_have_the_declared_shape_and_type(self, embedder):
        """float32, one row a text, as wide as declared, finite and not zero."""
        for batch in embedder.embed(TEXTS):
            assert np.float32 == batch.vectors.dtype
            assert (len(batch.positions), embedder.spec.dimensions) == batch.vectors.shape
            assert np.isfinite(batch.vectors).all()
            assert batch.vectors.any(axis=1).all()

    def test_use_counts_the_texts(self, embedder):
        """What is metered adds up to what was asked for."""
        uses = [batch.use for batch in embedder.embed(TEXTS)]

        assert len(TEXTS) == sum(use.texts for use in uses)
        assert all(use.estimated_tokens > 0 for use in uses)

    def test_nothing_asked_nothing_answered(self, embedder):
        """No texts, no batch."""
        assert [] == list(embedder.embed([]))

    def test_a_text_has_one_vector_whatever_stands_beside_it(self, embedder):
        """Neither the order nor the company of a text changes its vector."""
        together = all_vectors(embedder, TEXTS)
        backwards = all_vectors(embedder, TEXTS[::-1])[::-1]
        alone = np.vstack([all_vectors(embedder, [text]) for text in TEXTS])

        assert np.allclose(together, backwards, atol=self.tolerance)
        assert np.allclose(together, alone, atol=self.tolerance)

    def test_a_question_is_nearest_to_its_own_words(self, embedder):
        """Query and document vectors live in one space."""
        documents = all_vectors(embedder, TEXTS)
        question = embedder.embed_query("Quarterly revenue grew by ten percent.")

        assert (embedder.spec.dimensions,) == question.shape
        assert np.float32 == question.dtype
        similarity = documents @ question / np.linalg.norm(documents, axis=1)
        assert TEXTS.index("Quarterly revenue grew by ten percent.") == int(similarity.argmax())

    def test_it_works_on_both_sides_of_a_fork(self, embedder):
        """A child opens its own session or connection, and the parent's still works afterwards."""
        before = embedder.embed_query("lamp")
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(write_end, pickle.dumps(embedder.embed_query("lamp")))
            finally:
                os._exit(0)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)

        assert np.allclose(before, pickle.loads(answer), atol=self.tolerance)
        assert np.allclose(before, embedder.embed_query("lamp"), atol=self.tolerance)

    def test_the_stage_accepts_its_answers(self, embedder):
        """`embed_missing` finds nothing wrong with it."""
        units = [Unit(index, text, 0, len(text)) for index, text in enumerate(TEXTS)]
        vectors = embed_missing(
            units,
            embedder=embedder,
            known=lambda hashes: frozenset(),
            cache=None,
            meter=lambda use, cached: None,
            checkpoint=lambda: None,
        )

        assert {unit.text_hash for unit in units} == set(vectors)
