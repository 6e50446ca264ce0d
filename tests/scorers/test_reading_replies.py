"""Choices, long answers and judges read one reply: thoughts, JSON, boxes, errors, languages and typography."""

import tomllib
from pathlib import Path

import pytest

from ragrounds.base.records import Attempt, Gold, Question
from ragrounds.evals.judges.verdict import read_verdict
from ragrounds.evals.scorers import stated_choice
from ragrounds.evals.scorers.answer_status import ERROR, THOUGHT, answer_text, failure, read_long
from ragrounds.evals.scorers.equivalent import EQUIVALENCE
from ragrounds.evals.scorers.judged import VerdictForm
from ragrounds.evals.scorers.mirage import MIRAGE, read_published
from ragrounds.evals.scorers.robust import ROBUST, read_robustly
from ragrounds.evals.scorers.rouge_l import ROUGE_L
from ragrounds.evals.scorers.short_answers import EXACT_MATCH
from ragrounds.evals.scorers.strict import STRICT
from tests.rows import each_row

DRUGS = {"A": "Metformin", "B": "Insulin glargine", "C": "Empagliflozin", "D": "Glipizide"}
DOSES = {"A": "250 mg", "B": "500 mg", "C": "750 mg", "D": "1000 mg"}
ROWS = tomllib.loads(Path(stated_choice.__file__).with_name("stated_answers.toml").read_text("utf-8"))["pattern"]


def label(text, options=DRUGS):
    return read_robustly(text, Question(id="q", benchmark="b", text="Which drug is first?", options=options)).prediction


def long(text):
    return Attempt(run="r", question_id="q", epoch=0, status="completed", text=text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A thought that never ends is no answer.
        ("<think>The answer is A, but first", ""),
        ("<thinking>\nB is wrong. The answer is D. But the kidneys", ""),
        (r"<think>\boxed{B}? Once more", ""),
        ('[THINK]{"answer": "B"}', ""),
        ("<|channel|>analysis<|message|>Surely the answer is B", ""),
        # What follows the thought counts.
        (r"<reasoning>\boxed{A} at first</reasoning> The answer is C.", "C"),
        (r"<seed:think>\boxed{A}</seed:think>C", "C"),
        (r"<|begin_of_thought|>\boxed{B}<|end_of_thought|><|begin_of_solution|>C<|end_of_solution|>", "C"),
        (r"analysisThe user asks. \boxed{D}?assistantfinalThe answer is C.", "C"),
        ('{"reasoning_content": "\\\\boxed{A}?", "content": "The answer is C."}', "C"),
        # The reply ends where another question or turn begins.
        ("The answer is C.\n\nQuestion 2: Which dose?\nAnswer: B", "C"),
        ("C\n\n问题：剂量？\n答案：B", "C"),
        ("The answer is C.<|eot_id|><|start_header_id|>user<|end_header_id|>\nNext\nThe answer is B.", "C"),
        ("I repeat it.\n\nQuestion: Which drug is first?\nAnswer: C", "C"),
    ],
)
def test_thoughts_and_ends(text, expected):
    assert label(text) == expected


@each_row(
    ("text", "expected"),
    [
        # The answer's own field counts before those that describe options.
        ('{"answer": "C", "options": [{"option": "A"}, {"option": "B"}]}', "C"),
        ('{"final_answer": "C", "label": "high"}', "C"),
        ('{"answer": "B", "evidence": [{"label": "PMID 1"}], "choice": "see answer"}', "B"),
        ('{"review": {"option": "D"}, "answer": {"letter": "C", "text": "Empagliflozin"}}', "C"),
        ('{"analysis": [{"option": "A", "verdict": "wrong"}, {"option": "D", "verdict": "wrong"}]}', ""),
        ('[{"option": "A", "wrong": true}, {"option": "D", "wrong": true}]', ""),
        ("{'answer': 'C', 'analysis': [{'option': 'D'}]}", "C"),
        ('{"answer": "C", "analysis": [{"option": "A", "verdict": "wr', "C"),
        ('{"finalAnswer": "C"}', "C"),
        ('{"result": {"answer": ["C"]}}', "C"),
        ('{"answer": "\\\\boxed{C}"}', "C"),
        ('{"答案": "C", "选项": "A"}', "C"),
        # What holds no option is no answer, and the prose around it is asked.
        (r"The clearance is \boxed{38.5}. The answer is B.", "B"),
        (r"\boxed{\frac{dose}{2}} and so **Answer: D**", "D"),
        ("I choose C. <answer>\n</answer>", "C"),
        ('The answer is C. {"answer": ""}', "C"),
        ('The answer is C.\n```json\n{"answer": null, "confidence": 0.9}\n```', "C"),
        (r"\boxed{\text{C}}", "C"),
        (r"\boxed{C. \text{Empagliflozin}}", "C"),
        # An answer that says none, several or an option that does not exist is not overruled.
        ('The answer is C. {"answer": "none of them"}', ""),
        ('The answer is C. {"answer": "A or B"}', ""),
        ('The answer is C. {"answer": "E"}', ""),
        ('{"step_by_step_thinking": "The answer is C.", "answer_choice": ""}', ""),
    ],
)
def test_fields_boxes_and_tags(text, expected):
    assert label(text) == expected


