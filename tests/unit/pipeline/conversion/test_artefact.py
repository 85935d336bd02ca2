"""What a conversion leaves: pages by their number, whatever stands on them."""

import pytest

from knowledge.errors import CorruptSource
from knowledge.model.documents import Document
from knowledge.model.status import Notice
from knowledge.pipeline.conversion import artefact
from knowledge.pipeline.conversion.artefact import Artefact


def through(tmp_path, **values):
    """Written, and read again."""
    wanted = {"pages": ["one", "two"], "media_type": "application/pdf", "converter": "tesseract 5"} | values
    artefact.write(tmp_path / "a.md", Artefact(**wanted))
    return artefact.read(tmp_path / "a.md")


def test_pages_keep_their_numbers(tmp_path):
    """Empty ones count."""
    read = through(tmp_path, pages=["", "two", "  \n", "four"])

    assert [Document("two", 2), Document("four", 4)] == read.documents
    assert (4, 2, 7) == (read.quality.pages, read.quality.pages_with_text, read.quality.characters)
    assert ("application/pdf", "tesseract 5") == (read.media_type, read.quality.converter)


@pytest.mark.parametrize("text", ["a\fb", "---\nb", "---", "type: x\n---\n", "é 𝄞 漢字", "# Heading\n\n| a |\n| --- |"])
def test_no_text_ends_a_page_or_the_head(tmp_path, text):
    """Whatever a page holds, the next one is where it was."""
    read = through(tmp_path, pages=[text, "last"])

    assert [text.replace("\f", "\n").strip("\n"), "last"] == [document.text for document in read.documents]
    assert [1, 2] == [document.page for document in read.documents]


@pytest.mark.parametrize("name", ["a\n---\nb.pdf", 'say "x".pdf', "漢字.pdf", "\udce9.pdf", "a: b.pdf"])
def test_no_name_ends_the_head(tmp_path, name):
    """It comes from a person's disk."""
    assert ["one", "two"] == [document.text for document in through(tmp_path, extra={"resource": name}).documents]


def test_without_pages_there_is_one_document(tmp_path):
    """A picture has no pages."""
    read = through(tmp_path, pages=["all of it"], has_pages=False)

    assert [Document("all of it")] == read.documents
    assert (None, None) == (read.quality.pages, read.quality.pages_with_text)


@pytest.mark.parametrize(
    ("values", "notices"),
    [
        ({}, set()),
        ({"unread": [2]}, {Notice.PARTIAL_TEXT}),
        ({"is_partial": True}, {Notice.PARTIAL_TEXT}),
        ({"pages": ["", ""], "unread": [1, 2]}, {Notice.NO_TEXT_EXTRACTED}),
    ],
    ids=str,
)
def test_what_is_missing_is_told(tmp_path, values, notices):
    """By the notices that readers use."""
    assert notices == through(tmp_path, **values).notices


def test_text_is_clean(tmp_path):
    """As from any reader: no NUL, no lone surrogate, composed letters."""
    assert ["e\u0301 \x00 \ud800".replace("e\u0301", "é").replace("\x00", "\ufffd").replace("\ud800", "?")] == [
        document.text for document in through(tmp_path, pages=["e\u0301 \x00 \ud800"]).documents
    ]


@pytest.mark.parametrize("content", ["", "words", '---\ntype: "Note"\n---\nwords', "---\ntype: {\n---\n", "---\nno end"])
def test_what_was_not_written_here_is_corrupt(tmp_path, content):
    """A person may have put something else there."""
    (tmp_path / "a.md").write_text(content)

    with pytest.raises(CorruptSource):
        artefact.read(tmp_path / "a.md")
