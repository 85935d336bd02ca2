"""Mails: the subject as a heading, who wrote to whom and when, the body that says most, attachments by name with their text.

Mails of the world break every rule of their format, so nothing is trusted: charsets are tried, transfer encodings that do not
fit are left alone, and what cannot be read is named.
"""

import email
import email.header
import email.policy
import email.utils
import re
from collections.abc import Iterator
from email.errors import CloseBoundaryNotFoundDefect
from email.message import Message
from itertools import pairwise
from typing import ClassVar, Final

from knowledge.errors import CorruptSource, EncryptedSource
from knowledge.model.documents import Document, SourceFile
from knowledge.model.status import Notice
from knowledge.pipeline.readers.decoding import clean, decode, looks_like_text
from knowledge.pipeline.readers.html import as_seen, to_markdown
from knowledge.pipeline.readers.inside import attached
from knowledge.pipeline.readers.media_type import MAIL, MAILBOX, SNIFF_BYTES
from knowledge.pipeline.readers.port import Finding

MAX_DEPTH: Final = 8  #: mails inside mails
MAX_PARTS: Final = 2_000  #: of one mail
_HEADER_CHARACTERS: Final = 8_000  #: that are shown of a header; decoding takes the square of their number
_SHOWN: Final = ("From", "To", "Cc", "Date")
_SEPARATOR: Final = re.compile(rb"^From \S+[^\n]*\n(?=[!-9;-~]+:)", re.M)
_SAID_TWICE: Final = 0.9  #: share of the words of one body that are in the other one, from which it says nothing new
#: They prove who wrote a mail; nobody reads them.
_SIGNATURES: Final = frozenset({"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"})
_BLANK: Final = re.compile(r"\n[ \t\u00a0]*(?:\n[ \t\u00a0]*)+\n")
_WORD: Final = re.compile(r"\w+")

_LENIENT: Final = email.policy.compat32


