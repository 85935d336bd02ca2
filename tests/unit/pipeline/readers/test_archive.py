"""The files inside archives: names, faults, damage and bombs."""

import bz2
import gzip
import io
import lzma
import random
import stat
import tarfile
import zipfile

import pytest

from knowledge.errors import CorruptSource, EncryptedSource, ReaderBudgetExceeded, UnsupportedSource
from knowledge.model.budget import Budget, Meter
from knowledge.pipeline.readers.archive import MemberFault, members, safe_name
from knowledge.pipeline.readers.archive_names import decoded_names
from tests.unit.pipeline.readers import made


def tar(files, mode="w", links=()):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as target:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            target.addfile(info, io.BytesIO(content))
        for name, kind in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "../../etc/passwd"
            target.addfile(info)
    return data.getvalue()


@pytest.fixture
def found(tmp_path):
    """Name to content of every member."""

    def found(data, name="archive", meter=None):
        (tmp_path / name).write_bytes(data)
        content = {}
        for member in members(tmp_path / name, meter or Meter(), name=name):
            with member.open() as stream:
                content[member.name] = stream.read()
        return content

    return found


FILES = {"a.txt": b"one", "folder/b.txt": b"two" * 100_000, "empty": b""}


@pytest.mark.parametrize(
    "data",
    [made.archive(FILES), tar(FILES), tar(FILES, "w:gz"), tar(FILES, "w:bz2"), tar(FILES, "w:xz")],
    ids=["zip", "tar", "tar.gz", "tar.bz2", "tar.xz"],
)
def test_every_kind_of_archive_gives_its_files(found, data):
    """Bytes decide which kind it is; names keep their folders."""
    assert FILES == found(data)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_file_packed_alone_is_named_after_its_archive(found, pack):
    """There is no name inside."""
    assert {"notes.txt": b"words"} == found(pack(b"words"), "notes.txt.gz")


