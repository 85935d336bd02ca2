"""Cases from the world about reading: what systems of this kind have made of bytes, and of texts that are unlike others."""

import json
import subprocess
import sys
import time

import pytest

from knowledge.model.status import ItemStatus, Notice
from knowledge.pipeline.indexing import splitter
from tests.unit.pipeline.readers.made import pdf

UKRAINIAN = "Сторож маяка запалив лампу о шостій, і човен повернувся. "


@pytest.fixture
def put(tmp_path):
    """Writes bytes to a file and gives its path."""

    def put(name, data):
        path = tmp_path / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    return put


@pytest.fixture
def indexed(house, base):
    """Adds files and gives their items as they are when all work is done."""

    def indexed(*paths):
        added = house.add(base, *paths)
        house.work()
        return [house.item(item) for item in added]

    return indexed


def text_of(house, item):
    """All of an item's text, as the index holds it."""
    return house.service.preview(item.id, characters=20_000).text


@pytest.mark.parametrize("name", ["a.csv", "a.txt"])
def test_case_001_the_first_kilobytes_do_not_decide_the_charset(house, indexed, put, name):
    """4,096 bytes of ASCII, then UTF-8."""
    (item,) = indexed(put(name, ("x" * 4096 + ",café\n").encode()))

    assert (ItemStatus.COMPLETED, "utf-8") == (item.status, item.quality.charset)
    assert "café" in text_of(house, item)


def test_case_003_valid_utf8_is_never_guessed(house, indexed, put):
    """200 bytes of Ukrainian come back as they are, without a notice."""
    text = (UKRAINIAN * 2)[:110].strip()
    (item,) = indexed(put("a.txt", text.encode()))

    assert (text, ()) == (text_of(house, item), tuple(item.notices))


@pytest.mark.parametrize(
    ("name", "encoding", "text", "first"),
    [
        ("a.tsv", "utf-16", "Schlüssel\tWert\nLampe\t7\n", "Schlüssel"),
        ("a.tsv", "utf-16-le", "Schlüssel\tWert\nLampe\t7\n", "Schlüssel"),
        ("a.csv", "utf-8-sig", "Schlüssel,Wert\nLampe,7\n", "Schlüssel"),
        ("a.txt", "utf-32", "Schlüssel der Lampe", "Schlüssel der Lampe"),
        ("a.md", "utf-8-sig", "# Schlüssel\n\nLampe", "# Schlüssel"),
        ("a.json", "utf-8-sig", '{"Schlüssel": "Lampe"}', "Schlüssel"),
    ],
)
def test_case_005_exports_of_other_programs_keep_their_letters(house, base, indexed, put, name, encoding, text, first):
    """No NUL between letters, no mark in the first name or before the first heading; words are found."""
    (item,) = indexed(put(name, text.encode(encoding)))

    found = text_of(house, item)
    assert found.lstrip("| ").startswith(first)
    assert not set(found) & {"\x00", "\ufeff", "\ufffd"}
    assert [item.id] == [hit.item_id for hit in house.service.search(base.id, "Schlüssel").hits]


def test_case_007_one_file_with_a_nul_keeps_no_other_from_being_read(house, indexed, put):
    """It is text all the same, and says what was replaced."""
    for name, data in (("a.md", b"The lamp."), ("key.ts", b'export const key = parts.join("\x00")\n'), ("z.md", b"The boat.")):
        put(f"tree/{name}", data)
    (root,) = indexed(put("tree/last.txt", b"The tower.").parent)

    leaves = {item.title: item for item in house.items(root.base_id) if item.type == "file"}
    assert {"a.md", "key.ts", "last.txt", "z.md"} == set(leaves)
    assert {ItemStatus.COMPLETED} == {item.status for item in leaves.values()}
    assert 'export const key = parts.join("\ufffd")' == text_of(house, leaves["key.ts"])
    assert 1 == leaves["key.ts"].quality.replaced_characters


@pytest.mark.parametrize("before", [b"a\x00b", "😀 u\u0308\r\n".encode(), b"\xef\xbb\xbf\r\n\r\n\x00", "\U00020000ﬁ".encode()])
def test_case_009_places_of_hits_are_places_in_the_text(house, base, indexed, put, before):
    """Whatever was replaced, composed or dropped in front of it: the range of a hit reads back as the hit."""
    (item,) = indexed(put("a.md", before + b"\n# Lighthouse\n\nThe keeper is called Olga.\n"))

    (hit,) = house.service.search(base.id, "keeper Olga").hits
    assert hit.text == text_of(house, item)[hit.char_start : hit.char_end]
    (chunk,) = house.service.chunks(base.id, item.id)
    assert (hit.char_start, hit.char_end) == (chunk.char_start, chunk.char_end)
    assert "Lighthouse" in hit.text


def nul_pdf():
    """A PDF whose font says that each `A` on the page means U+0000."""
    cmap = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /x def /CMapType 2 def\n"
        b"1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfchar <41> <0000> endbfchar\n"
        b"endcmap CMapName currentdict /CMap defineresource pop end end"
    )
    plain = pdf("The lAmp of the keeper")
    body = plain[: plain.index(b"xref\n")].replace(b"/BaseFont /Helvetica", b"/BaseFont /Helvetica /ToUnicode 9 0 R")
    return body + b"9 0 obj\n<< /Length %d >>\nstream\n%s\nendstream\nendobj\ntrailer\n<< /Size 10 /Root 1 0 R >>\n" % (
        len(cmap),
        cmap,
    )


