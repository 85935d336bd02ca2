"""What a person does: kill the index worker while `item add --wait` imports many files, read what is said, and type that."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from knowledge.interfaces.cli import ExitCode
from knowledge.model.documents import text_hash
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus
from tests.faults.gates import Moment
from tests.fleet import ROOT, paragraphs

MANY, SOME = 500, 100  #: files
COMMAND = [sys.executable, "-m", "knowledge.interfaces.cli"]


@pytest.fixture
def texts(tmp_path: Path, files: int):
    """A folder of so many files; their texts."""
    texts = paragraphs(files)
    (tmp_path / "papers" / "old").mkdir(parents=True)
    for number, text in enumerate(texts):
        (tmp_path / "papers" / ("old" if number % 2 else "") / f"{number:03}.md").write_text(text)
    return texts


def start(fleet, *arguments):
    return subprocess.Popen(
        [*COMMAND, *map(os.fspath, arguments)],
        cwd=ROOT, env=fleet.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(fleet, *arguments):
    done = start(fleet, *arguments)
    out, said = done.communicate(timeout=250)
    return done.returncode, out, said


@pytest.mark.parametrize(("moment", "files"), [(Moment.EMBEDDING, MANY), (Moment.COPYING, SOME)])
def test_a_killed_worker_is_shown_and_one_command_finishes(fleet, base, gate, tmp_path, texts, moment, files):
    """Two files in the embedder's hands, or a half expanded directory: what was lost is named with its reason, `item reindex
    --interrupted` finishes it, and nothing that was paid for is paid again.
    """
    if moment is Moment.EMBEDDING:
        fleet.embedder.behave({"behaviour": "gate", "skip": 20})
    else:
        gate(Moment.COPYING).arm(skip=files - 10)
    adding = start(fleet, "item", "add", base.id, tmp_path / "papers", "--wait", "--timeout", "200")
    if moment is Moment.EMBEDDING:
        fleet.embedder.wait_until_held(2)  # both slots: the expansion is done
    else:
        gate(Moment.COPYING).wait()
    fleet.kill_worker("index")
    fleet.let_go()
    fleet.launch("index")
    out, said = adding.communicate(timeout=250)

    assert ExitCode.PARTIAL == adding.returncode, said
    (root,) = fleet.service.list_items(base.id, roots_only=True).items
    lost = [item for item in fleet.service.failures(base.id) if item.error == "indexing_interrupted"]
    assert lost == list(fleet.service.failures(base.id))
    assert len(lost) == len(re.findall(r"^failed: \S+: indexing_interrupted", said, re.MULTILINE)) > 0
    assert (moment is Moment.COPYING) == (root.id in {item.id for item in lost})
    (typed,) = re.findall(r"finish them with: knowledge (.*)", said)

    code, out, said = run(fleet, *shlex.split(typed), "--json", "--timeout", "200")
    told = json.loads(out)
    assert (ExitCode.OK, "settled") == (code, told["wait"]["outcome"]), said
    named = {root.id} if moment is Moment.COPYING else {item.id for item in lost}
    assert named == set(told["root_ids"]), "the outermost of what was lost"
    assert {ItemStatus.COMPLETED: files} == fleet.service.status_counts(base.id).leaves
    assert ItemStatus.COMPLETED is fleet.service.item(root.id).status
    sent = fleet.embedder.sent()
    assert {text_hash(text) for text in texts} <= sent.keys()
    assert sum(sent.values()) - len(sent) <= 2, "no more than the two requests that were on their way"
    code, out, said = run(fleet, *shlex.split(typed))
    assert (ExitCode.OK, "") == (code, out)
    assert "nothing to index again" in said
    assert [] == fleet.jobs(JobStatus.PENDING, JobStatus.RUNNING)
