"""What drawings in office files say: paragraphs of shapes, tables, charts and diagrams."""

from collections.abc import Iterator
from typing import Final

from knowledge.pipeline.readers.markdown import table
from knowledge.pipeline.readers.ooxml import Element, Package, attribute, child, local

_NOT_SHOWN: Final = frozenset({"rPr", "pPr", "endParaRPr", "bodyPr", "lstStyle", "fldPr"})
_POINTS: Final = 4096  #: of one series of a chart; the sheet behind it holds them all


def paragraphs(body: Element) -> Iterator[str]:
    """The paragraphs below an element, those of a list level indented as a list."""
    for element in body.iter("{*}p"):
        text = "".join(_runs(element)).strip()
        if text:
            properties = child(element, "pPr")
            level = attribute(properties, "lvl") if properties is not None else None
            yield f"{'  ' * (int(level) - 1)}- {text}" if level and level.isdecimal() and int(level) in range(1, 9) else text


def _runs(parent: Element) -> Iterator[str]:
    for element in parent:
        match local(element):
            case "t":
                yield element.text or ""
            case "br":
                yield "\n"
            case "tab":
                yield "\t"
            case "fld" if (attribute(element, "type") or "").startswith("slidenum"):
                pass
            case name if name not in _NOT_SHOWN:
                yield from _runs(element)


def shape_table(element: Element) -> str:
    """A table of a slide as Markdown; a merged cell stands where it begins."""
    rows = [
        [
            " ".join(paragraphs(body)) if (body := child(cell, "txBody")) is not None else ""
            for cell in row
            if local(cell) == "tc"
        ]
        for row in element
        if local(row) == "tr"
    ]
    return table(rows) if any(text.strip() for row in rows for text in row) else ""


def graphic(package: Package, element: Element, parts: dict[str, str]) -> str:
    """The text of a chart or diagram that a frame shows, which lies in a part of its own.

    Args:
        element: `chart` or `relIds`.
        parts: names of parts by the id of their relationship.
    """
    is_chart = local(element) == "chart"
    name = parts.get(attribute(element, "id" if is_chart else "dm") or "")
    root = package.xml(name) if name else None
    if root is None:
        return ""
    return chart(root) if is_chart else "\n".join(_points(root))


def _points(diagram: Element) -> Iterator[str]:
    for point in diagram.iter("{*}pt"):
        body = child(point, "t")
        if body is not None:
            yield from paragraphs(body)


def chart(root: Element) -> str:
    """Title, names of the axes, and the values of all series as one table."""
    lines = [" ".join(paragraphs(title)) for title in root.iter("{*}title")]
    heads: list[str] = [""]
    rows: dict[int, list[str]] = {}
    for column, series in enumerate(root.iter("{*}ser"), start=1):
        heads.append(" ".join(_cached(child(series, "tx")).values()))
        labels = _cached(_first(series, "cat", "xVal"))
        for place, value in _cached(_first(series, "val", "yVal")).items():
            row = rows.setdefault(place, [])
            row += [""] * (column + 1 - len(row))
            row[0] = row[0] or labels.get(place, "")
            row[column] = value
    if len(heads) > 1:
        lines.append(table([heads, *(rows[place] for place in sorted(rows))]))
    return "\n\n".join(line for line in lines if line.strip())


def _first(series: Element, *names: str) -> Element | None:
    return next((found for name in names if (found := child(series, name)) is not None), None)


def _cached(reference: Element | None) -> dict[int, str]:
    """The values that a chart keeps of the cells it shows, by their place; all levels of a label together."""
    values: dict[int, str] = {}
    for number, value in enumerate(reference.iter("{*}v") if reference is not None else ()):
        if number >= _POINTS:
            break
        place = int(attribute(value.getparent(), "idx") or 0)
        values[place] = f"{value.text or ''} {values[place]}" if place in values else value.text or ""
    return values
