"""A base may choose a file processor that is there; what it brings along from elsewhere it keeps."""

import json
from zipfile import ZipFile

import pytest

from knowledge.catalog import bases
from knowledge.errors import InvalidInput
from knowledge.model.inputs import BaseInput, BasePatch
from knowledge.pipeline.conversion.ocr import OcrProcessor
from tests.near import Near


@pytest.fixture
def house(make_house, tmp_path):
    """With OCR, installed or not set up."""
    return make_house(processors=[OcrProcessor(slots=tmp_path / "slots")])


@pytest.mark.parametrize("caller", ["in process", "client"])
def test_choosing_one_that_is_not_there_is_refused(house, caller):
    """When a base is made and when it is changed; nothing has happened, and those there are are named."""
    ask = house.service if caller == "in process" else Near(house, [])
    base = ask.create_base(BaseInput(name="b", file_processor="ocr"))
    for choose in (
        lambda: ask.create_base(BaseInput(name="c", file_processor="nosuch")),
        lambda: ask.patch_base(base.id, BasePatch(name="d", file_processor="nosuch")),
    ):
        with pytest.raises(InvalidInput) as refusal:
            choose()
        assert {"field": "file_processor", "known": ["ocr"]} == refusal.value.details
        assert "'nosuch'; there is: ocr" in str(refusal.value)

    assert [("b", "ocr")] == [(base.name, base.file_processor) for base in house.service.list_bases()]


def test_one_that_need_not_be_ready_may_be_chosen(house, monkeypatch, tmp_path):
    """What is installed and not set up says so when it is needed."""
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "ocr" == house.base(file_processor="ocr").file_processor


def test_what_a_base_brings_along_is_kept(house, tmp_path):
    """A bundle, and a base from before the processor was removed; both can let go of it."""
    with ZipFile(tmp_path / "bundle.zip", "w") as archive:
        text = {"format": 1, "base": {"name": "moved", "file_processor": "elsewhere"}, "items": []}
        archive.writestr("base.json", json.dumps(text))
    old = house.base()
    with house.db.write() as tx:
        bases.change(tx, old.id, {"file_processor_id": "gone"})
    moved = house.service.import_base(tmp_path / "bundle.zip")
    new = house.service.restore_base(old.id, "new", None).base

    assert ("elsewhere", "gone") == (moved.file_processor, new.file_processor)
    assert "other" == house.service.patch_base(moved.id, BasePatch(name="other")).name
    assert house.service.patch_base(moved.id, BasePatch(file_processor=None)).file_processor is None
