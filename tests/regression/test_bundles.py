"""Bases from bundles: whole, failed with a reason, or not at all."""

import io
import json
import threading
import zipfile

import numpy as np
import pytest

from knowledge.bases import bundle as bundles
from knowledge.errors import BaseBusy, BaseFailed, BaseNotFound, BundleUnreadable, StorageFull
from knowledge.model.documents import text_hash
from knowledge.model.status import BaseStatus, ItemStatus
from tests.archives import written, zipped
from tests.house import DIMENSIONS
from tests.near import Near
from tests.regression.faults import hooked, raising

TEXTS = {
    "docs/a.md": "The lighthouse stands on the rock.",
    "docs/in/b.md": "The fog signal sounds.",
    "n.md": "A note on lighthouses.",
}
BLANKS = bytes(96 << 20)  # packs to a thousandth
ROWS = [
    {"id": "d", "type": "directory", "source": "/elsewhere/docs", "relative_path": "docs"},
    {"id": "i", "type": "directory", "source": "/elsewhere/docs/in", "relative_path": "docs/in", "group_id": "d"},
    {"id": "a", "type": "file", "source": "/elsewhere/docs/a.md", "relative_path": "docs/a.md", "group_id": "d"},
    {"id": "b", "type": "file", "source": "/elsewhere/docs/in/b.md", "relative_path": "docs/in/b.md", "group_id": "i"},
    {"id": "n", "type": "note", "source": "n", "relative_path": "n.md", "data": {"content": TEXTS["n.md"]}},
]


@pytest.fixture
def pack(tmp_path):
    """Writes a bundle; anything can be put in the place of its parts."""

    def pack(
        *, embedder="hashing", rows=ROWS, raw=TEXTS, vectors=None, base=(), manifest=None, method=zipfile.ZIP_DEFLATED, **more
    ):
        path = tmp_path / "bundle.zip"
        with zipfile.ZipFile(path, "w", method) as archive:
            text = {"format": 1, "base": {"name": "moved", "embedder": embedder, **dict(base)}, "items": rows, **more}
            archive.writestr("base.json", json.dumps(text) if manifest is None else manifest)
            for name, content in raw.items():
                archive.writestr(f"raw/{name}", content)
            if vectors is not None:
                archive.writestr("vectors.npz", vectors)
        return path

    return pack


def _vectors(width=DIMENSIONS, count=3, value=1.0, keys=None, kind=np.float32):
    hashes = [text_hash(text) for text in TEXTS.values()][:count] if keys is None else keys
    stored = io.BytesIO()
    np.savez_compressed(stored, hashes=np.array(hashes), vectors=np.full((len(hashes), width), value, kind))
    return stored.getvalue()


def _nothing_left(house):
    assert [] == house.service.list_bases(include_deleting=True)
    assert [] == house.rt.files.base_ids()
    assert [] == house.jobs()


def test_a_whole_bundle_becomes_a_base(house, pack):
    """Its rows in their tree, its bytes in their places; everything is indexed here."""
    base = house.service.import_base(pack(base={"group_id": "of another house", "shard": "elsewhere"}))
    house.work()

    assert ("moved", BaseStatus.COMPLETED, None, "main") == (base.name, base.status, base.group_id, base.shard)
    assert sorted(TEXTS) == house.raw(base)
    assert {ItemStatus.COMPLETED} == {item.status for item in house.items(base)}
    assert TEXTS["docs/a.md"] in [hit.text for hit in house.service.search(base.id, "lighthouse").hits]
    assert 0 == house.staged(base)


def test_vectors_that_come_along_are_not_paid_again(paid_house, paid_server, pack):
    """They are there before the first job could ask for them."""
    texts = [TEXTS[name] for name in TEXTS]
    stored = _vectors(keys=[text_hash(text) for text in texts])
    paid_house.service.import_base(pack(embedder="paid", vectors=stored, dimensions=DIMENSIONS))
    paid_house.work()

    assert 0 == paid_server.stats()["requests"]
    assert {"completed"} == {item.status for item in paid_house.service.list_items(paid_house.service.base("moved").id).items}


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_no_other_base_gets_a_vector_that_no_index_should_hold(paid_house, paid_server, pack, value):
    """A bundle's vectors are held to the rule of a provider's answers, before they reach what all bases share."""
    paid_house.service.import_base(pack(embedder="paid", vectors=_vectors(value=value), dimensions=DIMENSIONS))
    other = paid_house.base("paid")
    paid_house.notes(other, *TEXTS.values())
    paid_house.work()

    assert (3, 3) == (paid_server.stats()["requests"], paid_house.service.spend_total(other.id).texts)


