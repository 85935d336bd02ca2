"""Bytes of a text file to text: the one place where charsets are decided and text is cleaned.

Order: byte order mark; UTF-16/32 without a mark where the zero bytes leave no doubt; strict UTF-8 over all bytes (never a
sample, and before any guessing, so that valid UTF-8 is never taken for something else); a charset the file declares; UTF-8 with
a few damaged places; detection; at last Windows-1252 with replacement characters.
"""

import codecs
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from knowledge.model.quality import Facts
from knowledge.model.status import Notice
from knowledge.pipeline.readers.charsets import likeliest

SAMPLE_BYTES: Final = 64 * 1024  #: detection costs about 1 s per megabyte

_MARKS: Final = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_AROUND_BYTES: Final = 256  #: before a foreign byte in a long line, that are looked at with it
_FOREIGN: Final = re.compile(rb"[\x80-\xff\x1b]")
_CONTROLS: Final = bytes(code for code in range(32) if code not in b"\t\n\v\f\r\x1b\b") + b"\x7f"
_SURROGATES: Final = re.compile(r"[\x00\ud800-\udfff]")
#: What files are really written in; more candidates make short texts come out as something exotic.
_CANDIDATES: Final = (
    "cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp866 cp874 koi8_r koi8_u iso8859_2 iso8859_5 iso8859_6 "
    "iso8859_7 iso8859_8 iso8859_9 gb18030 big5 cp932 euc_jp cp949"
)
_SURE: Final = 0.5  #: share of what detection takes for a known language, from which it is believed against the look of things
#: Python decodes these, but no file means them.
_NOT_CHARSETS: Final = frozenset({"utf-7", "unicode_escape", "raw_unicode_escape", "idna", "punycode", "mbcs", "oem"})
_WESTERN: Final = frozenset("äöüÄÖÜßéèêëÉÈÊËàâÀÂáÁçÇñÑóÓòôÔõÕíÍìîÎïúÚùûÛœŒæÆøØåÅãÃ€©®°§«»·¿¡½£“”„‘’‚–—…•\u00a0")


@dataclass(frozen=True, slots=True)
class Decoded:
    text: str
    encoding: str
    notices: frozenset[Notice] = frozenset()

    def findings(self) -> Iterator[Notice | Facts]:
        """What a reader passes on about how it came to its text."""
        yield from sorted(self.notices)
        yield Facts(charset=self.encoding)


def decode(data: bytes, *, declared: str | None = None) -> Decoded:
    """Text of a whole file.

    Args:
        declared: a charset named inside the file, as HTML does; used if it exists and fits the bytes.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strict(data[len(mark) :], encoding) or _replaced(data[len(mark) :], encoding)
    if b"\x00" in data[:8] and (wide := unmarked_wide(data)) and (found := _strict(data, wide)):
        return found  # before UTF-8, which sees letters with NULs between them
    declared = declared or _escaped(data[:SAMPLE_BYTES])
    escapes = _is_escaped_charset(declared) and (b"\x1b" in data or b"~{" in data)
    if not escapes and (found := _strict(data, "utf-8")):
        return found
    if declared and (found := _strict(data, _superset(declared))):
        return found
    if _is_damaged_utf8(data):
        return _replaced(data, "utf-8")
    guess = _detected(data)
    guessed = frozenset({Notice.ENCODING_GUESSED})
    if guess is None:
        return _replaced(data, "cp1252", guessed)
    if found := _strict(data, guess, guessed):
        return found
    return _replaced(data, guess, guessed)


def looks_like_text(sample: bytes) -> bool:
    """Whether the first bytes of a file are text in some charset; a character cut off at the end does not matter."""
    sample = sample.removeprefix(codecs.BOM_UTF8)
    for mark, encoding in _MARKS:
        if sample.startswith(mark):
            return _is_plain(_leniently(sample[len(mark) :], encoding))
    if unmarked_wide(sample):
        return True
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if b"\x1b$)C" in sample:  # ISO-2022-KR shifts between its halves by control codes
        controls -= sample.count(b"\x0e") + sample.count(b"\x0f")
    try:
        codecs.getincrementaldecoder("utf-8")("strict").decode(sample, final=False)
    except UnicodeDecodeError:
        return b"\x00" not in sample and controls * 50 <= len(sample)
    return controls * 10 <= len(sample)  # valid UTF-8 may hold a stray NUL or two


def unmarked_wide(sample: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark, if the places of the zero bytes leave no doubt."""
    sample = sample[: 4096 if len(sample) > 4096 else len(sample) & ~1]
    if len(sample) < 8:
        return None
    zeros = [sample[place::4].count(0) * 4 / len(sample) for place in range(4)]
    match [share > 0.9 for share in zeros], [share > 0.3 for share in zeros]:
        case [False, True, True, True], _:
            encoding = "utf-32-le"
        case [True, True, True, False], _:
            encoding = "utf-32-be"
        case _, [False, True, False, True]:
            encoding = "utf-16-le"
        case _, [True, False, True, False]:
            encoding = "utf-16-be"
        case _:
            return None
    return encoding if _is_plain(_leniently(sample, encoding)) else None


