"""Excel workbooks, sheet by sheet."""

from typing import ClassVar

import pytest

from knowledge.errors import CorruptSource, ReaderBudgetExceeded
from knowledge.model.budget import Budget
from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.readers.xlsx import XlsxReader
from tests.contracts.reader_contract import ReaderContract
from tests.unit.pipeline.readers import made
from tests.unit.pipeline.readers.made_office import chart, rows, text_box, xlsx

S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
KINDS = (
    '<c r="A1"><v>12500</v></c><c r="B1" s="1"><v>45292</v></c><c r="C1" s="2"><v>0.15</v></c><c r="D1" t="b"><v>1</v></c>'
    '<c r="E1" t="e"><v>#DIV/0!</v></c><c r="F1" t="str"><f>A1&amp;"x"</f><v>12500x</v></c>'
    '<c r="G1"><f>A1*2</f><v>25000</v></c>'
)
COMMENT = (
    f'<comments {S}><commentList><comment ref="B2"><text><r><t>check </t></r><r><t>this</t></r></text></comment>'
    "</commentList></comments>"
)
VML = (
    '<xml xmlns:v="urn:v" xmlns:x="urn:x"><v:shape><v:textbox><div>press <b>me</b></div></v:textbox>'
    '<x:ClientData ObjectType="Button"/></v:shape></xml>'
)
CHART = '<c:chart xmlns:c="x" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" r:id="r1"/>'


class TestXlsxReader(ReaderContract):
    reader = XlsxReader
    samples: ClassVar = {
        "kinds.xlsx": (
            xlsx({"Kinds": f"<sheetData><row>{KINDS}</row></sheetData>"}, formats=["yyyy\\-mm\\-dd", "0.0%"]),
            ("# Kinds", "| 12500 | 2024-01-01 | 15% | TRUE | #DIV/0! | 12500x | 25000 |"),
        ),
        "shared.xlsx": (
            xlsx(
                {"長": '<sheetData><row><c t="s"><v>1</v></c><c t="s"><v>0</v></c></row></sheetData>'},
                texts=["<t>zero 🤠</t>", "<r><t>rich </t></r><r><t>text</t></r><rPh><t>reading aid</t></rPh>"],
            ),
            ("# 長", "| rich text | zero 🤠 |"),
        ),
        "sheets.xlsx": (
            xlsx({"One": rows(("k", "v"), ("a", "1")), "Two": rows(("hid", "den"))}, hidden=["Two"]),
            ("# One", "| a | 1 |", "# Two", "| hid | den |"),
        ),
        "beside.xlsx": (
            xlsx(
                {
                    "S": rows(("a", "b"))
                    + '<headerFooter><oddHeader>&amp;C&amp;"Arial,Bold"On top&amp;P</oddHeader></headerFooter>'
                },
                parts={"xl/drawings/d.xml": text_box("in the box"), "xl/comments1.xml": COMMENT},
                links={"sheet1.xml": [("drawing", "../drawings/d.xml"), ("comments", "../comments1.xml")]},
            ),
            ("| a | b |", "in the box", "[comment on B2]: check this", "On top"),
        ),
        "chart.xlsx": (
            xlsx(
                {"S": rows(("a", "b"))},
                parts={
                    "xl/drawings/d.xml": f"<wsDr><graphicFrame>{CHART}</graphicFrame></wsDr>",
                    "xl/charts/c.xml": chart("Ducks", ["x"], {"salt": [1]}),
                },
                links={"sheet1.xml": [("drawing", "../drawings/d.xml")], "xl/drawings/d.xml": [("chart", "../charts/c.xml")]},
            ),
            ("| a | b |", "Ducks", "|  | salt |\n| --- | --- |\n| x | 1 |"),
        ),
        "button.xlsx": (
            xlsx(
                {"S": rows(("a", "b"))},
                parts={"xl/drawings/v.vml": VML},
                links={"sheet1.xml": [("vmlDrawing", "../drawings/v.vml")]},
            ),
            ("| a | b |", "press me"),
        ),
        "named.bin": (xlsx({"S": rows(("bytes", "decide"))}), ("| bytes | decide |",)),
    }


