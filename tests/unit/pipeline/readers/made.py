"""Small files made for the tests of readers."""

import hashlib
import io
import struct
import zipfile
from collections.abc import Mapping, Sequence

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def pdf(*pages: str | bytes) -> bytes:
    """A PDF with one page each: a text is shown as a line, bytes are the page's drawing operators as they are."""
    objects: dict[int, bytes] = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    }
    kids = []
    for number, page in enumerate(pages):
        place, stream = 4 + number * 2, 5 + number * 2
        drawing = page if isinstance(page, bytes) else f"BT /F1 12 Tf 72 700 Td ({page}) Tj ET".encode("latin-1")
        kids.append(f"{place} 0 R")
        objects[place] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> "
            b"/Contents %d 0 R >>" % stream
        )
        objects[stream] = b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawing), drawing)
    objects[2] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    out, offsets = b"%PDF-1.4\n", {}
    for number in sorted(objects):
        offsets[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, objects[number])
    table = b"".join(b"%010d 00000 n \n" % offsets[number] for number in sorted(offsets))
    return out + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        table,
        len(objects) + 1,
        len(out),
    )


def pdf_encrypted(text: str, *, user: str, owner: str) -> bytes:
    """A page in RC4 of 40 bits, as the first PDF programs encrypted (PDF 1.7 §7.6, revision 2)."""
    filling = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
    padded = [(password.encode() + filling)[:32] for password in (user, owner)]
    owned = _rc4(hashlib.md5(padded[1]).digest()[:5], padded[0])
    key = hashlib.md5(padded[0] + owned + struct.pack("<i", -4) + b"id").digest()[:5]
    drawing = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode("latin-1")
    plain = pdf(drawing)
    hidden = _rc4(hashlib.md5(key + b"\5\0\0\0\0").digest()[:10], drawing)  # of object 5, where `pdf` puts the first page
    return plain.replace(drawing, hidden).replace(
        b"/Root 1 0 R",
        b"/Root 1 0 R /ID [<6964> <6964>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>"
        % (owned.hex().encode(), _rc4(key, filling).hex().encode()),
    )


def _rc4(key: bytes, data: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out = bytearray()
    i = j = 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def pdf_with_map(before: str, code: int, meaning: str, after: str) -> bytes:
    """A page whose font says that one code means a character, given as hexadecimal UTF-16; each string is shown on a line."""
    cmap = (
        b"/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <ff> endcodespacerange "
        b"1 beginbfchar <%02x> <%s> endbfchar endcmap end" % (code, meaning.encode())
    )
    drawing = f"BT /F1 12 Tf 72 700 Td ({before}{chr(code)}{after}) Tj ET".encode()
    return _with_object(pdf(drawing), b"<< /Length %d >>\nstream\n%s\nendstream" % (len(cmap), cmap)).replace(
        b"/BaseFont /Helvetica >>", b"/BaseFont /Helvetica /ToUnicode 99 0 R >>"
    )


def pdf_with_picture(text: str, width: int, height: int) -> bytes:
    """A page with a grey picture of this size in points, and a line of text over it."""
    drawing = f"q {width} 0 0 {height} 5 5 cm /I Do Q BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode()
    picture = (
        b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8 /Length 1 >>\n"
        b"stream\nx\nendstream"
    )
    return _with_object(pdf(drawing), picture).replace(b"/Resources << ", b"/Resources << /XObject << /I 99 0 R >> ")


def pdf_with_annotations(text: str, *annotations: bytes) -> bytes:
    """A page with these annotations, given as dictionaries; widgets among them are the fields of its form."""
    listed = [b"%d 0 R" % (99 + number) for number in range(len(annotations))]
    fields = [place for place, annotation in zip(listed, annotations, strict=True) if b"/Widget" in annotation]
    data = pdf(text)
    for number, annotation in enumerate(annotations):
        data = _with_object(data, annotation, 99 + number)
    return data.replace(b"/Type /Page /", b"/Type /Page /Annots [%s] /" % b" ".join(listed)).replace(
        b"/Type /Catalog ", b"/Type /Catalog /AcroForm << /Fields [%s] >> " % b" ".join(fields)
    )


def _with_object(data: bytes, content: bytes, number: int = 99) -> bytes:
    """A file with one object more. Its table of offsets is wrong then, which readers mend."""
    return data.replace(b"\n1 0 obj\n", b"\n%d 0 obj\n%s\nendobj\n1 0 obj\n" % (number, content), 1)


def docx(
    body: str, *, main: str = "word/document.xml", parts: Mapping[str, str] | None = None, links: Sequence[str] = ()
) -> bytes:
    """A Word file. `parts` are further XML files beside the main one, `links` their kinds in the same order (`styles` …)."""
    parts = parts or {}
    related = "".join(
        f'<Relationship Id="r{number}" Type="{RELATION}/{kind}" Target="{name}"/>'
        for number, (kind, name) in enumerate(zip(links, parts, strict=True))
    )
    head, tail = main.rpartition("/")[::2]
    files = {
        "[Content_Types].xml": f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        f'<Override PartName="/{main}" ContentType="{MAIN}"/></Types>',
        "_rels/.rels": f'<Relationships><Relationship Id="r" Type="{RELATION}/officeDocument" Target="{main}"/>'
        "</Relationships>",
        f"{head}/_rels/{tail}.rels": f"<Relationships>{related}</Relationships>",
        main: f"<w:document {W}><w:body>{body}</w:body></w:document>",
        **{f"{head}/{name}": text for name, text in parts.items()},
    }
    return archive(files)


def archive(files: Mapping[str, str | bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in files.items():
            target.writestr(name, content)
    return data.getvalue()


def entry(data: bytes, name: str) -> str:
    """The text of one entry of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        return source.read(name).decode()


def without(data: bytes, name: str) -> bytes:
    """The same archive, one entry less."""
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        return archive({entry: source.read(entry) for entry in source.namelist() if entry != name})


def replaced(data: bytes, name: str, content: str | bytes) -> bytes:
    """The same archive with another content of one entry."""
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        return archive({entry: content if entry == name else source.read(entry) for entry in source.namelist()})


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p>{f'<w:pPr>{properties}</w:pPr>' if properties else ''}<w:r><w:t>{text}</w:t></w:r></w:p>"


def word_table(*rows: Sequence[str]) -> str:
    """Cells are given as text, or as XML when they start with `<`."""

    def cell(text: str) -> str:
        return f"<w:tc>{text if text.startswith('<') else paragraph(text)}</w:tc>"

    lines = [f"<w:tr>{''.join(map(cell, row))}</w:tr>" for row in rows]
    return f"<w:tbl>{''.join(lines)}</w:tbl>"
