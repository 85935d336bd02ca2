"""What a file is, by its bytes. The name is a hint only among kinds of text, which bytes cannot tell apart."""

import mmap
import re
import zipfile
from pathlib import Path
from typing import Final

from knowledge.errors import (
    BinarySource,
    ConfigurationError,
    CorruptSource,
    EmptySource,
    EncryptedSource,
    SourceMissing,
    UnsupportedSource,
)
from knowledge.pipeline.readers.decoding import looks_like_text

HEAD_BYTES: Final = 64 * 1024
SNIFF_BYTES: Final = 8_000  #: of each file of a directory import

CSV: Final = "text/csv"
DOCX: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
HTML: Final = "text/html"
JSON: Final = "application/json"
MARKDOWN: Final = "text/markdown"
PDF: Final = "application/pdf"
PLAIN: Final = "text/plain"
TSV: Final = "text/tab-separated-values"
XML: Final = "application/xml"
ZIP: Final = "application/zip"

#: Kinds of text that have a structure of their own; the suffix decides between them.
_STRUCTURED: Final = {
    ".csv": CSV,
    ".htm": HTML,
    ".html": HTML,
    ".ipynb": "application/x-ipynb+json",
    ".json": JSON,
    ".markdown": MARKDOWN,
    ".md": MARKDOWN,
    ".mdx": MARKDOWN,
    ".tsv": TSV,
    ".xhtml": HTML,
    ".xml": XML,
}
_PLAIN: Final = (
    ".txt .text .yaml .yml .toml .ini .cfg .properties "  # configuration
    ".rst .org .tex .adoc .asciidoc .log "  # prose
    ".sh .bash .zsh .fish .ps1 .bat .cmd "  # shells
    ".py .pyi .go .rs .java .kt .kts .scala .c .h .cpp .cc .cxx .hpp .hh .cs .js .jsx .mjs .cjs .ts .tsx .php .rb .swift "
    ".m .mm .lua .pl .pm .r .dart .ex .exs .erl .hs .clj .groovy .gradle .vue .svelte "  # code
    ".sql .graphql .gql .proto .tf .hcl"  # queries, schemas, infrastructure
)
PLAIN_SUFFIXES: Final = frozenset(_PLAIN.split())  #: read as they stand
TEXT_SUFFIXES: Final = PLAIN_SUFFIXES | frozenset(_STRUCTURED)
#: May hold anything that is text, so their content is looked at.
_VAGUE_SUFFIXES: Final = frozenset({"", ".txt", ".text", ".log"})
_BINARY: Final = (
    ".pdf .doc .docx .docm .dotx .xls .xlsx .xlsm .ppt .pptx .odt .ods .odp .epub .msg .zip .gz .7z .rar "
    ".png .jpg .jpeg .gif .bmp .tif .tiff .webp .mp3 .mp4 .mov .avi .webm"
)
#: Named like these, plain words are what is left of a damaged file or an error message saved in its place.
_BINARY_SUFFIXES: Final = frozenset(_BINARY.split())
_LEFT_OUT: Final = (
    ".exe .dll .so .dylib .o .a .obj .class .jar .pyc .wasm .bin .dat .iso .img .dmg "  # programs and images of disks
    ".ttf .otf .woff .woff2 .ico .icns .psd .svg .eps .ps .rtf "  # fonts and drawings
    ".sqlite .sqlite3 .db .parquet .npy .pkl .onnx .safetensors .xz .bz2 .zst .tar .tgz "  # data
    ".lock .map .pem .key .crt .cer .p12 .gpg"  # made by tools, or secrets
)
#: Not taken from a directory whatever they hold, and not opened.
UNWANTED_SUFFIXES: Final = _BINARY_SUFFIXES | frozenset(_LEFT_OUT.split())
_KEY: Final = b"-----BEGIN "  #: keys and certificates, which need no suffix

_MAIN_PARTS: Final = (
    (rb"wordprocessingml\.(document|template)\.main|ms-word\.(document|template)\.macroEnabled", DOCX),
    (
        rb"spreadsheetml\.(sheet|template)\.main|ms-excel\.(sheet|template)\.macroEnabled",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    (
        rb"presentationml\.(presentation|template|slideshow)\.main|ms-powerpoint\.\w+\.macroEnabled",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ),
)
_OLE_STREAMS: Final = (
    ("WordDocument", "application/msword"),
    ("Workbook", "application/vnd.ms-excel"),
    ("Book", "application/vnd.ms-excel"),
    ("PowerPoint Document", "application/vnd.ms-powerpoint"),
    ("__properties_version1.0", "application/vnd.ms-outlook"),
)
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_PART_BYTES: Final = 4 << 20  #: of a list of parts; a real one has some kilobytes
_HTML: Final = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S)


