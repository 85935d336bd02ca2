"""Jupyter notebooks."""

import json
from typing import ClassVar

import pytest

from knowledge.errors import CorruptSource
from knowledge.model.status import Notice
from knowledge.pipeline.readers.notebook import NotebookReader
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.contracts.reader_contract import ReaderContract


def notebook(*cells, **other):
    metadata = {"kernelspec": {"language": "python"}}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5} | other).encode()


def code(source, *outputs):
    return {"cell_type": "code", "source": source, "outputs": outputs, "metadata": {}}


def text(source):
    return {"cell_type": "markdown", "source": source, "metadata": {}}


PICTURE = "iVBORw0KGgo" * 50
STREAM = {"output_type": "stream", "name": "stdout", "text": ["\x1b[31mred\x1b[0m\n", "done\n"]}
TABLE = {
    "output_type": "execute_result",
    "data": {"text/html": "<table><tr><th>k</th></tr><tr><td>v</td></tr></table>", "text/plain": "k\n0 v"},
}
FIGURE = {"output_type": "display_data", "data": {"image/png": PICTURE, "text/plain": "<Figure size 1x1>"}}
ERROR = {"output_type": "error", "ename": "ValueError", "evalue": "no pears", "traceback": ["\x1b[0m long"]}


class TestNotebookReader(ReaderContract):
    reader = NotebookReader
    samples: ClassVar = {
        "a.ipynb": (
            notebook(
                text(["# Harvest\n", "Some *pears*"]),
                code("x = 1\nprint(x)", STREAM, FIGURE),
                code(["table"], TABLE),
                code("boom()", ERROR),
                {"cell_type": "raw", "source": "raw words"},
            ),
            (
                "# Harvest\nSome *pears*\n\n```python\nx = 1\nprint(x)\n```\n\n```\nred\ndone\n```",
                "| k |\n| --- |\n| v |",
                "ValueError: no pears",
                "raw words",
            ),
        ),
        "old.ipynb": (
            json.dumps(
                {
                    "worksheets": [
                        {
                            "cells": [
                                {"cell_type": "heading", "level": 2, "source": "Old heading"},
                                {"cell_type": "code", "input": "print 1", "language": "python", "outputs": []},
                            ]
                        }
                    ],
                    "nbformat": 3,
                }
            ).encode(),
            ("## Old heading", "```python\nprint 1\n```"),
        ),
    }


@pytest.fixture
def read(tmp_path):
    def read(data):
        (tmp_path / "a.ipynb").write_bytes(data)
        return ReaderRegistry([NotebookReader()]).read(tmp_path / "a.ipynb", "a.ipynb", lambda: None)

    return read


def test_pictures_leave_no_bytes(read):
    """Neither as outputs nor inside text or code."""
    picture = f"![moon](data:image/png;base64,{PICTURE}) and ![sun](attachment:sun.png)"
    found = read(notebook(text(picture), code("show()", FIGURE))).documents[0].text

    assert PICTURE[:20] not in found
    assert "moon and sun" in found


@pytest.mark.parametrize("data", [notebook(), b'{"metadata": {}, "nbformat": 4}', b'{"worksheets": []}'])
def test_notebook_without_cells_has_no_text(read, data):
    """It is valid all the same."""
    assert {Notice.NO_TEXT_EXTRACTED} == read(data).notices


@pytest.mark.parametrize("data", [b'{"cells": [', b"[1, 2]", b"words"])
def test_what_is_no_notebook_is_corrupt(read, data):
    """JSON alone makes none."""
    with pytest.raises(CorruptSource):
        read(data)


def test_strange_shapes_do_not_matter(read):
    """Cells and outputs that are not what they should be are left out."""
    data = notebook("no cell", {"cell_type": "code", "source": 5, "outputs": ["x", {"data": 3}]}, text("kept"), metadata=[])

    assert "kept" == read(data).documents[0].text


def test_fence_inside_code_does_not_end_it(read):
    """A longer fence holds it."""
    assert "````python\ns = '''```'''\n````" in read(notebook(code("s = '''```'''"))).documents[0].text


def test_pictures_without_end_take_no_time(read):
    """Each is passed over once; looking for the end of each would take hours."""
    assert "words" in read(notebook(text("![a](data:" * 200_000 + " words"))).documents[0].text
