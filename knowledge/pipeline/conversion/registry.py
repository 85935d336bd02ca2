"""The file processors of this installation, and which of them a file needs."""

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any, Final, Self

from knowledge.errors import ConfigurationError, ConverterMissing
from knowledge.pipeline.conversion.pictures import IMAGE_TYPES
from knowledge.pipeline.conversion.port import FileProcessor
from knowledge.pipeline.readers.media_type import PDF

GROUP: Final = "knowledge.processors"
DEFAULT: Final = "ocr"  #: what reads pictures where a base has not chosen another


class Processors:
    """All processors, by name."""

    def __init__(self, processors: Iterable[FileProcessor] = ()) -> None:
        self._processors = {processor.name: processor for processor in processors}

    @classmethod
    def installed(cls, options: Mapping[str, Mapping[str, Any]] | None = None) -> Self:
        """Every processor that an installed distribution declares, ours by the same door.

        Args:
            options: by the name of the entry point, the keywords that it is made with.

        Raises:
            ConfigurationError: one of them cannot be loaded or made.
        """
        made = []
        for entry in entry_points(group=GROUP):
            try:
                made.append(entry.load()(**(options or {}).get(entry.name, {})))
            except Exception as error:
                raise ConfigurationError(
                    f"The file processor {entry.value} cannot be loaded.", entry_point=entry.name, detail=str(error)
                ) from error
        return cls(made)

    @property
    def names(self) -> list[str]:
        return sorted(self._processors)

    def get(self, name: str) -> FileProcessor:
        """Raises `ConverterMissing` if there is none of this name."""
        try:
            return self._processors[name]
        except KeyError:
            known = ", ".join(self.names) or "none"
            raise ConverterMissing(f"There is no file processor {name!r}; there is: {known}.", processor=name) from None

    def choose(self, wanted: str | None, media_type: str, *, lacks_text: bool) -> FileProcessor | None:
        """What has to convert this file before it can be indexed; None if its own text is all there is to have.

        Args:
            wanted: the file processor that its base has chosen.
            lacks_text: whether no reader knows it, or it has pages of which a reader gets no text.

        Raises:
            ConverterMissing: the chosen one does not exist or is not set up.
        """
        if wanted is not None:
            if wanted not in self._processors and not lacks_text and not self._is_claimed(media_type):
                return None  # plain text needs no processor, whatever its name
            chosen = self.get(wanted)
            if chosen.claims(media_type) and (lacks_text or not chosen.only_without_text):
                if (complaint := chosen.missing()) is not None:
                    raise ConverterMissing(complaint, processor=wanted)
                return chosen
        usual = self._processors.get(DEFAULT)
        if usual is None or not lacks_text or not usual.claims(media_type) or usual.missing() is not None:
            return None
        return usual

    def _is_claimed(self, media_type: str) -> bool:
        return any(processor.claims(media_type) for processor in self._processors.values())

    def complaint(self, media_type: str) -> str | None:
        """What is to be installed so that files of this type that lack text can be read; None if that would not help."""
        usual = self._processors.get(DEFAULT)
        return usual.missing() if usual is not None and usual.claims(media_type) else None

    def takes(self, wanted: str | None, media_type: str) -> bool:
        """Whether a file of this type that no reader knows can be converted, here and now."""
        if media_type == PDF:  # there is a reader for it
            return False
        chosen = self._processors.get(wanted) if wanted is not None else None
        able = [one for one in (chosen, self._processors.get(DEFAULT)) if one is not None and one.claims(media_type)]
        return any(one.missing() is None for one in able)


__all__ = ["DEFAULT", "GROUP", "IMAGE_TYPES", "Processors"]