@each_row("row", ROWS)
def test_words_of_a_language_state_the_answer(row):
    assert len(row["examples"]) == 2
    assert [label(example) for example in row["examples"]] == ["C", "C"]


@each_row(
    ("text", "expected"),
    [
        ("정답 : C번", "C"), ("답: C", "C"), ("回答：C", "C"), ("解答は選択肢Cである。", "C"),
        ("الجواب الصحيح هو C", "C"),
        ("Вариант ответа неизвестен. Верный ответ: C", "C"), ("Câu trả lời là C.", "C"), ("Jawabannya adalah C.", "C"),
        ("Yanıt: C", "C"), ("L'option correcte est la C.", "C"), ("Die richtige Antwort lautet C.", "C"),
        ("Risposta: C", "C"), ("A alternativa correta é a C.", "C"), ("La respuesta no es la A.", ""),
        ("答案：〔C〕", "C"), ("『C』", "C"), ("［C］", "C"), ("《答案》：C", "C"), ("Ｃ", "C"),
        ("\u200bC\u200b", "C"), ("\u2067C\u2069", "C"),
        ("The answer is \u202aC\u202c.", "C"), ("The answer is C\u00ad.", "C"),
        ("The answer is “C”.", "C"), ("Analicemos cada opción: A. Metformin no.", ""),
    ],
)  # fmt: skip
def test_scripts_and_typography(text, expected):
    assert label(text) == expected


@each_row(
    "text",
    [
        "500 mg twice daily", "500 mL", "429 patients were enrolled.", "503 kcal a day", "502",
        "Error of phenylalanine metabolism", "Exception: pregnancy, where it is stopped.",
        "Error bars overlap, so it makes no difference.", "Too many requests for imaging are made in such patients.",
        "Connection errors between cortex and thalamus", "Timeout: the pause before surgery.",
        "Failed: the first course of therapy. 504 units follow.", "Server error rates of 3 % were seen.",
        "404 patients of a registry of 500", "The request timed out in 3 of 500 cases, so repeat it.",
    ],
)  # fmt: skip
def test_prose_is_no_error(text):
    assert failure(f"{text} as usual" if text == "502" else text) is None
    assert read_long(long(f"Give it. {text}")).status == "answered"


@each_row(
    "text",
    [
        "503", "HTTP 429", "HTTP/1.1 502 Bad Gateway", "Error 500", "Error code: 429 - {'error': {'message': 'x'}}",
        "429 Too Many Requests", "503 Service Unavailable: try later", "502 Server Error: Bad Gateway for url: http://x",
        "openai.RateLimitError: Rate limit reached for gpt-4", "requests.exceptions.ReadTimeout",
        "APIConnectionError: x",
        "Traceback (most recent call last):\n  File", "Error: Connection refused", "Request timed out.",
        "LLM call failed: 429 Too Many Requests", "HTTPSConnectionPool(host='x', port=443): Max retries exceeded",
        "This model's maximum context length is 4097 tokens. However, you requested more.", "Internal Server Error",
        '{"error": {"message": "overloaded"}}', "Too many requests. Please try again later.", "An error occurred: x",
    ],
)  # fmt: skip
def test_a_text_that_is_an_error_as_a_whole(text):
    assert failure(text).reason == ERROR
    assert read_long(long(text)).reason == ERROR


def test_an_options_text_is_no_error():
    assert label("500 mg twice daily", DOSES) == "B"
    assert label("Glipizide 5 mg before breakfast") == "D"
    assert label("500 mg per kg", DOSES) == ""
    assert label("500 mg to 750 mg daily", DOSES) == ""
    assert label("Glipizide would cause hypoglycaemia") == ""
    assert label("500 mg", DOSES) == "B"
    assert label("500", {"A": "250", "B": "500"}) == "B"
    assert label("Error of metabolism", {"A": "Infection", "B": "Error of metabolism"}) == "B"
    assert label("Error bars overlap, so the answer is C.") == "C"


