"""The hot questions to the catalogue are answered from an index: no table is walked, whatever the backlog."""

from datetime import timedelta
from itertools import pairwise

import pytest
from sqlalchemy import event, text

from knowledge.catalog import items, jobs, orphans, paths, status, tree
from knowledge.catalog.jobs import window
from knowledge.db.columns import utc_now
from knowledge.model.jobs import JobSpec, Track
from knowledge.model.status import ItemStatus


@pytest.fixture
def plan_of(house):
    """Runs `ask(tx)` and gives SQLite's plan of each statement it sent, as one text a statement."""

    def plan(ask):
        sent = []
        with house.db.write() as tx:

            def remember(connection, cursor, statement, parameters, context, executemany):
                sent.append((statement, parameters[0] if executemany else parameters))

            event.listen(tx.engine, "before_cursor_execute", remember)
            try:
                ask(tx)
            finally:
                event.remove(tx.engine, "before_cursor_execute", remember)
            return [
                "\n".join(row.detail for row in tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters))
                for statement, parameters in sent
                if not statement.startswith(("SAVEPOINT", "RELEASE"))
            ]

    return plan


def walked(plans):
    """Lines that read a whole table, sort what an index gives in order, or descend a tree by reading the base at each step."""
    lines = [line for plan in plans for line in plan.splitlines()]
    climbs = [after for line, after in pairwise(lines) if line == "RECURSIVE STEP" and not after.startswith("SCAN")]
    return climbs + [
        line
        for line in lines
        if (line.startswith("SCAN knowledge_") and "INDEX" not in line)
        or line.endswith("ix_job_base_created (base_id=?)")
        or "TEMP B-TREE" in line
    ]


@pytest.fixture
def base(house):
    return house.base()


@pytest.fixture
def job(house, base):
    house.notes(base, "one", "two")
    return house.claim(house.sender.waiting[0]).job


def test_what_may_be_published_comes_from_the_waiting_index_in_order(plan_of, base):
    """Neither the window nor the order reads more than it takes; jobs of one commit are not sorted at each look."""
    plans = plan_of(lambda tx: jobs.take_due(tx, base.id, 5, utc_now()))

    assert [] == walked(plans)
    assert 2 == sum("ix_job_flying" in plan for plan in plans)
    assert 3 == sum("ix_job_waiting" in plan for plan in plans)


def test_is_anything_due_looks_at_waiting_rows_only(plan_of, base):
    """The question each finished job asks."""
    (plan,) = plan_of(lambda tx: jobs.has_due(tx, base.id, utc_now()))

    assert "ix_job_waiting (base_id=? AND track=?)" in plan


def test_bases_with_work_are_found_by_a_look_up_each(plan_of):
    """The tick walks bases, never jobs."""
    (plan,) = plan_of(lambda tx: jobs.bases_with_due(tx, utc_now()))

    assert "ix_job_waiting (base_id=? AND track=?)" in plan
    assert "SCAN knowledge_job" not in plan


def test_the_window_is_counted_from_its_own_index(plan_of, base):
    """The count costs the size of the window, not of the backlog."""
    (plan,) = plan_of(lambda tx: window.flying(tx, base.id, Track.INDEX))

    assert "ix_job_flying (base_id=? AND track=?)" in plan


@pytest.mark.parametrize(
    "ask",
    [
        lambda tx, job: jobs.claim_next(tx, job, job.owner, 60, 5),
        lambda tx, job: jobs.renew(tx, job, 60, {}),
        lambda tx, job: jobs.require_ours(tx, job),
        lambda tx, job: jobs.finish(tx, job),
        lambda tx, job: jobs.fail(tx, job, "x", {}),
        lambda tx, job: jobs.put_back(tx, job, delay_seconds=1),
        lambda tx, job: jobs.close_lost(tx, job),
        lambda tx, job: jobs.revoke(tx, job),
        lambda tx, job: jobs.clear_published(tx, [job.id]),
        lambda tx, job: jobs.cancel_touching(tx, job.base_id, job.item_ids),
        lambda tx, job: jobs.running_touching(tx, job.base_id, job.item_ids),
        lambda tx, job: jobs.enqueue(tx, JobSpec.index_documents(job.base_id, job.only_item), shard="main"),
        lambda tx, job: jobs.running_in(tx, job.base_id),
        lambda tx, job: jobs.expired(tx, utc_now() + timedelta(days=1)),
        lambda tx, job: jobs.prune(tx),
        lambda tx, job: jobs.lost_by(tx, "host", utc_now(), utc_now()),
        lambda tx, job: status.begin(tx, job.only_item, ItemStatus.READING),
        lambda tx, job: status.park_unfinished(tx, job, "x", {}),
        lambda tx, job: status.mark_deleting(tx, job.base_id, job.item_ids),
        lambda tx, job: status.reconcile(tx, job.base_id, job.item_ids),
        lambda tx, job: tree.outermost(tx, job.base_id, job.item_ids),
        lambda tx, job: tree.deleting_ids(tx, job.base_id, job.item_ids, limit=10),
        lambda tx, job: tree.unfinished_leaves(tx, job.base_id),
        lambda tx, job: items.visible(tx, job.base_id, job.item_ids),
        lambda tx, job: items.children(tx, job.base_id, job.only_item),
        lambda tx, job: items.remove(tx, job.base_id, job.item_ids),
        lambda tx, job: paths.reserve(tx, job.base_id, job.only_item, "a.md"),
        lambda tx, job: paths.reserve(tx, job.base_id, job.only_item, "a.md", folder="docs"),
        lambda tx, job: orphans.leaves_without_job(tx),
        lambda tx, job: orphans.containers_without_work(tx),
        lambda tx, job: orphans.deletes_without_job(tx),
    ],
)
def test_no_step_of_a_job_walks_a_table(plan_of, job, ask):
    """What runs once a job, or once a sweep, costs what it touches and not what there is."""
    assert [] == walked(plan_of(lambda tx: ask(tx, job)))


def test_lost_work_is_looked_for_among_unsettled_items_only(plan_of):
    """The sweep never reads the millions that are done."""
    (plan,) = plan_of(lambda tx: orphans.leaves_without_job(tx))

    assert "knowledge_item USING INDEX ix_item_unsettled" in plan
    assert "ix_job_item_item (item_id=?)" in plan


def test_expired_leases_come_from_the_index_of_running_jobs(plan_of):
    """The sweep's first question reads running rows only."""
    plans = plan_of(lambda tx: jobs.expired(tx, utc_now()))

    assert "ix_job_running (lease_until<?)" in plans[0]


def test_a_container_asks_its_children_by_index(house, base, plan_of, tmp_path):
    """Each closing transaction asks whether siblings are unfinished: a look-up, however many there are."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("one")
    (folder,) = house.add(base, tmp_path / "docs")
    house.work()
    plans = plan_of(lambda tx: status.reconcile(tx, base.id, [folder.id]))

    assert [] == walked(plans)
    assert any("ix_item_parent_status (base_id=? AND group_id=? AND status=?)" in plan for plan in plans)


def test_the_plans_can_fail(plan_of):
    """A question without an index is seen by these tests."""
    assert [] != walked(plan_of(lambda tx: tx.execute(text("SELECT * FROM knowledge_job WHERE publishes = 3")).all()))
