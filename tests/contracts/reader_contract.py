"""What every reader must do. A subclass names its reader and sample files with the phrases they must yield."""

from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar

import pytest

from knowledge.errors import SourceFault
from knowledge.model.documents import SourceFile
from knowledge.pipeline.readers.port import Reader
from knowledge.pipeline.readers.registry import ReaderRegistry


class ReaderContract:
    """Subclass it and set `reader` and `samples` (file name -> (bytes, phrases in reading order))."""

    reader: ClassVar[type[Reader]]
    samples: ClassVar[Mapping[str, tuple[bytes, tuple[str, ...]]]]

    @pytest.fixture
    def registry(self) -> ReaderRegistry:
        return ReaderRegistry([self.reader()])

    def put(self, tmp_path, name, data):
        place = tmp_path / name
        place.write_bytes(data)
        return place

    def test_reader_introduces_itself(self):
        """It has a name, and suffixes in lower case with their dot."""
        assert self.reader.name
        assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in self.reader.suffixes)

    def test_samples_yield_their_phrases_in_order(self, registry, tmp_path):
        """What a person would see in the file is found in the text."""
        for name, (data, phrases) in self.samples.items():
            result = registry.read(self.put(tmp_path, name, data), name, lambda: None)
            text = "\n".join(document.text for document in result.documents)
            places = [text.find(phrase) for phrase in phrases]

            assert -1 not in places, (name, phrases, text)
            assert sorted(places) == places
            assert self.reader.name == result.reader

    def test_texts_are_clean(self, registry, tmp_path):
        """No NUL, no carriage return, nothing that cannot be stored."""
        for name, (data, _) in self.samples.items():
            for document in registry.read(self.put(tmp_path, name, data), name, lambda: None).documents:
                assert not set(document.text) & {"\0", "\r", "\ufeff"}
                assert document.text.encode()

    def test_strange_file_is_not_claimed(self, tmp_path):
        """A reader leaves what it does not know to others."""
        strange = SourceFile(tmp_path / "x", "x", "application/x-no-such-thing")

        assert self.reader().score(strange) is None

    def test_damaged_samples_are_refused_cleanly_or_read(self, registry, tmp_path):
        """A file cut anywhere, or with a hole, gives text or one of our errors; never a library's."""
        for name, (data, _) in self.samples.items():
            middle = len(data) // 2
            for damaged in (
                *(data[: len(data) * part // 8] for part in range(1, 8)),
                data[:middle] + b"\xff" * 16 + data[middle + 16 :],
                data[:middle] + b"\0" * 16 + data[middle + 16 :],
            ):
                with suppress(SourceFault):
                    registry.read(self.put(tmp_path, name, damaged), name, lambda: None)

    def test_read_is_repeatable(self, registry, tmp_path):
        """The same bytes give the same text, so that nothing is embedded twice."""
        for name, (data, _) in self.samples.items():
            place = self.put(tmp_path, name, data)

            assert registry.read(place, name, lambda: None) == registry.read(place, name, lambda: None)
