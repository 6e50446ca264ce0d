"""Made-up sets in the papers' own forms: R2MED's eight, CMedTEB's five, OGCaReBench's questions and case reports.

All are written from :mod:`.texts`: some queries share words with their documents and some do not, so that rankings
differ between retrievers. Reports are long enough to be cut into chunks, and some questions into pieces.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from ragrounds.evals.studies.stand_in.texts import CONDITIONS, Disease

Row = dict[str, object]
R2MED = (
    "biology", "bioinformatics", "medical-sciences", "medxpertqa-exam", "medqa-diag", "pmc-treatment", "pmc-clinical",
    "iiyi-clinical",
)  # fmt: skip
QUERIES = 5
"""Of a retrieval set."""
VARIANTS = 2
"""Reports that tell a condition's story."""
_COMPLAINTS = (
    "slept badly", "ate little", "felt no better", "asked for water", "walked to the window", "had visitors",
    "complained of thirst", "was cheerful", "coughed twice", "wished to go home",
)  # fmt: skip
_FINDINGS = (
    "a pulse of 88", "a pressure of 124 over 78", "a temperature of 37.4", "18 breaths a minute",
    "a weight of 64 kilograms", "96 percent saturation", "a soft abdomen", "clear lungs", "warm hands", "an even gait",
)  # fmt: skip
_ORDERS = (
    "no further order", "a second opinion", "a light diet", "rest in bed", "a walk in the garden", "an early round",
    "a blood count", "a change of room", "a call to the family", "a check of the chart",
)  # fmt: skip
SPECIALTIES = ("Surgical Studies", "Internal Medicine", "Neurology")
_ASKED: dict[str, str] = {
    "biology": "Somebody told me that this can happen, and I wonder what goes on in the body. {story}",
    "bioinformatics": "I annotate records of patients and look for the concept behind this one. {story}",
    "medical-sciences": "{story} What is the reason for that?",
    "medxpertqa-exam": "{story} Which examination should follow?",
    "medqa-diag": "{story} Which diagnosis is the most likely?",
    "pmc-treatment": "{story} {test} has been done. Which treatment follows?",
    "pmc-clinical": "{story} Are there similar patients?",
    "iiyi-clinical": "Admission note. {story} Earlier illnesses: none. Similar cases are wanted.",
}
"""Dataset → what is asked."""


def r2med_set(name: str) -> dict[str, list[Row]]:
    """``query.jsonl``, ``corpus.jsonl`` and ``qrels.jsonl`` of one of the eight sets."""
    turn = R2MED.index(name)
    asked = [CONDITIONS[(turn + 2 * place) % len(CONDITIONS)] for place in range(QUERIES)]
    corpus: list[Row] = [
        {"id": f"{one.key}-{kind}", "text": text} for one in CONDITIONS for kind, text in _documents(one)
    ]
    queries: list[Row] = []
    judged: list[Row] = []
    for number, one in enumerate(asked, 1):
        text = _ASKED[name].format(story=one.story, test=_sentence(one.test))
        answer = one.test if name.endswith("exam") else one.treatment if name.endswith("treatment") else one.name
        if number % 2 == 0:  # a model that knows nothing can answer these
            text = f"{_sentence(answer)} has been considered. {text}"
        queries.append({"id": f"q{number}", "text": text, "answer": answer, "body_system": one.system})
        wanted = ("case", "again") if "clinical" in name else ("test", "care") if "treat" in name else ("text", "test")
        judged += [{"q_id": f"q{number}", "p_id": f"{one.key}-{kind}", "score": 1} for kind in wanted]
    return {"query.jsonl": queries, "corpus.jsonl": corpus, "qrels.jsonl": judged}


def _documents(one: Disease) -> Iterator[tuple[str, str]]:
    yield "text", f"{_sentence(one.name)}. {one.mechanism}."
    begins = one.story.partition(". ")[0] + ". " if len(one.key) % 2 else ""
    yield "test", f"{begins}Where {one.name} is suspected, {one.test} decides."
    yield "care", f"{_sentence(one.name)} is treated by {one.treatment}."
    yield "case", f"Case. {one.story} {_sentence(one.test)} led to the diagnosis of {one.name}."
    yield "again", f"A further patient with {one.name} was helped by {one.treatment}. {one.mechanism}."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def cmedteb_retrieval(*, whole: bool = True) -> dict[str, list[Row]]:
    """Chinese questions and answers as a BEIR folder without its judgements, which are rows here too; not `whole`: only
    one of the two documents that answer a question is judged."""
    corpus: list[Row] = []
    for one in CONDITIONS:
        corpus.append({"_id": f"{one.key}-answer", "title": one.chinese, "text": one.chinese_answer})
        corpus.append({"_id": f"{one.key}-short", "title": "", "text": f"{one.chinese}患者应当及时就医，遵医嘱治疗。"})
    queries: list[Row] = [{"_id": one.key, "text": one.chinese_question} for one in CONDITIONS]
    judged: list[Row] = [
        {"query-id": one.key, "corpus-id": f"{one.key}-{kind}", "score": 1}
        for one in CONDITIONS
        for kind in (("answer", "short") if whole else ("answer",))
    ]
    return {"corpus.jsonl": corpus, "queries.jsonl": queries, "qrels": judged}


