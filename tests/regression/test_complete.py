"""The list is whole: each of the 132 behaviours is tested."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
BEHAVIOURS = set(range(1, 133))
NOT_RUN = {"skip", "skipif", "xfail", "importorskip"}


def _tested():
    """The numbers in the names of tests that are always run: functions of a module, without a way round them."""
    found = set()
    for path in HERE.glob("test_*.py"):
        module = ast.parse(path.read_text()).body
        tests = [node for node in module if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
        if not any(_may_be_left_out(node) for node in module if node not in tests):
            names = [node.name for node in tests if not _may_be_left_out(node)]
            found |= {int(match[1]) for name in names if (match := re.match(r"test_(\d{3})_", name))}
    return found


def _may_be_left_out(node):
    return any(getattr(part, "attr", None) in NOT_RUN for part in ast.walk(node))


def _changed():
    """The numbers in the table of the README, in order."""
    return [int(number) for number in re.findall(r"^\| (\d+) \|", (HERE / "README.md").read_text(), re.MULTILINE)]


def test_every_behaviour_is_tested():
    """Each number, and no other."""
    assert BEHAVIOURS == _tested()


def test_each_change_is_told_once():
    """In the order of the numbers."""
    changed = _changed()

    assert sorted(set(changed)) == changed
    assert set(changed) <= BEHAVIOURS


def test_every_row_says_why():
    """No empty cell."""
    rows = [line for line in (HERE / "README.md").read_text().splitlines() if re.match(r"\| \d", line)]

    assert all(cell.strip() for row in rows for cell in row.strip("|").split("|"))
