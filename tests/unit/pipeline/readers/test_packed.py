"""Base64 inside text."""

import base64
import random

import pytest

from knowledge.pipeline.readers.packed import without_packed

DATA = random.Random(7).randbytes(900)


@pytest.mark.parametrize(
    "packed",
    [
        base64.b64encode(DATA).decode(),
        base64.encodebytes(DATA).decode().strip(),
        "data:image/png;base64," + base64.b64encode(DATA).decode(),
        base64.urlsafe_b64encode(DATA).decode(),
    ],
)
def test_files_in_base64_are_left_out(packed):
    """In one line or in many, as an address or not."""
    assert "before  after" == without_packed(f"before {packed} after")


@pytest.mark.parametrize(
    "text", ["ACGT" * 300, "x" * 5_000, "word " * 500, "长" * 5_000, base64.b64encode(DATA[:60]).decode(), "Ab1-x\n" * 300]
)
def test_everything_else_stays(text):
    """Genomes, lines, words, and keys that are short enough to be searched for."""
    assert text == without_packed(text)
