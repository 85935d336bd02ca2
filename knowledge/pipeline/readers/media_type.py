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
from knowledge.pipeline.readers.zip_directory import require_short

HEAD_BYTES: Final = 64 * 1024
SNIFF_BYTES: Final = 8_000  #: of each file of a directory import

CSV: Final = "text/csv"
EPUB: Final = "application/epub+zip"
DOC: Final = "application/msword"
DOCX: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
HTML: Final = "text/html"
IPYNB: Final = "application/x-ipynb+json"
JSON: Final = "application/json"
JSON_LINES: Final = "application/jsonl"
MAIL: Final = "message/rfc822"
MAILBOX: Final = "application/mbox"
MARKDOWN: Final = "text/markdown"
OUTLOOK: Final = "application/vnd.ms-outlook"
ODP: Final = "application/vnd.oasis.opendocument.presentation"
ODS: Final = "application/vnd.oasis.opendocument.spreadsheet"
ODT: Final = "application/vnd.oasis.opendocument.text"
PDF: Final = "application/pdf"
PLAIN: Final = "text/plain"
RST: Final = "text/x-rst"
SVG: Final = "image/svg+xml"
PPT: Final = "application/vnd.ms-powerpoint"
PPTX: Final = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
RTF: Final = "application/rtf"
SHEET_XML: Final = "application/vnd.ms-excel+xml"  #: Excel 2003, the whole workbook as one XML text
TSV: Final = "text/tab-separated-values"
WORD_XML: Final = "application/vnd.ms-word+xml"  #: Word 2003 and the flat form of later ones
XLS: Final = "application/vnd.ms-excel"
XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
XML: Final = "application/xml"
TAR: Final = "application/x-tar"
ZIP: Final = "application/zip"

#: Kinds of text that have a structure of their own; the suffix decides between them.
_STRUCTURED: Final = {
    ".csv": CSV,
    ".eml": MAIL,
    ".geojson": JSON,
    ".htm": HTML,
    ".html": HTML,
    ".ipynb": IPYNB,
    ".json": JSON,
    ".jsonl": JSON_LINES,
    ".markdown": MARKDOWN,
    ".mbox": MAILBOX,
    ".md": MARKDOWN,
    ".mdx": MARKDOWN,
    ".mht": MAIL,
    ".mhtml": MAIL,
    ".ndjson": JSON_LINES,
    ".rst": RST,
    ".svg": SVG,
    ".tsv": TSV,
    ".xhtml": HTML,
    ".xml": XML,
}
_PLAIN: Final = (
    ".txt .text .yaml .yml .toml .ini .cfg .properties "  # configuration
    ".org .tex .adoc .asciidoc .log "  # prose
    ".sh .bash .zsh .fish .ps1 .bat .cmd "  # shells
    ".py .pyi .go .rs .java .kt .kts .scala .c .h .cpp .cc .cxx .hpp .hh .cs .js .jsx .mjs .cjs .ts .tsx .php .rb .swift "
    ".m .mm .lua .pl .pm .r .dart .ex .exs .erl .hs .clj .groovy .gradle .vue .svelte "  # code
    ".sql .graphql .gql .proto .tf .hcl"  # queries, schemas, infrastructure
)
PLAIN_SUFFIXES: Final = frozenset(_PLAIN.split())  #: read as they stand
TEXT_SUFFIXES: Final = PLAIN_SUFFIXES | frozenset(_STRUCTURED)
#: May hold anything that is text, so their content is looked at.
_VAGUE_SUFFIXES: Final = frozenset({"", ".txt", ".text", ".log"})
PACKED_SUFFIXES: Final = frozenset({".gz", ".bz2", ".xz", ".tgz", ".tbz2", ".txz"})  #: one file, or one tar archive, packed
ARCHIVE_SUFFIXES: Final = PACKED_SUFFIXES | {".zip", ".tar"}
"""What an archive is called: one with another name is opened only if a person names it. Its bytes decide in any case."""
_ARCHIVES: Final = ARCHIVE_SUFFIXES | {".7z", ".rar"}  #: those that nothing opens included
_BINARY: Final = (
    ".pdf .doc .docx .docm .dotx .xls .xlsx .xlsm .ppt .pptx .odt .ods .odp .epub .msg "
    ".png .jpg .jpeg .gif .bmp .tif .tiff .webp .mp3 .mp4 .mov .avi .webm"
)
#: Named like these, plain words are what is left of a damaged file or an error message saved in its place.
_BINARY_SUFFIXES: Final = frozenset(_BINARY.split()) | _ARCHIVES
_LEFT_OUT: Final = (
    ".exe .dll .so .dylib .o .a .obj .class .jar .pyc .wasm .bin .dat .iso .img .dmg "  # programs and images of disks
    ".ttf .otf .woff .woff2 .ico .icns .psd .eps .ps "  # fonts and drawings
    ".sqlite .sqlite3 .db .parquet .npy .pkl .onnx .safetensors .zst "  # data
    ".lock .map .pem .key .crt .cer .p12 .gpg"  # made by tools, or secrets
)
LEFT_OUT_SUFFIXES: Final = frozenset(_LEFT_OUT.split())  #: no reader of ours claims one of these
#: Not taken from a directory, whatever they hold, where no reader claims them; not opened either.
UNWANTED_SUFFIXES: Final = _BINARY_SUFFIXES | LEFT_OUT_SUFFIXES
_KEY: Final = b"-----BEGIN "  #: keys and certificates, which need no suffix

