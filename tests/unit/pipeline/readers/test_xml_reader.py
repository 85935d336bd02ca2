"""XML of any kind."""

from typing import ClassVar

import pytest

from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.readers.xml import XmlReader
from tests.contracts.reader_contract import ReaderContract


class TestXmlReader(ReaderContract):
    reader = XmlReader
    samples: ClassVar = {
        "a.xml": (
            '<?xml version="1.0"?><r><h>Title</h><p>Some <i>mixed</i> text</p><c k="Rome" n="1"/><!-- no --></r>'.encode(
                "ascii"
            ),
            ("Title\nSome mixed text\nk: Rome, n: 1",),
        ),
        "wide.xml": ('<?xml version="1.0" encoding="utf-16"?><r>Größe &amp; Maß</r>'.encode("utf-16"), ("Größe & Maß",)),
        "plain.txt": (b'<?xml version="1.0"?><r>bytes decide</r>', ("bytes decide",)),
        "broken.xml": (b"<r>not closed", ("not closed",)),
    }


@pytest.mark.parametrize(
    "entity", ['<!ENTITY x SYSTEM "file:///etc/passwd">', '<!ENTITY a "aaaaaaaaaa"><!ENTITY x "&a;&a;&a;&a;&a;&a;&a;&a;">']
)
def test_entities_are_not_resolved(tmp_path, entity):
    """A file cannot show another one, nor grow."""
    (tmp_path / "a.xml").write_text(f"<?xml version='1.0'?><!DOCTYPE r [{entity}]><r>before &x; after</r>")

    text = ReaderRegistry([XmlReader()]).read(tmp_path / "a.xml", "a.xml", lambda: None).documents[0].text

    assert "before" in text
    assert "root:" not in text
    assert "aaaaaaaaaa" not in text
