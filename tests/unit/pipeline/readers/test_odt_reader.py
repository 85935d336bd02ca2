"""OpenDocument texts as Markdown."""

from typing import ClassVar

import pytest

from knowledge.errors import CorruptSource, EncryptedSource, ReaderBudgetExceeded
from knowledge.model.budget import Budget
from knowledge.pipeline.readers.odt import OdtReader
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.contracts.reader_contract import ReaderContract
from tests.unit.pipeline.readers import made
from tests.unit.pipeline.readers.made_office import flat_odf, odf

HEADINGS = '<text:h text:outline-level="1">One</text:h><text:h text:outline-level="3">Three</text:h><text:p>words</text:p>'
STYLES = (
    '<style:style style:name="P1" style:parent-style-name="Title"/><style:style style:name="P2" style:parent-style-name="P1"/>'
    "<office:master-styles><style:master-page><style:header><text:p>on top</text:p></style:header>"
    "<style:footer><text:p>below</text:p></style:footer></style:master-page>"
    "<style:master-page><style:header><text:p>on top</text:p></style:header></style:master-page></office:master-styles>"
)
NOTE = (
    "<text:p>see<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>the note</text:p></text:note-body>"
    "</text:note> here<office:annotation><dc:creator>Ann</dc:creator><text:p>really?</text:p></office:annotation></text:p>"
)
TABLE = (
    "<table:table><table:table-header-rows><table:table-row>"
    "<table:table-cell><text:p>k</text:p></table:table-cell><table:table-cell><text:p>v</text:p></table:table-cell>"
    '</table:table-row></table:table-header-rows><table:table-row><table:table-cell table:number-columns-repeated="2">'
    "<text:p>a|b</text:p></table:table-cell></table:table-row></table:table>"
)
LIST = (
    "<text:list><text:list-item><text:p>eins</text:p><text:list><text:list-item><text:p>zwei</text:p></text:list-item></text:list>"
    "</text:list-item></text:list>"
)
FORM = (
    '<form:form xmlns:form="urn:oasis:names:tc:opendocument:xmlns:form:1.0" form:name="f"><form:properties>'
    '<form:property form:property-name="p" office:value="9"/></form:properties><form:checkbox form:label="I agree"/>'
    '<form:text form:value="" form:current-value="Ann"/></form:form>'
)
BOX = (
    "<text:p>beside<draw:frame><svg:title>alt</svg:title><draw:text-box><text:p>in the box</text:p></draw:text-box>"
    "</draw:frame></text:p>"
)
CHART = (
    "<office:body><office:chart><chart:chart><chart:title><text:p>Ducks</text:p></chart:title>"
    '<table:table table:name="local-table"><table:table-row><table:table-cell><text:p>salt</text:p></table:table-cell>'
    "<table:table-cell><text:p>7</text:p></table:table-cell></table:table-row></table:table></chart:chart></office:chart></office:body>"
)


class TestOdtReader(ReaderContract):
    reader = OdtReader
    samples: ClassVar = {
        "headings.odt": (odf("text", HEADINGS), ("# One", "### Three", "words")),
        "styles.odt": (odf("text", '<text:p text:style-name="P2">Name</text:p>', styles=STYLES), ("# Name", "on top", "below")),
        "notes.odt": (odf("text", NOTE), ("see[^1] here", "[^1]: the note", "[comment by Ann]: really?")),
        "table.odt": (
            odf("text", f"<text:p>before</text:p>{TABLE}<text:p>after 長</text:p>"),
            ("before", "| k | v |", "| a\\|b | a\\|b |", "after 長"),
        ),
        "nested.odt": (
            odf("text", TABLE.replace("<text:p>a|b</text:p>", f"<text:p>around</text:p>{TABLE}")),
            ("| k | v |\n| --- | --- |\n| around k v a\\|b a\\|b | around k v a\\|b a\\|b |",),
        ),
        "list.odt": (odf("text", LIST), ("- eins\n  - zwei",)),
        "box.odt": (odf("text", BOX), ("beside", "in the box")),
        "chart.odt": (
            odf(
                "text",
                '<text:p><draw:frame><draw:object xlink:href="./Object 1"/></draw:frame></text:p>',
                parts={"Object 1/content.xml": CHART},
            ),
            ("Ducks", "| salt | 7 |"),
        ),
        "form.odt": (
            odf("text", f"<office:forms>{FORM}</office:forms><text:p>after</text:p>"),
            ("I agree", "Ann", "after"),
        ),
        "flat.fodt": (flat_odf("text", f"{HEADINGS}{NOTE}"), ("# One", "see[^1] here", "[^1]: the note")),
        "named.bin": (odf("text", "<text:p>bytes decide</text:p>"), ("bytes decide",)),
    }


