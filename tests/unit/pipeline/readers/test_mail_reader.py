"""Mails and mailboxes."""

import base64
from email.message import EmailMessage
from typing import ClassVar

import pytest

from knowledge.errors import CorruptSource, EncryptedSource
from knowledge.model.status import Notice
from knowledge.pipeline.readers.mail import MailReader
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.contracts.reader_contract import ReaderContract
from tests.unit.pipeline.readers import made

HEAD = "From: Mira Holt <mira@example.org>\nTo: jon@example.org\nDate: Tue, 01 Dec 2026 10:00:00 +0000\nSubject: Harvest\n"


def mail(*parts: tuple[str, str], kind: str = "mixed", head: str = HEAD) -> bytes:
    """A mail with parts given as (header lines, body)."""
    body = "".join(f"--cut\n{lines}\n\n{text}\n" for lines, text in parts)
    return f'{head}MIME-Version: 1.0\nContent-Type: multipart/{kind}; boundary="cut"\n\n{body}--cut--\n'.encode()


ATTACHED = 'Content-Type: {}\nContent-Transfer-Encoding: base64\nContent-Disposition: attachment; filename="{}"'


def attached(name: str, data: bytes, kind: str = "application/octet-stream") -> tuple[str, str]:
    return ATTACHED.format(kind, name), base64.b64encode(data).decode()


PLAIN = "Content-Type: text/plain; charset=utf-8"
HTML = "Content-Type: text/html; charset=utf-8"


def nested() -> bytes:
    inner = EmailMessage()
    inner["Subject"] = "Inner"
    inner.set_content("Words of the inner mail")
    outer = EmailMessage()
    outer["Subject"] = "Outer"
    outer["From"] = "a@example.org"
    outer.set_content("See the mail below")
    outer.add_attachment(inner)
    return outer.as_bytes()


class TestMailReader(ReaderContract):
    reader = MailReader
    samples: ClassVar = {
        "plain.eml": (
            (HEAD + "\nThe pears are ripe.\n").encode(),
            ("# Harvest\n\nFrom: Mira Holt <mira@example.org>\nTo: jon@example.org\nDate: Tue", "The pears are ripe."),
        ),
        "encoded.eml": (
            b"From: =?utf-8?q?Ren=C3=A9e?= <r@example.org>\n"
            b"Subject: =?iso-2022-jp?B?GyRCRnxLXBsoQg==?=\n =?utf-8?b?4oCmISE=?=\n"
            b"Content-Type: text/plain; charset=windows-1255\nContent-Transfer-Encoding: 8bit\n\n" + "שלום".encode("cp1255"),
            ("# 日本…!!", "From: Renée <r@example.org>", "שלום"),
        ),
        "raw.eml": (
            "From: Jürgen <j@example.org>\nSubject: Grüße\n\nBis später\n".encode("cp1252"),
            ("# Grüße", "Jürgen", "später"),
        ),
        "rich.eml": (
            mail((HTML, "<h1>News</h1><p>Two <b>new</b> trees</p><script>no()</script>")),
            ("# Harvest", "# News", "Two new trees"),
        ),
        "attached.eml": (
            mail(
                (PLAIN, "See the list."), attached("list.txt", b"Forty baskets"), attached("scan.pdf", made.pdf("Page words"))
            ),
            ("See the list.", "Attachments: list.txt, scan.pdf", "## list.txt\n\nForty baskets", "## scan.pdf\n\nPage words"),
        ),
        "nested.eml": (
            nested(),
            ("# Outer", "See the mail below", "Attachments: Inner.eml", "# Inner", "Words of the inner mail"),
        ),
        "box.mbox": (
            b"From a@b Tue Dec  1 10:00:00 2026\n" + HEAD.encode() + b"\nFirst\n>From here on\n\n"
            b"From c@d Tue Dec  1 10:00:00 2026\nSubject: Two\n\nSecond\n",
            ("# Harvest", "First\nFrom here on", "# Two", "Second"),
        ),
        "page.mht": (
            mail((HTML, "<title>Saved page</title><p>Body of it</p>"), kind="related", head="From: <Saved by Blink>\n"),
            ("# Saved page", "Body of it"),
        ),
        "bounce.eml": (
            mail((PLAIN, "It failed."), ("Content-Type: message/delivery-status", "Reporting-MTA: dns; mx\n\nAction: failed")),
            ("It failed.", "Action: failed"),
        ),
        "foreign.msg": ((HEAD + "\nBytes decide\n").encode(), ("Bytes decide",)),
    }


@pytest.fixture
def read(tmp_path):
    def read(data, name="a.eml"):
        (tmp_path / name).write_bytes(data)
        return ReaderRegistry([MailReader()]).read(tmp_path / name, name, lambda: None)

    return read


def test_same_words_are_said_once(read):
    """Most mails say everything twice; the form with headings and tables stays."""
    text = read(mail((PLAIN, "Two new trees"), (HTML, "<h2>Two new</h2><p>trees</p>"), kind="alternative")).documents[0].text

    assert 1 == text.count("trees")
    assert "## Two new" in text


def test_bodies_that_differ_are_both_kept(read):
    """What only one form says is not lost."""
    text = read(mail((PLAIN, "Read it on the web site"), (HTML, "<p>All offers of the week, in full</p>"), kind="alternative"))

    assert "Read it on the web site\n\nAll offers of the week" in text.documents[0].text


def test_messages_of_a_mailbox_are_located(read):
    """A citation names the message."""
    box = b"".join(b"From a@b Tue Dec  1 10:00:00 2026\nSubject: %d\n\ntext\n\n" % number for number in (1, 2, 3))

    assert ["message 1", "message 2", "message 3"] == [one.locator for one in read(box, "a.mbox").documents]


