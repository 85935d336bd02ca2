"""Mails as Outlook saves them (.msg): an OLE file whose streams are named after the properties of MAPI.

Sources: [MS-OXMSG] for the streams, [MS-OXPROPS] for the numbers of the properties, [MS-OXRTFCP] for compressed RTF.
"""

import io
import re
import struct
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from knowledge.errors import CorruptSource, EncryptedSource, SourceFault
from knowledge.model.documents import Document, SourceFile
from knowledge.model.status import Notice
from knowledge.pipeline.readers.decoding import clean, decode
from knowledge.pipeline.readers.html import as_seen, declared_charset, to_markdown
from knowledge.pipeline.readers.inside import attached, ends_outer, read_inside
from knowledge.pipeline.readers.media_type import OUTLOOK
from knowledge.pipeline.readers.port import Finding
from knowledge.pipeline.readers.rtf_compression import decompressed

MAX_DEPTH: Final = 8  #: mails inside mails

_CLASS = "001A"
_SUBJECT, _SENDER_NAME, _SENDER_ADDRESS, _SENDER_SMTP = "0037", "0C1A", "0C1F", "5D01"
_TO, _CC, _HEADERS = "0E04", "0E03", "007D"
_BODY, _HTML, _RTF = "1000", "1013", "1009"
_FILE, _LONG_FILE, _DISPLAY, _DATA, _HIDDEN = "3704", "3707", "3001", "3701", "7FFE"
_SENT, _DELIVERED, _CODE_PAGE, _INTERNET_CODE_PAGE = 0x0039, 0x0E06, 0x3FFD, 0x3FDE
_UNICODE, _ANSI, _BINARY, _OBJECT = "001F", "001E", "0102", "000D"
_ATTACHMENT: Final = re.compile(r"__attach_version1\.0_#", re.I)
_TICKS_TO_1970: Final = 116_444_736_000_000_000  #: of 100 ns since 1601
_CHARSETS: Final = {  #: code pages that Python knows by another name
    936: "gb18030",
    10000: "mac-roman",
    20127: "ascii",
    20866: "koi8-r",
    21866: "koi8-u",
    28591: "iso-8859-1",
    28592: "iso-8859-2",
    28605: "iso-8859-15",
    50220: "iso-2022-jp",
    51932: "euc-jp",
    51949: "euc-kr",
    54936: "gb18030",
    65001: "utf-8",
}

_Path = tuple[str, ...]