@pytest.fixture
def read(tmp_path):
    def read(data, budget=None):
        (tmp_path / "a.odt").write_bytes(data)
        result = ReaderRegistry([OdtReader()], budget).read(tmp_path / "a.odt", "a.odt", lambda: None)
        return "\n".join(document.text for document in result.documents)

    return read


def test_spaces_are_what_the_elements_say(read):
    """Line breaks of the file are none of the text; tabs and several spaces have elements of their own."""
    assert "a b   c\td\ne" == read(odf("text", '<text:p>a\n  b<text:s text:c="3"/>c<text:tab/>d<text:line-break/>e</text:p>'))


def test_header_of_several_page_styles_is_read_once(read):
    """What stands on every page is one text."""
    assert 1 == read(odf("text", "<text:p>x</text:p>", styles=STYLES)).count("on top")


@pytest.mark.parametrize("place", ["apart", "in place"])
def test_deleted_text_is_left_out(read, place):
    """Tracked deletions are kept apart, or, in flat files, where they were."""
    marks = '<text:change-start text:change-id="c"/>old<text:change-end text:change-id="c"/>' if place == "in place" else ""
    kept = "" if place == "in place" else "<text:p>old</text:p>"
    region = f'<text:changed-region text:id="c"><text:deletion>{kept}</text:deletion></text:changed-region>'
    body = f"<text:tracked-changes>{region}</text:tracked-changes><text:p>a{marks} new</text:p>"

    assert "a new" == read(odf("text", body))


def test_inserted_text_is_kept(read):
    """An insertion is marked in the same way as a deletion in place."""
    region = '<text:changed-region text:id="c"><text:insertion/></text:changed-region>'
    marks = '<text:change-start text:change-id="c"/>new<text:change-end text:change-id="c"/>'

    assert "a new" == read(odf("text", f"<text:tracked-changes>{region}</text:tracked-changes><text:p>a {marks}</text:p>"))


def test_reading_aid_is_left_out(read):
    """Ruby text would stand in the middle of the word that it explains."""
    ruby = "<text:ruby><text:ruby-base>漢字</text:ruby-base><text:ruby-text>かんじ</text:ruby-text></text:ruby>"

    assert "漢字です" == read(odf("text", f"<text:p>{ruby}です</text:p>"))


def test_fields_are_text(read):
    """Date and title as a person sees them, not the data about a comment that have the same names."""
    assert "on 1 May 2020: Report" == read(
        odf("text", "<text:p>on <text:date>1 May 2020</text:date>: <text:title>Report</text:title></text:p>")
    )


def test_encrypted_text_needs_a_password(read):
    """The list of parts says that they are encrypted."""
    with pytest.raises(EncryptedSource):
        read(odf("text", "<text:p>x</text:p>", manifest='<manifest:encryption-data xmlns:manifest="m"/>'))


def test_file_without_content_is_corrupt(read):
    """A type alone makes no document."""
    with pytest.raises(CorruptSource):
        read(made.without(odf("text", ""), "content.xml"))


@pytest.mark.parametrize("is_flat", [True, False])
def test_text_beyond_the_budget_is_refused(read, is_flat):
    """Packed or not, a tree of any size is not built."""
    body = f"<text:p>{'x' * 300_000}</text:p>"

    with pytest.raises(ReaderBudgetExceeded):
        read(flat_odf("text", body) if is_flat else odf("text", body), Budget(inflated_bytes=200_000))


def test_external_entity_is_not_read(read):
    """A text cannot show another file."""
    evil = made.replaced(odf("text", "<text:p>safe @</text:p>"), "styles.xml", "<x/>")
    content = made.entry(evil, "content.xml").replace("@", "&x;")

    assert "safe" == read(
        made.replaced(evil, "content.xml", f'<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>{content}')
    )
