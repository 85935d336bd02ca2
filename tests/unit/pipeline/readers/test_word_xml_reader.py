"""Word documents as one XML text."""

from typing import ClassVar

from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.readers.word_xml import WordXmlReader
from tests.contracts.reader_contract import ReaderContract
from tests.unit.pipeline.readers.made import RELATION, W, paragraph

W2003 = 'xmlns:w="http://schemas.microsoft.com/office/word/2003/wordml" xmlns:aml="http://schemas.microsoft.com/aml/2001/core"'
PKG = "http://schemas.microsoft.com/office/2006/xmlPackage"
STYLES = '<w:styles><w:style w:styleId="Kop1"><w:name w:val="heading 1"/></w:style></w:styles>'
NOTED = f"<w:p><w:r><w:t>see</w:t></w:r><w:r><w:footnote>{paragraph('the note')}</w:footnote></w:r></w:p>"


def marked(kind: str, inner: str, attributes: str = "") -> str:
    return f'<aml:annotation w:type="Word.{kind}" {attributes}><aml:content>{inner}</aml:content></aml:annotation>'


DELETED = marked("Deletion", "<w:r><w:delText>old</w:delText></w:r>")
INSERTED = marked("Insertion", "<w:r><w:t>new</w:t></w:r>")
COMMENT = marked("Comment", paragraph("really?"), 'aml:author="Ann"')
CHANGED = f"<w:p>{DELETED}{INSERTED}<w:r>{COMMENT}</w:r></w:p>"
PICTURE = '<w:p><w:r><w:pict><w:binData w:name="wordml://1.png">iVBORw0KGgo=</w:binData></w:pict></w:r></w:p>'


def word2003(body: str) -> bytes:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<?mso-application progid="Word.Document"?>\n'
        f"<w:wordDocument {W2003}>{STYLES}<w:body>{body}</w:body></w:wordDocument>"
    ).encode()


def flat(body: str) -> bytes:
    relations = (
        f'<Relationships><Relationship Id="r" Type="{RELATION}/officeDocument" Target="word/document.xml"/></Relationships>'
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<pkg:package xmlns:pkg="{PKG}">'
        f'<pkg:part pkg:name="/_rels/.rels"><pkg:xmlData>{relations}</pkg:xmlData></pkg:part>'
        f'<pkg:part pkg:name="/word/document.xml"><pkg:xmlData><w:document {W}><w:body>{body}</w:body></w:document>'
        "</pkg:xmlData></pkg:part></pkg:package>"
    ).encode()


class TestWordXmlReader(ReaderContract):
    reader = WordXmlReader
    samples: ClassVar = {
        "old.doc": (
            word2003(paragraph("One", '<w:pStyle w:val="Kop1"/>') + NOTED + CHANGED + PICTURE),
            ("# One", "see[^1]", "new", "[^1]: the note", "[comment by Ann]: really?"),
        ),
        "flat.xml": (flat(paragraph("in one file 長")), ("in one file 長",)),
    }


def test_neither_deleted_text_nor_pictures_are_text(tmp_path):
    """What was deleted is not found, and no base64 is."""
    (tmp_path / "a.doc").write_bytes(word2003(CHANGED + PICTURE))
    text = ReaderRegistry([WordXmlReader()]).read(tmp_path / "a.doc", "a.doc", lambda: None).documents[0].text

    assert "old" not in text
    assert "iVBOR" not in text
