"""Jupyter notebooks as Markdown: text cells as they stand, code in fences, and what the code printed; no pictures."""

import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from knowledge.errors import CorruptSource
from knowledge.model.documents import Document, SourceFile
from knowledge.pipeline.readers.decoding import clean, decode
from knowledge.pipeline.readers.html import to_markdown
from knowledge.pipeline.readers.media_type import IPYNB
from knowledge.pipeline.readers.port import Finding

_COLOURS: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_EMBEDDED: Final = re.compile(
    r"!?\[([^\[\]]{0,1000})\]\((?:data:|attachment:)[^()]*\)|data:[\w/+.-]{1,100};base64,[A-Za-z0-9+/=\s]+"
)
_OUTPUT_CHARACTERS: Final = 20_000  #: of one output; a log of a training run says no more after that


class NotebookReader:
    """One document, cell after cell."""

    name: ClassVar[str] = "notebook"
    suffixes: ClassVar[frozenset[str]] = frozenset({".ipynb"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == IPYNB else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        decoded = decode(source.path.read_bytes())
        yield from decoded.findings()
        try:
            notebook = json.loads(clean(decoded.text))
        except json.JSONDecodeError as error:
            raise CorruptSource("This notebook is not valid JSON.", line=error.lineno, detail=error.msg) from error
        except RecursionError as error:
            raise CorruptSource("This file nests deeper than can be read.") from error
        if not isinstance(notebook, dict):
            raise CorruptSource("This notebook holds no cells.")
        language = _language(notebook)
        yield Document("\n\n".join(block for cell in _cells(notebook) for block in _blocks(cell, language) if block.strip()))


def _cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Of version 4, or of version 3, which has sheets of them."""
    sheets = [notebook, *_list(notebook, "worksheets")]
    for sheet in sheets:
        if isinstance(sheet, dict):
            yield from (cell for cell in _list(sheet, "cells") if isinstance(cell, dict))


def _blocks(cell: dict[str, Any], language: str) -> Iterator[str]:
    text = _text(cell.get("source", cell.get("input", ""))).strip("\n")
    match cell.get("cell_type"):
        case "code":
            if text.strip():
                yield _fenced(text, str(cell.get("language") or language))
            for output in _list(cell, "outputs"):
                if isinstance(output, dict):
                    yield from _output(output)
        case "heading":  # of version 3
            level = cell.get("level")
            yield f"{'#' * (level if isinstance(level, int) and 1 <= level <= 6 else 1)} {text}"
        case _:
            yield _EMBEDDED.sub(r"\1", text)


def _output(output: dict[str, Any]) -> Iterator[str]:
    """The form that says most as text."""
    kind = output.get("output_type")
    if kind == "stream":
        yield _printed(_text(output.get("text", "")))
    elif kind in ("error", "pyerr"):
        yield _printed(f"{_text(output.get('ename', ''))}: {_text(output.get('evalue', ''))}")
    else:
        data = output.get("data")
        forms = data if isinstance(data, dict) else output
        if markdown := _text(forms.get("text/markdown", "")):
            yield _EMBEDDED.sub(r"\1", markdown)
            return
        page = _text(forms.get("text/html", forms.get("html", "")))
        plain = _text(forms.get("text/plain", forms.get("text", "")))
        if "<table" in page or (page and plain.startswith("<IPython.")):
            yield to_markdown(page)[0]
        elif plain:
            yield _printed(plain)
        elif latex := _text(forms.get("text/latex", forms.get("latex", ""))):
            yield latex


def _printed(text: str) -> str:
    shown = _EMBEDDED.sub("", _COLOURS.sub("", text)).strip("\n")
    if not shown.strip():
        return ""
    if len(shown) > _OUTPUT_CHARACTERS:
        shown = shown[:_OUTPUT_CHARACTERS] + "\n…"
    return _fenced(shown, "")


def _fenced(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


def _language(notebook: dict[str, Any]) -> str:
    metadata = notebook.get("metadata")
    for place, key in (("language_info", "name"), ("kernelspec", "language")):
        found = metadata.get(place) if isinstance(metadata, dict) else None
        if isinstance(found, dict) and isinstance(found.get(key), str):
            return str(found[key])
    return ""


def _text(value: Any) -> str:
    """A text, or the list of lines that notebooks split it into."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _list(holder: dict[str, Any], key: str) -> list[Any]:
    value = holder.get(key)
    return value if isinstance(value, list) else []
