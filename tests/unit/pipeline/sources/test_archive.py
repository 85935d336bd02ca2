"""What an archive gives as children, and what it cannot make us do."""

import os
import time

import pytest

from knowledge.errors import CancelRequested, CorruptSource, EncryptedSource, PathNotFound, PathUnreadable, ReaderBudgetExceeded
from knowledge.model import budget
from knowledge.model.skip_reason import SkipReason
from knowledge.model.status import ItemType
from knowledge.pipeline.sources import archive
from knowledge.pipeline.sources.archive import ArchiveChildren, is_archive, member_of
from knowledge.pipeline.sources.children import Broken, Child, Folder, Skipped
from knowledge.pipeline.sources.ignore import Selection
from tests.archives import bomb, locked, nested, renamed, tarred, with_specials, written, zip_with_link, zipped

KINDS = {"zip": zipped} | {
    f"tar{dot}{packing}": lambda members, packing=packing: tarred(members, packing)
    for dot, packing in (("", ""), (".", "gz"), (".", "bz2"), (".", "xz"))
}


def take_all(name, path):
    return None


def scanned(path, accepts=take_all, checkpoint=lambda: None, **options):
    return list(ArchiveChildren(path, str(path), accepts, **options).scan(checkpoint))


def contents(path, accepts=take_all, **options):
    """(relative, bytes) of each child, read when it comes, as the flow does."""
    found = []
    for entry in ArchiveChildren(path, str(path), accepts, **options).scan(lambda: None):
        if isinstance(entry, Child):
            with entry.content() as stream:
                found.append((entry.relative, stream.read()))
    return found


def skipped(entries):
    return {entry.relative: entry.reason for entry in entries if isinstance(entry, Skipped)}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_gives_its_files(tmp_path, kind):
    """Whole, with the folders they lie in, whatever the archive is called."""
    path = written(tmp_path / "a.bin", KINDS[kind]({"a.md": "one", "x/y/b.md": "two" * 100_000, "x/c.md": "three"}))

    assert [("a.md", b"one"), ("x/y/b.md", b"two" * 100_000), ("x/c.md", b"three")] == contents(path)
    assert is_archive(path, "a.bin")


