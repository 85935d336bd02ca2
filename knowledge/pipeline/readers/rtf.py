"""Rich Text Format as Markdown: body, then notes and comments, headers and footers. Hidden and deleted text is left out.

Written after the RTF specification 1.9.1. The charset of a byte is that of the font it is set in, else that of the document.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from knowledge.model.documents import Document, SourceFile
from knowledge.model.quality import Facts
from knowledge.model.status import Notice
from knowledge.pipeline.readers.markdown import joined, table
from knowledge.pipeline.readers.media_type import RTF
from knowledge.pipeline.readers.port import Finding

_TOKEN: Final = re.compile(r"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-f]{2})|\\(.)|([{}])|([^\\{}]+)|.", re.I | re.S)
_STYLE: Final = re.compile(r"\s*heading ([1-6])\b", re.I)
_WITHOUT_BREAKS: Final = {13: None, 10: None}

_SYMBOLS: Final = {
    "tab": "\t",
    "line": "\n",
    "lbr": "\n",
    "emdash": "\u2014",
    "endash": "\u2013",
    "lquote": "\u2018",
    "rquote": "\u2019",
    "ldblquote": "\u201c",
    "rdblquote": "\u201d",
    "bullet": "\u2022",
    "emspace": "\u2003",
    "enspace": "\u2002",
    "qmspace": "\u2005",
    "zwj": "\u200d",
    "zwnj": "\u200c",
    "nestcell": " ",
}
_ESCAPES: Final = {"~": "\u00a0", "_": "\u2011", "\\": "\\", "{": "{", "}": "}"}

_WITHOUT_TEXT: Final = (
    "colortbl info pict objdata fldinst themedata listtable listoverridetable revtbl filetbl nonshppict nonesttables shprslt "
    "sp sn sv xe tc rxe atnid atnauthor atnref atndate atnicn atntime atnparent bkmkstart bkmkend template "
    "ftnsep ftnsepc ftncn aftnsep aftnsepc aftncn private1 keycode falt panose"
)
_ON_EACH_PAGE: Final = "header headerl headerr headerf footer footerl footerr footerf"
_SILENT: Final = frozenset(_WITHOUT_TEXT.split())  #: groups that hold no text of the document
_MARGINS: Final = frozenset(_ON_EACH_PAGE.split())
_BOXES: Final = frozenset({"shptxt", "dptxbxtext"})
_MARKERS: Final = frozenset({"listtext", "pntext"})
#: Groups that begin with `\*` and are read all the same; others are made for programs that know them.
_STARRED: Final = frozenset(
    {"shpinst", "do", "annotation", "ud", "listtext", "pntext", "shppict", "nesttableprops", "footnote"}
)
_FRAMES: Final = frozenset({"shpinst", "do"})  #: their own text is of numbers; boxes in them hold words

_CHARSETS: Final = {
    0: "cp1252",
    77: "mac_roman",
    78: "shift_jis",
    79: "johab",
    80: "gb2312",
    81: "big5",
    83: "mac_latin2",
    85: "mac_greek",
    86: "mac_turkish",
    89: "mac_cyrillic",
    128: "cp932",
    129: "cp949",
    130: "johab",
    134: "gb18030",
    136: "cp950",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
    254: "cp437",
    255: "cp850",
}
_SYMBOL_CHARSET: Final = 2
_CODE_PAGES: Final = {936: "gb18030", 1361: "johab", 10000: "mac_roman", 10001: "shift_jis", 54936: "gb18030", 65001: "utf-8"}


class RtfReader:
    """One document."""

    name: ClassVar[str] = "rtf"
    suffixes: ClassVar[frozenset[str]] = frozenset({".rtf"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type in (RTF, "text/rtf") else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        reading = _Reading(source)
        text = reading.text()
        yield Facts(charset=reading.charset)
        if reading.is_cut:
            yield Notice.PARTIAL_TEXT
        if "\ufffd" in text:
            yield Notice.ENCODING_REPLACED
        yield Document(text)


@dataclass(slots=True)
class _State:
    """What a group inherits from the one around it, and what ends with it."""

    flow: "_Flow"
    silent: bool = False  #: text of this group is not part of the document
    hidden: bool = False
    deleted: bool = False
    font: int | None = None
    fallback: int = 1  #: characters after `\\u` that stand in for it
    table: str = ""  #: what this group defines: `fonttbl` or `stylesheet`
    opens: "_Flow | None" = None  #: the flow that ends with this group
    purpose: str = ""  #: what to do with it then


class _Flow:
    """A sequence of paragraphs and tables: the body, a note, a header, a box."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self.inner: list[str] = []  #: boxes met in a paragraph; they follow it
        self.marker = ""  #: what numbers or marks the paragraph in a list
        self.level = 0  #: of a heading
        self.list_level = 0
        self._paragraph: list[str] = []
        self._cell: list[str] = []
        self._cells: list[str] = []
        self._rows: list[list[str]] = []
        self.in_table = False

    def add(self, text: str) -> None:
        self._paragraph.append(text)

    def reset(self) -> None:
        """Start of a paragraph with nothing set."""
        self.in_table = False
        self.level = self.list_level = 0

    def end_paragraph(self) -> None:
        text = _paired("".join(self._paragraph)).strip()
        self._paragraph = []
        if self.in_table:
            self._cell += [text, *self.inner]
        else:
            self._end_table()
            if text:
                self.blocks.append(self._prefix() + text)
            self.blocks += self.inner
        self.inner, self.marker = [], ""

    def begin_row(self) -> None:
        if not self.in_table and any(part.strip() for part in self._paragraph):
            self.end_paragraph()
        self.in_table = True

    def end_cell(self) -> None:
        self.in_table = True
        self.end_paragraph()
        self._cells.append(" ".join(" ".join(self._cell).split()))
        self._cell = []

    def end_row(self) -> None:
        if self._cells:
            self._rows.append(self._cells)
        self._cells = []

    def end(self) -> list[str]:
        """All blocks, whatever was left open."""
        if self._cells or self._cell:
            self.end_cell()
            self.end_row()
        self.in_table = False
        self.end_paragraph()
        return self.blocks

    def _end_table(self) -> None:
        if self._cells:
            self.end_row()
        if any(text for row in self._rows for text in row):
            self.blocks.append(table(self._rows))
        self._rows = []

    def _prefix(self) -> str:
        if self.level:
            return "#" * self.level + " "
        marker = self.marker.strip()
        if not marker:
            return ""
        return "  " * self.list_level + (f"{marker} " if any(map(str.isalnum, marker)) else "- ")