def test_attachment_that_cannot_be_read_is_named(read):
    """It does not cost the mail, and it is told."""
    result = read(mail((PLAIN, "See the file."), attached("data.bin", bytes(range(256)) * 9)))

    assert "Attachments: data.bin" in result.documents[0].text
    assert Notice.PARTIAL_TEXT in result.notices


def test_pictures_of_a_signature_are_left_out(read):
    """A logo is no attachment."""
    logo = "Content-Type: image/png\nContent-Transfer-Encoding: base64\nContent-ID: <logo>\nContent-Disposition: inline"
    result = read(mail((HTML, "<p>Yours</p><img src='cid:logo'>"), (logo, base64.b64encode(b"\x89PNG" + bytes(99)).decode())))

    assert "Attachments" not in result.documents[0].text
    assert set() == result.notices


def test_signature_of_a_signed_mail_is_left_out(read):
    """It proves who wrote it and says nothing."""
    result = read(
        mail((PLAIN, "Signed words"), attached("smime.p7s", b"\x30\x82" * 50, "application/pkcs7-signature"), kind="signed")
    )

    assert result.documents[0].text.endswith("Signed words")
    assert set() == result.notices


def test_names_of_attachments_are_decoded_whatever_their_form(read):
    """Encoded words, RFC 2231, raw bytes of UTF-8 or Latin-1, and none at all."""
    forms = ("=?utf-8?q?l=C3=A9.txt?=", "lé.txt", "")
    parts = [
        (f'Content-Type: application/octet-stream\nContent-Disposition: attachment; filename="{name}"', "x") for name in forms
    ]
    parts.append(("Content-Type: text/plain\nContent-Disposition: attachment; filename*=utf-8''l%C3%A9.txt", "x"))

    assert "Attachments: lé.txt, lé.txt, unnamed, lé.txt" in read(mail((PLAIN, "See"), *parts)).documents[0].text


def test_bytes_that_lost_their_headers_are_not_text(read):
    """A part without a type that holds a picture is left out, and that is told."""
    result = read(mail((PLAIN, "Words"), ("X: y", "@")).replace(b"@\n", bytes(range(128, 256)) * 20 + b"\0\1\2" * 50))

    assert result.documents[0].text.endswith("\n\nWords")
    assert {Notice.PARTIAL_TEXT} == result.notices


def test_wrong_charset_and_encoding_do_not_cost_the_text(read):
    """Unknown names are guessed at, and a transfer encoding that does not fit leaves the bytes as they are."""
    lines = "Content-Type: text/plain; charset=x-no-such\nContent-Transfer-Encoding: x-uuencoded-twice"

    assert "Words über alles" in read(mail((lines, "Words über alles"))).documents[0].text


def test_parts_inside_parts_without_end_are_refused(read):
    """No program writes them."""
    data = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (number, number) for number in range(60))

    with pytest.raises(CorruptSource):
        read(HEAD.encode() + data + b"Content-Type: text/plain\n\nwords")


def test_mails_inside_mails_end(read):
    """Beyond eight the rest is told as missing."""
    data = (HEAD + "Content-Type: message/rfc822\n\n").encode() * 12 + b"Subject: Last\n\nwords\n"

    result = read(data)

    assert Notice.PARTIAL_TEXT in result.notices
    assert 9 == len(result.documents)


@pytest.mark.parametrize(
    "data",
    [
        mail(
            ("Content-Type: application/pgp-encrypted", "Version: 1"),
            attached("encrypted.asc", b"-----BEGIN PGP"),
            kind="encrypted",
        ),
        (HEAD + "Content-Type: application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m\n\nMIIB\n").encode(),
    ],
)
def test_encrypted_mail_says_so(read, data):
    """By PGP or by S/MIME; there is nothing to read."""
    with pytest.raises(EncryptedSource):
        read(data)


def test_encrypted_mail_of_a_mailbox_does_not_cost_the_others(read):
    """It is told."""
    secret = b"Subject: Secret\nContent-Type: application/pkcs7-mime; smime-type=enveloped-data\n\nMIIB\n"
    line = b"From a@b Tue Dec  1 10:00:00 2026\n"

    result = read(line + secret + b"\n" + line + b"Subject: Open\n\nwords\n", "a.mbox")

    assert ["# Open\n\nwords"] == [document.text for document in result.documents]
    assert {Notice.PARTIAL_TEXT} == result.notices


def test_endless_subject_takes_no_time(read):
    """What is shown of it is decoded, not all of it."""
    subject = b"Subject: " + b"=?utf-8?q?" * 200_000

    assert "words" in read(subject + b"\nFrom: a@example.org\n\nwords\n").documents[0].text


@pytest.mark.parametrize("share", [0.5, 0.75, 0.95])
def test_mail_that_breaks_off_is_told(read, share):
    """Its parts up to there are read; that more may have come is said."""
    whole = mail((PLAIN, "See the list of baskets. " * 20), (PLAIN, "The second part. " * 20))
    cut = read(whole[: int(len(whole) * share)])

    assert frozenset() == read(whole).notices
    assert {Notice.PARTIAL_TEXT} == cut.notices
    assert "See the list of baskets." in cut.documents[0].text


def test_words_after_an_encoded_one_stand_apart(read):
    """Wherever the line was broken; two encoded ones belong together."""
    folded = (
        "From: a@b.c\nSubject: =?utf-8?Q?gr=C3=B6=C3=9F?=\n =?utf-8?Q?er_als?=\n\teine Lampe =?utf-8?Q?=C3=BC?= (x)\n\nbody\n"
    )

    assert "# größer als eine Lampe ü (x)\n" in read(folded.encode()).documents[0].text
