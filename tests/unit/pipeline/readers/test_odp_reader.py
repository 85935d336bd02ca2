"""OpenDocument presentations, slide by slide."""

from typing import ClassVar

from knowledge.pipeline.readers.odp import OdpReader
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.contracts.reader_contract import ReaderContract
from tests.unit.pipeline.readers.made_office import flat_odf, odf


def frame(text: str, kind: str = "outline") -> str:
    return f'<draw:frame presentation:class="{kind}"><draw:text-box><text:p>{text}</text:p></draw:text-box></draw:frame>'


NOTES = f"<presentation:notes>{frame('say it slowly', 'notes')}</presentation:notes>"
SHAPES = f"<draw:g><draw:custom-shape><text:p>in a group</text:p></draw:custom-shape></draw:g>{frame('below')}"


class TestOdpReader(ReaderContract):
    reader = OdpReader
    samples: ClassVar = {
        "slides.odp": (
            odf(
                "presentation",
                f"<draw:page>{SHAPES}{frame('Title', 'title')}{NOTES}</draw:page><draw:page>{frame('second 長')}</draw:page>",
            ),
            ("# Title", "in a group", "below", "Notes: say it slowly", "second 長"),
        ),
        "margins.odp": (
            odf(
                "presentation",
                '<presentation:footer-decl presentation:name="f">for keepers</presentation:footer-decl>'
                f'<draw:page presentation:use-footer-name="f">{frame("one")}</draw:page><draw:page>{frame("two")}</draw:page>',
            ),
            ("one", "for keepers", "two"),
        ),
        "number.odp": (
            odf(
                "presentation",
                f"<draw:page>{frame('Slide of ours <text:page-number>&lt;number&gt;</text:page-number>')}<presentation:notes>"
                f"{frame('<text:page-number>&lt;number&gt;</text:page-number>')}</presentation:notes></draw:page>",
            ),
            ("Slide of ours",),
        ),
        "flat.fodp": (flat_odf("presentation", f"<draw:page>{frame('flat')}</draw:page>"), ("flat",)),
    }


def test_slides_are_located_and_counted(tmp_path):
    """A hit says which slide it is from, and a slide without text is seen to have none."""
    pages = f"<draw:page>{frame('one')}</draw:page><draw:page/><draw:page>{frame('three')}</draw:page>"
    (tmp_path / "a.odp").write_bytes(odf("presentation", pages))
    result = ReaderRegistry([OdpReader()]).read(tmp_path / "a.odp", "a.odp", lambda: None)

    assert [("one", "slide 1"), ("three", "slide 3")] == [(one.text, one.locator) for one in result.documents]
    assert (3, 2) == (result.quality.pages, result.quality.pages_with_text)