def test_a_thought_is_no_long_answer():
    gold = Gold(question_id="q", answer="Give argatroban.")
    question = Question(id="q", benchmark="b", text="What?", kind="long")
    thinker = long("<think>Give argatroban.</think>Give heparin.")
    assert answer_text(thinker) == "Give heparin."
    assert ROUGE_L.score(thinker, question, gold).value == 0.5
    assert "argatroban" not in EQUIVALENCE.questions(thinker, question, gold)[0].texts["answer"]
    endless = long("<thought>Give argatroban.")
    assert (read_long(endless).status, read_long(endless).reason) == ("unreadable", THOUGHT)
    assert ROUGE_L.score(endless, question, gold).value == 0.0
    assert EQUIVALENCE.unasked(endless, question, gold)[0].value == 0.0


def test_a_long_answer_that_repeats_its_question_is_read_to_its_end():
    question = Question(id="q", benchmark="b", text="What should be given?", kind="long")
    advice = "Aspirin, 81 mg a day, was given in each of the trials of the last years, and it prevents most events."
    repeating = long(f"I don't know at first sight.\nQuestion: What should be given?\n{advice * 4}")
    assert read_long(repeating).status == "abstained"  # without the question it ends where it repeats one
    assert answer_text(repeating, question) == repeating.text
    assert read_long(repeating, question).status == "answered"
    assert ROUGE_L.score(repeating, question, Gold(question_id="q", answer="Aspirin")).answer_status == "answered"


def test_published_readers_read_the_raw_text():
    assert (
        read_published("<think>so</think> A", Question(id="q", benchmark="b", text="?", options=DRUGS)).prediction == ""
    )
    assert read_published("A, <think>no", Question(id="q", benchmark="b", text="?", options=DRUGS)).prediction == "A"
    endless, question = long("<think>Option B"), Question(id="q", benchmark="b", text="?", options=DRUGS)
    gold = Gold(question_id="q", answer="B")
    assert [scorer.score(endless, question, gold).value for scorer in (MIRAGE, ROBUST)] == [1.0, 0.0]
    assert EXACT_MATCH.score(long("<think>B</think>"), question, gold).value == 0.0
    assert all("raw reply" in scorer.method for scorer in (MIRAGE, STRICT, EXACT_MATCH))


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ('{"grade": "equivalent"} perhaps\n</think>\nI cannot say.', None),
        ('<|channel|>analysis<|message|>{"grade": "equivalent"} is likely', None),
        ('[THINK]{"grade": "equivalent"}[/THINK]', None),
        ('<thought>{"grade": "equivalent"}? hmm', None),
        ('<reasoning>{"grade": "equivalent"}', None),
        ('◁think▷{"grade": "equivalent"}◁/think▷ Undecided.', None),
        ('{"grade": "equivalent"}</think>{"grade": "mismatch"}', "mismatch"),
        ('{"grade": "mismatch"}<|im_end|>\n<|im_start|>user\n{"grade": "equivalent"}', "mismatch"),
        ('I compare.\n\nQuestion: Which?\n{"grade": "equivalent"}', "equivalent"),
        ("grade：mismatch", "mismatch"),
        ("{“grade”: “mismatch”}", "mismatch"),
        ('{"grade": "mis\u200bmatch"}', "mismatch"),
    ],
)
def test_a_judges_thought_is_no_verdict(text, grade):
    read = read_verdict(text, VerdictForm(axes=("grade",), values=("equivalent", "mismatch")), "length")
    assert read.values.get("grade") == grade
    assert bool(read.reasons) is (grade is None)


def test_an_option_called_no_is_not_denied_by_its_text() -> None:
    answers = {"A": "yes", "B": "no", "C": "maybe"}
    assert [label(f"Correct answer: B{mark}no", answers) for mark in (" - ", ": ", ". ", ") ", " (")] == ["B"] * 5
    assert label("A - no") == ""


