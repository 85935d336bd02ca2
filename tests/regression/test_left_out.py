"""What is not taken is told: counted by reason, named, and refused with its own error where a person named it."""

import json
import os
import sys
from types import ModuleType

import pytest

from knowledge.errors import BinarySource, InvalidInput, UnsupportedSource
from knowledge.ingestion import left_out
from knowledge.interfaces.cli.root import run
from knowledge.model.inputs import DirectoryInput, FileInput
from knowledge.model.status import ItemStatus, ItemType
from tests.archives import written, zipped

KINDS = {  # of fifteen files each is the first; how it is left out, None if it is taken
    "note.md": (b"a note", None),
    "text.txt": (b"a text", None),
    "table.csv": (b"a,b\n1,2\n", None),
    "code.py": (b"print('x')\n", None),
    "noextension": (b"plain words\n", None),
    "program.exe": (b"MZ\x90\x00" * 50, "unsupported"),
    "sound.wav": (b"RIFF\x24\x08\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x02\x00" + bytes(200), "unsupported"),
    "data.bin": (bytes(range(256)), "unsupported"),
    "key.pem": (b"-----BEGIN PRIVATE KEY-----\n", "unsupported"),
    "broken.txt": (b"\x00\x01\x02\xff" * 90, "binary"),
    "nothing.md": (b"", "empty"),
    ".hidden.md": (b"x", "hidden"),
    "~$lock.docx": (b"x", "tooling"),
    "thrown.tmp": (b"words", "ignored"),
    "draft.md": (b"words", "excluded"),
}
FOLDERS = 20


@pytest.fixture
def folder(tmp_path):
    """300 files of mixed kinds in twenty folders, with an ignore file."""
    folder = tmp_path / "mixed"
    for number in range(FOLDERS):
        for name, (content, _) in KINDS.items():
            written(folder / f"{number:02}" / name, content)
    written(folder / ".gitignore", b"*.tmp\n")
    return folder


@pytest.fixture
def cli(house, monkeypatch, capsys):
    application = ModuleType("house_of_mixed_files")
    vars(application).update(service=lambda: house.service, log_directory=lambda: house.root)
    monkeypatch.setitem(sys.modules, "house_of_mixed_files", application)
    monkeypatch.setenv("KNOWLEDGE_APP", "house_of_mixed_files:service")

    def typed(*arguments):
        assert 0 == run(list(arguments)), capsys.readouterr().err
        return capsys.readouterr().out

    return typed


def added(house, base, folder, **patterns):
    patterns = {name: tuple(value) for name, value in patterns.items()}
    root = house.service.add_items(base.id, [DirectoryInput(path=folder, **patterns)]).items[0]
    house.work(hurry=True)
    return house.item(root)


def test_every_file_of_three_hundred_is_an_item_or_has_its_reason(house, base, folder, cli):
    """None is missing from both; a person reads the counts and the first names, a program all of them."""
    root = added(house, base, folder, exclude=["draft.md"])
    taken = {item.source.removeprefix(f"{folder}/") for item in house.items(base) if item.type is ItemType.FILE}
    told = json.loads(cli("item", "show", root.id, "--json"))["skipped"]
    shown = cli("item", "show", root.id)
    counts = {reason: FOLDERS for _, reason in KINDS.values() if reason} | {"unsupported": 4 * FOLDERS, "hidden": FOLDERS + 1}

    assert counts == told["reasons"]
    assert sum(counts.values()) == told["count"] == 301 - len(taken)
    named = {one["path"]: one["reason"] for one in told["sample"]}
    assert {
        f"{number:02}/{name}": reason
        for number in range(FOLDERS)
        for name, (_, reason) in KINDS.items()
        if reason not in (None, "hidden")
    } == named
    assert taken == {f"{number:02}/{name}" for number in range(FOLDERS) for name, (_, reason) in KINDS.items() if not reason}
    assert ("files_skipped",) == root.notices
    assert "left out: 00/broken.txt (binary)" in shown.splitlines()
    assert "left out: 21 hidden files and folders, not named" in shown.splitlines()
    assert len(shown.splitlines()) < 50
    assert "20 excluded" in shown


def test_names_end_at_a_limit_and_lists_count_only(house, base, tmp_path, cli, monkeypatch):
    """A folder of photographs does not fill the catalogue, nor a list of directories the message that carries it."""
    monkeypatch.setattr(left_out, "NAMED", 10)
    for number in range(30):
        written(tmp_path / "docs" / f"{number}.exe", b"MZ\x00")
    written(tmp_path / "docs" / "a.md", b"a")
    root = added(house, base, tmp_path / "docs")
    told = json.loads(cli("item", "show", root.id, "--json"))["skipped"]
    listed = next(item for item in json.loads(cli("item", "list", base.id, "--json"))["items"] if item["type"] == "directory")

    assert (30, 10) == (told["count"], len(told["sample"]))
    assert {"count": 30, "reasons": {"unsupported": 30}, "sample": []} == listed["skipped"]
    assert "left out: 20 more" in cli("item", "show", root.id)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("program.exe", UnsupportedSource),
        ("sound.wav", UnsupportedSource),
        ("data.bin", UnsupportedSource),
        ("broken.txt", BinarySource),
    ],
)
def test_what_a_person_names_is_refused_with_its_reason(house, base, tmp_path, name, error):
    """Nothing is added, and the error names the file."""
    path = written(tmp_path / name, KINDS[name][0])

    with pytest.raises(error) as refused:
        house.service.add_items(base.id, [FileInput(path=path)])
    assert str(path) == refused.value.details["path"]
    assert [] == house.items(base)


