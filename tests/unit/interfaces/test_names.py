"""Whatever a file was converted into, and whoever else has its name: people read the name that they added."""

import re
import zipfile

import pytest

from knowledge.interfaces.cli import ExitCode
from knowledge.model.inputs import BaseInput, DirectoryInput, FileInput, NoteInput
from knowledge.model.status import ItemStatus
from knowledge.pipeline.conversion.docling import DoclingProcessor
from tests.fakes.docling_server import FakeDocling
from tests.scans import scan
from tests.unit.interfaces.test_lifecycle_commands import cli  # noqa: F401 - a fixture
from tests.waiting import eventually


@pytest.fixture
def house(make_house):
    """With a base `b` whose scans a docling-serve reads."""
    with FakeDocling() as server:
        server.behave(pages=["The fog signal sounds twice."])
        house = make_house(processors=[DoclingProcessor(url=server.url)], conversion_poll_seconds=0.02)
        house.service.create_base(BaseInput(name="b", file_processor="docling"))
        yield house


@pytest.fixture
def added(house, tmp_path):
    """Scans by themselves, twice under one name; in a folder, whose name is taken as well; in an archive; and a note, twice."""
    (base,) = house.service.list_bases()
    for place in ("one", "two"):
        (tmp_path / place / "docs" / "in").mkdir(parents=True)
        scan(tmp_path / place / "docs" / "in" / "letter: 1.pdf", place)
        scan(tmp_path / place / "chart.pdf", place)
        with zipfile.ZipFile(tmp_path / place / "pack.zip", "w") as archive:
            archive.write(tmp_path / place / "chart.pdf", "deep/chart.pdf")
    for place in (tmp_path / "one", tmp_path / "two"):
        house.add(
            base,
            FileInput(path=place / "chart.pdf"),
            DirectoryInput(path=place / "docs"),
            FileInput(path=place / "pack.zip"),
            NoteInput(title="Fog", content="The fog signal is old."),
        )

    def settled():
        house.work()
        return all(item.status is ItemStatus.COMPLETED for item in house.items(base))

    eventually(settled, "everything is completed")
    return [item for item in house.items(base) if item.type in ("file", "note")]


EXPECTED = {"chart.pdf", "docs/in/letter: 1.pdf", "pack.zip/deep/chart.pdf", "Fog"}


def test_hits_and_lists_name_what_was_added(cli, added):  # noqa: F811
    """Neither the Markdown that is searched, nor the number of a namesake, in what is cited and listed."""
    hits = cli.run("search", "b", "fog signal", "--limit", "50")
    listed = cli.run("item", "list", "b", "--limit", "100")

    cited = re.findall(r"^\d+\. (.*?)(?:, page 1)?  \(ranking", hits.stdout, re.MULTILINE)
    assert len(added) == len(cited)
    assert EXPECTED == set(cited)
    assert EXPECTED | {"docs", "docs/in", "pack.zip", "pack.zip/deep"} == {
        line[listed.stdout.index("NAME") :] for line in listed.stdout.splitlines()[1:]
    }
    assert not [part for part in (".md", "_1") if part in hits.stdout + listed.stdout]


def test_what_is_said_of_one_item_names_it_as_well(cli, added):  # noqa: F811
    """`item show`, `item chunks` and `jobs why`; the address of the Markdown is said where it is called that."""
    for item in added:
        shown, why, chunks = (cli.run(*words, item.id) for words in (("item", "show"), ("jobs", "why"), ("item", "chunks")))
        assert [ExitCode.OK] * 3 == [done.returncode for done in (shown, why, chunks)]
        rest = [line for line in (shown.stdout + why.stdout + chunks.stdout).splitlines() if not line.startswith("concept")]
        assert not [line for line in rest if ".md" in line or "_1" in line]
        (named,) = [line.split(maxsplit=1)[1] for line in shown.stdout.splitlines() if line.startswith("name ")]
        assert named in EXPECTED


def test_json_has_the_name_beside_the_address(cli, added):  # noqa: F811
    """Programs get both, of hits and of items."""
    hits = cli.json("search", "b", "fog signal", "--limit", "50")["hits"]
    items = cli.json("item", "list", "b", "--limit", "100", "--type", "file")["items"]

    assert EXPECTED == {hit["name"] for hit in hits}
    assert EXPECTED - {"Fog"} == {item["name"] for item in items}
    assert all(one["concept_id"].endswith(".md") for one in [*hits, *items])
