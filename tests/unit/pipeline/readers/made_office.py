"""Small office files made for the tests of readers."""

from collections.abc import Mapping, Sequence

from tests.unit.pipeline.readers.made import RELATION, archive

_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_OOXML = "application/vnd.openxmlformats-officedocument"
_A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_R = f'xmlns:r="{RELATION}"'
_P = f'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" {_A} {_R}'
_S = f'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" {_R}'
_C = 'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"'
_DGM = 'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram"'
_XDR = f'xmlns:xdr="http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing" {_A} {_R}'

Links = Sequence[tuple[str, str]]  #: (kind, target) in the order of their ids r1, r2 …


def _relations(links: Links) -> str:
    entries = "".join(
        f'<Relationship Id="r{number}" Type="{RELATION}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(links, start=1)
    )
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{entries}</Relationships>'


def package(main: str, kind: str, parts: Mapping[str, str], links: Mapping[str, Links]) -> bytes:
    """An OOXML file: its parts as XML, and where each leads to."""
    files = {
        "[Content_Types].xml": f'<Types xmlns="{_TYPES}">'
        f'<Override PartName="/{main}" ContentType="{_OOXML}.{kind}.main+xml"/></Types>',
        "_rels/.rels": _relations([("officeDocument", main)]),
        **parts,
    }
    for name, targets in links.items():
        folder, _, file = name.rpartition("/")
        files[f"{folder}/_rels/{file}.rels"] = _relations(targets)
    return archive(files)


def words(*paragraphs: str) -> str:
    """A text body; a paragraph may be XML of runs."""
    inner = [text if text.startswith("<") else f"<a:r><a:t>{text}</a:t></a:r>" for text in paragraphs]
    return "".join(f"<a:p>{text}</a:p>" for text in inner)


def shape(*paragraphs: str, kind: str = "") -> str:
    """A shape with text; `kind` makes it a placeholder."""
    place = f'<p:nvPr><p:ph type="{kind}"/></p:nvPr>' if kind else "<p:nvPr/>"
    return f"<p:sp><p:nvSpPr>{place}</p:nvSpPr><p:txBody><a:bodyPr/>{words(*paragraphs)}</p:txBody></p:sp>"


def slide(*shapes: str) -> str:
    return f"<p:sld {_P}><p:cSld><p:spTree>{''.join(shapes)}</p:spTree></p:cSld></p:sld>"


def pptx(*slides: str, parts: Mapping[str, str] | None = None, links: Mapping[str, Links] | None = None) -> bytes:
    """A PowerPoint file. `parts` are further XML files, `links` where slides (`slide1.xml` …) lead to."""
    ids = "".join(f'<p:sldId id="{256 + number}" r:id="r{number}"/>' for number in range(1, len(slides) + 1))
    names = [f"ppt/slides/slide{number}.xml" for number in range(1, len(slides) + 1)]
    return package(
        "ppt/presentation.xml",
        "presentationml.presentation",
        {
            "ppt/presentation.xml": f"<p:presentation {_P}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>",
            **dict(zip(names, slides, strict=True)),
            **(parts or {}),
        },
        {
            "ppt/presentation.xml": [("slide", f"slides/{name.rpartition('/')[2]}") for name in names],
            **{f"ppt/slides/{name}": targets for name, targets in (links or {}).items()},
        },
    )


def notes(*paragraphs: str) -> str:
    shapes = shape(*paragraphs, kind="body") + shape("7", kind="sldNum")
    return f"<p:notes {_P}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:notes>"


def graphic_frame(inner: str) -> str:
    return f"<p:graphicFrame><a:graphic><a:graphicData>{inner}</a:graphicData></a:graphic></p:graphicFrame>"


def slide_table(*rows: Sequence[str]) -> str:
    lines = "".join(
        "<a:tr>" + "".join(f"<a:tc><a:txBody>{words(text)}</a:txBody></a:tc>" for text in row) + "</a:tr>" for row in rows
    )
    return graphic_frame(f"<a:tbl>{lines}</a:tbl>")


def chart(title: str, labels: Sequence[str], series: Mapping[str, Sequence[float]]) -> str:
    """A bar chart with the values it keeps."""

    def points(values: Sequence[object]) -> str:
        return "".join(f'<c:pt idx="{place}"><c:v>{value}</c:v></c:pt>' for place, value in enumerate(values))

    bars = "".join(
        f"<c:ser><c:tx><c:strRef><c:strCache>{points([name])}</c:strCache></c:strRef></c:tx>"
        f"<c:cat><c:strRef><c:strCache>{points(labels)}</c:strCache></c:strRef></c:cat>"
        f"<c:val><c:numRef><c:numCache>{points(values)}</c:numCache></c:numRef></c:val></c:ser>"
        for name, values in series.items()
    )
    return (
        f"<c:chartSpace {_C} {_A}><c:chart><c:title><c:tx><c:rich>{words(title)}</c:rich></c:tx></c:title>"
        f"<c:plotArea><c:bar3DChart>{bars}</c:bar3DChart></c:plotArea></c:chart></c:chartSpace>"
    )


