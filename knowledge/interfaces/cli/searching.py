"""knowledge search"""

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from knowledge.interfaces.cli.application import opened_service
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.interfaces.cli.options import BaseName, Debug, Json, example, text
from knowledge.interfaces.cli.output import Output, counted
from knowledge.interfaces.cli.printable import one_line, place_in_file
from knowledge.interfaces.cli.shapes import answer_object
from knowledge.interfaces.cli.snippet import snippet, terms
from knowledge.model.results import SearchAnswer, SearchHit, SearchNotice

EXAMPLE: Final = example('knowledge search handbook "who may climb the tower"')
MAX_HITS: Final = 200  #: the most that the service gives
NOTICES: Final = {
    SearchNotice.EMBEDDER_UNAVAILABLE: "the embedder does not answer: searched by words only, not by meaning",
    SearchNotice.EMBEDDER_SLOW_DOWN: "the embedder asks to wait: searched by words only, not by meaning",
    SearchNotice.INDEX_LOST: "the index was damaged or gone: knowledge item reindex {base} --interrupted makes it again",
}
SNIPPET_COLUMNS: Final = 240  #: about three lines of a terminal; a Chinese character takes two


def search(
    base_name: BaseName,
    query: Annotated[str, typer.Argument(metavar="QUERY", callback=text, help="A question or words; any language.")],
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, max=MAX_HITS, help="Most hits to return; the default is the base's, else 10."),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """Search a base: the passages that answer best, with file and page."""
    with opened_service() as service:
        base = service.base(base_name)
        answer = service.search(base.id, query, limit=limit)

    output = Output(as_json=json)
    output.answer(answer_object(answer), lambda out: _print_hits(out, answer, query))
    output.hint(_summary(answer))
    for notice in answer.notices:
        output.hint(NOTICES[notice].format(base=base.id))
    return ExitCode.OK


def _print_hits(out: Output, answer: SearchAnswer, query: str) -> None:
    wanted = terms(query)
    for hit in answer.hits:
        out.styled(_where(hit), "bold")
        out.styled(_passage(hit.text, wanted), "", words=wanted, indent=3)
        out.line()


def _passage(passage: str, wanted: Sequence[str]) -> str:
    from rich.cells import cell_len

    line = one_line(passage)
    columns = cell_len(line)
    return snippet(line, wanted, length=SNIPPET_COLUMNS * len(line) // columns if columns else SNIPPET_COLUMNS)


def _where(hit: SearchHit) -> str:
    """Scores have significant digits: of words in few texts they may be as small as a millionth, and still order the hits."""
    is_page = hit.source.startswith(("http://", "https://")) and " " not in hit.source
    address = f"  {hit.source}" if is_page and hit.source != hit.name else ""
    return f"{hit.rank}. {hit.name}{place_in_file(hit.page, hit.locator)}{address}  ({hit.score_kind.value} {hit.score:.3g})"


def _summary(answer: SearchAnswer) -> str:
    parts = [counted(len(answer.hits), "hit") if answer.hits else "no hits", f"{answer.mode} search"]
    if answer.pending:
        parts.append(f"{counted(answer.pending, 'item')} not indexed yet")
    if answer.stale:
        parts.append(f"{counted(answer.stale, 'item')} shown as before being indexed again")
    return ", ".join(parts)
