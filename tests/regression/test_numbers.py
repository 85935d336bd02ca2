"""Numbers and words that cannot be meant: refused by name, by every caller, and nothing else than our own errors."""

import json
import zipfile

import pytest
from pydantic import ValidationError

from knowledge.errors import BaseNotFound, InvalidInput, KnowledgeError
from knowledge.model.inputs import (
    MAX_CHUNK_TOKENS,
    MAX_DIMENSIONS,
    MAX_DOCUMENT_COUNT,
    BaseInput,
    BasePatch,
    BaseQuery,
    NoteInput,
)
from tests.near import Near

HUGE = [2**63, 10**23, 10**30, 10**5000]
NO_COUNTS = [*HUGE, 0, -1, True, False, "7", 1.5, float("nan"), float("inf")]


def _id(value):
    return str(value) if not isinstance(value, int) or value < 10**40 else "of thousands of digits"


@pytest.fixture(params=["in process", "client"])
def ask(request, house):
    return house.service if request.param == "in process" else Near(house, [])


@pytest.fixture
def base(house):
    return house.base()


@pytest.fixture
def note(house, base):
    (note,) = house.notes(base, "The lighthouse.")
    house.work()
    return note


CALLS = {
    "failures": ("limit", lambda ask, base, note, value: ask.failures(base.id, limit=value)),
    "list_items": ("limit", lambda ask, base, note, value: ask.list_items(base.id, limit=value)),
    "list_jobs": ("limit", lambda ask, base, note, value: ask.list_jobs(limit=value)),
    "preview": ("characters", lambda ask, base, note, value: ask.preview(note.id, characters=value)),
    "search": ("limit", lambda ask, base, note, value: ask.search(base.id, "lighthouse", limit=value)),
}


@pytest.mark.parametrize("value", NO_COUNTS, ids=_id)
@pytest.mark.parametrize(("name", "call"), CALLS.values(), ids=CALLS)
def test_a_count_that_is_none_is_refused_by_name(ask, base, note, name, call, value):
    """Too large, too small, or no whole number; a client's text that looks like one is read as one."""
    if isinstance(ask, Near) and value in ("7", True):
        return
    with pytest.raises(InvalidInput) as refusal:
        call(ask, base, note, value)

    assert name in str(refusal.value) or (value == 10**5000 and "digits" in str(refusal.value))


@pytest.mark.parametrize("value", NO_COUNTS, ids=_id)
@pytest.mark.parametrize("field", ["chunk_size", "document_count"])
@pytest.mark.parametrize("kind", [BaseInput, BasePatch])
def test_a_size_that_cannot_be_meant_is_refused_by_name(kind, field, value):
    """Before anything is opened."""
    with pytest.raises(ValidationError) as refusal:
        kind(name="b", **{field: value})

    assert {(field,)} == {error["loc"] for error in refusal.value.errors()}


@pytest.mark.parametrize("value", [value for value in NO_COUNTS if value != 0 or value is False], ids=_id)
@pytest.mark.parametrize("kind", [BaseInput, BasePatch])
def test_an_overlap_that_cannot_be_meant_is_refused_by_name(kind, value):
    """None at all is one."""
    with pytest.raises(ValidationError) as refusal:
        kind(name="b", chunk_overlap=value)

    assert {("chunk_overlap",)} == {error["loc"] for error in refusal.value.errors()}


def test_the_largest_sizes_are_kept(house, ask):
    """What is just allowed works."""
    base = ask.create_base(BaseInput(name="b", chunk_size=MAX_CHUNK_TOKENS, document_count=MAX_DOCUMENT_COUNT))
    house.notes(base, "The lighthouse.")
    house.work()

    assert (MAX_CHUNK_TOKENS, MAX_DOCUMENT_COUNT) == (base.chunk_size, base.document_count)
    assert 1 == len(ask.search(base.id, "lighthouse").hits)


def test_a_page_of_bases_is_bounded():
    """A limit is a whole number from 1 to 100."""
    for value in (*NO_COUNTS, 101):
        with pytest.raises(ValidationError):
            BaseQuery(limit=value)


