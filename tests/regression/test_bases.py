"""Behaviours 16 to 26: making and changing bases."""

from contextlib import nullcontext

import pytest
from pydantic import ValidationError
from sqlalchemy import update

from knowledge.catalog.rows import BASE
from knowledge.errors import BaseNotFound, GroupNotFound, IndexFault, InvalidInput, StorageFailed
from knowledge.ingestion import recovery
from knowledge.model.documents import EmbedderSpec
from knowledge.model.ids import BaseId
from knowledge.model.inputs import BaseInput, BasePatch
from knowledge.model.status import BaseStatus
from knowledge.pipeline.conversion.ocr import OcrProcessor
from tests.regression.faults import hooked, raising, refusing

WIDER = EmbedderSpec(id="wider", kind="hashing", dimensions=48)


@pytest.fixture
def failed_base(house, base):
    with house.db.write() as tx:
        tx.execute(update(BASE).where(BASE.c.id == base.id).values(status=BaseStatus.FAILED, error="missing_embedding_model"))
    return house.service.base(base.id)


def test_016_what_a_base_is_without_further_wishes(house):
    """1,024 and 200 tokens, structured, ready to work."""
    base = house.service.create_base(BaseInput(name="  shelf "))

    assert ("shelf", 1024, 200, "structured", "\\n\\n") == (
        base.name,
        base.chunk_size,
        base.chunk_overlap,
        base.chunk_strategy,
        base.chunk_separator,
    )
    assert (BaseStatus.COMPLETED, None) == (base.status, base.error)


def test_017_a_small_chunk_needs_a_smaller_overlap():
    """The overlap that is there by default counts as well."""
    with pytest.raises(ValidationError):
        BaseInput(name="shelf", chunk_size=100)


@pytest.mark.parametrize("wish", [{"chunk_size": 100, "chunk_overlap": 100}, {"chunk_overlap": 1024}, {"chunk_overlap": -1}])
def test_018_an_overlap_is_smaller_than_its_chunk(wish):
    """Equal is too large; alone, it is measured by the default size."""
    assert 1024 == BaseInput(name="shelf", chunk_overlap=1023).chunk_size
    with pytest.raises(ValidationError):
        BaseInput(name="shelf", **wish)


def _no_index(house, **files):
    return hooked(house, indexes={"create": raising(IndexFault("no index"))}, files=files)


def test_019_a_base_without_index_is_no_base(house):
    """Neither row nor directory remains."""
    with _no_index(house), pytest.raises(IndexFault):
        house.base()

    assert [] == house.service.list_bases(include_deleting=True)
    assert [] == house.rt.files.base_ids()


@pytest.mark.parametrize("fault", ["directory", "row"])
def test_019_the_error_of_the_index_is_seen_whatever_else_fails(house, fault):
    """Also where clearing up fails: what is left is hidden, and gone after the next sweep."""
    files = {"remove_base": raising(StorageFailed("no cleanup either"))} if fault == "directory" else {}
    refused = refusing(house, "DELETE ON knowledge_base") if fault == "row" else nullcontext()
    with refused, _no_index(house, **files), pytest.raises(IndexFault):
        house.base()

    assert (0, 1) == (len(house.service.list_bases()), len(house.service.list_bases(include_deleting=True)))
    recovery.sweep(house.rt)
    assert [] == house.service.list_bases(include_deleting=True)


def test_020_a_size_must_fit_the_overlap_that_stays(house):
    """Only one of the two is sent, both are checked."""
    base = house.base(chunk_size=256, chunk_overlap=120)

    with pytest.raises(InvalidInput) as refusal:
        house.service.patch_base(base.id, BasePatch(chunk_size=100))

    assert "chunk_overlap" == refusal.value.details["field"]
    assert 256 == house.service.base(base.id).chunk_size


@pytest.mark.parametrize(
    ("before", "patch"),
    [
        ({}, {"chunk_strategy": "delimiter", "chunk_separator": ""}),
        ({"chunk_separator": ""}, {"chunk_strategy": "delimiter"}),
        ({"chunk_strategy": "delimiter", "chunk_separator": "\\n"}, {"chunk_separator": ""}),
    ],
)
def test_021_a_delimiter_is_not_empty(house, before, patch):
    """Neither the one that is sent nor the one that was kept."""
    base = house.base(**before)

    with pytest.raises(InvalidInput) as refusal:
        house.service.patch_base(base.id, BasePatch(**patch))

    assert "chunk_separator" == refusal.value.details["field"]
    assert base.chunk_strategy == house.service.base(base.id).chunk_strategy