_MAIN_PARTS: Final = (
    (rb"wordprocessingml\.(document|template)\.main|ms-word\.(document|template)\.macroEnabled", DOCX),
    (rb"spreadsheetml\.(sheet|template)\.main|ms-excel\.(sheet|template)\.macroEnabled", XLSX),
    (rb"presentationml\.(presentation|template|slideshow)\.main|ms-powerpoint\.\w+\.macroEnabled", PPTX),
    (rb"ms-excel\.sheet\.binary\.macroEnabled", "application/vnd.ms-excel.sheet.binary.macroenabled.12"),
    (rb"ms-visio\.\w+\.main", "application/vnd.ms-visio.drawing"),
)
_OLE_STREAMS: Final = (
    ("__nameid_version1.0", OUTLOOK),  # first: its attachments may be any of the others
    ("WordDocument", DOC),
    ("Workbook", XLS),
    ("Book", XLS),
    ("PowerPoint Document", PPT),
)
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_TAR_MARK: Final = b"ustar"
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_PART_BYTES: Final = 4 << 20  #: of a list of parts; a real one has some kilobytes
_OFFICE_XML: Final = (
    (re.compile(r"progid=\"Word\.Document\"|<\w+:wordDocument\b|<pkg:package\b"), WORD_XML),
    (re.compile(r"progid=\"Excel\.Sheet\"|<Workbook\b[^>]*urn:schemas-microsoft-com:office:spreadsheet"), SHEET_XML),
    (re.compile(r"<office:document\b[^>]*opendocument\.text\b"), ODT),
    (re.compile(r"<office:document\b[^>]*opendocument\.spreadsheet\b"), ODS),
    (re.compile(r"<office:document\b[^>]*opendocument\.presentation\b"), ODP),
)
_OFFICE_XML_SUFFIXES: Final = frozenset({".fodt", ".fods", ".fodp", ".xml"})
_OFFICE_XML_HEAD: Final = 16 * 1024  #: bytes; the root of a flat OpenDocument file names some forty namespaces
#: Two header lines of a mail, also behind the line that begins a mail in a mailbox.
_MAIL: Final = re.compile(
    r"(?:From \S+ .*\r?\n)?(?:(?:received|return-path|delivered-to|from|to|cc|subject|date|message-id|mime-version|reply-to"
    r"|sender|content-[a-z-]+|x-[\w-]+|arc-[\w-]+|dkim-signature|authentication-results):.*\r?\n(?:[ \t].*\r?\n)*){2}",
    re.I,
)
_SHEET_SUFFIXES: Final = frozenset({".xls", ".xlsx"})
_TABBED: Final = re.compile(r"[^\t\n]*(?:\t[^\t\n]*)+\n[^\t\n]*(?:\t[^\t\n]*)+(?:\n|\Z)")
_SVG: Final = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!doctype\s+svg[^>]*>\s*)?(?:<!--.*?-->\s*)*<svg\b", re.I | re.S)
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
        return _ole_type(path, suffix)
    if head[257:262] == _TAR_MARK:  # before the look at text: files of words are most of what a tar archive holds
        return TAR
    if looks_like_text(head) or (_STRUCTURED.get(suffix) in (MAIL, MAILBOX) and _MAIL.match(head[:1024].decode("latin-1"))):
        return _text_type(head, suffix)  # a mail may carry pictures as they are
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
        require_short(path)
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            if names and min(info.header_offset for info in archive.infolist()) > 0:  # only an archive inside it is whole
                raise CorruptSource("The end of this file is missing.")
            if "[Content_Types].xml" in names:
                types = _beginning(archive, "[Content_Types].xml")
                for pattern, media_type in _MAIN_PARTS:
                    if re.search(pattern, types):
                        return media_type
            if "mimetype" in names:
                return _beginning(archive, "mimetype").decode("ascii", errors="replace").strip("\ufffd\0 \r\n").lower()
            if "META-INF/container.xml" in names:
                return EPUB
    except RuntimeError as error:  # zipfile's answer to an encrypted entry
        raise EncryptedSource() from error
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, ValueError) as error:
        raise CorruptSource(detail=str(error)) from error
    if suffix in TEXT_SUFFIXES:
        raise BinarySource(media_type=ZIP, suffix=suffix)
    if suffix in _BINARY_SUFFIXES and suffix not in _ARCHIVES:
        raise CorruptSource("This file is a zip archive, but not the document its name says.", suffix=suffix)
    return ZIP


