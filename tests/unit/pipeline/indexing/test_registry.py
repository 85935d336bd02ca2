"""Embedders by id."""

import os

import pytest

from knowledge.errors import ConfigurationError, ModelNotFound
from knowledge.model.documents import EmbedderSpec
from knowledge.pipeline.indexing.hashing_embedder import HashingEmbedder
from knowledge.pipeline.indexing.per_process import PerProcess
from knowledge.pipeline.indexing.registry import EmbedderKind, Embedders, installed_kinds

HASHING = EmbedderSpec(id="h", kind="hashing", dimensions=4)


def test_our_kinds_come_through_the_entry_points():
    """By the same door as other people's."""
    assert {"hashing", "minilm", "openai", "wordllama"} <= set(installed_kinds())


def test_an_opened_embedder_is_kept():
    """One per process."""
    embedders = Embedders([HASHING])

    assert isinstance(embedders.open("h"), HashingEmbedder)
    assert embedders.open("h") is embedders.open("h")
    assert [HASHING] == embedders.specs()


def test_an_id_that_is_not_declared_is_not_found():
    """Case 85: a renamed model is known at once, by name, not by a provider's 404."""
    embedders = Embedders([HASHING])
    for call in (embedders.spec, embedders.open, embedders.missing_packages):
        with pytest.raises(ModelNotFound) as caught:
            call("renamed")

        assert {"model": "renamed", "declared": ["h"]} == caught.value.details


def test_a_kind_that_is_not_installed_is_named():
    """With those that are."""
    with pytest.raises(ConfigurationError, match=r"'acme'; installed: .*hashing"):
        Embedders([EmbedderSpec(id="x", kind="acme", dimensions=4)]).open("x")


def test_a_width_that_the_kind_does_not_have_is_refused():
    """Before any weights are read."""
    kinds = {"fixed": EmbedderKind(open=HashingEmbedder, widths=frozenset({8}))}

    with pytest.raises(ConfigurationError, match="4 dimensions"):
        Embedders([EmbedderSpec(id="x", kind="fixed", dimensions=4)], kinds).open("x")


def test_missing_packages_are_named_without_opening():
    """So that a base without the local extra can be made lexical-only."""
    kinds = {"local": EmbedderKind(open=HashingEmbedder, needs=frozenset({"json", "no_such_package_here"}))}

    assert ["no_such_package_here"] == Embedders([EmbedderSpec(id="x", kind="local", dimensions=4)], kinds).missing_packages(
        "x"
    )


def test_a_child_opens_its_own():
    """What the parent opened is not used after a fork."""
    resource = PerProcess(os.getpid)
    read_end, write_end = os.pipe()
    parent = resource.get()
    child = os.fork()
    if child == 0:
        try:
            os.write(write_end, str(resource.get()).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        in_child = int(pipe.read())
    os.waitpid(child, 0)

    assert (os.getpid(), child) == (parent, in_child)