def test_022_the_embedder_of_a_base_with_items_stays(make_house):
    """Items that are only waiting to be removed do not count; what comes after is embedded and found by the new one."""
    house = make_house(WIDER)
    base = house.base()
    (note,) = house.notes(base, "the old lighthouse")
    house.work()

    with pytest.raises(InvalidInput) as refusal:
        house.service.patch_base(base.id, BasePatch(embedder="wider"))
    house.service.delete_items(base.id, [note.id])
    changed = house.service.patch_base(base.id, BasePatch(embedder="wider"))
    house.notes(base, "the old lighthouse")
    house.work(hurry=True)

    assert "embedder" == refusal.value.details["field"]
    assert ("wider", 48) == (changed.embedder, changed.dimensions)
    assert not house.exists(note)
    assert ["the old lighthouse"] == [hit.text for hit in house.service.search(base.id, "lighthouse").hits]
    assert 1 == house.rt.index(changed).counts().vectors


@pytest.mark.parametrize(("old", "new"), [("hashing", None), (None, "hashing"), ("hashing", "wider"), (None, "wider")])
def test_022_an_empty_base_changes_its_embedder_freely(make_house, old, new):
    """To none, from none, to another width: the index follows."""
    house = make_house(WIDER)
    base = house.base(embedder=old)
    house.notes(base, "first")
    house.work()
    house.service.delete_items(base.id, [item.id for item in house.items(base)])
    house.work()

    house.service.patch_base(base.id, BasePatch(embedder=new))
    house.notes(base, "second lighthouse")
    house.work()

    assert ["second lighthouse"] == [hit.text for hit in house.service.search(base.id, "lighthouse").hits]


def test_023_dimensions_follow_from_the_model():
    """Nobody sends them, so they cannot contradict it."""
    with pytest.raises(ValidationError):
        BasePatch(embedder="hashing", dimensions=7)


def test_024_a_failed_base_can_be_renamed(house, failed_base):
    """Its settings are no runtime work; an empty patch writes nothing at all."""
    renamed = house.service.patch_base(failed_base.id, BasePatch(name="old shelf"))
    again = house.service.patch_base(failed_base.id, BasePatch())

    assert "old shelf" == renamed.name
    assert renamed.updated_at == again.updated_at
    with pytest.raises(InvalidInput):
        house.service.patch_base(failed_base.id, BasePatch(embedder=None))
    with pytest.raises(BaseNotFound):
        house.service.patch_base(BaseId("nowhere"), BasePatch(name="x"))


def test_025_a_patch_with_an_unknown_group_changes_nothing(house, base):
    """Neither the group nor the name that came with it."""
    with pytest.raises(GroupNotFound) as refusal:
        house.service.patch_base(base.id, BasePatch(name="new", group_id="nowhere"))

    assert {"group_id": "nowhere"} == refusal.value.details
    assert "shelf" == house.service.base(base.id).name


def test_026_what_can_be_cleared_and_what_cannot(make_house, tmp_path):
    """Threshold and count only change; reranker, processor and group go with None."""
    house = make_house(processors=[OcrProcessor(slots=tmp_path / "slots")])
    base = house.base()
    group = house.service.create_group("papers")
    full = house.service.patch_base(
        base.id, BasePatch(rerank_model="r", file_processor="ocr", group_id=group.id, threshold=0.5)
    )
    cleared = house.service.patch_base(base.id, BasePatch(rerank_model=None, file_processor=None, group_id=None))

    assert ("r", "ocr", group.id) == (full.rerank_model, full.file_processor, full.group_id)
    assert (None, None, None, 0.5) == (cleared.rerank_model, cleared.file_processor, cleared.group_id, cleared.threshold)
    for field in ("threshold", "document_count", "name", "chunk_size"):
        with pytest.raises(ValidationError):
            BasePatch(**{field: None})