def clean(text: str) -> str:
    """What every text of the pipeline is: no byte order mark in front, NUL and lone surrogates as U+FFFD, LF, NFC."""
    text = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return unicodedata.normalize("NFC", _SURROGATES.sub("\ufffd", text))


def _strict(data: bytes, encoding: str, notices: frozenset[Notice] = frozenset()) -> Decoded | None:
    try:
        return Decoded(data.decode(encoding), encoding, notices)
    except (UnicodeError, LookupError):
        return None


def _replaced(data: bytes, encoding: str, notices: frozenset[Notice] = frozenset()) -> Decoded:
    return Decoded(data.decode(encoding, errors="replace"), encoding, notices | {Notice.ENCODING_REPLACED})


def _leniently(sample: bytes, encoding: str) -> str:
    return codecs.getincrementaldecoder(encoding)("replace").decode(sample, final=False)


def _is_plain(text: str) -> bool:
    odd = sum(character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cn") for character in text)
    breaks = sum(text.count(character) for character in "\t\n\v\f\r")
    return bool(text) and (odd - breaks) * 50 <= len(text)


def _is_escaped_charset(declared: str | None) -> bool:
    """ISO-2022 writes everything in ASCII bytes, so it is valid UTF-8 and must be taken at its word."""
    return declared is not None and declared.lower().startswith(("iso-2022", "hz"))


def _escaped(sample: bytes) -> str | None:
    """A charset of ASCII bytes by its escape sequences; for HZ, which has plain ones, also by what stands between them."""
    if re.search(rb"\x1b\$[@B]", sample):
        return "iso-2022-jp"
    if b"\x1b$)C" in sample:
        return "iso-2022-kr"
    return "hz" if re.search(rb"~\{(?:[!-w][!-~]){2,}~\}", sample) and sample.isascii() else None


def _superset(declared: str) -> str:
    """The charset that browsers read for a declared one; the wider takes everything that the narrower does."""
    name = declared.strip().lower()
    if name.startswith(("utf-16", "utf-32")) or name in _NOT_CHARSETS:
        return "utf-8"  # the declaration itself was read as ASCII
    if name in ("gb2312", "gbk", "gb_2312-80", "x-gbk"):
        return "gb18030"
    if name in ("iso-8859-1", "latin1", "us-ascii", "ascii"):
        return "cp1252"
    if name in ("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j"):
        return "cp932"
    return {"euc-kr": "cp949", "ks_c_5601-1987": "cp949", "iso-8859-8-i": "iso-8859-8"}.get(name, name)


def _is_damaged_utf8(data: bytes) -> bool:
    """Far more valid than invalid sequences: a file cut in a character, or one foreign line in a long text."""
    text = data.decode("utf-8", errors="replace")
    invalid = text.count("\ufffd")
    valid = sum(1 for character in text[: SAMPLE_BYTES * 4] if character > "\x7f") - invalid
    return valid >= 4 * invalid or (valid > 0 and _is_cut(data))


def _is_cut(data: bytes) -> bool:
    """Whether the last character alone is wrong, because not all of it is there."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


def _detected(data: bytes) -> str | None:
    from charset_normalizer import from_bytes

    sample = b"".join(_foreign_lines(data))
    if known := likeliest(sample):
        return known
    best = from_bytes(sample, cp_isolation=_CANDIDATES.split(), preemptive_behaviour=False).best()
    if (best is None or best.coherence < _SURE) and _is_western(sample):
        return "cp1252"
    return best.encoding if best else None


def _is_western(sample: bytes) -> bool:
    """Mostly ASCII letters with the accents of western Europe among them, which detection needs long texts to recognise."""
    found = _strict(sample, "cp1252")
    if found is None:
        return False
    foreign = [character for character in found.text if character > "\x7f"]
    return len(foreign) * 5 <= len(found.text) * 2 and all(character in _WESTERN for character in foreign)


def _foreign_lines(data: bytes) -> Iterator[bytes]:
    """The lines that say something about the charset, up to the size of a sample: the first bytes may all be ASCII.

    Of a long line, what surrounds its foreign bytes. Each byte is looked at once, however long a line is.
    """
    size = end = 0
    while size < SAMPLE_BYTES and (found := _FOREIGN.search(data, end)):
        at = found.start()
        start = max(data.rfind(b"\n", end, at) + 1, end, at - _AROUND_BYTES)
        stop = data.find(b"\n", at, at + SAMPLE_BYTES - size) + 1 or at + SAMPLE_BYTES - size
        line = data[start:stop]
        end = start + len(line)
        size += len(line)
        yield line
