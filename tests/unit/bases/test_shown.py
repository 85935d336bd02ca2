"""A base that is shown says how much it holds, whichever method gives it."""

import json
from zipfile import ZipFile

import pytest

from knowledge.model.inputs import BasePatch, BaseQuery
from tests.near import Near


def bundle(tmp_path):
    rows = [
        {"id": "d", "type": "directory", "source": "/elsewhere/docs", "relative_path": "docs"},
        {"id": "a", "type": "file", "source": "/elsewhere/docs/a.md", "relative_path": "docs/a.md", "group_id": "d"},
        {"id": "b", "type": "file", "source": "/elsewhere/docs/b.md", "relative_path": "docs/b.md", "group_id": "d"},
    ]
    with ZipFile(tmp_path / "bundle.zip", "w") as archive:
        archive.writestr("base.json", json.dumps({"format": 1, "base": {"name": "moved"}, "items": rows}))
        for name in ("a", "b"):
            archive.writestr(f"raw/docs/{name}.md", "The lighthouse.")
    return tmp_path / "bundle.zip"


WAYS = {
    "patch": (lambda ask, base, _: ask.patch_base(base.id, BasePatch(document_count=7)), 3),
    "patch that changes nothing": (lambda ask, base, _: ask.patch_base(base.id, BasePatch(name=base.name)), 3),
    "enable": (lambda ask, base, _: ask.enable_embedder(base.id, "hashing"), 3),
    "restore": (lambda ask, base, _: ask.restore_base(base.id, "new", None).base, 3),
    "import": (lambda ask, _, path: ask.import_base(bundle(path)), 3),
    "by id": (lambda ask, base, _: ask.base(base.id), 3),
    "find": (lambda ask, base, _: ask.find_bases(BaseQuery(search=base.name)).bases[0], 3),
}


@pytest.mark.parametrize("caller", ["in process", "client"])
@pytest.mark.parametrize(("way", "expected"), WAYS.values(), ids=WAYS)
def test_its_items_are_counted(house, tmp_path, caller, way, expected):
    """Those of all levels that are not being deleted."""
    base = house.base(None)
    *_, gone = house.notes(base, "one", "two", "three", "four")
    house.work()
    house.service.delete_items(base.id, [gone.id])
    ask = house.service if caller == "in process" else Near(house, [tmp_path])

    assert expected == way(ask, base, tmp_path).item_count