def test_case_011_a_nul_from_an_extractor_fails_no_base(house, base, indexed, put):
    """Five files, one of them a PDF whose text holds U+0000: all are read, and no NUL is stored."""
    items = indexed(*(put(f"{number}.md", b"The tower stands.") for number in range(4)), put("bad.pdf", nul_pdf()))

    assert {ItemStatus.COMPLETED} == {item.status for item in items}
    assert "keeper" in text_of(house, items[-1])
    assert "\x00" not in text_of(house, items[-1])


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.txt", ("長" * 349_000 + "灯台").encode(), "灯台"),
        ("a.txt", (UKRAINIAN.replace(" ", "") * 10_000).encode(), None),
        ("a.min.js", ("var a=" + ",".join(f'f({number},"lamp")' for number in range(60_000)) + ";beacon()").encode(), "beacon"),
        ("a.json", json.dumps({"rows": [[n, "x" * 50] for n in range(80_000)], "last": "beacon"}).encode(), "beacon"),
    ],
    ids=["cjk", "cyrillic", "script", "json"],
)  # fmt: skip
def test_case_067_one_endless_line_is_cut_into_chunks(house, base, indexed, put, name, data, words):
    """A megabyte without a blank, five megabytes of JSON on one line: all of it is found, in chunks of the wanted size."""
    began = time.monotonic()
    (item,) = indexed(put(name, data))
    seconds = time.monotonic() - began

    assert ItemStatus.COMPLETED is item.status
    assert max(chunk.token_count for chunk in house.service.chunks(base.id, item.id)) <= base.chunk_size * 1.5
    if words:
        assert item.id in [hit.item_id for hit in house.service.search(base.id, words).hits]
    assert seconds < 60  # some seconds; work that grows with the square of the length takes hours


@pytest.mark.parametrize("strategy", ["structured", "delimiter"])
def test_case_069_a_chunk_has_a_greatest_size(strategy):
    """A paragraph of 50,000 tokens is cut, whatever its sentences say."""
    paragraph = "the keeper of the tower waits for the boat and " * 4_500

    spans = splitter.split(paragraph, size=500, overlap=50, strategy=strategy, separator="\\n\\n")

    assert len(spans) > 80
    assert max(end - start for start, end in spans) <= 500 * len(paragraph) / 45_000 * 1.3
    assert (0, len(paragraph.rstrip())) == (spans[0].start, spans[-1].end)


@pytest.mark.parametrize(
    "text", ["\n\n---\n\n \u200b\n\n", "\u200b", "\ufeff \u2060", "\n\n\n", "\u00a0\u3000", "\x0c\x0c", "---\n\n***\n\n\u200b"]
)
def test_case_071_no_chunk_is_blank(text):
    """An embedder refuses the whole batch for one blank text; separators and what cannot be seen make none."""
    for strategy in ("structured", "delimiter"):
        for chunk in splitter.split(text, size=8, overlap=2, strategy=strategy, separator="---"):
            assert not splitter.is_blank(text[chunk.start : chunk.end])


def test_case_131_blank_documents_jam_nothing(house, base, indexed, put):
    """One blank file amid ten: it is completed, says that it has no text, and the others are found."""
    paths = [put(f"{number}.md", f"The boat number {number}.".encode()) for number in range(10)]

    *others, blank = indexed(*paths, put("blank.txt", " \n\t\u200b\n".encode()))

    assert {ItemStatus.COMPLETED} == {item.status for item in (*others, blank)}
    assert [Notice.NO_TEXT_EXTRACTED] == list(blank.notices)
    assert 10 == len(house.service.search(base.id, "boat", limit=20).hits)


LIMITED = """
import resource, sys
from pathlib import Path

resource.setrlimit(resource.RLIMIT_DATA, (512 << 20, 512 << 20))
from knowledge.model.documents import EmbedderSpec
from tests.house import House

folder = Path(sys.argv[1])
house = House(folder / "data", EmbedderSpec(id="wide", kind="hashing", dimensions=384))
base = house.base("wide")
(item,) = house.add(base, folder / "table.csv")
house.work()
item = house.item(item)
lines = Path("/proc/self/status").read_text().splitlines()  # what `getrusage` says begins with the peak of the parent
(peak,) = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
print(item.status, item.error, item.chunk_count, peak >> 10)
print(house.service.search(base.id, "lamp349999").hits[0].text.count("lamp349999"))
"""


def test_case_155_a_table_of_350_000_lines_is_indexed_in_512_megabytes(tmp_path):
    """Read, cut, embedded and stored, all of it, by a process that may not take more."""
    (tmp_path / "data").mkdir()
    with (tmp_path / "table.csv").open("w") as table:
        table.write("id,name,place\n")
        table.writelines(f"{number},lamp{number},tower {number % 97}\n" for number in range(350_000))

    done = subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True)

    assert 0 == done.returncode, done.stderr
    (status, error, chunks, megabytes), (found,) = (line.split() for line in done.stdout.splitlines())
    assert ("completed", "None") == (status, error)
    assert int(chunks) > 1_000
    assert int(megabytes) < 512
    assert found != "0"