def cmedteb_pools(name: str) -> list[Row]:
    """A reranking set: each question with two texts that answer it and six that do not."""
    turn = ("rerank", "cmedqa-v1", "cmedqa-v2").index(name)
    rows: list[Row] = []
    for place, one in enumerate(CONDITIONS):
        others = [CONDITIONS[(place + step + turn) % len(CONDITIONS)] for step in range(1, 8)]
        wrong = [other.chinese_answer for other in others if other.key != one.key][:6]
        right = [one.chinese_answer, f"{one.chinese}患者应当及时就医，遵医嘱治疗。"]
        rows.append({"query": one.chinese_question, "pos": right, "neg": wrong})
    return rows


def cmedteb_pairs() -> list[Row]:
    """Pairs of sentences: of the same meaning (1), and of another (0)."""
    rows: list[Row] = []
    for one in CONDITIONS:
        sentence, same, other = one.chinese_synonym
        rows.append({"sentence1": sentence, "sentence2": same, "score": 1.0})
        rows.append({"sentence1": sentence, "sentence2": other, "score": 0.0})
    return rows


def case_questions() -> list[Row]:
    """Questions in OGCaReBench's form, one a condition; every third is longer than a window of 512 tokens.

    Two reports tell each condition's story, and the days that a question retells are of one of them.
    """
    rows: list[Row] = []
    for place, one in enumerate(CONDITIONS):
        days = range(3, 32, 1 if place % 3 == 0 else 5)
        told = " ".join(_course(one, place % VARIANTS, day) for day in days)
        neighbour = CONDITIONS[(place + 5) % len(CONDITIONS)]
        doubt = f"The team hesitates between {one.test} and {neighbour.test}."
        # Asked at once, in the end, or not at all: so that what a model makes of a question differs.
        parts = ([doubt, one.story, told], [one.story, doubt, told], [told, one.story])[place % 3]
        rows.append(
            {
                "Title": f"An unusual course of {one.name}",
                "pmc_id": _report_id(place, place % VARIANTS),
                "Classification": SPECIALTIES[place % len(SPECIALTIES)],
                "question": f"{' '.join(parts)} Standard measures have been tried. What is the next step?",
                "answer": f"The next step is {one.test}.",
            }
        )
    return rows


def case_reports() -> list[Row]:
    """The reports, as a BEIR corpus: two a condition, some 1,500 tokens each."""
    rows: list[Row] = []
    for place, one in enumerate(CONDITIONS):
        neighbour = CONDITIONS[(place + 5) % len(CONDITIONS)]
        for variant in range(VARIANTS):
            parts = [
                f"Background. {_sentence(one.name)} seldom takes such a course. {one.mechanism}.",
                f"Case presentation. {one.story}",
                *(_course(one, variant, day) for day in range(1, 40)),
                f"At first {neighbour.name} was suspected, but {neighbour.test} showed nothing of the kind.",
                f"Standard measures had been tried in this patient of the {one.system} ward, and what the next step "
                f"was the notes tell: {one.test}, and then {one.treatment}.",
                "Discussion. " + " ".join(_remarks(one)),
            ]
            name = _report_id(place, variant)
            rows.append({"_id": name, "title": f"Report {name}", "text": " ".join(parts)})
    return rows


def _report_id(place: int, variant: int) -> str:
    return f"PMC{9000 + VARIANTS * place + variant}"


def _course(one: Disease, variant: int, day: int) -> str:
    """What is noted on a day: the same notes in another order in every report."""
    lot = zlib.crc32(f"{one.key} {variant} {day}".encode())
    return (
        f"On day {day} the patient {_COMPLAINTS[lot % len(_COMPLAINTS)]}; the ward notes "
        f"{_FINDINGS[lot // 97 % len(_FINDINGS)]} and {_ORDERS[lot // 1009 % len(_ORDERS)]}."
    )


def _remarks(one: Disease) -> Sequence[str]:
    return [
        f"{number}. {sentence}"
        for number, sentence in enumerate(
            (
                f"Reports of {one.name} with a delay of some weeks are few.",
                f"We recommend {one.test} early where the course is long.",
                f"{_sentence(one.treatment)} was tolerated without side effects.",
                "The patient agreed to this made-up publication.",
            ),
            1,
        )
    ]
