"""Names as people have them, by every way in and every way out: kept for display, made safe for disks and terminals."""

import os
import sys
import unicodedata
from types import ModuleType

import pytest

from knowledge.interfaces.cli.root import run
from knowledge.model.inputs import FileInput, Strategy
from knowledge.model.status import ItemStatus, ItemType
from tests.archives import tarred, written, zipped

NFD = unicodedata.normalize("NFD", "Rück.md")
NAMES = {  # what it is called -> what it is stored as
    "C# notes.md": "C# notes.md",
    "100 % ; a+b & c = d?.md": "100 % ; a+b & c = d_.md",
    "a. b v. c - NJA 2021 s. 576.md": "a. b v. c - NJA 2021 s. 576.md",
    "%E4%B8%AD.md": "%E4%B8%AD.md",
    NFD: "Rück.md",
    "two\nlines.md": "two lines.md",
    "\u202egnp.dm.md": "_gnp.dm.md",
    "CON.md": "_CON.md",
    "trailing .md ": "trailing .md",
    "dots.md..": "dots.md",
    "長" * 84 + ".md": "長" * 84 + ".md",
    "🧑‍🚀🗼.md": "🧑‍🚀🗼.md",
    "\x1b[31mred\x07.md": "_[31mred_.md",
    "-rf.md": "-rf.md",
    "~.md": "~.md",
    "a\\b.md": "a_b.md",
}
BYTES = {b"caf\xe9.md": "caf\ufffd.md", b"\xff\xfe.md": "\ufffd\ufffd.md"}
EVERY = [*((name, stored) for name, stored in NAMES.items()), *((os.fsdecode(name), stored) for name, stored in BYTES.items())]


@pytest.fixture
def cli(house, monkeypatch, capsys):
    """Runs a command in this process and gives what it printed."""
    application = ModuleType("house_of_names")
    vars(application).update(service=lambda: house.service, log_directory=lambda: house.root)
    monkeypatch.setitem(sys.modules, "house_of_names", application)
    monkeypatch.setenv("KNOWLEDGE_APP", "house_of_names:service")

    def typed(*arguments):
        assert 0 == run(list(arguments)), capsys.readouterr().err
        return capsys.readouterr().out

    return typed


def shown(name):
    return name.encode(errors="surrogateescape").decode(errors="replace")


def is_harmless(text):
    """Nothing in it moves a cursor, turns the direction, or cannot be written."""
    text.encode()
    return not any(unicodedata.category(character) in ("Cc", "Cf", "Cs") for character in text if character not in "\n\u200d")


def outputs(cli, base, item):
    """What a terminal gets to see of an item."""
    return [
        cli("item", "show", item.id),
        cli("item", "show", item.id, "--json"),
        cli("item", "path", item.id),
    ]


def again(house, base, items):
    """Indexed again, each on its own; the rows as they are then."""
    house.service.reindex_items(base.id, [item.id for item in items])
    house.work()
    return [house.item(item) for item in items]


@pytest.mark.parametrize("way", ["themselves", "in a directory"])
def test_names_go_all_the_way(house, base, tmp_path, cli, way):
    """Added, listed, shown, found, located, indexed again and deleted; never changed on the way, never loose on a terminal."""
    files = [
        written(tmp_path / "docs" / "in" / name, f"lighthouse {number}".encode()) for number, (name, _) in enumerate(EVERY)
    ]
    roots = house.add(base, *(files if way == "themselves" else [tmp_path / "docs"]))
    house.work(hurry=True)
    top = "" if way == "themselves" else "docs/in/"
    items = {item.source: item for item in house.items(base) if item.type is ItemType.FILE}
    hits = house.service.search(base.id, "lighthouse", limit=100).hits

    for number, (name, stored) in enumerate(EVERY):
        item = items[shown(f"{tmp_path}/docs/in/{name}")]
        assert (ItemStatus.COMPLETED, f"{top}{stored}", shown(name)) == (item.status, item.relative_path, item.title)
        assert f"lighthouse {number}" == house.service.preview(item.id).text
        assert f"lighthouse {number}".encode() == house.service.file_path(item.id).read_bytes()
        assert [shown(name)] == [hit.title for hit in hits if hit.concept_id == item.concept_id]
        assert all(is_harmless(said) for said in outputs(cli, base, item))
    assert is_harmless(cli("item", "list", base.id, "--limit", "100") + cli("search", base.id, "lighthouse", "--limit", "100"))
    assert {(ItemStatus.COMPLETED, item.relative_path) for item in items.values()} == {
        (item.status, item.relative_path) for item in again(house, base, items.values())
    }
    house.service.delete_items(base.id, [root.id for root in roots])
    house.work()
    assert ([], []) == (house.items(base), house.raw(base))


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_members_of_an_archive_keep_their_names(house, base, tmp_path, cli, pack):
    """Except for separators and control characters, which no member may have."""
    house.add(base, written(tmp_path / "docs.pack", pack({f"in/{name}": f"lighthouse {name}" for name in NAMES})))
    house.work(hurry=True)
    items = [item for item in house.items(base) if item.type is ItemType.FILE]
    plain = {"".join("\ufffd" if unicodedata.category(one) == "Cc" else one for one in name): name for name in NAMES}

    assert {name.replace("\\", "/").rpartition("/")[2] for name in plain} == {item.title for item in items}
    assert {ItemStatus.COMPLETED} == {item.status for item in items}
    assert {f"docs.pack/in/{NAMES[name]}" for name in plain if name in NAMES and "\\" not in name} <= {
        item.relative_path for item in items
    }
    assert is_harmless(cli("item", "list", base.id, "--limit", "100") + cli("search", base.id, "lighthouse", "--limit", "100"))
    before = {item.id: item.relative_path for item in items}
    assert before == {item.id: item.relative_path for item in again(house, base, items)}


