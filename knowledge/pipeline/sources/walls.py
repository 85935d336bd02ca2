"""Pages that are not what was asked for: walls against robots, and error pages that claim to be fine.

Only a short page can be one. A long one that has these words is an article about them.
"""

import re
from collections.abc import Mapping
from typing import Final

MOST_CHARACTERS: Final = 2_000  #: of the text of a wall or error page

_WALL_TITLES: Final = re.compile(
    r"^(?:just a moment|attention required|access denied|robot check|are you (?:a )?(?:human|robot)|pardon our interruption|"
    r"ddos-guard|security (?:check|verification)|checking your browser|verify(?:ing)? (?:that )?you are (?:a )?human|"
    r"request (?:blocked|unsuccessful|rejected)|you have been blocked|human verification|captcha|bot verification|"
    r"vercel security checkpoint|einen moment|un instant|un momento|请稍候|请稍后|安全验证|人机验证)\b",
    re.I,
)
_WALL_WORDS: Final = re.compile(
    r"you have been blocked|you(?:'|’)?ve been blocked|has been blocked by (?:network|the) security|"
    r"sorry, you (?:are|were) blocked|your (?:request|access|ip(?: address)?) (?:has been|was|is) (?:blocked|denied|rejected)|"
    r"enable javascript and cookies to continue|checking (?:if the site connection is secure|your browser before)|"
    r"verif(?:y|ying) (?:that )?you are (?:a |not a )?(?:human|robot)|"
    r"(?:confirm|prove) (?:that )?you(?:'|’)?(?: a|r)e (?:human|not a robot)|"
    r"needs to review the security of your connection|complete the (?:security check|captcha)|"
    r"unusual traffic from your (?:computer )?network|automated (?:access|requests|queries)|"
    r"pardon our interruption|press (?:&|and) hold to confirm|incapsula incident|"
    r"please (?:solve|complete) (?:this|the) captcha|cloudflare ray id|reference #[0-9a-f.]{8,}|"
    r"access to this (?:page|site|resource) (?:has been|is) (?:denied|blocked)|you don(?:'|’)t have permission to access",
    re.I,
)
_ERROR_TITLES: Final = re.compile(
    r"^(?:error\s*)?(?:(?:http\s*)?(?:40[0134]|410|429|5\d\d)(?:$|\s*[-–—:|.]|\s+(?:error|page|not|forbidden|bad|too|un|internal|service))|"
    r"(?:page|file|site|seite) (?:not|nicht) (?:found|gefunden)|not found$|forbidden$|"
    r"internal server error|bad gateway|service (?:temporarily )?unavailable|gateway time-?out|too many requests|"
    r"under maintenance|temporarily unavailable|page non trouvée|página no encontrada|страница не найдена|页面不存在)",
    re.I,
)
_CHALLENGE_HEADERS: Final = {"cf-mitigated": "challenge", "x-amzn-waf-action": "challenge", "x-datadome": "protected"}


def is_wall(status: int, headers: Mapping[str, str], title: str | None, text: str) -> bool:
    """Whether a page only says that robots are not wanted.

    Args:
        headers: names in lower case.
        text: what a reader would see.
    """
    if any(headers.get(name, "").lower().startswith(value) for name, value in _CHALLENGE_HEADERS.items()):
        return status >= 400 or len(text) <= MOST_CHARACTERS
    if len(text) > MOST_CHARACTERS:
        return False
    return bool(_WALL_TITLES.match((title or "").strip())) or _WALL_WORDS.search(text) is not None


def is_error_page(title: str | None, text: str) -> bool:
    """Whether a page that came with status 200 only says that there is no such page, or that something failed."""
    if len(text) > MOST_CHARACTERS:
        return False
    first = next((line.strip("#* \t") for line in text.splitlines() if line.strip("#* \t")), "")
    return any(_ERROR_TITLES.match(line.strip()) for line in (title or "", first))
