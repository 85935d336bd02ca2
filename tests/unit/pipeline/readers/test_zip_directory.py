"""The list of entries is measured before it is read."""

import io
import struct
import zipfile

import pytest

from knowledge.errors import ReaderBudgetExceeded
from knowledge.pipeline.readers import zip_directory
from knowledge.pipeline.readers.media_type import detect
from knowledge.pipeline.readers.zip_directory import require_short

LIMIT, LONG = 1_000, 2_000  #: bytes
PADDING = b"PK\x03\x04" + b"\0" * LONG  #: makes a file long enough for what it says


def archive():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("a.txt", "the lamp")
        made.comment = b"a comment"
    return buffer.getvalue()


def with_length(data, length, *, wide):
    """The same archive, whose end says that the list is so long."""
    at = data.rindex(b"PK\x05\x06")
    end = data[at:]
    if not wide:
        return data[: at + 12] + struct.pack("<I", length) + data[at + 16 :]
    record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 700_000, 700_000, length, 0)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, at, 1)
    return data[:at] + record + locator + end[:12] + b"\xff" * 8 + end[20:]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("look", [require_short, lambda path: detect(path, "a.zip")])
def test_long_list_is_refused_unread(tmp_path, monkeypatch, wide, look):
    """In both forms of the format; the figure and the limit are told."""
    monkeypatch.setattr(zip_directory, "MAX_BYTES", LIMIT)
    path = tmp_path / "a.zip"
    path.write_bytes(with_length(PADDING + archive(), LONG, wide=wide))

    with pytest.raises(ReaderBudgetExceeded) as caught:
        look(path)

    assert ("directory_bytes", LONG, LIMIT) == tuple(caught.value.details[name] for name in ("figure", "found", "limit"))


@pytest.mark.parametrize(
    "data", [archive(), with_length(archive(), LONG, wide=False), b"", b"PK", b"PK\x05\x06", b"x" * 100_000, archive()[:-12]]
)
def test_everything_else_passes(tmp_path, monkeypatch, data):
    """Damage is for others to tell, also a list that is longer than its file."""
    monkeypatch.setattr(zip_directory, "MAX_BYTES", LIMIT)
    path = tmp_path / "a.zip"
    path.write_bytes(data)

    require_short(path)