FIELDS = {
    "dimensions": [10**30, 2**63, MAX_DIMENSIONS + 1, 0, -1, 1e30, "7", True],
    "format": [True, "1", 2, 0],
    "base.chunk_size": [1e30, 10**30, 2**63, "7", True],
    "base.document_count": [1e30, 10**30, 2**63, "7", True, 0],
    "base.chunk_overlap": [1e30, 10**30, 2**63, "7", True, -1],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in FIELDS.items() for value in values])
@pytest.mark.parametrize("embedder", ["hashing", "not/declared"])
def test_a_bundle_with_such_a_number_leaves_nothing(house, ask, tmp_path, field, value, embedder):
    """Our own error names the field."""
    base = {"name": "moved", "embedder": embedder}
    manifest = {"format": 1, "base": base, "items": []}
    where = base if field.startswith("base.") else manifest
    where[field.removeprefix("base.")] = value
    with zipfile.ZipFile(tmp_path / "bundle.zip", "w") as archive:
        archive.writestr("base.json", json.dumps(manifest))
    caller = ask if not isinstance(ask, Near) else Near(house, [tmp_path])
    with pytest.raises(InvalidInput) as refusal:
        caller.import_base(tmp_path / "bundle.zip")

    assert field == refusal.value.details["field"]
    assert [] == house.service.list_bases(include_deleting=True)
    assert [] == house.rt.files.base_ids()


def test_a_number_that_was_forgotten_is_our_own_error(house, base):
    """Whatever reaches a statement: the driver's overflow goes no further."""
    with pytest.raises(InvalidInput), house.db.write() as tx:
        tx.exec_driver_sql("SELECT ?", (2**63,))


WORDS = {
    "type": lambda ask, base: ask.list_items(base.id, type="bad"),
    "status": lambda ask, base: ask.list_items(base.id, status="bad"),
    "statuses": lambda ask, base: ask.list_jobs(statuses=["pending", "bad"]),
}


@pytest.mark.parametrize(("name", "call"), WORDS.items(), ids=WORDS)
def test_a_word_that_there_is_not_is_refused_by_name(ask, base, name, call):
    """A type, a status of an item, one of several of a job."""
    with pytest.raises(InvalidInput) as refusal:
        call(ask, base)

    assert name in str(refusal.value)


def test_words_may_be_plain_text(ask, base, note):
    """Whoever has no enum at hand is understood."""
    assert [note.id] == [item.id for item in ask.list_items(base.id, type="note", status="completed").items]
    assert 1 == ask.list_jobs(statuses=["completed"]).total


UNKNOWN = {
    "status_counts": lambda ask, base_id: ask.status_counts(base_id),
    "status_counts of roots": lambda ask, base_id: ask.status_counts(base_id, ["x"]),
    "coverage": lambda ask, base_id: ask.coverage(base_id),
    "failures": lambda ask, base_id: ask.failures(base_id),
    "list_items": lambda ask, base_id: ask.list_items(base_id),
}


@pytest.mark.parametrize("call", UNKNOWN.values(), ids=UNKNOWN)
def test_questions_about_a_base_that_is_not_there(house, ask, base, call):
    """One that never was, and one that was deleted: an error, and not a base without anything in it."""
    house.service.delete_base(base.id)
    for base_id in ("nowhere", base.id):
        with pytest.raises(BaseNotFound):
            call(ask, base_id)


def test_waiting_for_what_went_with_its_base_ends(house, base):
    """All of it counts as deleted meanwhile."""
    receipt = house.service.add_items(base.id, [NoteInput(content="one"), NoteInput(content="two")])
    house.service.delete_base(base.id)

    assert 2 == Near(house, []).wait(receipt, timeout_seconds=10).gone


@pytest.mark.parametrize("value", [10**5000, object(), {1}], ids=["digits", "object", "set"])
def test_what_no_message_can_hold_is_our_own_error(house, base, value):
    """Of a client: the caller gets no error of a library."""
    with pytest.raises(KnowledgeError):
        Near(house, []).failures(base.id, limit=value)
