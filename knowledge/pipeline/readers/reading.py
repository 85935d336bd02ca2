"""What comes out of one file, gathered: clean texts, notices, and the counts of its quality record."""

from dataclasses import fields, replace
from typing import Final

from knowledge.model.documents import Document, ReadResult
from knowledge.model.quality import Facts, Quality
from knowledge.model.status import Notice
from knowledge.pipeline.readers.decoding import clean
from knowledge.pipeline.readers.port import Finding

_FACTS: Final = tuple(field.name for field in fields(Facts))


class Reading:
    """Takes the findings of a reader one after the other."""

    def __init__(self, media_type: str, reader: str) -> None:
        self._media_type, self._reader = media_type, reader
        self._documents: list[Document] = []
        self._notices: set[Notice] = set()
        self._facts = Facts()
        self._pages: set[int] = set()

    def take(self, finding: Finding) -> None:
        if isinstance(finding, Notice):
            self._notices.add(finding)
        elif isinstance(finding, Facts):
            told = {name: value for name in _FACTS if (value := getattr(finding, name)) is not None}
            self._facts = replace(self._facts, **told)
        else:
            if finding.page is not None:
                self._pages.add(finding.page)
            text = clean(finding.text).strip("\n")
            if text.strip():
                self._documents.append(replace(finding, text=text))

    def result(self) -> ReadResult:
        notices = self._notices
        if not self._documents:
            notices = notices - {Notice.PARTIAL_TEXT} | {Notice.NO_TEXT_EXTRACTED}
        return ReadResult(
            documents=self._documents,
            media_type=self._media_type,
            reader=self._reader,
            notices=frozenset(notices),
            quality=self._quality(),
        )

    def _quality(self) -> Quality:
        facts = self._facts
        pages = facts.pages if facts.pages is not None else len(self._pages) or None
        with_text = facts.pages_with_text
        if with_text is None and pages is not None:
            with_text = len({(document.page, document.locator) for document in self._documents})
        return Quality(
            media_type=self._media_type,
            reader=self._reader,
            charset=facts.charset,
            language=facts.language and facts.language.split("-")[0].lower(),
            converter=facts.converter,
            pages=pages,
            pages_with_text=with_text,
            characters=sum(len(document.text) for document in self._documents),
            replaced_characters=sum(document.text.count("\ufffd") for document in self._documents),
        )