@pytest.mark.parametrize(
    ("shown", "name"),
    [
        ("../../etc/passwd", "etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("C:\\Windows\\x.txt", "Windows/x.txt"),
        ("a/./b//../c", "a/b/c"),
        ("..", "unnamed"),
        ("", "unnamed"),
        ("a\nb\0c", "a\ufffdb\ufffdc"),
    ],
)
def test_names_stay_inside(shown, name):
    """No member can name a place outside, and none is lost for its name."""
    assert name == safe_name(shown)


def test_what_climbs_out_is_read_under_a_safe_name(found):
    """Zip-slip is inert; the text is there all the same."""
    assert {"x.txt": b"climbed"} == found(made.archive({"../../x.txt": b"climbed"}))


def test_links_and_devices_are_passed_with_their_fault(tmp_path):
    """They are named, and nobody can open them."""
    (tmp_path / "a").write_bytes(
        tar({}, links=[("soft", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("null", tarfile.CHRTYPE)])
    )

    listed = list(members(tmp_path / "a", Meter()))

    assert {"soft": MemberFault.LINK, "hard": MemberFault.LINK, "null": MemberFault.SPECIAL} == {
        one.name: one.fault for one in listed
    }
    with pytest.raises(UnsupportedSource), listed[0].open():
        pass


def test_link_in_a_zip_is_a_link(tmp_path):
    """Unix marks it in the attributes."""
    with zipfile.ZipFile(tmp_path / "a", "w") as archive:
        info = zipfile.ZipInfo("soft")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")

    assert [MemberFault.LINK] == [one.fault for one in members(tmp_path / "a", Meter())]


def test_encrypted_member_says_so(tmp_path):
    """Its flag is enough."""
    data = bytearray(made.archive({"a.txt": b"words"}))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    data[6] |= 1
    (tmp_path / "a").write_bytes(data)

    (member,) = members(tmp_path / "a", Meter())

    assert MemberFault.ENCRYPTED == member.fault
    with pytest.raises(EncryptedSource), member.open():
        pass


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_cut_archive_gives_what_comes_before_the_damage(tmp_path, mode):
    """Then it says that it is damaged."""
    data = tar({"a.txt": b"one", "b.bin": random.Random(1).randbytes(300_000)}, mode)
    (tmp_path / "a").write_bytes(data[: len(data) * 2 // 3])
    names = []

    def read_all():
        for member in members(tmp_path / "a", Meter()):
            names.append(member.name)
            with member.open() as stream:
                stream.read()

    with pytest.raises(CorruptSource):
        read_all()
    assert "a.txt" in names


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "gz", "xz"])
def test_bomb_is_found_before_it_is_in_memory(found, kind):
    """Unpacked bytes count over all members together."""
    zeros = {str(number): b"\0" * 1_000_000 for number in range(8)}
    data = {
        "zip": lambda: made.archive(zeros),
        "tar.gz": lambda: tar(zeros, "w:gz"),
        "gz": lambda: gzip.compress(b"\0" * 8_000_000),
        "xz": lambda: lzma.compress(b"\0" * 8_000_000),
    }[kind]()
    meter = Meter(Budget(inflated_bytes=4_000_000))

    with pytest.raises(ReaderBudgetExceeded) as caught:
        found(data, meter=meter)

    assert "inflated_bytes" == caught.value.details["figure"]
    assert meter.inflated_bytes < 5_000_000


def test_skipped_members_of_a_packed_tar_count_as_well(tmp_path):
    """To get past them they must be unpacked."""
    (tmp_path / "a").write_bytes(tar({"a": b"\0" * 8_000_000, "b": b""}, "w:gz"))

    with pytest.raises(ReaderBudgetExceeded):
        list(members(tmp_path / "a", Meter(Budget(inflated_bytes=1_000_000))))


def test_entries_count(tmp_path):
    """A million empty files are a bomb as well."""
    (tmp_path / "a").write_bytes(made.archive({str(number): b"" for number in range(200)}))

    with pytest.raises(ReaderBudgetExceeded):
        list(members(tmp_path / "a", Meter(Budget(entries=100))))


def test_what_is_no_archive_is_unsupported(tmp_path):
    """Nothing is guessed."""
    (tmp_path / "a").write_bytes(b"words")

    with pytest.raises(UnsupportedSource):
        list(members(tmp_path / "a", Meter()))


@pytest.mark.parametrize(
    ("charset", "names"),
    [
        ("cp932", ["文章1.txt", "プロジェクト概要.doc", "写真"]),
        ("cp932", ["資料.xlsx"]),
        ("cp932", ["テスト.txt"]),
        ("cp850", ["château.txt"]),
        ("gbk", ["中国制造.txt"]),
        ("gbk", ["会议纪要.docx", "财务报表"]),
        ("big5", ["會議記錄.doc", "說明.txt"]),
        ("cp949", ["보고서.hwp", "문서"]),
        ("cp866", ["Отчёт за год.doc"]),
        ("cp866", ["привет.txt"]),
        ("cp1251", ["привет.txt", "Договор"]),
        ("cp437", ["schön.txt", "Übung.doc"]),
        ("cp850", ["São Paulo.txt"]),
        ("cp1252", ["Größe.txt"]),
        ("cp852", ["Łódź.txt"]),
        ("utf-8", ["日本.txt", "Ünder"]),
        ("ascii", ["plain.txt"]),
    ],
)
def test_names_of_old_archives_are_decoded(charset, names):
    """All names of an archive are in one charset, which nobody wrote down."""
    assert names == decoded_names([name.encode(charset) for name in names])


def test_name_in_utf8_beside_the_old_one_wins(tmp_path):
    """Some programs write both."""
    name = "名前.txt".encode()
    with zipfile.ZipFile(tmp_path / "a", "w") as archive:
        info = zipfile.ZipInfo("????.txt")
        info.extra = b"\x75\x70" + (len(name) + 5).to_bytes(2, "little") + b"\1" + bytes(4) + name
        archive.writestr(info, "x")

    assert ["名前.txt"] == [one.name for one in members(tmp_path / "a", Meter())]
