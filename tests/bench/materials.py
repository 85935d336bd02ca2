"""Materials made from a seed: plausible words in plausible frequencies, cut into units."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from knowledge.model.documents import Material, Unit

_VOCABULARY = 20_000


def worded_texts(n: int, *, words: int, seed: int) -> list[str]:
    """Texts of so many words by Zipf's law, about 7 characters a word."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    lexicon = np.array(["".join(rng.choice(letters, size)) for size in rng.integers(2, 11, _VOCABULARY)])
    drawn = np.minimum(rng.zipf(1.25, size=(n, words)) - 1, _VOCABULARY - 1)
    return [" ".join(row) + f" {number:x}." for number, row in enumerate(lexicon[drawn])]


def numbered_texts(n: int) -> list[str]:
    """The shortest texts that differ."""
    return [f"row {number}" for number in range(n)]


def materials(texts: list[str], vectors: npt.NDArray[np.float32], *, units_each: int, first: int = 0) -> Iterator[Material]:
    """Texts and their vectors, `units_each` to a leaf. Unit k of leaf i is row i * units_each + k."""
    for start in range(0, len(texts), units_each):
        at = 0
        units = []
        for index, text in enumerate(texts[start : start + units_each]):
            units.append(Unit(index, text, at, at + len(text)))
            at += len(text) + 2
        hashes = {unit.text_hash: vectors[start + unit.index] for unit in units}
        name = first + start // units_each
        yield Material(f"item{name}", f"{name}.txt", "\n\n".join(unit.text for unit in units), units, hashes)