class _Reading:
    """One pass over the tokens of a file."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self.charset = "cp1252"
        self.is_cut = False  #: groups are left open at its end
        self._fonts: dict[int, str | None] = {}
        self._font: int | None = None  #: that the table of fonts speaks of
        self._styles: dict[int, int] = {}
        self._style: int = -1
        self._body = _Flow()
        self._notes: list[str] = []
        self._margins: dict[str, None] = {}
        self._note_count = 0
        self._default_font: int | None = None
        self._state = _State(self._body)
        self._stack: list[_State] = []
        self._decoder: codecs.IncrementalDecoder | None = None
        self._decoding = ""
        self._skip = 0  #: characters still to be left out after `\u`
        self._starred = False
        self._is_first = False  #: nothing but `\*` has been read of this group

    def text(self) -> str:
        data = self._source.path.read_bytes().decode("latin-1")
        place, count = max(data.find("{\\rtf"), 0), 0
        while place < len(data) and (token := _TOKEN.match(data, place)):
            place = token.end()
            count += 1
            if count % 65_536 == 0:
                self._source.budget.check_time()
            word, value, code, escape, brace, plain = token.groups()
            if word:
                number = int(value) if value else None
                if word == "bin":
                    place += max(number or 0, 0)
                else:
                    self._word(word, number)
            elif code:
                self._bytes(chr(int(code, 16)))
            elif escape:
                self._escape(escape)
            elif brace == "{":
                self._open()
            elif brace == "}":
                self._close()
                if not self._stack:
                    break  # what follows the outermost group is not RTF
            elif plain and (words := plain.translate(_WITHOUT_BREAKS)):
                self._bytes(words)
        self.is_cut = bool(self._stack)
        while self._stack:
            self._close()
        return joined([*self._body.end(), *self._notes, *self._margins])

    def _open(self) -> None:
        self._flush()
        self._skip = 0
        self._stack.append(self._state)
        self._state = replace(self._state, opens=None, purpose="")
        self._is_first, self._starred = True, False

    def _close(self) -> None:
        self._flush()
        self._skip = 0
        state = self._state
        if state.opens is not None:
            self._collect(state.opens, state.purpose)
        if self._stack:
            self._state = self._stack.pop()
        self._is_first = self._starred = False

    def _collect(self, flow: _Flow, purpose: str) -> None:
        outer = self._stack[-1].flow if self._stack else self._body
        blocks = [block for block in flow.end() if block.strip()]
        if purpose in _BOXES:
            outer.inner += blocks
        elif purpose in _MARKERS:
            outer.marker = " ".join(blocks)
        elif not blocks:
            return
        elif purpose == "footnote":
            self._note_count += 1
            outer.add(f"[^{self._note_count}]")
            self._notes.append(f"[^{self._note_count}]: {joined(blocks)}")
        elif purpose == "annotation":
            self._notes.append(f"[comment]: {joined(blocks)}")
        else:
            self._margins.setdefault(joined(blocks))

    def _escape(self, character: str) -> None:
        if character == "*":
            self._starred = True
        elif character in "\r\n":
            self._flush()
            self._end_paragraph()
        elif character in _ESCAPES:
            self._characters(_ESCAPES[character])

    def _word(self, word: str, number: int | None) -> None:
        self._flush()
        if self._skip and word != "u":
            self._skip -= 1
            if word in _SYMBOLS:
                return
        is_first, self._is_first = self._is_first, False
        is_starred, self._starred = self._starred, False
        if is_first and self._destination(word, is_starred=is_starred):
            return
        state = self._state
        match word:
            case "u":
                self._skip = 0
                self._characters(chr((number or 0) & 0xFFFF))
                self._skip = state.fallback
            case "uc":
                state.fallback = min(max(number if number is not None else 1, 0), 64)
            case "f":
                self._font = number
                state.font = number
            case "deff":
                self._default_font = number
            case "ansicpg" | "cpg" if number:
                self._code_page(word, number)
            case "mac":
                self.charset = "mac_roman"
            case "pc":
                self.charset = "cp437"
            case "pca":
                self.charset = "cp850"
            case "fcharset" if self._font is not None and state.table == "fonttbl":
                self._fonts[self._font] = "symbol" if number == _SYMBOL_CHARSET else _CHARSETS.get(number or 0)
            case "plain":
                state.hidden = state.deleted = False
                state.font = None
            case "v":
                state.hidden = number != 0
            case "deleted":
                state.deleted = number != 0
            case "s" if state.table == "stylesheet" and number is not None:
                self._style = number
            case "outlinelevel" if state.table == "stylesheet" and number is not None and 0 <= number < 6:
                self._styles[self._style] = number + 1
            case _ if state.table:
                pass
            case _ if not state.silent:
                self._layout(word, number)

    def _destination(self, word: str, *, is_starred: bool) -> bool:
        """Whether the first word of a group said what the group is for."""
        state = self._state
        if word in ("fonttbl", "stylesheet"):
            state.table, state.silent = word, True
        elif state.table:
            return False
        elif word in _BOXES or (
            not state.silent and (word in _MARGINS or word in _MARKERS or word in ("footnote", "annotation"))
        ):
            state.flow = state.opens = _Flow()
            state.purpose, state.silent, state.hidden, state.deleted = word, False, False, False
        elif word == "ud":
            state.silent = self._stack[-2].silent if len(self._stack) > 1 else False
        elif word == "upr" or word in _SILENT or word in _FRAMES or (is_starred and word not in _STARRED):
            state.silent = True
        else:
            return False
        return True

    def _layout(self, word: str, number: int | None) -> None:
        flow = self._state.flow
        match word:
            case "par" | "sect" | "page" | "column":
                self._end_paragraph()
            case "pard":
                flow.reset()
            case "intbl":
                flow.in_table = True
            case "cell":
                flow.end_cell()
            case "row":
                flow.end_row()
            case "trowd":
                flow.begin_row()
            case "s" if number is not None:
                flow.level = self._styles.get(number, 0)
            case "outlinelevel" if number is not None:
                flow.level = number + 1 if 0 <= number < 6 else 0
            case "ilvl" if number is not None:
                flow.list_level = min(max(number, 0), 8)
            case _ if word in _SYMBOLS:
                self._characters(_SYMBOLS[word])

    def _end_paragraph(self) -> None:
        if not self._state.silent:
            self._state.flow.end_paragraph()

    def _code_page(self, word: str, number: int) -> None:
        charset = _CODE_PAGES.get(number, f"cp{number}")
        try:
            codecs.lookup(charset)
        except LookupError:
            return
        if word == "ansicpg":
            self.charset = charset
        elif self._font is not None and self._state.table == "fonttbl":
            self._fonts[self._font] = charset

    def _bytes(self, data: str) -> None:
        """Characters 0…255 that stand for bytes in the charset of the font."""
        self._is_first = False
        if self._state.table == "stylesheet":
            self._named(data)
        if self._skip:
            left_out = min(self._skip, len(data))
            self._skip -= left_out
            data = data[left_out:]
        if self._state.silent or not data:
            return
        font = self._state.font if self._state.font is not None else self._default_font
        charset = (self._fonts.get(font) if font is not None else None) or self.charset
        if charset == "symbol":
            self._flush()
            self._shown("".join("\u2022" if character > "\x7f" else character for character in data))
            return
        if self._decoder is None or charset != self._decoding:
            self._flush()
            self._decoder, self._decoding = codecs.getincrementaldecoder(charset)("replace"), charset
        self._shown(self._decoder.decode(data.encode("latin-1")))

    def _named(self, data: str) -> None:
        if (found := _STYLE.match(data)) and self._style >= 0:
            self._styles[self._style] = int(found[1])
        if ";" in data:
            self._style = -1

    def _flush(self) -> None:
        """Half a character at the end of a run is none."""
        if self._decoder is not None:
            self._shown(self._decoder.decode(b"", final=True))
            self._decoder.reset()

    def _characters(self, text: str) -> None:
        self._flush()
        self._is_first = False
        if self._skip:
            self._skip -= 1
        else:
            self._shown(text)

    def _shown(self, text: str) -> None:
        state = self._state
        if text and not (state.silent or state.hidden or state.deleted):
            state.flow.add(text)


def _paired(text: str) -> str:
    """Halves of characters beyond U+FFFF put together; bullets of symbol fonts as bullets."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return re.sub("[\uf0a7\uf0b7\uf0d8\uf0fc]", "\u2022", text)
