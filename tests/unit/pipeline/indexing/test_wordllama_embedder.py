"""The opt-in static vectors. Its package is an extra of its own; where it is installed, the contract is run as well."""

from importlib.util import find_spec

import numpy as np
import pytest

from knowledge.errors import ConfigurationError
from knowledge.model.documents import EmbedderSpec
from knowledge.pipeline.indexing import pinned_file, wordllama_embedder
from tests.contracts.embedder_contract import EmbedderContract, all_vectors


def opened(**fields):
    return wordllama_embedder.KIND.open(
        EmbedderSpec(id="static", kind="wordllama", **{**wordllama_embedder.KIND.defaults, **fields})
    )


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    """The fix is in the message."""
    monkeypatch.setattr(pinned_file, "find_spec", lambda package: None)

    with pytest.raises(ConfigurationError, match=r"knowledge-pipeline\[wordllama\]"):
        opened().embed_query("lamp")


if find_spec("wordllama"):

    class TestWordLlamaEmbedder(EmbedderContract):
        @pytest.fixture
        def embedder(self):
            return opened()

    @pytest.mark.parametrize("width", sorted(wordllama_embedder.WIDTHS))
    def test_related_words_are_near(width):
        """At each width it offers."""
        embedder = opened(dimensions=width)
        documents = all_vectors(embedder, ["Kittens sleep for most of the day.", "Quarterly earnings rose by ten percent."])

        assert [0, 1] == [int((documents @ embedder.embed_query(q)).argmax()) for q in ("cats", "financial results")]
        assert np.allclose(1, np.linalg.norm(documents, axis=1), atol=1e-5)
