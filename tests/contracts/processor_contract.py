"""What every file processor keeps. Subclass it and give the fixture `processor`."""

import json
from importlib.metadata import entry_points

import pytest

from knowledge.errors import ConversionFault
from knowledge.model.documents import SourceFile
from knowledge.pipeline.conversion import artefact
from knowledge.pipeline.conversion.port import Converted, Lost, Order, Waiting
from knowledge.pipeline.conversion.registry import GROUP
from tests.scans import scan
from tests.waiting import eventually

PDF = "application/pdf"


class ProcessorContract:
    TEXT = "The fog signal sounds\nevery ninety seconds."
    WORDS = "fog signal"  #: which its result must hold

    @pytest.fixture
    def processor(self):
        raise NotImplementedError

    @pytest.fixture
    def work(self, tmp_path):
        work = tmp_path / "work"
        work.mkdir()
        return work

    @pytest.fixture
    def order(self, tmp_path, work):
        """Of a scan of two pages."""
        path = scan(tmp_path / "scan.pdf", self.TEXT, self.TEXT)
        return Order(SourceFile(path, path.name, PDF), work, 300.0)

    def result(self, processor, ticket, work):
        def done():
            answer = processor.poll(ticket, work)
            assert isinstance(answer, Waiting | Converted)
            return answer if isinstance(answer, Converted) else None

        return eventually(done, "it is converted", seconds=120)

    def test_comes_by_the_entry_point_of_its_name(self, processor):
        """Ours by the same door as other people's."""
        names = {entry.name: entry.load() for entry in entry_points(group=GROUP)}

        assert isinstance(processor, names[processor.name])

    def test_says_what_it_takes(self, processor):
        """PDFs, and nothing that no converter could know."""
        assert (True, False) == (processor.claims(PDF), processor.claims("text/x-made-up"))
        assert processor.only_without_text in (True, False)
        assert processor.missing() is None

    def test_ticket_is_fit_for_a_row(self, processor, order, work):
        """JSON, and enough to find the conversion again."""
        ticket = json.loads(json.dumps(dict(processor.start(order))))

        found = self.result(processor, ticket, work)

        assert found.artefact.is_relative_to(work)
        processor.cancel(ticket, work)

    def test_result_is_an_artefact_with_its_pages(self, processor, order, work):
        """Which says who made it."""
        ticket = processor.start(order)
        read = artefact.read(self.result(processor, ticket, work).artefact)

        assert {1, 2} >= {document.page for document in read.documents} > set()
        assert self.WORDS in " ".join(document.text for document in read.documents)
        assert (PDF, True) == (read.media_type, bool(read.quality.converter))
        processor.cancel(ticket, work)

    def test_result_can_be_had_again(self, processor, order, work):
        """Whoever could not place it, because the base was busy, looks once more."""
        ticket = processor.start(order)
        first = self.result(processor, ticket, work)

        assert first == processor.poll(ticket, work)
        processor.cancel(ticket, work)

    def test_source_may_change_its_name_meanwhile(self, processor, order, work, tmp_path):
        """What is converted is the file as it was handed over."""
        kept = work / "source"
        kept.hardlink_to(order.source.path)
        ticket = processor.start(Order(SourceFile(kept, order.source.name, PDF), work, 300.0))
        order.source.path.unlink()

        assert self.WORDS in self.result(processor, ticket, work).artefact.read_text()
        processor.cancel(ticket, work)

    def test_cancel_may_come_at_any_time(self, processor, order, work):
        """Before it began, while it works, when it has ended, and twice."""
        processor.cancel({}, work)
        ticket = processor.start(order)
        for _ in range(2):
            processor.cancel(ticket, work)
        processor.cancel({}, work)

    def test_folder_that_is_gone_is_no_result(self, processor, order, work, tmp_path):
        """A look at a conversion whose folder was removed says so, in seconds."""
        ticket = processor.start(order)
        processor.cancel(ticket, work)
        work.rename(tmp_path / "elsewhere")
        work.mkdir()
        try:
            answer = processor.poll(ticket, work)
        except (Lost, ConversionFault):
            return

        assert isinstance(answer, Waiting | Converted)
