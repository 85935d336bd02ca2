"""Names of staged files tell whether somebody may still publish them."""

import subprocess
import sys

from knowledge.files import token
from knowledge.files.token import is_orphan, is_token, new_token

MAKE = "from knowledge.files.token import new_token\nprint(new_token(), flush=True)\n"


def of_another_process(then=""):
    return subprocess.run([sys.executable, "-c", MAKE + then], check=True, capture_output=True, text=True).stdout.split()


def test_no_two_are_the_same():
    """All of one process begin alike."""
    tokens = {new_token() for _ in range(1000)}

    assert 1000 == len(tokens)
    assert all(map(is_token, tokens))
    assert 1 == len({name[:23] for name in tokens})


def test_of_a_process_that_lives_is_no_orphan():
    assert not is_orphan(new_token())
    with subprocess.Popen([sys.executable, "-c", MAKE + "input()"], stdin=-1, stdout=-1, text=True) as process:
        made = process.stdout.readline().strip()
        assert is_token(made)
        assert not is_orphan(made)
        process.communicate("\n")
    assert is_orphan(made)


def test_a_child_makes_its_own():
    """A pool process is a fork: what it made is an orphan when it is gone, though its parent lives."""
    fork = "import os\nif not os.fork():\n    print(new_token(), flush=True)\n    os._exit(0)\nos.wait()\nprint(new_token())\n"
    before, inside, after = of_another_process(fork)

    assert before[:23] == after[:23] != inside[:23]


def test_of_another_host_nobody_can_tell(monkeypatch):
    """Its processes cannot be looked at from here."""
    (made,) = of_another_process()
    assert is_orphan(made)
    monkeypatch.setattr(token.socket, "gethostname", lambda: "elsewhere")

    assert not is_orphan(made)


def test_other_names_are_none():
    for name in ("", "0" * 31, "0" * 33, "x" * 32, "../" + "0" * 32, "0" * 32 + "\n"):
        assert not is_token(name)
        assert not is_orphan(name)
