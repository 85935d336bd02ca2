"""Mails of Outlook, made stream by stream."""

import struct
from typing import ClassVar

import pytest

from knowledge.errors import CorruptSource, EncryptedSource, ReaderBudgetExceeded
from knowledge.model.budget import Budget, Meter
from knowledge.model.status import Notice
from knowledge.pipeline.readers.outlook import OutlookReader
from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.readers.rtf_compression import decompressed
from tests.contracts.reader_contract import ReaderContract
from tests.unit.pipeline.readers import made
from tests.unit.pipeline.readers.made_ole import ole

SENT = 0x0039
TICKS = 132_539_328_000_000_000  #: 2021-01-01 00:00 UTC


def stream(number, text, kind="001F"):
    encoding = {"001F": "utf-16-le", "001E": "cp950", "0102": "utf-8"}[kind]
    return {f"__substg1.0_{number}{kind}": text if isinstance(text, bytes) else text.encode(encoding)}


def properties(head=32, *, sent=None, page=None):
    """The list of fixed properties; its head is 32 bytes in a file, 24 in a mail inside, 8 in an attachment."""
    found = b"" if sent is None else struct.pack("<IIQ", SENT << 16 | 0x40, 6, sent)
    found += b"" if page is None else struct.pack("<IIQ", 0x3FFD << 16 | 3, 6, page)
    return {"__properties_version1.0": bytes(head) + found}


def mail(*streams, head=32, sent=None, page=None):
    tree = {"__nameid_version1.0": {"__substg1.0_00020102": b""}, **properties(head, sent=sent, page=page)}
    for one in streams:
        tree |= one
    return tree


def attachment(number, name, data):
    return {
        f"__attach_version1.0_#{number:08X}": {**properties(8), **stream("3707", name), "__substg1.0_37010102": data},
    }


LETTER = mail(
    stream("0037", "Harvest"),
    stream("0C1A", "Mira Holt"),
    stream("5D01", "mira@example.org"),
    stream("0E04", "Jon"),
    stream("1000", "The pears are ripe.\r\n"),
    attachment(0, "list.txt", b"Forty baskets"),
    attachment(1, "photo.png", b"\x89PNG\r\n\x1a\n" + bytes(40)),
    sent=TICKS,
)


class TestOutlookReader(ReaderContract):
    reader = OutlookReader
    samples: ClassVar = {
        "letter.msg": (
            ole(LETTER),
            (
                "# Harvest\n\nFrom: Mira Holt <mira@example.org>\nTo: Jon\nDate: 2021-01-01 00:00 UTC\n\nThe pears are ripe.",
                "Attachments: list.txt, photo.png",
                "## list.txt\n\nForty baskets",
            ),
        ),
        "big5.msg": (
            ole(mail(stream("0037", "格式測試", "001E"), stream("1000", "中文", "001E"), page=950)),
            ("# 格式測試", "中文"),
        ),
        "page.msg": (
            ole(mail(stream("1000", "plain"), stream("1013", "<p>Rich <b>text</b></p><p style='mso-x'>two</p>", "0102"))),
            ("Rich text\n\ntwo",),
        ),
        "inside.msg": (
            ole(
                mail(
                    stream("0037", "Outer"),
                    {
                        "__attach_version1.0_#00000000": {
                            **properties(8),
                            **stream("3001", "Inner mail"),
                            "__substg1.0_3701000D": mail(stream("0037", "Inner"), stream("1000", "Deep words"), head=24),
                        }
                    },
                )
            ),
            ("# Outer", "# Inner", "Deep words"),
        ),
        "long.msg": (ole(mail(stream("1000", "word " * 2_000 + "end"))), ("word end",)),
    }


@pytest.fixture
def read(tmp_path):
    def read(data, budget=None):
        (tmp_path / "a.msg").write_bytes(data)
        return ReaderRegistry([OutlookReader()], budget).read(tmp_path / "a.msg", "a.msg", lambda: None)

    return read


def test_attachments_are_located_and_unread_ones_told(read):
    """Text of an attachment names it; a picture that nobody read is said to be missing."""
    result = read(ole(LETTER))

    assert [None, "attachment list.txt"] == [document.locator for document in result.documents]
    assert Notice.PARTIAL_TEXT in result.notices


def test_blank_form_has_no_text(read):
    """The date that a program fills in alone is no text."""
    result = read(ole(mail(sent=TICKS)))

    assert {Notice.NO_TEXT_EXTRACTED} == result.notices


def test_body_in_compressed_rtf_is_read(read):
    """Where a program wrote neither plain text nor HTML."""
    rtf = rb"{\rtf1\ansi Pears in a {\b bold} box.\par}"
    packed = struct.pack("<IIII", len(rtf) + 12, len(rtf), 0x414C454D, 0) + rtf

    text = read(ole(mail(stream("1009", packed, "0102")))).documents[0].text

    assert "Pears in a bold box." in text


def test_compressed_rtf_of_the_standard():
    """The two examples of [MS-OXRTFCP] §4: text with a reference into the window, and one that reads what it writes."""
    first = bytes.fromhex("2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0")
    second = bytes.fromhex("1a0000001c0000004c5a4675e2d44b51410004205758595a0d6e7d010eb0")

    assert b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n" == decompressed(first, Meter())
    assert b"{\\rtf1 WXYZWXYZWXYZWXYZWXYZ}" == decompressed(second, Meter())


@pytest.mark.parametrize("data", [b"", b"short", bytes(20)])
def test_what_is_no_compressed_rtf_is_corrupt(data):
    """Its head must say so."""
    with pytest.raises(CorruptSource):
        decompressed(data, Meter())


def test_attached_bomb_refuses_the_mail(read):
    """What a mail and its attachments unpack to is counted together."""
    bomb = made.archive({"zeros.txt": b"0" * 3_000_000})

    with pytest.raises(ReaderBudgetExceeded):
        read(ole(mail(stream("1000", "see below"), attachment(0, "a.zip", bomb))), Budget(inflated_bytes=1_000_000))


def test_encrypted_mail_says_so(read):
    """Its class is enough; a signed one is none."""
    secret = mail(stream("001A", "IPM.Note.SMIME"), stream("0037", "Secret"), attachment(0, "smime.p7m", b"MIIB"))
    signed = mail(stream("001A", "IPM.Note.SMIME.MultipartSigned"), stream("0037", "Open"))

    with pytest.raises(EncryptedSource):
        read(ole(secret))
    assert "# Open" == read(ole(signed)).documents[0].text
