"""What comes out of one file, gathered: clean texts, notices, and the counts of its quality record."""

import re
from dataclasses import dataclass, fields, replace
from typing import Final

from knowledge.model.budget import Budget, exceeded
from knowledge.model.documents import Document, ReadResult
from knowledge.model.quality import Facts, Quality
from knowledge.model.status import Notice
from knowledge.pipeline.readers.decoding import clean
from knowledge.pipeline.readers.language import language
from knowledge.pipeline.readers.port import Finding

_LANGUAGE: Final = re.compile(r"([A-Za-z]{2})(?:$|[-_])")  #: a code of two letters, perhaps with a region
_FACTS: Final = tuple(field.name for field in fields(Facts))


@dataclass(frozen=True, slots=True)
class Began:
    """What the file is, and who reads it: the first of its events."""

    media_type: str
    reader: str


class Reading:
    """Takes the events of a file one after the other."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._begin(Began("", ""))

    def _begin(self, began: Began) -> None:
        self._began = began
        self._characters = 0
        self._documents: list[Document] = []
        self._notices: set[Notice] = set()
        self._facts = Facts()
        self._pages: set[int] = set()

    def take(self, finding: Began | Finding) -> None:
        """
        Raises:
            ReaderBudgetExceeded: the text is longer than it may be.
        """
        if isinstance(finding, Began):
            self._begin(finding)  # again, if a reader process was lost and another one reads the file
        elif isinstance(finding, Notice):
            self._notices.add(finding)
        elif isinstance(finding, Facts):
            told = {name: value for name in _FACTS if (value := getattr(finding, name)) is not None}
            self._facts = replace(self._facts, **told)
        else:
            if finding.page is not None:
                self._pages.add(finding.page)
            self.keep(replace(finding, text=clean(finding.text).strip("\n")))

    def keep(self, document: Document) -> None:
        """A document whose text is clean already.

        Raises:
            ReaderBudgetExceeded: the text is longer than it may be.
        """
        if document.text and not document.text.isspace():
            self._characters += len(document.text)
            if self._characters > self._budget.characters:
                error = exceeded("characters", self._characters, self._budget.characters)
                error.details |= {"media_type": self._began.media_type, "reader": self._began.reader}
                raise error
            self._documents.append(document)

    def result(self) -> ReadResult:
        notices = self._notices
        if not self._documents:
            notices = notices - {Notice.PARTIAL_TEXT} | {Notice.NO_TEXT_EXTRACTED}
        return ReadResult(
            documents=self._documents,
            media_type=self._began.media_type,
            reader=self._began.reader,
            notices=frozenset(notices),
            quality=self._quality(),
        )

    def _quality(self) -> Quality:
        facts = self._facts
        pages = facts.pages if facts.pages is not None else len(self._pages) or None
        with_text = facts.pages_with_text
        if with_text is None and pages is not None:
            with_text = min(pages, len({(document.page, document.locator) for document in self._documents}))
        return Quality(
            media_type=self._began.media_type,
            reader=self._began.reader,
            charset=facts.charset,
            language=self._declared_language() or language(document.text for document in self._documents),
            converter=facts.converter,
            pages=pages,
            pages_with_text=with_text,
            characters=self._characters,
            replaced_characters=sum(document.text.count("\ufffd") for document in self._documents),
        )

    def _declared_language(self) -> str | None:
        found = _LANGUAGE.match(self._facts.language or "")
        return found.group(1).lower() if found else None
