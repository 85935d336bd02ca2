"""Names that people give bases, groups and files, and what they ask: odd ones are refused by name, or change nothing."""

import shutil
from pathlib import Path

import pytest

from knowledge.errors import InvalidInput
from knowledge.model.inputs import BaseInput, BasePatch
from knowledge.pipeline.indexing.hashing_embedder import HashingEmbedder

ROOT = Path(__file__).parents[2]
SAMPLES = [
    ("deploy/examples/letters/2025-school-thanks.docx", "a.txt"),
    ("deploy/examples/weather/station-manual.pdf", "b.html"),
    ("tests/samples/book.xls", "c.csv"),
]
ODD = ["n" * 256, "n" * 60_000, "a\nb", "a\0", "tab\there", "\ud800", " ", ""]


@pytest.mark.parametrize("name", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("how", ["create", "patch", "restore", "group", "rename group"])
def test_name_that_no_list_can_show_is_refused_before_anything_is_made(house, base, name, how):
    """One of 60,000 characters was made, and then broke the command that had made it."""
    group = house.service.create_group("shelf")
    calls = {
        "create": lambda: house.service.create_base(BaseInput(name=name)),
        "patch": lambda: house.service.patch_base(base.id, BasePatch(name=name)),
        "restore": lambda: house.service.restore_base(base.id, name, None),
        "group": lambda: house.service.create_group(name),
        "rename group": lambda: house.service.rename_group(group.id, name),
    }
    with pytest.raises((ValueError, InvalidInput)):
        calls[how]()

    assert [base] == list(house.service.list_bases())
    assert [group] == list(house.service.list_groups())


def test_names_of_any_script_are_names(house):
    """Up to the limit, with blanks around them cut off."""
    for name in (
        "n" * 255,
        "\u0645\u0643\u062a\u0628\u0629 \u200f1",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        " a\u00a0b ",
    ):
        assert name.strip() == house.service.create_base(BaseInput(name=name)).name


def test_query_with_half_a_character_is_asked_without_it(house, base, monkeypatch):
    """It failed in the built-in model, as a fault of ours: what models are asked is always Unicode."""
    asked = []
    embed = HashingEmbedder.embed_query
    monkeypatch.setattr(HashingEmbedder, "embed_query", lambda self, text: (asked.append(text), embed(self, text))[1])
    house.notes(base, "The lamp is lit.")
    house.work()
    house.service.search(base.id, "lamp \udcff lit")

    assert ["lamp ? lit"] == asked


@pytest.mark.parametrize(("sample", "name"), SAMPLES)
def test_content_decides_in_a_folder_as_well(house, base, tmp_path, sample, name):
    """What is read when it is added by name was left out as binary there."""
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(ROOT / sample, folder / name)
    (folder / "noise.txt").write_bytes(bytes(range(256)) * 8)
    house.add(base, folder)
    house.work()

    found = {item.title: (item.status.value, item.error) for item in house.items(base)}
    assert ("completed", None) == found[name]
    assert "noise.txt" not in found
