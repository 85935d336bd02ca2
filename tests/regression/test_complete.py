"""The list is whole: each of the 132 behaviours is tested, or said to arrive later."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
BEHAVIOURS = set(range(1, 133))


def _tested():
    """Number → names of its tests."""
    found = {}
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and (match := re.match(r"test_(\d{3})_", node.name)):
                found.setdefault(int(match[1]), set()).add(node.name)
    return found


def _listed(heading):
    """The numbers in the table below a heading of the README, in order."""
    part = (HERE / "README.md").read_text().split(f"## {heading}")[1].split("\n## ")[0]
    return [int(number) for number in re.findall(r"^\| (\d+) \|", part, re.MULTILINE)]


def test_every_behaviour_is_accounted_for_once():
    """Tested, or not there yet; never both, never neither."""
    tested, later = set(_tested()), _listed("Not yet")

    assert sorted(set(later)) == later
    assert set() == tested & set(later)
    assert BEHAVIOURS == tested | set(later)


def test_what_is_changed_is_tested_all_the_same():
    """A row of that table is a promise of its own."""
    changed = _listed("Changed")

    assert sorted(set(changed)) == changed
    assert set(changed) <= set(_tested())


def test_every_row_says_why():
    """No empty cell."""
    rows = [line for line in (HERE / "README.md").read_text().splitlines() if re.match(r"\| \d", line)]

    assert all(cell.strip() for row in rows for cell in row.strip("|").split("|"))
