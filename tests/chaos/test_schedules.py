"""A few schedules of real processes; `make chaos` plays hundreds. What draws them and what judges them is tested for itself."""

import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.chaos.schedules import promises
from tests.chaos.schedules.diary import Entry, Span, Story
from tests.chaos.schedules.people import Asked
from tests.chaos.schedules.plan import PHASES, Ambush, draw
from tests.chaos.sound import INTERRUPTED, Broken

ROOT = Path(__file__).parents[2]
INDEX = "knowledge.index-documents"


def test_five_schedules_keep_every_promise():
    """Five seeds of operations and blows, one in each phase at least, on one fleet."""
    command = [sys.executable, "-m", "tests.chaos.schedules", "--schedules", "5", "--seed", "7", "--slow", "5"]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)

    assert 0 == done.returncode, done.stdout + done.stderr


def test_schedules_follow_from_seed_and_number():
    """Drawn again they are the same; another number or seed gives another one."""
    assert draw(3, 4) == draw(3, 4)
    assert 40 == len({tuple(draw(seed, number)) for seed in (1, 2) for number in range(20)})


def test_each_phase_is_ambushed_often():
    """Of any five schedules in a row, one at least waits for a process in each phase."""
    steps = [step for number in range(100, 105) for step in draw(1, number)]

    assert set(PHASES) <= {step.phase for step in steps if isinstance(step, Ambush)}


def story(*told):
    """Entries of (kind, id, status, error or key, note, above), one a second."""
    return Story([Entry(at, float(at), kind, which, "base", *rest) for at, (kind, which, *rest) in enumerate(told, 1)])


def item(which, status, error=None):
    return ("item", which, status, error, f"source of {which}", None)


def job(which, status, key="key", parent=None, note=INDEX):
    return ("job", which, status, key, note, parent)


def link(which, named):
    return ("link", which, "", None, named, None)


def test_second_job_with_a_key_is_found():
    """Also if the first has ended by the time of the next look."""
    one, other = job("1", "pending"), job("2", "pending")
    promises._keys_admit_one_job(story(one, job("1", "completed"), other))
    promises._keys_admit_one_job(story(one, job("1", "stopping"), other, job("1", "cancelled")))

    with pytest.raises(Broken, match="two active jobs"):
        promises._keys_admit_one_job(story(one, job("1", "running"), other, job("1", "completed")))


def test_run_that_nobody_asked_for_is_found():
    """After an interruption a run needs somebody who asked since, or a reindex that was taken up since."""
    before = [item("a", "processing"), job("1", "pending"), link("1", "a"), item("a", "failed", INTERRUPTED)]  # 4
    again = [job("2", "pending", "other", "above"), link("2", "a"), job("2", "running", "other", "above")]
    reindex = job("above", "running", "above", note="knowledge.reindex-subtree")
    asked = Asked(frozenset({"a"}), None, 4)
    promises._runs_were_asked_for([asked], story(*before, *again))
    promises._runs_were_asked_for([Asked(frozenset(), "base", math.inf)], story(*before, *again))
    promises._runs_were_asked_for([], story(*before, reindex, *again))

    for asks, told in (
        ([], [*before, *again]),
        ([Asked(frozenset({"a"}), None, 3)], [*before, *again]),
        ([], [reindex, *before, *again]),
    ):
        with pytest.raises(Broken, match="nobody asked"):
            promises._runs_were_asked_for(asks, story(*told))


def test_row_that_comes_back_is_found():
    """What is being deleted may only go."""
    promises._nothing_deleted_comes_back(story(item("a", "completed"), item("a", "deleting"), item("a", "gone")))

    with pytest.raises(Broken, match="never comes back"):
        promises._nothing_deleted_comes_back(story(item("a", "deleting"), item("a", "completed")))


def judge(sent, *runs, answered=None, stored=None, unpaid_late=0, woken_late=0):
    """The bill over one text that was sent at these seconds, while these runs of one item were under way."""
    bill = {"text": {"sent": sent, "answered": sent if answered is None else answered}, "question": {"sent": [1.0] * 9}}
    people = SimpleNamespace(others={"question"}, holders={"text": {"source of a"}})
    made = promises._Bill(people, story(item("a", "processing")), bill, {} if stored is None else {"text": stored})
    made._runs["source of a"] += [Span(str(number), 0, *run) for number, run in enumerate(runs)]
    made.insist(unpaid_late=unpaid_late, woken_late=woken_late)


def test_text_sent_outside_of_every_run_is_found():
    """A run of an item that holds the text must be under way."""
    judge([5.0], (4.0, 6.0, "completed"), stored=5.1)
    judge([6.5], (4.0, 6.0, "cancelled"))  # its process was lost, and what it had sent was read late

    for run in ((4.0, 6.0, "completed"), (4.0, 8.0, "cancelled", 5.0)):  # the second was asked to stop long before
        with pytest.raises(Broken, match="by the run of an item"):
            judge([6.5], run, stored=6.6)


def test_batch_of_a_process_that_was_woken_is_excused_once():
    """It stood still between its last look and the request; nobody but a lost run is excused, and not for another batch."""
    run = (4.0, 8.0, "cancelled", 5.0)
    judge([8.1], run, answered=[], woken_late=1)

    for sent, one in (([8.1, 8.2], run), ([3.9], run), ([8.1], (4.0, 8.0, "completed"))):
        with pytest.raises(Broken, match="by the run of an item"):
            judge(sent, one, answered=[], woken_late=1)


def test_text_sent_again_although_it_was_stored_is_found():
    """Only a run that had begun before may not have seen it."""
    judge([5.0, 5.2], (4.0, 6.0), (4.5, 6.0), stored=5.1)

    with pytest.raises(Broken, match="had been stored"):
        judge([5.0, 7.0], (4.0, 6.0), (6.5, 8.0), stored=5.1)


def test_answer_that_was_not_kept_is_found():
    """A run that was lost excuses one batch, an answer that came too late itself, and nothing else does."""
    judge([5.0, 7.0], (4.0, 6.0, "cancelled"), (6.5, 8.0, "completed"), stored=7.1)
    judge([5.0, 7.0], (4.0, 6.0), (6.5, 8.0), stored=7.1, answered=[7.0])
    judge([5.0, 7.0], (4.0, 6.0), (6.5, 8.0), stored=7.1, unpaid_late=1)

    for told in ({"stored": 7.1}, {"unpaid_late": 1}):
        with pytest.raises(Broken, match="is stored, unless"):
            judge([5.0, 7.0], (4.0, 6.0, "completed"), (6.5, 8.0, "completed"), **told)
