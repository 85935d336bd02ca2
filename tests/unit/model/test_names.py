"""File names: safe, free, compared."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.model.names import candidates, folded, safe_name, split_extension


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("two\nlines.txt", "two lines.txt"),
        ("🧑‍🚀 log.md", "🧑‍🚀 log.md"),
        ("a. b v. c - NJA 2021 s. 576.pdf", "a. b v. c - NJA 2021 s. 576.pdf"),
        ("C# notes.md", "C# notes.md"),
        ("../../etc/passwd", ".._.._etc_passwd"),
        ("a\\b:c*?.txt", "a_b_c__.txt"),
        ("bell\x07.txt", "bell_.txt"),
        ("a.txt.", "a.txt"),
        ("a.txt  ", "a.txt"),
        ("CON.txt", "_CON.txt"),
        ("nul", "_nul"),
        ("com1.tar.gz", "_com1.tar.gz"),
        ("console.txt", "console.txt"),
        (".env", ".env"),
        ("..", "file"),
        (" . ", "file"),
        ("", "file"),
        ("Ru\u0308ck.pdf", "R\u00fcck.pdf"),
        ("caf\udce9.txt", "caf\ufffd.txt"),
        ("invoice\u202efdp.exe", "invoice_fdp.exe"),
    ],
)
def test_name_is_made_safe(name, safe):
    """A name keeps what people see and loses what some disk refuses."""
    assert safe == safe_name(name)


@pytest.mark.parametrize("stem", ["长" * 90, "長" * 300, "a" * 400, "e\u0301" * 200, "🧑‍🚀" * 40])
def test_long_name_is_cut_to_255_bytes_and_keeps_its_extension(stem):
    """A cut never costs the extension, and never leaves half a character."""
    name = safe_name(f"{stem}.docx")

    assert name.endswith(".docx")
    assert len(name.encode()) <= 255
    assert not name.removesuffix(".docx").endswith("\u200d")


@given(st.text(st.characters(), max_size=400))
def test_safe_name_is_storable_and_stable(name):
    """Whatever comes in, what goes out is one path part of at most 255 bytes, and is its own safe name."""
    safe = safe_name(name)

    assert safe == safe_name(safe)
    assert 0 < len(safe.encode()) <= 255
    assert safe not in (".", "..")
    assert not any(character in safe for character in '/\\\x00\n:*?"<>|')


def test_candidates_number_files_before_their_extension():
    """A taken name gets a number that leaves the type of the file visible."""
    assert ["report.pdf", "report_1.pdf", "report_2.pdf"] == list(islice(candidates("report.pdf"), 3))


def test_candidates_number_folders_at_the_end():
    """What looks like an extension in a folder's name is part of the name."""
    assert ["report.v2", "report.v2_1"] == list(islice(candidates("report.v2", directory=True), 2))


def test_candidates_of_a_long_name_stay_within_255_bytes():
    """The number takes its room from the stem."""
    name = "长" * 83 + ".docx"  # 254 bytes

    numbered = list(islice(candidates(name), 12))

    assert 12 == len(set(numbered))
    assert all(len(one.encode()) <= 255 and one.endswith(".docx") for one in numbered)


@pytest.mark.parametrize(("one", "other"), [("Docs", "docs"), ("Ru\u0308ck", "R\u00fcck"), ("STRASSE", "straße")])
def test_names_that_a_disk_could_confuse_fold_alike(one, other):
    """Case and composition do not make two names."""
    assert folded(one) == folded(other)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a.b.txt", ("a.b", ".txt")),
        (".env", (".env", "")),
        ("README", ("README", "")),
        ("Dr. No and friends", ("Dr. No and friends", "")),
        ("end.", ("end.", "")),
    ],
)
def test_extension_is_what_follows_the_last_dot(name, parts):
    """Only something short without spaces, behind a stem, is an extension."""
    assert parts == split_extension(name)