def test_vectors_of_a_client_reach_no_other_base(paid_house, paid_server, pack, tmp_path):
    """They look right and are those of other texts: nobody can see it. Its own texts are paid for once, not by each reindex."""
    near = Near(paid_house, [tmp_path])
    base = near.import_base(pack(embedder="paid", vectors=_vectors(), dimensions=DIMENSIONS))
    paid_house.work()
    bought = paid_house.service.spend_total(base.id).texts
    other = paid_house.base("paid")
    paid_house.notes(other, *TEXTS.values())
    notes = [item.id for item in paid_house.items(base) if item.type == "note"]
    near.reindex_items(base.id, notes)
    paid_house.work()

    assert [3, 0, 3] == [
        bought,
        paid_house.service.spend_total(other.id).texts,
        paid_house.service.spend_total(base.id).texts,
    ]
    assert {1} == set(paid_server.sent().values())
    assert {ItemStatus.COMPLETED} == {item.status for item in paid_house.items(base)}
    kept = paid_house.rt.cache.get(
        paid_house.rt.embedders.spec("paid").fingerprint, [text_hash(text) for text in TEXTS.values()]
    )
    assert 3 == len(kept)
    assert not any(np.array_equal(np.ones(DIMENSIONS), vector) for vector in kept.values())


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({"embedder": "not/here"}, "missing_embedding_model"),
        ({"vectors": _vectors(width=7)}, "missing_vector_store"),
        ({"vectors": _vectors(value=np.nan)}, "missing_vector_store"),
        ({"vectors": _vectors(value=0.0)}, "missing_vector_store"),
        ({"vectors": _vectors(value=1e-60, kind=np.float64)}, "missing_vector_store"),
        ({"vectors": _vectors(value=1e60, kind=np.float64)}, "missing_vector_store"),
        ({"vectors": b"no archive"}, "missing_vector_store"),
        ({"vectors": _vectors(keys=["x"])}, "missing_vector_store"),
        ({"dimensions": 7}, "missing_vector_store"),
    ],
)
def test_a_base_that_cannot_work_here_says_so(house, pack, wish, error):
    """It lists, deletes and can be restored; runtime work is refused; nothing is lost of it."""
    base = house.service.import_base(pack(**wish))
    page = house.service.list_items(base.id)
    for refused in (
        lambda: house.service.search(base.id, "lighthouse"),
        lambda: house.notes(base, "x"),
        lambda: house.service.reindex_items(base.id, [page.items[0].id]),
        lambda: house.service.reindex_interrupted(base.id),
        lambda: house.service.enable_embedder(base.id, "hashing"),
        lambda: house.service.chunks(base.id, page.items[0].id),
    ):
        with pytest.raises(BaseFailed) as refusal:
            refused()

        assert error == refusal.value.details["reason"]
    restored = house.service.restore_base(base.id, "restored", "hashing")
    house.work()
    note = next(item for item in page.items if item.type == "note")
    house.service.delete_items(base.id, [note.id])
    house.work()

    assert (BaseStatus.FAILED, error, wish.get("embedder", "hashing")) == (base.status, base.error, base.embedder)
    assert 5 == page.total
    assert (["n.md"], 1) == ([item.title for item in restored.items], restored.skipped_missing_sources)
    assert [TEXTS["n.md"]] == [hit.text for hit in house.service.search(restored.base.id, "lighthouses").hits]
    assert not house.exists(note)
    house.service.delete_base(base.id)
    assert [restored.base.id] == house.rt.files.base_ids()


def _changed(number, **changes):
    return [row | changes if position == number else row for position, row in enumerate(ROWS)]


@pytest.mark.parametrize(
    "flaw",
    [
        {"manifest": "{"},
        {"manifest": "[]"},
        {"rows": "none"},
        {"format": 2},
        {"base": {"name": "  "}},
        {"base": {"chunk_size": 10}},
        {"rows": _changed(4, relative_path="../n.md"), "raw": {**TEXTS, "../n.md": "x"}},
        {"rows": _changed(4, relative_path="/etc/passwd")},
        {"rows": _changed(4, relative_path=".knowledge/index.sqlite")},
        {"rows": _changed(4, relative_path="docs")},
        {"rows": _changed(4, relative_path="DOCS")},
        {"rows": _changed(4, relative_path="x/n.md")},
        {"rows": _changed(2, relative_path="other/a.md")},
        {"rows": _changed(3, relative_path="docs/a.md/b.md", group_id="a")},
        {"rows": _changed(2, group_id="b")},
        {"rows": _changed(2, id="d")},
        {"rows": _changed(4, data={})},
        {"rows": _changed(4, source=" ")},
        {"rows": _changed(4, type="url")},
        {"raw": {"docs/a.md": "x"}},
        {"method": zipfile.ZIP_BZIP2},
        {"raw": {**TEXTS, "bomb": BLANKS}},
        {"vectors": BLANKS},
        {"manifest": "[" * 200_000},
    ],
)
def test_what_is_no_whole_bundle_leaves_nothing(house, pack, flaw):
    """No slip out of the base, no bomb, no row without its bytes, no two rows in one place."""
    with pytest.raises(BundleUnreadable) as refusal:
        house.service.import_base(pack(**flaw))

    assert 422 == refusal.value.http_status
    _nothing_left(house)