@each_row(
    ("text", "expected"),
    [
        # A verdict after an option, or a sign before it, denies the option.
        ("A: no", ""), ("A. Wrong", ""), ("A = wrong", ""), ("A (incorrect)", ""), ("A - not correct", ""),
        ("Metformin: contraindicated.", ""), ("Metformin. Contraindicated here.", ""), ("Metformin? No.", ""),
        ("❌ A", ""), ("- [ ] A", ""), ("- [x] C", "C"), ("~~A~~ C", "C"), ("<del>A</del> C", "C"),
        ("It would be wrong to answer A.", ""), ("The answer is unlikely to be A.", ""),
        ("The second best answer is A.", ""), ('{"wrong_answer": "A"}', ""), ("Answer: A B", ""),
        ("C. Wrong answers: A and B", "C"), ("C (A is wrong)", "C"), ("Empagliflozin (not metformin)", "C"),
        ("La respuesta no es A.", ""), ("La risposta non è A.", ""), ("A resposta não é A.", ""),
        ("答えはAではない", ""), ("정답은 A가 아닙니다", ""), ("Cevap A değil.", ""),
        ("A：错误", ""), ("A（错误）", ""), ("<search>metformin</search>", ""),
        ("<search>C?</search> <information>The answer is A: p < 0.05</information>\nIt is C.", "C"),
        # Several questions
        ("1. A\n2. C", ""), ('[{"question": 1, "answer": "A"}, {"question": 2, "answer": "C"}]', ""),
        ("Options:\n1. Metformin\n2. Glipizide\n\nThe best answer is A.", "A"), ("1. A\n2. C\nSo, answer: A.", "A"),
        ('[{"answer": "C"}]', "C"), ("C\n\n### Question 2\nAnswer: A", "C"), ("C\n\nQ2. Which?\nAnswer: A", "C"),
        # Forms of a statement
        ("Answer is option 'C'", "C"), (r"\fbox{C}", "C"), (r"\boxed C", "C"), ("Answer:&nbsp;C", "C"),
        ('The answer is <span style="color:red">C</span>.', "C"),
        ("The plan would be to take empagliflozin (C. Empagliflozin).", "C"), ("答案選C", "C"),
        ("(A. Metformin) and metformin (A. Metformin) is not necessary.", ""),
        # Thoughts without special tokens
        ("<|im_start|>think\nThe answer is A<|im_start|>answer\nC", "C"), ("< think >The answer is A</ think >C", "C"),
        ("<details><summary>Thought for 3 s</summary>The answer is A.</details>\nC", "C"),
        ("<details><summary>Sources</summary>A trial.</details>\nC", "C"),
        ("Thinking...\nThe answer is A.\n...done thinking.\n\nC", "C"), ("<思考>The answer is A</思考>C", "C"),
        ("<|think_start|>The answer is A<|think_end|>C", "C"), ("<think>The answer is A<\\/think>C", "C"),
        ("## Thinking\nThe answer is A.\n\n## Final Response\nC", "C"), ("## Thinking\nThe answer is A. But", ""),
        ("## Thinking\nIs it A?\nAnswer: C", "C"), ("Here is my thought process: The answer is A, or", ""),
    ],
)  # fmt: skip
def test_what_is_denied_thought_or_asked_further(text, expected):
    assert label(text) == expected


@each_row(
    ("text", "expected"),
    [
        ("The answer is 5 mg.", "A"), ("The answer is .5 mg.", "C"), ("5 mg or 10 mg", ""),
        ("The answer is <5 mg", ""), ("<5 mg", ""), ("-5 mg", ""), ("≥5 mg", ""), ("The answer is 1–5 mg", ""),
        ("The answer is 5 mg/kg", ""), ("The answer is 10 mg/m².", ""), ("The answer is 5 mg to 50 mg.", ""),
        ("The answer is up to 10 mg.", ""), ("The answer is 5 mg or more.", ""),
        ("5 mg: too low", ""), (".5 mg", "C"), ("5.5 mg", ""),
    ],
)  # fmt: skip
def test_an_options_number_inside_another_quantity(text, expected):
    assert label(text, {"A": "5 mg", "B": "10 mg", "C": ".5 mg", "D": "50 mg"}) == expected


def test_an_options_text_in_quotes_or_after_its_label():
    decisions = {"A": "yes", "B": "no", "C": "maybe"}
    assert [label(text, decisions) for text in ("The answer is 'yes'.", "Answer: (B) no", "So no.")] == ["A", "B", "B"]
    assert label("Answer: no effect", decisions) == label("Maybe yes", decisions) == ""


def test_signs_of_an_options_text():
    assert label("HER2", {"A": "HER2-", "B": "HER2+"}) == ""
    assert label("HER2-", {"A": "HER2-", "B": "HER2+"}) == "A"
    assert label("5.5", {"A": "5", "B": "7"}) == ""
    assert label("B. d", {"A": "c", "B": "d", "C": "ab", "D": "bd"}) == "B"
