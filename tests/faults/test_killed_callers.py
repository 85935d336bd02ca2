"""kill -9 of the command line while it adds a file: the item is there with its job, or nothing is."""

import os
import signal
import subprocess
import sys

import pytest

from knowledge.model.inputs import FileInput
from knowledge.model.status import ItemStatus
from tests.faults.gates import Moment
from tests.faults.promises import assert_promises
from tests.fleet import ROOT, paragraphs

CALLER = "from knowledge.interfaces.cli import main; main()"


@pytest.mark.parametrize("moment", [Moment.COPYING, Moment.PLACING, Moment.PLACED])
def test_killed_add_leaves_no_item_and_no_obstacle(fleet, base, gate, tmp_path, moment):
    """Before the commit nothing is accepted; the base is free at once and takes the same file again."""
    path = tmp_path / "essay.md"
    path.write_text("\n\n".join(paragraphs(2)))
    gate(moment).arm()
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER, "item", "add", base.id, str(path)],
        cwd=ROOT,
        env=fleet.environ | {"KNOWLEDGE_APP": "tests.faults.app:service"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        os.kill(gate(moment).wait(), signal.SIGKILL)
    finally:
        caller.kill()
        caller.wait()
    gate(moment).open()

    assert ([], []) == (fleet.service.list_items(base.id).items, fleet.jobs(base=base))
    (again,) = fleet.add(base, FileInput(path=path))
    assert ItemStatus.COMPLETED == fleet.settled(again).status
    fleet.strays[base.id] = 0 if moment is Moment.COPYING else 1  # the sweep takes it when it is an hour old
    assert_promises(fleet)