def test_patterns_stay_with_the_directory(house, base, folder):
    """They count for each reindex, of the whole and of a part, and go along into a restored base."""
    root = added(house, base, folder, include=["*.md", "*.csv"], exclude=["/01/"])
    before = house.raw(base)
    part = next(item for item in house.items(base) if item.relative_path == "mixed/02")
    written(folder / "01" / "new.md", b"x")
    written(folder / "02" / "new.txt", b"x")
    written(folder / "02" / "new.md", b"x")
    house.service.reindex_items(base.id, [part.id])
    house.work()
    after_part = house.raw(base)
    house.service.reindex_items(base.id, [root.id])
    house.work()
    restored = house.service.restore_base(base.id, "again", None).base
    house.work()

    assert {"draft.md", "note.md", "table.csv"} == {path.rpartition("/")[2] for path in before}
    assert [path for path in before if path.startswith("mixed/01/")] == []
    assert {"mixed/02/new.md"} == set(after_part) - set(before)
    assert after_part == house.raw(base) == house.raw(restored)


def test_what_is_ignored_from_now_on_goes(house, base, tmp_path):
    """A new rule takes back what was taken; a rule that goes away brings it back."""
    docs = tmp_path / "docs"
    for name in ("a.md", "private/b.md", "c.log"):
        written(docs / name, b"lighthouse")
    root = added(house, base, docs)
    written(docs / ".knowledgeignore", b"private/\n*.log\n")
    house.service.reindex_items(base.id, [root.id])
    house.work()
    fewer = house.raw(base)
    (docs / ".knowledgeignore").unlink()
    house.service.reindex_items(base.id, [root.id])
    house.work()

    assert ["docs/a.md"] == fewer
    assert ["docs/a.md", "docs/c.log", "docs/private/b.md"] == house.raw(base)
    assert {ItemStatus.COMPLETED} == {item.status for item in house.items(base)}


def test_rules_that_cannot_be_read_take_nothing_back(house, base, tmp_path, monkeypatch):
    """Nobody knows what they say: the folder stays as it is."""
    docs = tmp_path / "docs"
    for name in ("a.md", "in/b.md", "in/.gitignore"):
        written(docs / name, b"lighthouse")
    root = added(house, base, docs)
    opening = os.open

    def refuse(path, *more, **options):
        if str(path).endswith("/in/.gitignore"):
            raise PermissionError(13, "refused")
        return opening(path, *more, **options)

    (docs / "in" / "b.md").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        house.service.reindex_items(base.id, [root.id])
        house.work()

    assert ["docs/a.md", "docs/in/b.md"] == house.raw(base)
    assert 1 == house.item(root).data["skipped"]["reasons"]["unreadable"]


def test_a_dangling_link_neither_hides_nor_purges_what_comes_after_it(house, base, tmp_path):
    """It is told; loops are as well, and end."""
    docs = tmp_path / "docs"
    for name in ("a.md", "z.md"):
        written(docs / name, b"lighthouse")
    (docs / "dangling").symlink_to("missing")
    (docs / "loop").symlink_to("..")
    root = added(house, base, docs)
    before = {item.id for item in house.items(base)}
    house.service.reindex_items(base.id, [root.id])
    house.work()

    assert ["docs/a.md", "docs/z.md"] == house.raw(base)
    assert before == {item.id for item in house.items(base)}
    assert {"dangling": 1, "symlink": 1} == house.item(root).data["skipped"]["reasons"]
    assert 2 == len(house.service.search(base.id, "lighthouse").hits)


def test_a_pattern_that_is_none_is_refused(house, base, tmp_path):
    """Before anything is added."""
    with pytest.raises(InvalidInput, match="no pattern"):
        house.service.add_items(base.id, [DirectoryInput(path=tmp_path, exclude=("[z-a]",))])
    assert [] == house.items(base)


def test_only_what_changed_is_indexed_again_if_that_is_asked_for(house, base, tmp_path):
    """By size and time; failed files are tried again, new ones come, others go."""
    docs = tmp_path / "docs"
    for name in ("same.md", "changed.md", "touched.md", "gone.md", "bad.json"):
        written(docs / name, b"{lighthouse")
    written(docs / "same.zip", zipped({"same inside.md": "x"}))
    packed = written(docs / "changed.zip", zipped({"changed inside.md": "x"}))
    root = added(house, base, docs)
    ids = {item.title: item.id for item in house.items(base)}
    written(docs / "changed.md", b"another text")
    written(packed, zipped({"changed inside.md": "another"}))
    os.utime(docs / "touched.md", ns=(1, 1))
    (docs / "gone.md").unlink()
    written(docs / "new.md", b"new")
    before = {job.id for job in house.jobs()}
    house.service.reindex_items(base.id, [root.id], only_changed=True)
    house.work(hurry=True)
    names = {item.id: item.title for item in house.items(base)}
    worked = {
        names[job.item_ids[0]] for job in house.jobs() if job.id not in before and job.type == "knowledge.index-documents"
    }

    assert {"changed.md", "touched.md", "new.md", "bad.json", "changed inside.md"} == worked
    assert {ids["same.md"], ids["same inside.md"]} < names.keys()
    assert "gone.md" not in names.values()
    assert "another text" == house.service.preview(ids["changed.md"]).text
