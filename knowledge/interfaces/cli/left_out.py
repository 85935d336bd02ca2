"""What a container did not take, for people."""

from typing import TYPE_CHECKING, Any, Final

from knowledge.interfaces.cli.output import Output, counted
from knowledge.model.item_data import DataKey

if TYPE_CHECKING:
    from knowledge.model.views import Item

SHOWN: Final = 20  #: names for people; `--json` tells all that are kept


def reasons(item: "Item") -> str | None:
    """How many by reason; None if it took everything."""
    counts: dict[str, int] = _skipped(item).get("reasons", {})
    return ", ".join(f"{number} {reason}" for reason, number in counts.items()) or None


def print_names(out: Output, item: "Item") -> None:
    """The first of them with their reasons; hidden ones are counted only."""
    skipped = _skipped(item)
    named = skipped.get("sample", [])[:SHOWN]
    for one in named:
        out.line(f"left out: {one['path']} ({one['reason']})")
    hidden = skipped.get("reasons", {}).get("hidden", 0)
    if more := skipped.get("count", 0) - hidden - len(named):
        out.line(f"left out: {more} more; --json names up to 1,000")
    if hidden:
        out.line(f"left out: {counted(hidden, 'hidden file or folder', 'hidden files and folders')}, not named")


def _skipped(item: "Item") -> dict[str, Any]:
    skipped = item.data.get(DataKey.SKIPPED)
    return skipped if isinstance(skipped, dict) else {}
