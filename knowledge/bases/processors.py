"""Which file processors a base may choose: those that are installed.

A base that a bundle or a restore brings in keeps what it names, as it keeps a model that is not declared here: it may be
installed later. Until then a file that needs it fails with `converter_missing`, which names those there are.
"""

from knowledge.errors import InvalidInput
from knowledge.runtime import Runtime


def require_processor(rt: Runtime, name: str | None) -> None:
    """One that is installed need not be set up yet; None is no choice.

    Raises:
        InvalidInput: none has this name; details name those there are.
    """
    known = rt.processors.names
    if name is not None and name not in known:
        raise InvalidInput(
            f"There is no file processor {name!r}; there is: {', '.join(known) or 'none'}.", field="file_processor", known=known
        )