def diagram(*texts: str) -> str:
    points = "".join(f"<dgm:pt><dgm:t>{words(text)}</dgm:t></dgm:pt>" for text in texts)
    return f"<dgm:dataModel {_DGM} {_A}><dgm:ptLst>{points}</dgm:ptLst></dgm:dataModel>"


CHART_FRAME = graphic_frame(f'<c:chart {_C} r:id="r1"/>')
DIAGRAM_FRAME = graphic_frame(f'<dgm:relIds {_DGM} r:dm="r1"/>')


def xlsx(
    sheets: Mapping[str, str],
    *,
    texts: Sequence[str] = (),
    formats: Sequence[str] = (),
    is_1904: bool = False,
    parts: Mapping[str, str] | None = None,
    links: Mapping[str, Links] | None = None,
    hidden: Sequence[str] = (),
) -> bytes:
    """An Excel file.

    Args:
        sheets: the content of each `worksheet` element by the name of its sheet.
        texts: content of the `si` elements of shared strings.
        formats: codes of number formats; style 1 has the first of them, style 0 none.
        links: where sheets (`sheet1.xml` …) and drawings lead to, by file name.
    """
    states = dict.fromkeys(hidden, 'state="hidden"')
    entries = "".join(
        f'<sheet name="{name}" sheetId="{number}" {states.get(name, "")} r:id="r{number}"/>'
        for number, name in enumerate(sheets, start=1)
    )
    codes = "".join(f'<numFmt numFmtId="{164 + place}" formatCode="{code}"/>' for place, code in enumerate(formats))
    styles = "".join(f'<xf numFmtId="{164 + place}"/>' for place in range(len(formats)))
    files = {
        "xl/workbook.xml": f'<workbook {_S}><workbookPr date1904="{int(is_1904)}"/><sheets>{entries}</sheets></workbook>',
        "xl/sharedStrings.xml": f"<sst {_S}>{''.join(f'<si>{text}</si>' for text in texts)}</sst>",
        "xl/styles.xml": f"<styleSheet {_S}><numFmts>{codes}</numFmts>"
        f'<cellXfs><xf numFmtId="0"/>{styles}</cellXfs></styleSheet>',
        **{
            f"xl/worksheets/sheet{number}.xml": f"<worksheet {_S}>{inner}</worksheet>"
            for number, inner in enumerate(sheets.values(), 1)
        },
        **(parts or {}),
    }
    targets = [("worksheet", f"worksheets/sheet{number}.xml") for number in range(1, len(sheets) + 1)]
    return package(
        "xl/workbook.xml",
        "spreadsheetml.sheet",
        files,
        {
            "xl/workbook.xml": [*targets, ("sharedStrings", "sharedStrings.xml"), ("styles", "styles.xml")],
            **{(name if "/" in name else f"xl/worksheets/{name}"): found for name, found in (links or {}).items()},
        },
    )


def rows(*lines: Sequence[str]) -> str:
    """Sheet data; cells as XML (`<c …`) or as text, which is written in place. Nothing makes an empty row."""
    found = []
    for number, line in enumerate(lines, start=1):
        cells = "".join(
            text if text.startswith("<") else f'<c r="{chr(65 + place)}{number}" t="inlineStr"><is><t>{text}</t></is></c>'
            for place, text in enumerate(line)
            if text
        )
        found.append(f'<row r="{number}">{cells}</row>')
    return f"<sheetData>{''.join(found)}</sheetData>"


def text_box(*paragraphs: str) -> str:
    """A drawing with one box."""
    box = f"<xdr:sp><xdr:txBody>{words(*paragraphs)}</xdr:txBody></xdr:sp>"
    return f"<xdr:wsDr {_XDR}><xdr:twoCellAnchor>{box}</xdr:twoCellAnchor></xdr:wsDr>"


_ODF = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in (
        ("office", "office"),
        ("text", "text"),
        ("table", "table"),
        ("draw", "drawing"),
        ("style", "style"),
        ("presentation", "presentation"),
        ("svg", "svg-compatible"),
        ("chart", "chart"),
    )
)
_ODF += ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xlink="http://www.w3.org/1999/xlink"'


def odf(kind: str, body: str, *, styles: str = "", manifest: str = "", parts: Mapping[str, str] | None = None) -> bytes:
    """An OpenDocument file of kind `text`, `spreadsheet` or `presentation`."""

    def content(inner: str) -> str:
        return f"<office:document-content {_ODF}>{inner}</office:document-content>"

    return archive(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": content(f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"),
            "styles.xml": f"<office:document-styles {_ODF}>{styles}</office:document-styles>",
            "META-INF/manifest.xml": f"<manifest>{manifest}</manifest>",
            **{name: content(text) for name, text in (parts or {}).items()},
        }
    )


def flat_odf(kind: str, body: str) -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<office:document {_ODF} '
        f'office:mimetype="application/vnd.oasis.opendocument.{kind}">'
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document>"
    ).encode()
