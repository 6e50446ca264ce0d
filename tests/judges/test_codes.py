"""What a judged score goes by beside the judge's replies: way of judging, prompts, parser."""

import pytest

from ragrounds.evals.judges.attempts import judge_code
from ragrounds.evals.judges.methods import judge_methods
from ragrounds.evals.scorers.equivalent import EQUIVALENCE
from ragrounds.evals.scorers.grounding import GROUNDING
from ragrounds.evals.scorers.ragas import ALL_METRICS, RagasMethod
from ragrounds.extensions.arena.pairs import pairs_code
from ragrounds.prompts import loader


@pytest.mark.parametrize("file", ["equivalent.py", "judged.py", "verdict.py"])
def test_the_method_and_the_parser_count(edit, file):
    before = judge_code(EQUIVALENCE)
    edit(file)
    assert judge_code(EQUIVALENCE) != before


def test_another_room_and_another_method_do_not(edit):
    before = judge_code(EQUIVALENCE)
    edit("scheduler.py")
    edit("statements.py")
    assert judge_code(EQUIVALENCE) == before


def test_a_panel_goes_by_how_it_votes_too(edit):
    alone, panel = judge_code(EQUIVALENCE), judge_code(EQUIVALENCE, panel=True)
    assert alone != panel
    edit("panel.py")
    assert judge_code(EQUIVALENCE) == alone
    assert judge_code(EQUIVALENCE, panel=True) != panel


def test_every_prompt_that_a_method_puts_to_judges_counts(monkeypatch):
    real = loader._text
    for method in judge_methods().values():
        assert bool(method.prompts) != isinstance(method, RagasMethod), method.name
        before = judge_code(method)
        for name in method.prompts:
            with monkeypatch.context() as patch:
                wanted = name
                patch.setattr(
                    loader,
                    "_text",
                    lambda place, file, wanted=wanted: (
                        (real(place, file) or "") + "More." if file.startswith(wanted) else real(place, file)
                    ),
                )
                assert judge_code(method) != before, name


def test_verdicts_of_another_verifier_are_other_scores(edit):
    (claims,) = (one for one in judge_methods().values() if one.name == "claims")
    codes = {judge_code(claims, verifier=name) for name in claims.verifiers}
    assert len(codes) == 3
    assert judge_code(claims) in codes
    edit("verifiers.py")
    assert judge_code(claims) not in codes


@pytest.mark.parametrize("file", ["grounding.py", "measures.py", "claims.py", "verifiers.py", "verdict.py"])
def test_measures_go_by_all_code_that_asks_for_them(edit, file):
    before, of_ragas = judge_code(GROUNDING), judge_code(ALL_METRICS)
    edit(file)
    assert judge_code(GROUNDING) != before
    assert (judge_code(ALL_METRICS) != of_ragas) == (file in ("measures.py", "claims.py"))


def test_arenas_go_by_the_code_that_asks(edit):
    before = pairs_code()
    edit("pairs.py")
    assert pairs_code() != before
