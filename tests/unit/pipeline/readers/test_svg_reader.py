"""Words in drawings."""

from typing import ClassVar

import pytest

from knowledge.model.status import Notice
from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.readers.svg import SvgReader
from tests.contracts.reader_contract import ReaderContract

DRAWING = b"""<?xml version="1.0"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns="http://www.w3.org/2000/svg"><title>Pump</title><desc>How it works</desc><style>.a{fill:red}</style>
<script>alert(1)</script><g><text x="1" y="2">Inlet <tspan font-weight="bold">valve</tspan></text>
<text><tspan x="0" y="10">First line</tspan><tspan x="0" dy="12">Second line</tspan></text></g>
<foreignObject><p xmlns="http://www.w3.org/1999/xhtml">Boxed words</p></foreignObject><path d="M0 0"/></svg>"""


class TestSvgReader(ReaderContract):
    reader = SvgReader
    samples: ClassVar = {
        "a.svg": (DRAWING, ("Pump", "How it works", "Inlet valve", "First line\nSecond line", "Boxed words")),
    }


@pytest.fixture
def read(tmp_path):
    def read(data):
        (tmp_path / "a.svg").write_bytes(data)
        return ReaderRegistry([SvgReader()]).read(tmp_path / "a.svg", "a.svg", lambda: None)

    return read


def test_scripts_and_styles_are_no_words(read):
    """Nobody sees them."""
    text = read(DRAWING).documents[0].text

    assert "alert" not in text
    assert "fill" not in text


def test_drawing_without_words_has_no_text(read):
    """An icon is valid."""
    assert {Notice.NO_TEXT_EXTRACTED} == read(b'<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0"/></svg>').notices


def test_entities_are_not_followed(read, tmp_path):
    """A drawing cannot show a file of this machine."""
    (tmp_path / "secret").write_text("secret words")
    data = f'<!DOCTYPE svg [<!ENTITY x SYSTEM "file://{tmp_path}/secret">]><svg><text>a &x; b</text></svg>'

    assert "secret" not in read(data.encode()).documents[0].text
