"""PowerPoint files, slide by slide."""

from typing import ClassVar

import pytest

from knowledge.errors import CorruptSource, ReaderBudgetExceeded
from knowledge.model.budget import Budget
from knowledge.pipeline.readers.pptx import PptxReader
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.contracts.reader_contract import ReaderContract
from tests.unit.pipeline.readers import made
from tests.unit.pipeline.readers.made_office import (
    CHART_FRAME,
    DIAGRAM_FRAME,
    chart,
    diagram,
    notes,
    pptx,
    shape,
    slide,
    slide_table,
)

COMMENTS = (
    '<p:cmLst xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main">'
    '<p:cm authorId="0"><p:text>more colour here</p:text></p:cm></p:cmLst>'
)
GROUP = f"<p:grpSp><p:grpSpPr/>{shape('inner one')}<p:grpSp>{shape('inner two')}</p:grpSp></p:grpSp>"


class TestPptxReader(ReaderContract):
    reader = PptxReader
    samples: ClassVar = {
        "order.pptx": (
            pptx(slide(shape("below"), shape("The title", kind="ctrTitle")), slide(shape("second slide 長"))),
            ("# The title", "below", "second slide 長"),
        ),
        "table.pptx": (
            pptx(slide(slide_table(("k", "v"), ("a|b", "1")))),
            ("| k | v |\n| --- | --- |\n| a\\|b | 1 |",),
        ),
        "groups.pptx": (pptx(slide(GROUP, shape("after"))), ("inner one", "inner two", "after")),
        "chart.pptx": (
            pptx(
                slide(CHART_FRAME),
                parts={"ppt/charts/c.xml": chart("Ducks by year", ["2023", "2024"], {"salt": [1, 2.5], "fresh": [3, 4]})},
                links={"slide1.xml": [("chart", "../charts/c.xml")]},
            ),
            ("Ducks by year", "|  | salt | fresh |\n| --- | --- | --- |\n| 2023 | 1 | 3 |\n| 2024 | 2.5 | 4 |"),
        ),
        "diagram.pptx": (
            pptx(
                slide(DIAGRAM_FRAME),
                parts={"ppt/diagrams/d.xml": diagram("plan", "do")},
                links={"slide1.xml": [("diagramData", "../diagrams/d.xml")]},
            ),
            ("plan", "do"),
        ),
        "said.pptx": (
            pptx(
                slide(shape("shown")),
                parts={"ppt/notesSlides/n.xml": notes("say it slowly"), "ppt/comments/c.xml": COMMENTS},
                links={"slide1.xml": [("notesSlide", "../notesSlides/n.xml"), ("comments", "../comments/c.xml")]},
            ),
            ("shown", "Notes: say it slowly", "[comment]: more colour here"),
        ),
        "named.bin": (pptx(slide(shape("bytes decide"))), ("bytes decide",)),
    }


@pytest.fixture
def read(tmp_path):
    def read(data, budget=None):
        (tmp_path / "a.pptx").write_bytes(data)
        return ReaderRegistry([PptxReader()], budget).read(tmp_path / "a.pptx", "a.pptx", lambda: None)

    return read


def test_slides_are_located_and_counted(read):
    """A hit says which slide it is from, and a slide without text is seen to have none."""
    result = read(pptx(slide(shape("one")), slide(), slide(shape("three"))))

    assert [("one", "slide 1"), ("three", "slide 3")] == [(one.text, one.locator) for one in result.documents]
    assert (3, 2) == (result.quality.pages, result.quality.pages_with_text)


def test_number_of_a_slide_is_no_text(read):
    """What a slide shows of its own number would be found in every search for a number."""
    result = read(pptx(slide(shape("7", kind="sldNum"), shape("text", '<a:fld type="slidenum"><a:t>7</a:t></a:fld>'))))

    assert ["text"] == [one.text for one in result.documents]


def test_inner_levels_are_a_list(read):
    """The structure that a slide shows by indents is kept."""
    inner = '<a:pPr lvl="1"/><a:r><a:t>inner</a:t></a:r>'
    result = read(pptx(slide(shape("outer", inner))))

    assert ["outer\n- inner"] == [one.text for one in result.documents]


def test_slide_that_is_missing_does_not_cost_the_others(read):
    """A list of slides may name one that is not there."""
    whole = pptx(slide(shape("one")), slide(shape("two")))
    result = read(made.without(whole, "ppt/slides/slide1.xml"))

    assert ["two"] == [one.text for one in result.documents]


def test_slides_together_are_on_the_budget(read):
    """Two hundred slides that are each small enough are too much together."""
    filler = slide(shape("x" * 10_000))

    with pytest.raises(ReaderBudgetExceeded) as caught:
        read(pptx(*[filler] * 200), Budget(inflated_bytes=1_000_000))
    assert "inflated_bytes" == caught.value.details["figure"]


def test_slides_are_counted_on_the_budget(read):
    """The number of slides has a limit of its own."""
    with pytest.raises(ReaderBudgetExceeded):
        read(pptx(*[slide()] * 4), Budget(pages=3))


def test_file_without_a_presentation_is_corrupt(read):
    """A list of parts alone makes no document."""
    with pytest.raises(CorruptSource):
        read(made.without(pptx(slide()), "ppt/presentation.xml"))