@pytest.fixture
def read(tmp_path):
    def read(data, budget=None):
        (tmp_path / "a.xlsx").write_bytes(data)
        return ReaderRegistry([XlsxReader()], budget).read(tmp_path / "a.xlsx", "a.xlsx", lambda: None)

    return read


def test_sheets_are_located_and_counted(read):
    """A hit says which sheet it is from; a sheet without cells is seen to have none."""
    result = read(xlsx({"One": rows(("a", "b")), "Empty": rows(), "Three": rows(("c", "d"))}))

    assert ["sheet One", "sheet Three"] == [one.locator for one in result.documents]
    assert (3, 2) == (result.quality.pages, result.quality.pages_with_text)


def test_workbook_without_a_cell_has_no_text(read):
    """Names of sheets alone are nothing to find."""
    result = read(xlsx({"Sheet1": rows(), "Sheet2": ""}))

    assert [] == list(result.documents)
    assert {"no_text_extracted"} == result.notices


def test_cells_without_places_stand_one_after_the_other(read):
    """Some programs leave the names of cells out."""
    result = read(xlsx({"S": '<sheetData><row><c><v>1</v></c><c/><c t="n"><v>2.50</v></c></row></sheetData>'}))

    assert "# S\n\n| 1 | 2.5 |\n| --- | --- |" == result.documents[0].text


def test_formula_is_not_worked_out(read):
    """What was never calculated shows nothing, and its text is not run."""
    result = read(
        xlsx({"S": '<sheetData><row><c><f>WEBSERVICE("http://127.0.0.1:1/")</f></c><c><v>1</v></c></row></sheetData>'})
    )

    assert "# S\n\n1" == result.documents[0].text


def test_days_of_a_1904_workbook(read):
    """The workbook says from which day it counts."""
    data = xlsx({"S": '<sheetData><row><c s="1"><v>35064</v></c></row></sheetData>'}, formats=["d/m/yyyy"], is_1904=True)

    assert "# S\n\n2000-01-01" == read(data).documents[0].text


def test_place_of_a_shared_string_that_does_not_exist_is_empty(read):
    """A damaged cell does not cost the sheet."""
    data = xlsx({"S": '<sheetData><row><c t="s"><v>9</v></c><c><v>1</v></c></row></sheetData>'})

    assert "# S\n\n1" == read(data).documents[0].text


def test_escaped_characters_are_characters(read):
    """`_x000a_` is how these files write a line break."""
    result = read(xlsx({"S": rows(("a_x000a_b", "c"))}))

    assert "| a b | c |" in result.documents[0].text


def test_sheet_that_inflates_beyond_the_budget_is_refused(read):
    """A small file cannot take all memory, and is given up in the middle."""
    bomb = xlsx({"S": "<sheetData>" + '<row><c t="inlineStr"><is><t>aaaaaaaa</t></is></c></row>' * 20_000 + "</sheetData>"})

    with pytest.raises(ReaderBudgetExceeded) as caught:
        read(bomb, Budget(inflated_bytes=500_000))
    assert "inflated_bytes" == caught.value.details["figure"]


def test_entity_is_not_resolved(read):
    """A workbook cannot show another file."""
    whole = xlsx({"S": '<sheetData><row><c t="s"><v>0</v></c></row></sheetData>'})
    evil = '<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + f"<sst {S}><si><t>safe &x;</t></si></sst>"
    data = made.replaced(whole, "xl/sharedStrings.xml", evil)

    assert "# S\n\nsafe" == read(data).documents[0].text


def test_workbook_without_its_main_part_is_corrupt(read):
    """A list of parts alone makes no document."""
    with pytest.raises(CorruptSource):
        read(made.without(xlsx({"S": ""}), "xl/workbook.xml"))


def test_comment_in_an_old_drawing_is_read_once(read):
    """Comments have a part of their own; what draws them is left out, also when it is not well formed."""
    note = VML.replace("Button", "Note")
    links = {"sheet1.xml": [("vmlDrawing", "../drawings/v.vml")]}

    for drawing in (note, VML.replace("</div>", "<br>")):
        data = xlsx({"S": rows(("a", "b"))}, parts={"xl/drawings/v.vml": drawing}, links=links)
        assert "# S\n\n| a | b |\n| --- | --- |" == read(data).documents[0].text
