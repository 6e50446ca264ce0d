"""Extraction questions ask for what is scored, and Chinese answers with full-width punctuation are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragrounds.base.records import Attempt
from ragrounds.evals.benchmarks import load
from ragrounds.evals.scorers.triplets import TRIPLETS
from ragrounds.prompts.loader import PromptFolder

CHEMPROT = {
    "x_test_abstracts.tsv": "1\tA title\tAlpha blocks B1 {text} and is made by E2.\n",
    "x_test_entities.tsv": "1\tT1\tCHEMICAL\t0\t5\tAlpha\n1\tT2\tGENE\t6\t8\tB1\n1\tT3\tGENE\t9\t11\tE2\n",
    "x_test_gold_standard.tsv": "1\tCPR:4\tArg1:T1\tArg2:T2\n1\tCPR:9\tArg1:T1\tArg2:T3\n1\tCPR:1\tArg1:T1\tArg2:T3\n",
}
CMEIE = [
    {
        "text": "示例病一会引起头痛，可用药甲治疗。",
        "spo_list": [
            {"subject": "示例病一", "predicate": "临床表现", "object": {"@value": "头痛"}},
            {"subject": "示例病一", "predicate": "药物治疗", "object": {"@value": "药甲"}},
        ],
    },
    {"text": "没有关系的句子。", "spo_list": []},
]


@pytest.fixture
def chemprot(tmp_path: Path) -> str:
    for name, text in CHEMPROT.items():
        (tmp_path / name).write_text(text)
    return f"chemprot:{tmp_path}"


@pytest.fixture
def cmeie(tmp_path: Path) -> str:
    path = tmp_path / "CMeIE_dev.jsonl"
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in CMEIE), encoding="utf-8")
    return f"cmeie:{path}"


def test_a_question_names_every_relation_as_it_is_scored(chemprot: str, tmp_path: Path) -> None:
    benchmark = load(chemprot, tmp_path / "home")
    (question,) = benchmark.questions
    wanted = json.loads(benchmark.golds[question.id].answer)
    assert wanted == [["Alpha", "downregulator", "B1"], ["Alpha", "substrate", "E2"]]
    for relation in ("upregulator", "downregulator", "agonist", "antagonist", "substrate"):
        assert f"\n- {relation}: " in question.text
    assert "[chemical, relation, gene or protein]" in question.text
    assert "the chemical comes first" in question.text
    assert question.text.endswith("A title\nAlpha blocks B1 {text} and is made by E2.")


@pytest.mark.parametrize(
    "answer",
    [
        '[["示例病一", "临床表现", "头痛"], ["示例病一", "药物治疗", "药甲"]]',
        "［［“示例病一”，“临床表现”，“头痛”］，［“示例病一”，“药物治疗”，“药甲”］］",
        "（示例病一，临床表现，头痛）\n（示例病一，药物治疗，药甲）",
        "1. （示例病一；临床表现；头痛）、（示例病一；药物治疗；药甲）。",
        '逐句阅读。\nAnswer:\n[{"主体": "示例病一", "关系": "临床表现", "客体": "头痛"}, '
        '{"主体": "示例病一", "关系": "药物治疗", "客体": "药甲"}]',
    ],
)
def test_a_chinese_answer_scores_in_every_form(cmeie: str, tmp_path: Path, answer: str) -> None:
    benchmark = load(cmeie, tmp_path / "home")
    question, empty = benchmark.questions
    assert (question.language, question.kind) == ("zh", "extraction")
    assert "- 临床表现\n- 药物治疗\n" in question.text
    attempt = Attempt(run="r", question_id=question.id, epoch=0, status="completed", text=answer)
    made = TRIPLETS.score(attempt, question, benchmark.golds[question.id])
    assert (made.value, made.prediction) == (1.0, "2/0/0")
    assert TRIPLETS.score(attempt, empty, benchmark.golds[empty.id]).prediction == "0/2/0"


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("form", ["direct", "cot", "rag", "rag_direct", "refine", "refine_rag"])
def test_the_prompts_ask_for_a_list_and_no_paragraph(form: str, language: str) -> None:
    values = {"question": "QUESTION", "documents": "DOCUMENTS", "first": "FIRST"}
    used = {name: text for name, text in values.items() if name == "question" or name in _placeholders(form)}
    said = "\n".join(message.content for message in PromptFolder().render(f"extraction/{form}", language, **used))
    assert "JSON" in said
    assert "QUESTION" in said
    assert not any(word in said for word in ("paragraph", "一小段话"))


def _placeholders(form: str) -> set[str]:
    return {name for name, wanted in (("documents", "rag" in form), ("first", form.startswith("refine"))) if wanted}
