"""A file of many small parts gives about as many chunks as its text is long, never one a part."""

import io
import json
import zipfile
from email.message import EmailMessage

import pytest

from knowledge.model.documents import Chunking
from knowledge.pipeline.indexing import chunker
from knowledge.pipeline.indexing.tokens import estimate_tokens
from knowledge.pipeline.readers.registry import ReaderRegistry

PARTS = 6000
ROWS = [{"id": number, "name": f"lamp {number}", "lit": number % 2 == 0} for number in range(PARTS)]
ELEMENT = "<lamp><id>{id}</id><name>{name}</name></lamp>"
FILES = {
    "objects.json": json.dumps(ROWS),
    "lists.json": json.dumps([list(row.values()) for row in ROWS]),
    "mixed.json": json.dumps([row if row["lit"] else row["name"] for row in ROWS]),
    "scalars.json": json.dumps([row["name"] for row in ROWS]),
    "inside.json": json.dumps({"of": "the coast", "lamps": ROWS}),
    "lines.jsonl": "\n".join(map(json.dumps, ROWS)),
    "features.geojson": json.dumps({"type": "FeatureCollection", "features": ROWS}),
    "elements.xml": f"<lamps>{''.join(map(ELEMENT.format_map, ROWS))}</lamps>",
    "attributes.xml": "<lamps>" + "".join(f'<lamp id="{row["id"]}" name="{row["name"]}"/>' for row in ROWS) + "</lamps>",
    "list.yaml": "".join(f"- id: {row['id']}\n  name: {row['name']}\n" for row in ROWS),
    "tables.toml": "".join(f"[[lamp]]\nid = {row['id']}\nname = '{row['name']}'\n\n" for row in ROWS),
    "table.csv": "id,name\n" + "".join(f"{row['id']},{row['name']}\n" for row in ROWS),
    "list.csv": "name\n" + "".join(f"{row['name']}\n" for row in ROWS),
    "table.html": "<table>" + "".join(f"<tr><td>{row['id']}<td>{row['name']}" for row in ROWS) + "</table>",
    "list.md": "".join(f"- {row['name']}\n" for row in ROWS),
    "paragraphs.rst": "".join(f"{row['name']}\n\n" for row in ROWS),
}


def mailed(data):
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "a@example.org", "b@example.org", "lamps"
    mail.set_content("All lamps.")
    mail.add_attachment(data, maintype="application", subtype="json", filename="objects.json")
    return mail.as_bytes()


def zipped(data):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("objects.json", data)
    return stream.getvalue()


@pytest.fixture(scope="module")
def registry():
    registry = ReaderRegistry.installed()
    yield registry
    registry.close()


@pytest.mark.parametrize("name", FILES)
def test_many_small_parts_fill_their_chunks(registry, tmp_path, name):
    """At the usual size: the number of chunks follows from the tokens, and the last part is in the last chunk."""
    path = tmp_path / name
    path.write_text(FILES[name])
    text, units = chunker.split(registry.read(path, name, lambda: None).documents, Chunking(1024, 0))
    least = estimate_tokens(text) / 1024

    assert least <= len(units) <= 2.2 * least + 1
    assert f"{PARTS - 1}" in units[-1].text


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("table.csv", "list.csv")])
@pytest.mark.parametrize("size", [200, 4000])
def test_chunks_of_small_parts_are_of_the_size_of_their_base(registry, tmp_path, name, size):
    """Whatever the base asks for; only tables have blocks of their own, each with its head."""
    path = tmp_path / name
    path.write_text(FILES[name])
    text, units = chunker.split(registry.read(path, name, lambda: None).documents, Chunking(size, 0))
    least = estimate_tokens(text) / size

    assert least <= len(units) <= 1.5 * least + 1


@pytest.mark.parametrize("wrap", [mailed, zipped])
def test_small_parts_of_a_file_inside_another_fill_their_chunks_as_well(registry, tmp_path, wrap):
    """Hung on a mail, or read as one text with its archive."""
    path = tmp_path / "outer"
    path.write_bytes(wrap(FILES["objects.json"].encode()))
    text, units = chunker.split(registry.read(path, path.name, lambda: None).documents, Chunking(1024, 0))

    assert len(units) <= 1.5 * estimate_tokens(text) / 1024 + 3


def test_no_chunk_of_small_parts_is_longer_than_its_base_asks_for(registry, tmp_path):
    """A third of them in a script of which each letter is a token: what has room on average has none there."""
    english = [{"says": f"the lamp number {number} was lit at dusk by the keeper"} for number in range(2000)]
    chinese = [{"says": f"第{number}号灯塔在黄昏时由看守人点亮并且整夜没有熄灭"} for number in range(1000)]
    path = tmp_path / "two.json"
    path.write_text(json.dumps([*english, *chinese], ensure_ascii=False))
    text, units = chunker.split(registry.read(path, path.name, lambda: None).documents, Chunking(256, 0))

    assert max(estimate_tokens(unit.text) for unit in units) <= 256
    assert len(units) <= 1.5 * estimate_tokens(text) / 256