class MailReader:
    """One document for the mail, one or more for each attachment that can be read; a mailbox is read mail by mail."""

    name: ClassVar[str] = "mail"
    suffixes: ClassVar[frozenset[str]] = frozenset({".eml", ".mbox", ".mht", ".mhtml"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type in (MAIL, MAILBOX) else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        data = source.path.read_bytes()
        starts = [found.start() for found in _SEPARATOR.finditer(data)] if data.startswith(b"From ") else []
        if len(starts) < 2:
            yield from _findings(_parsed(data[data.index(b"\n") + 1 :] if starts else data), source, None)
            return
        for number, (start, end) in enumerate(pairwise([*starts, len(data)]), start=1):
            source.budget.page()
            mail = data[data.index(b"\n", start) + 1 : end].replace(b"\n>From ", b"\nFrom ")
            yield from _inner(_parsed(mail), source, f"message {number}")


def _parsed(data: bytes) -> "Message[str, str]":
    # The older policy: the newer one parses headers into objects and fails on many that are out there.
    return email.message_from_bytes(data.lstrip(b"\r\n\xef\xbb\xbf"), policy=_LENIENT)


def _findings(mail: "Message[str, str]", source: SourceFile, place: str | None, depth: int = 0) -> Iterator[Finding]:
    subject = header(mail, "Subject")
    body = _Body(source, subject)
    body.take(mail)
    if any(isinstance(defect, CloseBoundaryNotFoundDefect) for defect in mail.defects):
        body.notices.add(Notice.PARTIAL_TEXT)  # it breaks off
    lines = [f"{name}: {value}" for name in _SHOWN if (value := header(mail, name))]
    head = "\n".join(lines)
    if body.is_encrypted:
        raise EncryptedSource("This mail is encrypted.")
    names = [name for name, _ in body.attachments if name]
    attached = f"Attachments: {', '.join(names)}" if names else ""
    parts = (f"# {subject}" if subject else "", head, body.text(), attached)
    yield from sorted(body.notices)
    yield Document("\n\n".join(part for part in parts if part), locator=place)
    for name, part in body.attachments:
        where = ", ".join(filter(None, (place, f"attachment {name}" if name else "attached message")))
        yield from _attached(part, name, source, where, depth)


def _inner(mail: "Message[str, str]", source: SourceFile, place: str, depth: int = 0) -> Iterator[Finding]:
    """One mail of several; that it is encrypted does not cost the others."""
    try:
        yield from _findings(mail, source, place, depth)
    except EncryptedSource:
        yield Notice.PARTIAL_TEXT


def _attached(part: "Message[str, str]", name: str, source: SourceFile, place: str, depth: int) -> Iterator[Finding]:
    source.budget.entry()
    if isinstance(part.get_payload(), list):  # a mail inside the mail
        inner = part.get_payload(0)
        if depth >= MAX_DEPTH or not isinstance(inner, Message):
            yield Notice.PARTIAL_TEXT
        else:
            yield from _inner(inner, source, place, depth + 1)
        return
    data = payload(part)
    source.budget.inflate(len(data))
    yield from attached(data, name, source, place)


class _Body:
    """Sorts the parts of one mail: its bodies, and what is attached."""

    def __init__(self, source: SourceFile, subject: str) -> None:
        self.attachments: list[tuple[str, Message[str, str]]] = []
        self.notices: set[Notice] = set()
        self._source, self._subject = source, subject
        self._plain: list[str] = []
        self._rich: list[str] = []
        self._parts = 0
        self._has_cipher = False

    @property
    def is_encrypted(self) -> bool:
        """Whether what it says can only be read with a key (PGP/MIME or S/MIME)."""
        return self._has_cipher and not any(map(str.strip, (*self._plain, *self._rich)))

    def text(self) -> str:
        plain, rich = (_BLANK.sub("\n\n", "\n\n".join(texts)).strip() for texts in (self._plain, self._rich))
        if not plain or not rich:
            return plain or rich
        if _covers(rich, plain):
            return rich
        return plain if _covers(plain, rich) else f"{plain}\n\n{rich}"

    def take(self, part: "Message[str, str]", depth: int = 0) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS or depth > MAX_PARTS // 100:
            raise CorruptSource("This mail has more parts than any program writes.", parts=self._parts)
        kind = part.get_content_type()
        self._has_cipher |= kind == "multipart/encrypted" or part.get_param("smime-type") == "enveloped-data"
        if kind == "message/rfc822":
            self.attachments.append((file_name(part), part))
        elif kind == "message/delivery-status":
            self._plain.append(clean(part.as_string(policy=_LENIENT)).partition("\n\n")[2].strip())
        elif part.is_multipart():
            for inner in part.get_payload():
                if isinstance(inner, Message):
                    self.take(inner, depth + 1)
        elif self._is_attached(part, kind):
            self.attachments.append((file_name(part) or "unnamed", part))
        elif not kind.startswith("image/") and kind not in _SIGNATURES and (text := self._decoded(part)):
            self._take_text(text, kind)

    def _is_attached(self, part: "Message[str, str]", kind: str) -> bool:
        disposition = part.get_content_disposition()
        if kind in _SIGNATURES:
            return False
        if kind.startswith("image/"):
            return disposition == "attachment" or bool(file_name(part) and part.get("Content-ID") is None)
        if kind.startswith(("text/", "message/")) and kind != "text/calendar":
            return disposition == "attachment" or bool(disposition and file_name(part))
        return True

    def _take_text(self, text: str, kind: str) -> None:
        if kind != "text/html":
            self._plain.append(text)
            return
        markdown, is_whole = to_markdown(text, title_known_as=self._subject)
        self._rich.append(as_seen(markdown))
        if not is_whole:
            self.notices.add(Notice.PARTIAL_TEXT)

    def _decoded(self, part: "Message[str, str]") -> str:
        """Its text; none if it holds something else, which happens where a mail lost its headers."""
        data = payload(part)
        self._source.budget.inflate(len(data))
        if not looks_like_text(data[:SNIFF_BYTES]):
            if data:
                self.notices.add(Notice.PARTIAL_TEXT)
            return ""
        charset = part.get_param("charset")
        decoded = decode(data, declared=charset if isinstance(charset, str) else None)
        self.notices |= decoded.notices
        return clean(decoded.text)


def payload(part: "Message[str, str]") -> bytes:
    """The bytes of a part, with its transfer encoding undone as far as it fits."""
    try:
        data = part.get_payload(decode=True)
    except (ValueError, LookupError, AssertionError):
        data = None
    if isinstance(data, bytes):
        return data
    raw = part.get_payload()
    return raw.encode("utf-8", "surrogateescape") if isinstance(raw, str) else b""


def header(mail: "Message[str, str]", name: str) -> str:
    """A header as a person reads it: one line, decoded."""
    value = mail.get(name)
    return "" if value is None else _unfolded(value)


def file_name(part: "Message[str, str]") -> str:
    """What an attachment is called, without folders; empty if it has no name."""
    try:
        found = part.get_filename()
    except (ValueError, LookupError, TypeError, AttributeError):
        found = None
    if found and "\ufffd" in found and (named := _with_text_headers(part)) is not None:
        found = named.get_filename()
    if not found and part.get_content_type() == "message/rfc822" and isinstance(inner := part.get_payload(), list) and inner:
        found = header(inner[0], "Subject") if isinstance(inner[0], Message) else ""
        return found[:200] + ".eml" if found else ""
    return re.split(r"[/\\]", _unfolded(found))[-1].strip() if found else ""


def _with_text_headers(part: "Message[str, str]") -> "Message[str, str] | None":
    """The same headers with their raw bytes decoded, or None if there are none."""
    told = Message()
    for name, value in part.raw_items():
        text = value if isinstance(value, str) else str(value)
        told[name] = decode(text.encode("ascii", "surrogateescape")).text if _has_bytes(text) else text
    return told if told.items() != part.items() else None


def _unfolded(value: object) -> str:
    """Encoded words decoded, raw bytes in the charset they are most likely in, line breaks as spaces."""
    if isinstance(value, str):
        value = value[:_HEADER_CHARACTERS]
    try:
        parts = email.header.decode_header(value)  # type: ignore[arg-type]  # a str, or a Header where bytes were found
    except (email.errors.HeaderParseError, ValueError):
        parts = [(str(value), None)]
    texts = []
    was_encoded = False
    for text, charset in parts:
        if was_encoded and charset is None and text[:1] not in (" ", "\t", b" ", b"\t"):
            texts.append(" ")  # an encoded word ends at a blank, which the library drops at a line's end
        was_encoded = charset is not None
        if isinstance(text, str):
            data = text.encode("ascii", "surrogateescape") if text.isascii() or _has_bytes(text) else text.encode()
            texts.append(decode(data).text if data else "")
        elif charset in (None, "unknown-8bit"):
            texts.append(decode(text).text)
        else:
            texts.append(decode(text, declared=charset).text)
    return " ".join(clean("".join(texts)).split())


def _has_bytes(text: str) -> bool:
    return any("\udc80" <= character <= "\udcff" for character in text) and all(
        character < "\x80" or "\udc80" <= character <= "\udcff" for character in text
    )


def _covers(text: str, other: str) -> bool:
    """Whether nearly every word of `other` is in `text`."""
    words = _WORD.findall(other.casefold())
    known = set(_WORD.findall(text.casefold()))
    return sum(word in known for word in words) >= len(words) * _SAID_TWICE