def detect(path: Path, name: str) -> str:
    """The media type of a file, lower case, without parameters.

    Raises:
        SourceMissing, EmptySource: there is nothing to look at.
        BinarySource: named like text, but holds binary data.
        EncryptedSource: an office file that needs a password.
        CorruptSource: it begins like something that it does not go on to be, or is named like a document and holds plain words.
        UnsupportedSource: no one knows what these bytes are.
        OSError: the file cannot be opened.
    """
    head = _head(path)
    suffix = Path(name).suffix.lower()
    if head.startswith(b"%PDF-") or (suffix == ".pdf" and b"%PDF-" in head[:1024]):  # junk in front is common
        return PDF
    if head.startswith(_ZIP):
        return _zip_type(path, suffix)
    if head.startswith(_OLE):
        return _ole_type(path)
    if looks_like_text(head):
        return _text_type(head, suffix)
    return _binary_type(head, suffix)


def is_binary(path: Path) -> bool:
    """Whether the first bytes of a file are not text; cheap enough for each file of a directory.

    Raises:
        OSError: the file cannot be opened.
    """
    with path.open("rb") as file:
        return not looks_like_text(file.read(SNIFF_BYTES))


def sniff_text(path: Path, suffix: str) -> str | None:
    """The media type of a file that begins like text, whatever it is called; None for binary data, keys and certificates.

    Raises:
        OSError: the file cannot be opened.
    """
    with path.open("rb") as file:
        head = file.read(SNIFF_BYTES)
    if not head or head.startswith((b"%PDF-", _KEY)) or not looks_like_text(head):
        return None
    return _text_type(head, suffix)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except FileNotFoundError as error:
        raise SourceMissing() from error
    if not head:
        raise EmptySource
    return head


def _zip_type(path: Path, suffix: str) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            if "[Content_Types].xml" in names:
                types = _beginning(archive, "[Content_Types].xml")
                for pattern, media_type in _MAIN_PARTS:
                    if re.search(pattern, types):
                        return media_type
            if "mimetype" in names:
                return _beginning(archive, "mimetype").decode("ascii", errors="replace").strip().lower()
    except RuntimeError as error:  # zipfile's answer to an encrypted entry
        raise EncryptedSource() from error
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, ValueError) as error:
        raise CorruptSource(detail=str(error)) from error
    if suffix in _BINARY_SUFFIXES and suffix != ".zip":
        raise CorruptSource("This file is a zip archive, but not the document its name says.", suffix=suffix)
    return ZIP


def _beginning(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as part:
        return part.read(_PART_BYTES)


def _ole_type(path: Path) -> str:
    """What an OLE file holds, by the names of its streams, which its directory keeps in UTF-16."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data.find("EncryptedPackage".encode("utf-16-le")) >= 0:
            raise EncryptedSource
        for stream, media_type in _OLE_STREAMS:
            if data.find(f"{stream}\0".encode("utf-16-le")) >= 0:
                return media_type
    return "application/x-ole-storage"


def _text_type(head: bytes, suffix: str) -> str:
    start = head[:1024].decode("utf-16", errors="replace") if head[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
    start = (start or head[:1024].replace(b"\0", b"").decode(errors="replace")).lstrip("\ufeff")
    if start.startswith("{\\rtf"):
        return "application/rtf"
    if start.startswith("%!PS"):
        return "application/postscript"
    is_foreign = suffix in _BINARY_SUFFIXES
    if is_foreign or suffix in _VAGUE_SUFFIXES or suffix == ".xml":
        if _HTML.match(start):
            return HTML
        if start.lstrip().startswith("<?xml"):
            return XML
    if is_foreign:
        raise CorruptSource("This file holds plain text, not the document its name says.", suffix=suffix)
    return _STRUCTURED.get(suffix, PLAIN)


def _binary_type(head: bytes, suffix: str) -> str:
    media_type = _by_libmagic(head)
    if suffix in TEXT_SUFFIXES:
        raise BinarySource(media_type=media_type, suffix=suffix)
    if media_type == "application/octet-stream" or media_type.startswith("text/"):  # a script with a binary payload
        if suffix in _BINARY_SUFFIXES:
            raise CorruptSource("The bytes of this file are not of the kind its name says.", suffix=suffix)
        raise UnsupportedSource(media_type=media_type, suffix=suffix)
    return media_type


def _by_libmagic(head: bytes) -> str:
    try:
        import magic
    except ImportError as error:
        raise ConfigurationError("The library libmagic is not installed.", detail=str(error)) from error
    return str(magic.from_buffer(head, mime=True)).lower()
