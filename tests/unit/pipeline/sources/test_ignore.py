"""Patterns as git reads them: who has the last word, what is no pattern, and that none can hang a scan."""

import os
import time

import pytest

from knowledge.errors import InvalidInput
from knowledge.model.skip_reason import SkipReason
from knowledge.pipeline.sources.children import Child, Skipped
from knowledge.pipeline.sources.directory import DirectoryChildren
from knowledge.pipeline.sources.ignore import MAX_FILE_BYTES, Rules, Selection, require_patterns, rules_of


def taken(root, **options):
    entries = list(DirectoryChildren(root, lambda name, path: None, **options).scan(lambda: None))
    return [entry.relative for entry in entries if isinstance(entry, Child)], {
        entry.relative: entry.reason for entry in entries if isinstance(entry, Skipped)
    }


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    for path in ("a.md", "b.log", "keep.log", "out/c.md", "inner/d.log", "inner/e.md", "inner/out/f.md"):
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("words")
    return root


@pytest.mark.parametrize(
    ("pattern", "path", "said"),
    [
        ("*.log", "x.log", True),
        ("*.log", "deep/x.log", True),
        ("/x.log", "deep/x.log", None),
        ("deep/", "deep", None),
        ("a/**/z", "a/b/c/z", True),
        ("[ab].md", "c.md", None),
        ("\\#x", "#x", True),
        ("caf\ufffd.md", "caf\ufffd.md", True),
        ("長*", "長い.md", True),
    ],
)
def test_patterns_are_those_of_git(pattern, path, said):
    """A slash anchors, a closing one means folders, two stars cross folders."""
    assert said is Rules([pattern]).decide(path, is_directory=False)


def test_the_last_pattern_that_matches_decides():
    """Also over several hundred of them, which are compiled in groups."""
    rules = Rules(["*.md", *(f"*.x{number}" for number in range(500)), "!a.md"])

    assert (True, False, True) == tuple(rules.decide(path, is_directory=False) for path in ("b.md", "a.md", "c.x7"))


@pytest.mark.parametrize("line", ["", "  ", "# comment", "!", "/", "\\", "[z-a]", "x" * 1_001, "a\0b"])
def test_what_is_no_pattern_is_passed_over(line):
    """As git does; the others count."""
    rules = Rules([line, "*.log"])

    assert (None, True) == (rules.decide(line, is_directory=False), rules.decide("a.log", is_directory=False))


def test_no_pattern_hangs():
    """Forty stars against a name of the longest kind: a backtracking engine would not come back."""
    rules = Rules(["*a" * 40 + "b", "*" + "?*" * 100 + "b"])
    began = time.monotonic()

    assert rules.decide("a" * 250, is_directory=False) is None
    assert time.monotonic() - began < 5


def test_ignore_files_count_at_every_level(tree):
    """The inner one has the last word over what lies in it, and `.knowledgeignore` over `.gitignore`."""
    (tree / ".gitignore").write_bytes(b"\xef\xbb\xbf*.log\r\nout/\r\n")
    (tree / ".knowledgeignore").write_text("!keep.log\n")
    (tree / "inner" / ".gitignore").write_text("!*.log\ne.md\n")

    found, skipped = taken(tree)

    assert ["a.md", "inner/d.log", "keep.log"] == found
    assert {"b.log", "out", "inner/e.md", "inner/out"} == {
        path for path, reason in skipped.items() if reason is SkipReason.IGNORED
    }


def test_nothing_comes_back_from_a_folder_that_is_left_out(tree):
    """As with git: the folder is not looked into."""
    (tree / ".gitignore").write_text("out/\n!out/c.md\n")

    assert "out/c.md" not in taken(tree)[0]


def test_rules_of_the_folders_above_count_for_a_nested_one(tree):
    """A nested directory that is synchronised on its own takes what it would take as a part of the whole."""
    (tree / ".gitignore").write_text("*.log\n/inner/e.md\n")

    assert ["out/f.md"] == taken(tree / "inner", above="inner/")[0]
    assert ["f.md"] == taken(tree / "inner" / "out", above="inner/out/")[0]


