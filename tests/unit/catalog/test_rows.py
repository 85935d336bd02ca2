"""What the database itself refuses, whoever writes: named CHECKs, keys and cascades."""

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError

from knowledge.catalog.rows import BASE, ITEM, JOB
from knowledge.db.columns import utc_now
from knowledge.model.ids import new_base_id
from knowledge.model.jobs import JobStatus, JobType, Recovery, Track
from knowledge.model.status import BaseStatus, ItemStatus, ItemType
from tests.rows import new_base, new_folder, new_item


def base_row(**columns):
    now = utc_now()
    row = {
        "id": new_base_id(),
        "name": "shelf",
        "status": BaseStatus.COMPLETED,
        "chunk_size": 1024,
        "chunk_overlap": 200,
        "chunk_strategy": "structured",
        "chunk_separator": "\\n\\n",
        "fail_on_empty": False,
        "shard": "main",
        "created_at": now,
        "updated_at": now,
    }
    return BASE.insert().values(**row | columns)


@pytest.mark.parametrize(
    ("check", "columns"),
    [
        ("ck_base_name", {"name": "  "}),
        ("ck_base_status_error", {"embedding_model_id": "m"}),
        ("ck_base_status_error", {"dimensions": 3}),
        ("ck_base_status_error", {"embedding_model_id": "m", "dimensions": 0}),
        ("ck_base_status_error", {"error": "x"}),
        ("ck_base_status_error", {"status": BaseStatus.FAILED}),
        ("ck_base_status_error", {"status": BaseStatus.FAILED, "error": " "}),
        ("ck_base_chunking", {"chunk_size": 100}),
        ("ck_base_chunking", {"chunk_overlap": 1024}),
        ("ck_base_chunking", {"chunk_overlap": -1}),
        ("ck_base_chunk_strategy", {"chunk_strategy": "semantic"}),
        ("ck_base_chunk_separator", {"chunk_strategy": "delimiter", "chunk_separator": ""}),
        ("ck_base_threshold", {"threshold": 1.01}),
        ("ck_base_document_count", {"document_count": 0}),
    ],
)
def test_a_base_that_makes_no_sense_is_refused_by_name(tx, check, columns):
    """Each rule of a base is a CHECK, and the error names it."""
    with pytest.raises(IntegrityError, match=check):
        tx.execute(base_row(**columns))


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"embedding_model_id": "m", "dimensions": 3},
        {"status": BaseStatus.FAILED, "error": "missing_embedding_model", "embedding_model_id": "m"},
        {"status": BaseStatus.FAILED, "error": "missing_vector_store", "dimensions": 3},
    ],
)
def test_a_base_has_both_model_and_width_or_neither_unless_it_failed(tx, columns):
    """Complete bases are whole; failed ones may have lost a half."""
    tx.execute(base_row(**columns))


@pytest.mark.parametrize(
    ("check", "columns"),
    [
        ("ck_item_error_only_failed|ck_item_failed_has_error", {"status": ItemStatus.COMPLETED, "error": "x"}),
        ("ck_item_failed_has_error", {"status": ItemStatus.FAILED, "error": None}),
        ("ck_item_failed_has_error", {"status": ItemStatus.FAILED, "error": "  "}),
        ("ck_item_type_status", {"status": ItemStatus.PREPARING}),
        ("ck_item_type_status", {"kind": ItemType.DIRECTORY, "status": ItemStatus.READING}),
        ("ck_item_type_status", {"kind": ItemType.DIRECTORY, "status": ItemStatus.EMBEDDING}),
        ("ck_item_expanded_container", {"expanded_at": utc_now()}),
    ],
)
def test_an_item_that_makes_no_sense_is_refused_by_name(tx, check, columns):
    """Status and error are one fact, and each type has its own statuses."""
    base_id = new_base(tx)

    with pytest.raises(IntegrityError, match=check):
        new_item(tx, base_id, **columns)


def test_a_parent_lives_in_the_same_base(tx):
    """No item can hang below a row of another base."""
    here, there = new_base(tx), new_base(tx)
    folder = new_folder(tx, here)

    with pytest.raises(IntegrityError):
        new_item(tx, there, folder)


def test_two_items_cannot_share_a_stored_path(tx):
    """One path, one owner; in another base it is free."""
    here, there = new_base(tx), new_base(tx)
    new_item(tx, here, relative_path="a.md")
    new_item(tx, there, relative_path="a.md")

    with pytest.raises(IntegrityError):
        new_item(tx, here, relative_path="a.md")


def test_removing_a_folder_removes_what_is_below_and_nothing_beside(tx):
    """The cascade follows the tree."""
    base_id = new_base(tx)
    outer = new_folder(tx, base_id)
    inner = new_folder(tx, base_id, outer)
    new_item(tx, base_id, inner)
    beside = new_item(tx, base_id)
    tx.execute(ITEM.delete().where(ITEM.c.id == outer))

    assert [beside] == list(tx.scalars(select(ITEM.c.id)))


def test_removing_a_base_takes_its_items_and_leaves_those_of_others(tx):
    """Bases do not touch each other."""
    here, there = new_base(tx), new_base(tx)
    new_item(tx, here)
    kept = new_item(tx, there)
    tx.execute(BASE.delete().where(BASE.c.id == here))

    assert [kept] == list(tx.scalars(select(ITEM.c.id)))


@pytest.mark.parametrize(
    ("check", "columns"),
    [
        ("ck_job_running_has_owner", {"status": JobStatus.RUNNING, "lease_until": utc_now()}),
        ("ck_job_running_has_lease", {"status": JobStatus.RUNNING, "run_token": "t"}),
        ("ck_job_waiting_not_cancelled", {"cancel_requested_at": utc_now()}),
        ("ck_job_terminal_finished", {"finished_at": utc_now()}),
        ("ck_job_terminal_finished", {"status": JobStatus.COMPLETED}),
    ],
)
def test_a_job_that_makes_no_sense_is_refused_by_name(tx, check, columns):
    """Running means owned and leased; ended means finished; waiting is never cancel-requested."""
    now = utc_now()
    row = {
        "id": "j",
        "type": JobType.INDEX_DOCUMENTS,
        "base_id": "b",
        "shard": "main",
        "track": Track.INDEX,
        "recovery": Recovery.ABANDON,
        "status": JobStatus.PENDING,
        "priority": 0,
        "idempotency_key": "k",
        "attempt": 0,
        "losses": 0,
        "publishes": 0,
        "scheduled_at": now,
        "error_detail": {},
        "progress": {},
        "created_at": now,
        "updated_at": now,
    }

    with pytest.raises(IntegrityError, match=check):
        tx.execute(JOB.insert().values(**row | columns))
    assert 0 == tx.scalar(select(func.count()).select_from(JOB))
