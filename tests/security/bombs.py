"""Small files that unpack, expand or multiply to more than a machine should give; making one takes little memory."""

import bz2
import gzip
import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tests.unit.pipeline.readers.made import docx, pdf

MIB: Final = 1 << 20
LARGE: Final = 80  #: MiB that most of them unpack to; the tests allow 64

CONTENT_TYPES: Final = "http://schemas.openxmlformats.org/package/2006/content-types"
RELATIONS: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006/relationships"
SHEET: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SLIDE: Final = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING: Final = "http://schemas.openxmlformats.org/drawingml/2006/main"
OFFICE: Final = "application/vnd.openxmlformats-officedocument"
ODF: Final = "urn:oasis:names:tc:opendocument:xmlns"

Part = str | bytes | Iterable[bytes]


def package(parts: Mapping[str, Part]) -> bytes:
    """A zip of these parts; one that comes in pieces is never whole in memory."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            with archive.open(name, "w", force_zip64=True) as entry:
                for piece in [part.encode()] if isinstance(part, str) else [part] if isinstance(part, bytes) else part:
                    entry.write(piece)
    return buffer.getvalue()


def long(before: str, filler: str, after: str, *, mebibytes: int) -> Iterable[bytes]:
    """A part of that size, of one piece that comes again and again."""
    piece = (filler * (MIB // len(filler))).encode()
    yield before.encode()
    for _ in range(mebibytes):
        yield piece
    yield after.encode()


def relations(*targets: tuple[str, str]) -> str:
    entries = "".join(
        f'<Relationship Id="rId{number}" Type="{RELATIONS}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{PACKAGE}">{entries}</Relationships>'


def types(**overrides: str) -> str:
    entries = "".join(f'<Override PartName="/{part}" ContentType="{OFFICE}.{kind}+xml"/>' for part, kind in overrides.items())
    return (
        f'<Types xmlns="{CONTENT_TYPES}"><Default Extension="rels" '
        f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>{entries}</Types>'
    )


def xlsx(sheet: Part, strings: Part | None = None) -> bytes:
    """A workbook of one sheet."""
    kinds = {"xl/workbook.xml": "spreadsheetml.sheet.main", "xl/worksheets/sheet1.xml": "spreadsheetml.worksheet"}
    targets = [("worksheet", "worksheets/sheet1.xml")]
    more: dict[str, Part] = {}
    if strings is not None:
        kinds["xl/sharedStrings.xml"] = "spreadsheetml.sharedStrings"
        targets.append(("sharedStrings", "sharedStrings.xml"))
        more["xl/sharedStrings.xml"] = strings
    return package(
        {
            "[Content_Types].xml": types(**kinds),
            "_rels/.rels": relations(("officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{RELATIONS}"><sheets>'
            '<sheet name="One" sheetId="1" r:id="rId1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relations(*targets),
            "xl/worksheets/sheet1.xml": sheet,
            **more,
        }
    )


def xlsx_sheet_of_512_mebibytes() -> bytes:
    """Half a megabyte that one cell with a very long text unpacks from."""
    before = f'<worksheet xmlns="{SHEET}"><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>'
    return xlsx(long(before, "lighthouse", "</t></is></c></row></sheetData></worksheet>", mebibytes=512))


def xlsx_of_many_rows() -> bytes:
    """The same as rows."""
    return xlsx(
        long(
            f'<worksheet xmlns="{SHEET}"><sheetData>', "<row><c><v>1</v></c></row>", "</sheetData></worksheet>", mebibytes=LARGE
        )
    )


def xlsx_shared_strings() -> bytes:
    sheet = f'<worksheet xmlns="{SHEET}"><sheetData><row r="1"><c r="A1" t="s"><v>0</v></c></row></sheetData></worksheet>'
    return xlsx(sheet, long(f'<sst xmlns="{SHEET}"><si><t>', "lighthouse", "</t></si></sst>", mebibytes=LARGE))


def xlsx_two_corners() -> bytes:
    """Two cells, at the first and at the last place of a sheet: a table of 17 billion cells between them."""
    return xlsx(
        f'<worksheet xmlns="{SHEET}"><dimension ref="A1:XFD1048576"/><sheetData>'
        '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row></sheetData></worksheet>'
    )


def pptx_of_200_slides() -> bytes:
    """No part is large; all together are 600 MiB."""
    head = f'<p:sld xmlns:p="{SLIDE}" xmlns:a="{DRAWING}"><p:cSld><p:spTree><p:sp><p:txBody><a:p><a:r><a:t>'
    tail = "</a:t></a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>"
    numbers = range(1, 201)
    names = "".join(f'<p:sldId id="{255 + number}" r:id="rId{number}"/>' for number in numbers)
    kinds = {"ppt/presentation.xml": "presentationml.presentation.main"}
    kinds |= {f"ppt/slides/slide{number}.xml": "presentationml.slide" for number in numbers}
    slides = {f"ppt/slides/slide{number}.xml": long(head, "lighthouse", tail, mebibytes=3) for number in numbers}
    return package(
        {
            "[Content_Types].xml": types(**kinds),
            "_rels/.rels": relations(("officeDocument", "ppt/presentation.xml")),
            "ppt/presentation.xml": f'<p:presentation xmlns:p="{SLIDE}" xmlns:r="{RELATIONS}"><p:sldIdLst>{names}</p:sldIdLst>'
            "</p:presentation>",
            "ppt/_rels/presentation.xml.rels": relations(*(("slide", f"slides/slide{number}.xml") for number in numbers)),
            **slides,
        }
    )


def docx_large() -> bytes:
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    return package(
        {
            "[Content_Types].xml": types(**{"word/document.xml": "wordprocessingml.document.main"}),
            "_rels/.rels": relations(("officeDocument", "word/document.xml")),
            "word/document.xml": long(
                f'<w:document xmlns:w="{space}"><w:body>', "<w:p><w:r><w:t>x</w:t></w:r></w:p>", "</w:body></w:document>",
                mebibytes=LARGE,
            ),
        }
    )  # fmt: skip


def odf(kind: str, body: Part) -> bytes:
    return package({"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": body})


_ODF_HEAD: Final = (
    f'<office:document-content xmlns:office="{ODF}:office:1.0" xmlns:text="{ODF}:text:1.0" xmlns:table="{ODF}:table:1.0">'
    "<office:body>"
)
_ODF_TAIL: Final = "</office:body></office:document-content>"


def odt_large() -> bytes:
    head, tail = f"{_ODF_HEAD}<office:text>", f"</office:text>{_ODF_TAIL}"
    return odf("text", long(head, "<text:p>x</text:p>", tail, mebibytes=LARGE))


def odt_of_spaces() -> bytes:
    """One element that stands for two billion blanks."""
    return odf("text", f'{_ODF_HEAD}<office:text><text:p>a<text:s text:c="2147483647"/>b</text:p></office:text>{_ODF_TAIL}')


def odt_table_repeated() -> bytes:
    """A cell that stands for a million columns of a million rows."""
    return odf("text", f"{_ODF_HEAD}<office:text>{_repeated_table()}</office:text>{_ODF_TAIL}")


def ods_repeated() -> bytes:
    return odf("spreadsheet", f"{_ODF_HEAD}<office:spreadsheet>{_repeated_table()}</office:spreadsheet>{_ODF_TAIL}")


def _repeated_table() -> str:
    return (
        '<table:table table:name="One"><table:table-row table:number-rows-repeated="1048576">'
        '<table:table-cell table:number-columns-repeated="16384" office:value-type="string"><text:p>lamp</text:p>'
        "</table:table-cell></table:table-row></table:table>"
    )


def epub_large() -> bytes:
    container = "urn:oasis:names:tc:opendocument:xmlns:container"
    return package(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": f'<container xmlns="{container}"><rootfiles><rootfile full-path="a.opf" '
            'media-type="application/oebps-package+xml"/></rootfiles></container>',
            "a.opf": '<package xmlns="http://www.idpf.org/2007/opf"><manifest>'
            '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest>'
            '<spine><itemref idref="a"/></spine></package>',
            "a.xhtml": long("<html><body>", "<p>lighthouse</p>", "</body></html>", mebibytes=LARGE),
        }
    )


def zip_in_zip() -> bytes:
    """Twenty archives inside each other."""
    data = package({"a.txt": "the lamp"})
    for _ in range(20):
        data = package({"inner.zip": data})
    return data


def zip_of_many() -> bytes:
    """Sixteen copies of the archive before, six times: sixteen million files at the bottom."""
    data = package({"a.txt": "the lamp " * 1000})
    for _ in range(6):
        data = package({f"{number}.zip": data for number in range(16)})
    return data


def zip_of_40_000_entries() -> bytes:
    return package({f"{number}.txt": "lamp" for number in range(40_000)})


def zip_that_overlaps() -> bytes:
    """Each entry of the directory names the same bytes, so every copy costs a line only."""
    data = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = b"".join(data.compress(b"lamp" * (MIB // 4)) for _ in range(8)) + data.flush()
    crc = zlib.crc32(b"lamp" * (MIB // 4) * 8)
    name = b"a.txt"
    local = struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", 20, 0, 8, 0, 0x21, crc, len(packed), 8 * MIB, len(name), 0) + name
    directory = b"".join(
        struct.pack(
            "<4sHHHHHHIIIHHHHHII", b"PK\x01\x02", 20, 20, 0, 8, 0, 0x21, crc, len(packed), 8 * MIB, len(own), 0, 0, 0, 0, 0, 0
        )
        + own
        for own in (b"%05d.txt" % number for number in range(200))
    )
    body = local + packed
    return body + directory + struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 200, 200, len(directory), len(body), 0)


def zip_that_lies() -> bytes:
    """The directory says that an entry is small, and it is not."""
    return package({"a.txt": long("", "lighthouse", "", mebibytes=LARGE)}).replace(
        struct.pack("<I", LARGE * (MIB // 10 * 10)), struct.pack("<I", 10)
    )


def gzip_large() -> bytes:
    buffer = io.BytesIO()
    with gzip.open(buffer, "wb") as packed:
        for _ in range(LARGE):
            packed.write(b"lighthouse\n" * (MIB // 11))
    return buffer.getvalue()


def tar_large() -> bytes:
    """One text file."""

    class Endless:
        """So many bytes of text, made as they are read."""

        left = LARGE * MIB

        def read(self, size: int) -> bytes:
            size = min(size, self.left)
            self.left -= size
            return (b"lighthouse\n" * (size // 11 + 1))[:size]

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("a.txt")
        info.size = LARGE * MIB
        archive.addfile(info, Endless())
    return buffer.getvalue()


def bzip2_large() -> bytes:
    packer = bz2.BZ2Compressor()
    return b"".join(packer.compress(b"a" * MIB) for _ in range(LARGE)) + packer.flush()


def xml_of_entities() -> bytes:
    """A billion laughs."""
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    return f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY e0 "lighthouse ">{entities}]><a>&e11;</a>'.encode()


def xml_of_one_long_entity() -> bytes:
    """One long entity, named fifty thousand times."""
    return f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY e "{"x" * 50_000}">]><a>{"&e;" * 50_000}</a>'.encode()


def svg_of_entities() -> bytes:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    return (
        f'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY e0 "lighthouse ">{entities}]>'
        '<svg xmlns="http://www.w3.org/2000/svg"><text>&e11;</text></svg>'
    ).encode()


def docx_of_entities() -> bytes:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    with zipfile.ZipFile(io.BytesIO(docx("<w:p><w:r><w:t>LAUGH</w:t></w:r></w:p>"))) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    text = parts["word/document.xml"].replace("LAUGH", "&e11;")
    start = text.index("<w:document")
    doctype = f'<!DOCTYPE w [<!ENTITY e0 "lighthouse ">{entities}]>'
    return package(parts | {"word/document.xml": text[:start] + doctype + text[start:]})


def pdf_large() -> bytes:
    """A page whose drawing unpacks to much more than its file."""
    packer = zlib.compressobj(9)
    line = b"BT /F1 12 Tf 72 700 Td (lighthouse) Tj ET\n"
    piece = line * (MIB // len(line))
    packed = b"".join(packer.compress(piece) for _ in range(600)) + packer.flush()
    plain = pdf(b"LENGTH")
    at = plain.index(b"<< /Length")
    end = plain.index(b"endstream")
    return plain[:at] + b"<< /Length %d /Filter /FlateDecode >>\nstream\n" % len(packed) + packed + b"\n" + plain[end:]


def pdf_of_an_absurd_page() -> bytes:
    """A page of 40,000 megapixels at one pixel a point."""
    return pdf("The lamp").replace(b"[0 0 612 792]", b"[0 0 200000 200000]")


def png_of_50_000_by_50_000() -> bytes:
    """A picture of 2,500 megapixels, black and white."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    side = 50_000
    packer = zlib.compressobj(1)
    rows = bytes(1 + side // 8) * 1000
    body = b"".join(packer.compress(rows) for _ in range(side // 1000)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def rtf_of_groups() -> bytes:
    return b"{\\rtf1 " + b"{" * 200_000 + b"the lamp" + b"}" * 200_000 + b"}"


def json_of_lists() -> bytes:
    return b"[" * 2_000_000 + b'"the lamp"' + b"]" * 2_000_000


def html_of_elements() -> bytes:
    return b"<html><body>" + b"<div>" * 500_000 + b"the lamp" + b"</div>" * 500_000


def xml_of_elements() -> bytes:
    return b"<?xml version='1.0'?>" + b"<a>" * 1_000_000 + b"the lamp" + b"</a>" * 1_000_000


def mail_of_mails() -> bytes:
    """Parts inside parts, ten thousand deep."""
    head = "From: a@b.c\nSubject: lamp\nDate: Mon, 2 Mar 2026 09:30:00 +0000\nMIME-Version: 1.0\n"
    parts = "".join(f'Content-Type: multipart/mixed; boundary="b{n}"\n\n--b{n}\n' for n in range(10_000))
    return f"{head}{parts}Content-Type: text/plain\n\nthe lamp\n".encode()


def csv_of_one_quote() -> bytes:
    """A quote that never ends."""
    return b'a,b\n1,"' + b"lamp,tower\n" * 2_000_000


REFUSED: Final[Mapping[str, tuple[Callable[[], bytes], str, str]]] = {
    # name of the file -> (maker, code, figure of the budget or nothing)
    "sheet.xlsx": (xlsx_sheet_of_512_mebibytes, "reader_budget_exceeded", "inflated_bytes"),
    "rows.xlsx": (xlsx_of_many_rows, "reader_budget_exceeded", "inflated_bytes"),
    "strings.xlsx": (xlsx_shared_strings, "reader_budget_exceeded", "inflated_bytes"),
    "slides.pptx": (pptx_of_200_slides, "reader_budget_exceeded", "inflated_bytes"),
    "text.docx": (docx_large, "reader_budget_exceeded", "inflated_bytes"),
    "text.odt": (odt_large, "reader_budget_exceeded", "inflated_bytes"),
    "book.epub": (epub_large, "reader_budget_exceeded", "inflated_bytes"),
    "many.zip": (zip_of_many, "reader_budget_exceeded", ""),
    "entries.zip": (zip_of_40_000_entries, "reader_budget_exceeded", "entries"),
    "text.txt.gz": (gzip_large, "reader_budget_exceeded", "inflated_bytes"),
    "text.txt.bz2": (bzip2_large, "reader_budget_exceeded", "inflated_bytes"),
    "text.tar.gz": (tar_large, "reader_budget_exceeded", "inflated_bytes"),
    "drawing.pdf": (pdf_large, "reader_budget_exceeded", "memory_bytes"),
    "picture.png": (png_of_50_000_by_50_000, "unsupported", ""),
}

#: Refused or read, as the reader can; within its budget in any case.
ANYHOW: Final[Mapping[str, Callable[[], bytes]]] = {
    "corners.xlsx": xlsx_two_corners,
    "repeated.ods": ods_repeated,
    "repeated.odt": odt_table_repeated,
    "spaces.odt": odt_of_spaces,
    "nested.zip": zip_in_zip,
    "overlap.zip": zip_that_overlaps,
    "lies.zip": zip_that_lies,
    "laughs.xml": xml_of_entities,
    "quadratic.xml": xml_of_one_long_entity,
    "laughs.svg": svg_of_entities,
    "laughs.docx": docx_of_entities,
    "page.pdf": pdf_of_an_absurd_page,
    "groups.rtf": rtf_of_groups,
    "lists.json": json_of_lists,
    "elements.html": html_of_elements,
    "elements.xml": xml_of_elements,
    "parts.eml": mail_of_mails,
    "quote.csv": csv_of_one_quote,
}