class OutlookReader:
    """One document for the mail, one or more for each attachment that can be read."""

    name: ClassVar[str] = "outlook"
    suffixes: ClassVar[frozenset[str]] = frozenset({".msg"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == OUTLOOK else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        import olefile

        try:
            ole = olefile.OleFileIO(source.path)
        except (OSError, ValueError, IndexError, struct.error) as error:
            raise CorruptSource(detail=str(error)) from error
        with ole:
            yield from _findings(_Mail(ole, (), source), None)


class _Mail:
    """One mail: a folder of the OLE file."""

    def __init__(self, ole: Any, path: _Path, source: SourceFile, depth: int = 0) -> None:
        self.source, self.depth = source, depth
        self._ole, self._path = ole, path
        self._children = {entry[len(path)] for entry in ole.listdir(streams=True, storages=True) if _is_below(entry, path)}
        self._fixed = self._fixed_properties()
        page = self._fixed.get(_CODE_PAGE) or self._fixed.get(_INTERNET_CODE_PAGE)
        self._charset = None if page is None else _CHARSETS.get(page, f"cp{page}")
        self.notices: set[Notice] = set()

    def text(self, number: str) -> str:
        """A property of text, in whichever of the two forms it is there."""
        if (data := self._stream(f"__substg1.0_{number}{_UNICODE}")) is not None:
            return clean(data.decode("utf-16-le", errors="replace")).rstrip("\ufffd ")
        data = self._stream(f"__substg1.0_{number}{_ANSI}")
        if not data:
            return ""
        found = decode(data.rstrip(b"\0"), declared=self._charset)
        self.notices |= found.notices
        return clean(found.text)

    def binary(self, number: str) -> bytes:
        return self._stream(f"__substg1.0_{number}{_BINARY}") or b""

    def date(self) -> str:
        from datetime import UTC, datetime, timedelta

        ticks = self._fixed.get(_SENT) or self._fixed.get(_DELIVERED)
        if not ticks or ticks < _TICKS_TO_1970:
            return ""
        try:
            sent = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=(ticks - _TICKS_TO_1970) // 10)
        except OverflowError:
            return ""
        return sent.strftime("%Y-%m-%d %H:%M UTC")

    def attachments(self) -> "Iterator[_Mail]":
        """The folders of the attachments, whose properties are read like those of a mail."""
        for name in sorted(child for child in self._children if _ATTACHMENT.match(child)):
            yield _Mail(self._ole, (*self._path, name), self.source, self.depth)

    def attached_mail(self) -> "_Mail | None":
        name = f"__substg1.0_{_DATA}{_OBJECT}"
        if name not in self._children or not self._ole.exists([*self._path, name, "__properties_version1.0"]):
            return None
        return _Mail(self._ole, (*self._path, name), self.source, self.depth + 1)

    def _stream(self, name: str) -> bytes | None:
        """The bytes of a stream, None if there is none."""
        path = [*self._path, name]
        if self._ole.get_type(path) != 2:  # a stream; anything else cannot be opened
            return None
        try:
            with self._ole.openstream(path) as stream:
                data = bytes(stream.read())
        except (OSError, ValueError, IndexError) as error:
            raise CorruptSource(stream=name, detail=str(error)) from error
        self.source.budget.inflate(len(data))
        return data

    def _fixed_properties(self) -> dict[int, int]:
        """Numbers and times, from the list of properties of this folder: entries of 16 bytes behind a head."""
        data = self._stream("__properties_version1.0") or b""
        head = 32 if not self._path else 24 if _ATTACHMENT.match(self._path[-1]) is None else 8
        found = {}
        for at in range(head, len(data) - 15, 16):
            tag, _, value = struct.unpack_from("<IIQ", data, at)
            if tag & 0xFFFF in (0x0003, 0x0040):  # 32 bits, a time
                found[tag >> 16] = value if tag & 0xFFFF == 0x0040 else value & 0xFFFFFFFF
        return found


def _findings(mail: _Mail, place: str | None) -> Iterator[Finding]:
    if mail.text(_CLASS).strip("\0 ").upper() == "IPM.NOTE.SMIME" and not mail.text(_BODY).strip():
        raise EncryptedSource("This mail is encrypted.")
    subject = " ".join(mail.text(_SUBJECT).split())
    sender = mail.text(_SENDER_NAME)
    address = mail.text(_SENDER_SMTP) or mail.text(_SENDER_ADDRESS)
    if "@" in address and address not in sender:
        sender = f"{sender} <{address}>".strip()
    lines = {"From": sender, "To": mail.text(_TO), "Cc": mail.text(_CC), "Date": mail.date()}
    attachments = [(_file_name(one), one) for one in mail.attachments()]
    names = [name for name, _ in attachments if name]
    parts = (
        f"# {subject}" if subject else "",
        "\n".join(f"{name}: {value}" for name, value in lines.items() if value.strip("\0 ")),
        _body(mail, subject),
        f"Attachments: {', '.join(names)}" if names else "",
    )
    if any(part.strip() for part in (subject, sender, lines["To"], *parts[2:])):  # the date of a blank form says nothing
        yield Document("\n\n".join(part for part in parts if part.strip()), locator=place)
    yield from sorted(mail.notices)
    for name, one in attachments:
        where = ", ".join(filter(None, (place, f"attachment {name}" if name else "attached message")))
        yield from _attached(one, name, where)


def _body(mail: _Mail, subject: str) -> str:
    """HTML says most where there is any; RTF is what is left where a program wrote neither plain text nor HTML."""
    html = mail.binary(_HTML) or mail.text(_HTML).encode()
    if html.strip(b"\0\r\n "):
        found = decode(html, declared=declared_charset(html))
        text, is_whole = to_markdown(clean(found.text), title_known_as=subject)
        mail.notices |= found.notices
        if not is_whole:
            mail.notices.add(Notice.PARTIAL_TEXT)
        if text.strip():
            return as_seen(text).strip()
    if plain := mail.text(_BODY).strip():
        return plain
    packed = mail.binary(_RTF)
    if not packed:
        return ""
    try:
        rtf = decompressed(packed, mail.source.budget)
        return "\n\n".join(document.text for document in read_inside(io.BytesIO(rtf), "body.rtf", mail.source).documents)
    except SourceFault as error:
        if ends_outer(error):
            raise
        mail.notices.add(Notice.PARTIAL_TEXT)
        return ""


def _attached(attachment: _Mail, name: str, place: str) -> Iterator[Finding]:
    attachment.source.budget.entry()
    if (inner := attachment.attached_mail()) is not None:
        if inner.depth > MAX_DEPTH:
            yield Notice.PARTIAL_TEXT
        else:
            try:
                yield from _findings(inner, place)
            except EncryptedSource:
                yield Notice.PARTIAL_TEXT
        return
    data = attachment.binary(_DATA)
    if not data:
        return
    yield from attached(data, name, attachment.source, place)


def _file_name(attachment: _Mail) -> str:
    name = attachment.text(_LONG_FILE) or attachment.text(_FILE) or attachment.text(_DISPLAY)
    return re.split(r"[/\\]", " ".join(name.split()))[-1]


def _is_below(entry: list[str], path: _Path) -> bool:
    return len(entry) > len(path) and tuple(entry[: len(path)]) == path
