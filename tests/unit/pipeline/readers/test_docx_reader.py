"""Word files as Markdown."""

from typing import ClassVar

import pytest

from knowledge.errors import CorruptSource, EncryptedSource, ReaderBudgetExceeded
from knowledge.model.budget import Budget
from knowledge.model.status import Notice
from knowledge.pipeline.readers.docx import DocxReader
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.contracts.reader_contract import ReaderContract
from tests.unit.pipeline.readers import made
from tests.unit.pipeline.readers.made import W, paragraph, word_table
from tests.unit.pipeline.readers.made_office import chart

STYLES = (
    f'<w:styles {W}><w:style w:styleId="Kop1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:styleId="Own"><w:name w:val="Mine"/><w:basedOn w:val="Kop1"/></w:style>'
    '<w:style w:styleId="Deep"><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style></w:styles>'
)
HEADINGS = "".join(
    paragraph(text, f'<w:pStyle w:val="{style}"/>') for text, style in (("One", "Kop1"), ("Two", "Own"), ("Three", "Deep"))
)
NOTES = f'<w:footnotes {W}><w:footnote w:id="2">{paragraph("the note")}</w:footnote></w:footnotes>'
COMMENTS = f'<w:comments {W}><w:comment w:id="0" w:author="Ann">{paragraph("really?")}</w:comment></w:comments>'
CHART = f'<w:drawing><c:chart xmlns:c="x" xmlns:r="{made.RELATION}" r:id="r0"/></w:drawing>'
WATERMARK = (
    '<w:p><w:r><w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml"><v:textpath string="DRAFT"/></v:shape>'
    "</w:pict></w:r></w:p>"
)
BOX = (
    '<w:p><w:r><w:t>beside</w:t></w:r><w:r><mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
    f"<mc:Choice><w:txbxContent>{paragraph('in the box')}</w:txbxContent></mc:Choice>"
    f"<mc:Fallback><w:txbxContent>{paragraph('in the box')}</w:txbxContent></mc:Fallback></mc:AlternateContent></w:r></w:p>"
)
LIST = "".join(
    paragraph(text, f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="1"/></w:numPr>')
    for text, level in (("eins", 0), ("zwei", 1))
)


class TestDocxReader(ReaderContract):
    reader = DocxReader
    samples: ClassVar = {
        "order.docx": (
            made.docx(paragraph("before") + word_table(("k", "v"), ("a|b", "1")) + paragraph("after 長")),
            ("before", "| k | v |\n| --- | --- |\n| a\\|b | 1 |", "after 長"),
        ),
        "elsewhere.docx": (made.docx(paragraph("other part"), main="odd/doc2.xml"), ("other part",)),
        "headings.docx": (made.docx(HEADINGS, parts={"styles.xml": STYLES}, links=["styles"]), ("# One", "# Two", "### Three")),
        "list.docx": (made.docx(LIST), ("- eins\n  - zwei",)),
        "box.docx": (made.docx(BOX), ("beside", "in the box")),
        "notes.docx": (
            made.docx(
                '<w:p><w:r><w:t>see</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r></w:p>',
                parts={"footnotes.xml": NOTES, "header1.xml": f"<w:hdr {W}>{paragraph('on top')}</w:hdr>"},
                links=["footnotes", "header"],
            ),
            ("see[^2]", "[^2]: the note", "on top"),
        ),
        "said.docx": (
            made.docx(paragraph("text"), parts={"comments.xml": COMMENTS}, links=["comments"]),
            ("text", "[comment by Ann]: really?"),
        ),
        "chart.docx": (
            made.docx(
                f"<w:p><w:r>{CHART}</w:r></w:p>{paragraph('after')}",
                parts={"chart1.xml": chart("Ducks", ["x"], {"salt": [1]})},
                links=["chart"],
            ),
            ("Ducks", "|  | salt |", "after"),
        ),
        "watermark.docx": (made.docx(WATERMARK + paragraph("text")), ("DRAFT", "text")),
        "named.bin": (made.docx(paragraph("bytes decide")), ("bytes decide",)),
    }


@pytest.fixture
def read(tmp_path):
    def read(data):
        (tmp_path / "a.docx").write_bytes(data)
        result = ReaderRegistry([DocxReader()]).read(tmp_path / "a.docx", "a.docx", lambda: None)
        return "\n".join(document.text for document in result.documents)

    return read


def test_tracked_changes_are_read_as_accepted(read):
    """What was deleted is not found, what was inserted is."""
    body = "<w:p><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:del><w:r><w:delText>old</w:delText></w:r></w:del></w:p>"

    assert "new" == read(made.docx(body))


def test_box_with_a_fallback_is_read_once(read):
    """Two forms of one content are one content."""
    assert 1 == read(made.docx(BOX)).count("in the box")


def test_merged_cells_keep_the_columns(read):
    """A cell over two columns leaves the second one empty."""
    wide = f'<w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr>{paragraph("wide")}</w:tc>'
    body = f"<w:tbl><w:tr>{wide}</w:tr><w:tr><w:tc>{paragraph('a')}</w:tc><w:tc>{paragraph('b')}</w:tc></w:tr></w:tbl>"

    assert "| wide |  |\n| --- | --- |\n| a | b |" == read(made.docx(body))


def test_table_in_a_table_is_read_inside_its_cell(read):
    """Nothing nested is lost."""
    inner = word_table(("deep", "er"), ("x", "y"))
    body = f"<w:tbl><w:tr><w:tc>{paragraph('a')}{inner}</w:tc><w:tc>{paragraph('b')}</w:tc></w:tr></w:tbl>"

    assert "| a deep er x y | b |" in read(made.docx(body))


def test_zip_that_is_no_word_file_is_corrupt(read):
    """A name alone makes no document."""
    with pytest.raises(CorruptSource):
        read(made.archive({"a.txt": "x"}))


def test_external_entity_is_not_read(read):
    """A Word file cannot show another file."""
    data = made.archive(
        {
            "[Content_Types].xml": f'<Types><Override PartName="/word/document.xml" ContentType="{made.MAIN}"/></Types>',
            "word/document.xml": '<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
            f"<w:document {W}><w:body>{paragraph('safe &x;')}</w:body></w:document>",
        }
    )

    assert "safe" == read(data)


def test_parts_that_inflate_beyond_the_budget_are_refused(tmp_path):
    """A small file cannot take all memory, and what its parts take is added up."""
    part = f"<w:hdr {W}>{paragraph('x' * 60_000)}</w:hdr>"
    names = [f"header{number}.xml" for number in range(4)]
    (tmp_path / "a.docx").write_bytes(made.docx(paragraph("a"), parts=dict.fromkeys(names, part), links=["header"] * 4))
    registry = ReaderRegistry([DocxReader()], Budget(inflated_bytes=200_000))

    with pytest.raises(ReaderBudgetExceeded) as caught:
        registry.read(tmp_path / "a.docx", "a.docx", lambda: None)
    assert "inflated_bytes" == caught.value.details["figure"]


def test_encrypted_word_file_needs_a_password(read):
    """An encrypted office file is an OLE file that says so in its directory."""
    data = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 504 + "EncryptedPackage".encode("utf-16-le") + b"\0" * 64

    with pytest.raises(EncryptedSource):
        read(data)


PAGE = "<html><body><h1>Head</h1><p>the words</p></body></html>"
WEB_ARCHIVE = (
    "MIME-Version: 1.0\nContent-Type: multipart/related; boundary=b\n\n--b\n"
    f"Content-Type: text/html; charset=utf-8\n\n{PAGE}\n--b--\n"
)


@pytest.mark.parametrize(("name", "content"), [("chunk.html", PAGE), ("chunk.mht", WEB_ARCHIVE)])
def test_part_in_another_format_is_read(read, name, content):
    """Some programs wrap a page into a Word file as it is."""
    chunk = f'<w:altChunk xmlns:r="{made.RELATION}" r:id="r0"/>'
    text = read(made.docx(paragraph("before") + chunk + paragraph("after"), parts={name: content}, links=["aFChunk"]))

    assert ["before", "# Head", "the words", "after"] == [line for line in text.splitlines() if line]


def test_part_that_cannot_be_read_is_told(tmp_path):
    """The rest is read, and that something is missing is seen."""
    chunk = f'<w:altChunk xmlns:r="{made.RELATION}" r:id="r0"/>'
    (tmp_path / "a.docx").write_bytes(made.docx(paragraph("before") + chunk, parts={"a.pdf": "%PDF-1.4 no"}, links=["aFChunk"]))
    result = ReaderRegistry([DocxReader()]).read(tmp_path / "a.docx", "a.docx", lambda: None)

    assert ["before"] == [one.text for one in result.documents]
    assert {Notice.PARTIAL_TEXT} == result.notices
