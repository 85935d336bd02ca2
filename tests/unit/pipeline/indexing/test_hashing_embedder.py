"""The test double."""

import numpy as np
import pytest

from knowledge.model.documents import EmbedderSpec
from knowledge.pipeline.indexing import hashing_embedder
from tests.contracts.embedder_contract import EmbedderContract, all_vectors


def opened(dimensions=384):
    return hashing_embedder.KIND.open(EmbedderSpec(id="hashing", kind="hashing", dimensions=dimensions))


class TestHashingEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return opened()


def test_vectors_are_the_same_on_every_machine():
    """Places and signs come from CRC-32, not from Python's seeded hash."""
    assert [0, 0, 0, 1, 0, 0, 0, 0] == np.abs(opened(8).embed_query("lamp")).round().tolist()


def test_shared_words_are_near():
    """Also in scripts without spaces."""
    documents = all_vectors(opened(), ["the lamp of the lighthouse", "revenue of the quarter", "台北市的營造公司"])

    assert [0, 1, 2] == [int((documents @ opened().embed_query(q)).argmax()) for q in ("lighthouse lamp", "revenue", "營造")]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_words_that_cancel_out_still_give_a_vector(width):
    """No text has a vector of zeros."""
    vectors = all_vectors(opened(width), [f"{one} {two}" for one in "abcdefgh" for two in "abcdefgh"])

    assert np.allclose(1, np.linalg.norm(vectors, axis=1))