@pytest.mark.parametrize("how", ["refused", "too large", "gone since the listing"])
def test_a_folder_whose_rules_cannot_be_read_is_not_read(tree, how, monkeypatch):
    """What it wants to keep to itself is not taken by mistake; nothing is said of what lies there, so nothing is removed."""
    (tree / "inner" / ".gitignore").write_text("#" * (MAX_FILE_BYTES + 1) if how == "too large" else "e.md")
    opening = os.open

    def refuse(path, *more, **options):
        if how == "refused" and str(path).endswith("inner/.gitignore"):
            raise PermissionError(13, "refused")
        if how == "gone since the listing" and str(path).endswith("inner/.gitignore"):
            raise FileNotFoundError(2, "gone")
        return opening(path, *more, **options)

    monkeypatch.setattr(os, "open", refuse)
    found, skipped = taken(tree)

    assert SkipReason.UNREADABLE is skipped["inner"]
    assert ["a.md", "b.log", "keep.log", "out/c.md"] == found


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_a_plain_file_says_what_to_ignore(tree, kind):
    """A link could lead anywhere, a pipe would never end."""
    place = tree / ".gitignore"
    if kind == "link":
        (tree.parent / "rules").write_text("*.md")
        place.symlink_to(tree.parent / "rules")
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()

    if kind == "folder":
        assert [] == rules_of(str(tree), {".gitignore"})
    assert "a.md" in taken(tree)[0]


def test_own_patterns_choose(tree):
    """`include` names files, `exclude` also folders; both count from the top of the tree."""
    assert ["a.md", "inner/e.md", "inner/out/f.md", "out/c.md"] == taken(tree, selection=Selection(["*.md"]))[0]
    assert ["a.md", "out/c.md"] == taken(tree, selection=Selection(["*.md"], ["inner/"]))[0]
    assert ["inner/e.md", "inner/out/f.md"] == taken(tree, selection=Selection(["/inner/**"], ["*.log"]))[0]
    assert ["e.md"] == taken(tree / "inner", selection=Selection(["*.md"], ["/inner/out"], "inner/"), above="inner/")[0]


def test_what_is_left_out_by_own_patterns_is_told(tree):
    """With the reason."""
    skipped = taken(tree, selection=Selection(exclude=["inner", "*.log"]))[1]

    assert {"b.log", "inner", "keep.log"} == skipped.keys()
    assert {SkipReason.EXCLUDED} == set(skipped.values())


@pytest.mark.parametrize("pattern", ["!", "/", "#x", "[z-a]", "\\"])
def test_an_own_pattern_that_is_none_is_refused(pattern):
    """Else it would match nothing, and nobody would see why."""
    with pytest.raises(InvalidInput) as refused:
        require_patterns("exclude", ["*.md", pattern])

    assert {"field": "exclude", "pattern": pattern} == refused.value.details


def test_what_tools_make_is_left_out(tree):
    """Packages, caches and environments by name or by the mark inside; a mark in the top folder itself means nothing."""
    for path in ("node_modules/x.md", "__pycache__/y.md", "env/pyvenv.cfg", "env/z.md", "c/CACHEDIR.TAG", "c/q.md", "~$a.docx"):
        place = tree / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("x")
    (tree / "pyvenv.cfg").write_text("x")
    (tree / "Thumbs.db").write_text("x")
    for hidden in (".git", ".obsidian", ".venv", ".cache"):
        (tree / hidden).mkdir()
        (tree / hidden / "x.md").write_text("x")

    found, skipped = taken(tree)

    assert ["a.md", "b.log", "inner/d.log", "inner/e.md", "inner/out/f.md", "keep.log", "out/c.md", "pyvenv.cfg"] == found
    assert {"node_modules", "__pycache__", "env", "c", "~$a.docx", "Thumbs.db"} == {
        path for path, reason in skipped.items() if reason is SkipReason.TOOLING
    }
    assert {".git", ".obsidian", ".venv", ".cache"} == {path for path, reason in skipped.items() if reason is SkipReason.HIDDEN}