def _beginning(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as part:
        return part.read(_PART_BYTES)


def _ole_type(path: Path, suffix: str) -> str:
    """What an OLE file holds, by the names of its streams, which its directory keeps in UTF-16."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data.find("EncryptedPackage".encode("utf-16-le")) >= 0:
            raise EncryptedSource
        for stream, media_type in _OLE_STREAMS:
            if data.find(f"{stream}\0".encode("utf-16-le")) >= 0:
                return media_type
    if suffix in _BINARY_SUFFIXES:  # its directory is mostly near the end, where files are cut
        raise CorruptSource("This file holds none of the streams of what its name says.", suffix=suffix)
    return "application/x-ole-storage"


def _text_type(head: bytes, suffix: str) -> str:
    start = head[:1024].decode("utf-16", errors="replace") if head[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
    start = (start or head[:1024].replace(b"\0", b"").decode(errors="replace")).lstrip("\ufeff")
    if start.startswith("{\\rtf"):
        return RTF
    if start.startswith("%!PS"):
        return "application/postscript"
    is_foreign = suffix in _BINARY_SUFFIXES
    if is_foreign or suffix in _VAGUE_SUFFIXES or suffix in _OFFICE_XML_SUFFIXES:
        beginning = head[:_OFFICE_XML_HEAD].decode(errors="replace")
        for pattern, media_type in _OFFICE_XML:
            if "<?xml" in start and pattern.search(beginning):
                return media_type
    if is_foreign or suffix in _VAGUE_SUFFIXES or suffix == ".xml" or suffix not in TEXT_SUFFIXES:
        if _HTML.match(start):
            return HTML
        if _SVG.match(start):
            return SVG
        if start.lstrip().startswith("<?xml"):
            return XML
    if (is_foreign or suffix == "") and _MAIL.match(start):
        return MAIL
    if suffix in _SHEET_SUFFIXES and _TABBED.match(start):  # what many programs call an Excel file
        return TSV
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