def test_one_name_in_two_spellings(house, base, tmp_path):
    """As the disk has it and as the keyboard writes it: two files, two items, each read from its own place."""
    spellings = (NFD, unicodedata.normalize("NFC", NFD))
    for name in spellings:
        written(tmp_path / "docs" / name, f"text of {len(name)}".encode())
    (root,) = house.add(base, tmp_path / "docs")
    house.work()
    before = {item.source: (item.id, item.relative_path) for item in house.items(base)}
    house.service.reindex_items(base.id, [root.id])
    house.work()

    assert before == {item.source: (item.id, item.relative_path) for item in house.items(base)}
    assert ["docs/Rück.md", "docs/Rück_1.md"] == house.raw(base)
    assert {f"text of {len(name)}" for name in spellings} == {
        house.service.preview(item.id).text for item in house.items(base) if item.type is ItemType.FILE
    }


def test_a_listing_in_one_spelling_and_an_add_in_the_other(house, base, tmp_path):
    """They are in each other's way, as they would be on a disk that normalises; the second gets a number."""
    first, second = written(tmp_path / "a" / NFD, b"1"), written(tmp_path / "b" / "Rück.md", b"2")
    house.add(base, first)
    conflicts = house.service.add_items(base.id, [FileInput(path=second)], strategy=Strategy.DETECT).conflicts
    house.add(base, second)
    house.work()

    assert [NFD] == [conflict.title for conflict in conflicts]
    assert ["Rück.md", "Rück_1.md"] == house.raw(base)


@pytest.mark.parametrize("way", ["directory", "archive", "add"])
def test_twins_that_differ_by_case_only(house, base, tmp_path, way):
    """They are two, also where a disk would take them for one."""
    names = ("Readme.md", "README.md", "readme.MD", "STRASSE.md", "straße.md")
    if way == "archive":
        house.add(base, written(tmp_path / "a.zip", zipped({name: name for name in names})))
    else:
        files = [written(tmp_path / "docs" / name, name.encode()) for name in names]
        house.add(base, *(files if way == "add" else [tmp_path / "docs"]))
    house.work()
    leaves = [item for item in house.items(base) if item.type is ItemType.FILE]

    assert set(names) == {item.title for item in leaves} == {house.service.preview(item.id).text for item in leaves}
    assert len(names) == len({item.relative_path.casefold() for item in leaves})


def test_the_longest_names_that_collide_when_they_are_cut(house, base, tmp_path):
    """255 bytes each, and a number still fits in; the extension stays."""
    names = ["長" * 84 + ".md", "長" * 83 + "ー" + ".md"]
    twins = [name.replace(".md", ".MD") for name in names]
    for name in (*names, *twins):
        written(tmp_path / "docs" / name, b"x")
    house.add(base, tmp_path / "docs")
    house.work()
    leaves = [item for item in house.items(base) if item.type is ItemType.FILE]

    assert {ItemStatus.COMPLETED} == {item.status for item in leaves}
    assert 4 == len({item.relative_path.casefold() for item in leaves})
    assert all(len(item.stored_name.encode()) <= 255 and item.stored_name.lower().endswith(".md") for item in leaves)


def test_directories_of_any_name(house, base, tmp_path):
    """Themselves and those inside; their names are kept, reindex finds them again."""
    for name, _ in EVERY:
        written(tmp_path / name / name.replace(".md", "") / "x.md", b"lighthouse")
    roots = house.add(base, *(tmp_path / name for name, _ in EVERY))
    house.work()
    before = {item.id: item.relative_path for item in house.items(base)}
    again(house, base, roots)

    assert {ItemStatus.COMPLETED} == {item.status for item in house.items(base)}
    assert [shown(name) for name, _ in EVERY] == [root.title for root in roots]
    assert before == {item.id: item.relative_path for item in house.items(base)}