@pytest.mark.parametrize("place", [0.1, 0.3, 0.6, 0.97])
def test_a_damaged_file_leaves_nothing(house, pack, place):
    """Wherever it is damaged, or cut."""
    path = pack()
    whole = path.read_bytes()
    at = int(len(whole) * place)
    for damaged in (whole[:at] + b"\xff" * 12 + whole[at + 12 :], whole[:at], b"", b"PK\x03\x04"):
        path.write_bytes(damaged)
        with pytest.raises(BundleUnreadable):
            house.service.import_base(path)
    path.unlink()
    with pytest.raises(BundleUnreadable):
        house.service.import_base(path)

    _nothing_left(house)


def test_a_manifest_is_bounded(house, pack, monkeypatch):
    """It is read into memory."""
    monkeypatch.setattr(bundles, "MAX_MANIFEST_BYTES", 100)

    with pytest.raises(BundleUnreadable):
        house.service.import_base(pack())


@pytest.mark.parametrize("fault", [StorageFull(), ZeroDivisionError(), KeyboardInterrupt()])
@pytest.mark.parametrize("method", ["stage_stream", "publish", "sync"])
def test_an_import_that_breaks_leaves_nothing(house, pack, method, fault):
    """Whatever breaks it."""
    with hooked(house, files={method: raising(fault)}), pytest.raises(type(fault)):
        house.service.import_base(pack())

    _nothing_left(house)


def test_a_base_deleted_in_mid_import_stays_deleted(make_house, pack):
    """The import says that it is gone; no byte of it comes after."""
    house = make_house(lock_seconds=0.1)
    refusals = []

    def delete():
        (made,) = house.service.list_bases(include_deleting=True)
        try:
            house.service.delete_base(made.id)
        except BaseBusy as busy:  # accepted: the maker has the lock
            refusals.append(busy)

    def meanwhile(*_, **__):
        other = threading.Thread(target=delete)
        other.start()
        other.join()

    with hooked(house, files={"stage_stream": meanwhile}), pytest.raises(BaseNotFound):
        house.service.import_base(pack())

    assert refusals
    _nothing_left(house)


def test_an_archive_and_the_patterns_of_a_directory_travel(house, pack, tmp_path):
    """Members are indexed from the bundle's own bytes; a reindex looks where archive and folder were, with the patterns."""
    packed = written(tmp_path / "a.zip", zipped({"in/x.md": "The lighthouse."}))
    written(tmp_path / "docs" / "a.md", b"a")
    written(tmp_path / "docs" / "b.txt", b"b")
    place = {"archive": str(packed), "member": "in"}
    rows = [
        {"id": "z", "type": "archive", "source": str(packed), "relative_path": "a.zip"},
        {"id": "i", "type": "directory", "source": f"{packed}/in", "relative_path": "a.zip/in", "group_id": "z", "data": place},
        {
            "id": "x",
            "type": "file",
            "source": f"{packed}/in/x.md",
            "relative_path": "a.zip/in/x.md",
            "group_id": "i",
            "data": place | {"member": "in/x.md"},
        },
        {
            "id": "d",
            "type": "directory",
            "source": str(tmp_path / "docs"),
            "relative_path": "docs",
            "data": {"exclude": ["*.txt"]},
        },
    ]
    base = house.service.import_base(pack(rows=rows, raw={"a.zip/in/x.md": "The lighthouse."}))
    house.work()
    before = {item.relative_path: item.id for item in house.items(base)}
    house.service.reindex_items(base.id, [before["a.zip"], before["docs"]])
    house.work()
    after = {item.relative_path: item.id for item in house.items(base)}

    assert {ItemStatus.COMPLETED} == {item.status for item in house.items(base)}
    assert before == {path: item_id for path, item_id in after.items() if path != "docs/a.md"}
    assert ["a.zip/in/x.md", "docs/a.md"] == house.raw(base)
