"""Which paths may exist below raw/."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.errors import UnsafePath
from knowledge.files.paths import derived, guard, guard_base


@pytest.mark.parametrize(
    "path", ["a", "a/b.txt", ".hidden/x", "..a", "a..b", "emoji 🧑‍🚀/b", "a/.knowledge", "knowledge", "C# notes.md", "长" * 85]
)
def test_plain_relative_path_passes(path):
    """A path that stays inside is returned as it is."""
    assert path == guard(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        ".",
        "..",
        "a/..",
        "a/../../b",
        "a/../b",
        "./a",
        "a//b",
        "a/",
        "a\x00b",
        "a\nb",
        "a\\b",
        "..\\b",
        ".knowledge",
        ".knowledge/index.sqlite",
        ".Knowledge/x",
        "caf\udce9",
        "长" * 86,
        "/".join(["a" * 200] * 20),
    ],
)
def test_path_that_leaves_or_hides_is_refused(path):
    """Nothing outside raw/, nothing reserved, and one spelling for each file."""
    with pytest.raises(UnsafePath):
        guard(path)


@given(st.text(max_size=40))
def test_guarded_path_stays_below_its_folder(path):
    """Whatever passes resolves to something strictly inside."""
    import posixpath

    try:
        guard(path)
    except UnsafePath:
        return

    assert posixpath.normpath(f"/raw/{path}") == f"/raw/{path}"


@pytest.mark.parametrize("base_id", ["", "..", "a/b", ".x", "a" * 129, "a\n"])
def test_base_id_that_is_no_folder_name_is_refused(base_id):
    """A base id comes from callers and becomes a folder."""
    with pytest.raises(UnsafePath):
        guard_base(base_id)


@pytest.mark.parametrize(("path", "markdown"), [("a/b.pdf", "a/b.md"), ("b", "b.md"), ("a.b/c.d.docx", "a.b/c.d.md")])
def test_converted_file_lies_beside_its_original(path, markdown):
    """Same folder, same stem."""
    assert markdown == derived(path)


def test_converted_name_of_a_long_name_fits():
    """The derived name obeys the limit as well."""
    assert len(derived("长" * 85).encode()) <= 255
