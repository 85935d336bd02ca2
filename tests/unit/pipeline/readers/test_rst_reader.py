"""reStructuredText."""

from typing import ClassVar

from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.readers.rst import RstReader
from tests.contracts.reader_contract import ReaderContract

TEXT = """\
=====
Title
=====
Subtitle
--------

Words::

    not a heading
    =============

Section
~~~~~~~

=====  =====
 a      b
=====  =====
 1      2
=====  =====

Another
-------
日本
~~~~

----

last
"""


class TestRstReader(ReaderContract):
    reader = RstReader
    samples: ClassVar = {
        "a.rst": (
            TEXT.encode(),
            (
                "# Title\n## Subtitle\n\nWords::\n\n    not a heading\n    ====",
                "### Section",
                "=====  =====\n a      b",
                "## Another",
            ),
        ),
        "legacy.rst": ("Größe\n=====\n\nMaß\n".encode("cp1252"), ("# Größe", "Maß")),
    }


def test_everything_else_stands_as_it_was(tmp_path):
    """A citation must be found in the file."""
    (tmp_path / "a.rst").write_text(TEXT)

    text = ReaderRegistry([RstReader()]).read(tmp_path / "a.rst", "a.rst", lambda: None).documents[0].text

    assert ["### 日本", "", "----", "", "last"] == text.split("\n")[-5:]
    assert "=====  =====\n a      b\n=====  =====\n 1      2\n=====  =====" in text
