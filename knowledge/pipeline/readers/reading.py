"""What comes out of one file, gathered: clean texts, notices, and the counts of its quality record."""

from dataclasses import dataclass, fields, replace
from typing import Final

from knowledge.model.budget import Budget, exceeded
from knowledge.model.documents import Document, ReadResult
from knowledge.model.quality import Facts, Quality
from knowledge.model.status import Notice
from knowledge.pipeline.readers.decoding import clean
from knowledge.pipeline.readers.port import Finding

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
            text = clean(finding.text).strip("\n")
            if text and not text.isspace():
                self._characters += len(text)
                if self._characters > self._budget.characters:
                    raise exceeded("characters", self._characters, self._budget.characters)
                self._documents.append(replace(finding, text=text))

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
            with_text = len({(document.page, document.locator) for document in self._documents})
        return Quality(
            media_type=self._began.media_type,
            reader=self._began.reader,
            charset=facts.charset,
            language=facts.language and facts.language.split("-")[0].lower(),
            converter=facts.converter,
            pages=pages,
            pages_with_text=with_text,
            characters=self._characters,
            replaced_characters=sum(document.text.count("\ufffd") for document in self._documents),
        )
