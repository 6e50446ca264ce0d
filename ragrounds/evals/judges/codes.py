"""The digest of what a judged score rests on beside the judge's replies: way of judging, prompts, parser."""

from __future__ import annotations

from ragrounds.digests import code_digest, home_of, text_digest
from ragrounds.evals.scorers.judged import JudgeMethod, LabelMethod
from ragrounds.prompts.loader import PromptFolder

_ASKING = "ragrounds.evals.judges.verdict"
_VOTING = "ragrounds.evals.judges.panel"
PAIRS = ("ragrounds.evals.judges.pairs", _ASKING)
"""Modules that put pairs to judges and read their replies."""
_RAGAS = "ragrounds.evals.judges.ragas"


def judge_code(method: JudgeMethod, *, panel: bool = False) -> str:
    """The digest of a way of judging: of its code, its prompts and the code that reads verdicts.

    Args:
        method: the way of judging.
        panel: the majority of several judges counts.

    Raises:
        UserError: it names a prompt that is not there.
    """
    asking = [_ASKING, *([_VOTING] if panel else ())] if isinstance(method, LabelMethod) else [_RAGAS]
    codes = [code_digest(home_of(method), within=("ragrounds.evals.scorers",)), *map(code_digest, asking)]
    return text_digest(*codes, *PromptFolder().digest(method.prompts).values())


def pairs_code() -> str:
    """The digest of the code that puts pairs to judges and reads their replies."""
    return text_digest(*map(code_digest, PAIRS))