@pytest.mark.parametrize("kind", KINDS)
def test_two_scans_agree_and_keys_are_unlike(tmp_path, kind):
    """Also for members of one name: the second is another child."""
    path = written(tmp_path / "a.zip", KINDS[kind]([("a.md", "one"), ("b/a.md", "x"), ("a.md", "two"), ("a.md", "three")]))

    first, second = ([one.key for one in scanned(path) if isinstance(one, Child)] for _ in range(2))

    assert first == second
    assert 4 == len(set(first))
    assert [("a.md", b"one"), ("b/a.md", b"x"), ("a.md", b"two"), ("a.md", b"three")] == contents(path)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/x.md", "etc/x.md"),
        ("/etc/x.md", "etc/x.md"),
        ("C:\\Users\\x.md", "Users/x.md"),
        ("a/./b//x.md", "a/b/x.md"),
        ("..\\..\\x.md", "x.md"),
        ("a/../../x.md", "a/x.md"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_no_name_leads_outside(tmp_path, kind, name, safe):
    """It becomes a plain one, and is taken."""
    assert [(safe, b"x")] == contents(written(tmp_path / "a.zip", KINDS[kind]({name: "x"})))


@pytest.mark.parametrize("packing", ["", "gz"])
def test_links_and_devices_are_told_and_not_opened(tmp_path, packing):
    """Neither what they point to nor what they would do is of any interest."""
    path = written(tmp_path / "a.tar", with_specials(packing))

    assert {
        "etc.md": SkipReason.SYMLINK,
        "hard.md": SkipReason.SYMLINK,
        "pipe.md": SkipReason.SPECIAL,
        "disk.md": SkipReason.SPECIAL,
    } == skipped(scanned(path))
    assert [("good.md", b"good")] == contents(path)


def test_a_link_in_a_zip_is_one_too(tmp_path):
    """There it is a file with a mark."""
    path = written(tmp_path / "a.zip", zip_with_link("etc.md", "/etc/passwd"))

    assert ({"etc.md": SkipReason.SYMLINK}, [("good.md", b"good")]) == (skipped(scanned(path)), contents(path))


def test_a_member_with_a_password_costs_itself_only(tmp_path):
    """It has its own reason."""
    path = written(tmp_path / "a.zip", locked(zipped({"a.md": "secret", "b.md": "open"}), "a.md"))

    assert ({"a.md": SkipReason.ENCRYPTED}, [("b.md", b"open")]) == (skipped(scanned(path)), contents(path))


def test_an_archive_that_is_all_locked_is_encrypted(tmp_path):
    """Nothing of it can be read, and that is why."""
    with pytest.raises(EncryptedSource):
        scanned(written(tmp_path / "a.zip", locked(zipped({"a.md": "1", "b.md": "2"}), "a.md", "b.md")))


@pytest.mark.parametrize("size", [1_000, 2_000_000])
def test_a_damaged_member_costs_itself_only(tmp_path, size):
    """It is told, or its bytes end in an error; the others are read."""
    data = bytearray(zipped({"a.md": os.urandom(size).hex(), "b.md": "good"}))
    data[-200 - size // 10] ^= 0xFF
    path = written(tmp_path / "a.zip", bytes(data))
    read, errors = {}, []
    for entry in ArchiveChildren(path, str(path), take_all).scan(lambda: None):
        if isinstance(entry, Skipped):
            errors.append((entry.relative, str(entry.reason)))
            continue
        try:
            with entry.content() as stream:
                read[entry.relative] = stream.read()
        except CorruptSource as error:
            errors.append((entry.relative, error.code))

    assert ({"b.md": b"good"}, [("a.md", "corrupt")]) == (read, errors)


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.xz"])
def test_damage_in_the_middle_ends_the_archive_with_its_reason(tmp_path, kind):
    """What came before has been given."""
    whole = KINDS[kind]({"a.md": "first", "b.md": os.urandom(2_000_000).hex(), "c.md": "last"})
    entries = ArchiveChildren(written(tmp_path / "a.tar", whole[: len(whole) // 2]), "a.tar", take_all).scan(lambda: None)
    with next(entries).content() as stream:
        assert b"first" == stream.read()

    with pytest.raises(CorruptSource):
        list(entries)


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_inside_is_a_container_of_its_own(tmp_path, kind):
    """Its members lie below its name; folders are announced before what lies in them."""
    inner = KINDS[kind]({"deep/x.md": "inner"})
    path = written(tmp_path / "a.zip", zipped({"a.md": "outer", f"sub/in.{kind.replace('.', '')[:3]}": inner}))
    name = f"sub/in.{kind.replace('.', '')[:3]}"

    entries = scanned(path)

    assert [("a.md", b"outer"), (f"{name}/deep/x.md", b"inner")] == contents(path)
    assert [("sub", ItemType.DIRECTORY), (name, ItemType.ARCHIVE), (f"{name}/deep", ItemType.DIRECTORY)] == [
        (entry.relative, entry.type) for entry in entries if isinstance(entry, Folder)
    ]


@pytest.mark.parametrize("place", ["sub", "sub/in.zip", "sub/in.zip/deep"])
def test_one_place_in_an_archive_can_be_asked_for(tmp_path, place):
    """With the keys that the whole archive gives."""
    inner = zipped({"deep/x.md": "inner", "y.md": "y"})
    path = written(tmp_path / "a.zip", zipped({"a.md": "outer", "sub/in.zip": inner, "sub/b.md": "b", "subway.md": "no"}))
    whole = {entry.key for entry in scanned(path) if isinstance(entry, Child)}

    part = [
        entry
        for entry in ArchiveChildren(path, f"{path}/{place}", take_all, place).scan(lambda: None)
        if isinstance(entry, Child)
    ]

    assert {key for key in whole if key.startswith(f"{path}/{place}/")} == {entry.key for entry in part}
    assert all(member_of(entry.data) == (path, f"{place}/{entry.relative}") for entry in part)


def test_a_damaged_archive_inside_is_broken_and_the_rest_goes_on(tmp_path):
    """It says why, and nothing below it will be removed."""
    inner = tarred({"x.md": "one", "y.md": os.urandom(100_000).hex()}, "gz")
    path = written(tmp_path / "a.zip", zipped([("in.tgz", inner[:50_000]), ("z.md", "last")]))

    entries = scanned(path)

    assert [("in.tgz", "corrupt")] == [(one.relative, one.error.code) for one in entries if isinstance(one, Broken)]
    assert "z.md" in [one.relative for one in entries if isinstance(one, Child)]


def test_archives_inside_archives_end_at_the_third(tmp_path):
    """Deeper ones are told; this also ends one that contains itself."""
    entries = scanned(written(tmp_path / "a.zip", nested(6, zipped({"x.md": "x"}))))
    broken = [entry for entry in entries if isinstance(entry, Broken)]

    assert [("/".join(["in.zip"] * 4), "reader_budget_exceeded", "depth")] == [
        (one.relative, one.error.code, one.error.details["figure"]) for one in broken
    ]


def test_three_levels_inside_are_read(tmp_path):
    """The deepest that is allowed."""
    path = written(tmp_path / "a.zip", nested(3, zipped({"x.md": "x"})))

    assert [("in.zip/in.zip/in.zip/x.md", b"x")] == contents(path)


@pytest.mark.parametrize("how", ["one member", "inside another", "all together"])
def test_a_bomb_is_refused_with_its_figures(tmp_path, how, monkeypatch):
    """The budget holds for everything that is packed in the archive, and is seen while it is unpacked."""
    monkeypatch.setattr(budget, "SLACK_BYTES", 4 << 20)
    packed = {
        "one member": lambda: bomb(40),
        "inside another": lambda: zipped({"in.zip": bomb(40)}),
        "all together": lambda: zipped({f"{number}.md": b" " * (1 << 20) for number in range(40)}),
    }[how]()
    began = time.monotonic()

    with pytest.raises(ReaderBudgetExceeded) as refused:
        contents(written(tmp_path / "a.zip", packed))

    assert "inflated_bytes" == refused.value.details["figure"]
    assert refused.value.details["limit"] < refused.value.details["found"] < refused.value.details["limit"] + (2 << 20)
    assert time.monotonic() - began < 20


def test_the_last_member_over_the_budget_is_seen_too(tmp_path, monkeypatch):
    """Also when the one who reads it takes the refusal for a fault of that member."""
    monkeypatch.setattr(budget, "SLACK_BYTES", 1 << 20)
    path = written(tmp_path / "a.zip", bomb(8))
    entries = ArchiveChildren(path, str(path), take_all).scan(lambda: None)
    with next(entries).content() as stream, pytest.raises(ReaderBudgetExceeded):
        stream.read()

    with pytest.raises(ReaderBudgetExceeded):
        next(entries)


def test_too_many_entries_are_refused(tmp_path, monkeypatch):
    """Those of archives inside count as well."""
    monkeypatch.setattr(archive, "MAX_ENTRIES", 10)
    path = written(tmp_path / "a.zip", zipped({"in.zip": zipped({f"{n}.md": "x" for n in range(8)}), "a.md": "x", "b.md": "x"}))

    with pytest.raises(ReaderBudgetExceeded) as refused:
        scanned(path)
    assert ("entries", 11, 10) == tuple(refused.value.details[name] for name in ("figure", "found", "limit"))


def test_names_in_old_charsets_are_read(tmp_path):
    """Shift-JIS and the charset of DOS, of which the archive says nothing."""
    japanese = renamed(zipped({"abcd1.txt": "x"}), b"abcd1.txt", "文章1.txt".encode("shift_jis"))
    dos = renamed(zipped({"Gr_n-Stra_e.txt": "x"}), b"Gr_n-Stra_e.txt", "Grün-Straße.txt".encode("cp437"))

    assert ["文章1.txt"] == [relative for relative, _ in contents(written(tmp_path / "a.zip", japanese))]
    assert ["Grün-Straße.txt"] == [relative for relative, _ in contents(written(tmp_path / "b.zip", dos))]


def test_what_a_directory_would_not_take_is_not_taken_here(tmp_path):
    """Hidden names, what tools make, nothing at all, what no reader knows, what the person does not want."""
    path = written(
        tmp_path / "a.zip",
        zipped(
            {
                ".hidden.md": "x",
                ".git/config": "x",
                "__MACOSX/._a.md": "x",
                "node_modules/p/readme.md": "x",
                "empty.md": "",
                "x.exe": "MZ",
                "no/b.md": "x",
                "a.md": "x",
            }
        ),
    )

    entries = scanned(
        path, lambda name, place: SkipReason.UNSUPPORTED if name.endswith(".exe") else None, selection=Selection(exclude=["no"])
    )

    assert {
        ".hidden.md": SkipReason.HIDDEN,
        ".git/config": SkipReason.HIDDEN,
        "__MACOSX/._a.md": SkipReason.TOOLING,
        "node_modules/p/readme.md": SkipReason.TOOLING,
        "empty.md": SkipReason.EMPTY,
        "x.exe": SkipReason.UNSUPPORTED,
        "no/b.md": SkipReason.EXCLUDED,
    } == skipped(entries)
    assert ["a.md"] == [entry.relative for entry in entries if isinstance(entry, Child)]


def test_the_first_bytes_of_a_member_are_looked_at(tmp_path):
    """And all of them are given afterwards."""
    seen = {}
    path = written(tmp_path / "a.tgz", tarred({"a.md": "word " * 10_000}, "gz"))

    found = contents(path, lambda name, place: seen.update({name: place.read_bytes()}))

    assert b"word " * 1_600 == seen["a.md"]
    assert [("a.md", b"word " * 10_000)] == found


def test_a_file_that_is_only_called_like_an_archive_is_a_file(tmp_path):
    """Its bytes decide."""
    path = written(tmp_path / "a.zip", zipped({"notes.zip": "plain words"}))

    assert [("notes.zip", b"plain words")] == contents(path)


@pytest.mark.parametrize("what", ["gone", "a folder", "a pipe"])
def test_what_is_no_file_any_more_is_refused(tmp_path, what):
    """And not waited for."""
    path = tmp_path / "a.zip"
    if what == "a folder":
        path.mkdir()
    elif what == "a pipe":
        os.mkfifo(path)

    with pytest.raises(PathNotFound if what == "gone" else PathUnreadable):
        scanned(path)


def test_an_archive_that_changes_meanwhile_is_refused(tmp_path):
    """What was read would be of no moment that ever was."""
    path = written(tmp_path / "a.zip", zipped({"a.md": "1", "b.md": "2"}))

    entries = ArchiveChildren(path, str(path), take_all).scan(lambda: None)
    next(entries)
    os.utime(path, ns=(1, 1))

    with pytest.raises(PathUnreadable, match="changed"):
        list(entries)


def test_checkpoint_is_called_for_each_member_and_stops_the_scan(tmp_path):
    """A cancelled job stops at the next one."""
    calls = []

    def checkpoint():
        calls.append(None)
        if len(calls) == 4:
            raise CancelRequested

    with pytest.raises(CancelRequested):
        scanned(written(tmp_path / "a.zip", zipped({f"{n}.md": "x" for n in range(9)})), checkpoint=checkpoint)
