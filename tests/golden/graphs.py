"""Strategies and readers beside the programs of MedRAG, MIRAGE, Search-o1 and Search-R1."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial

from ragrounds.base.contracts import Request
from ragrounds.base.records import Attempt, Gold, Passage, Question
from ragrounds.evals.scorers.catalogue import all_scorers
from ragrounds.evals.scorers.choice import ChoiceScorer
from ragrounds.evals.scorers.mirage import MIRAGE
from ragrounds.evals.scorers.mirage_pmc_llama import MIRAGE_PMC_LLAMA
from ragrounds.evals.scorers.short_answers import exact, last_answer, normalised, within, word_f1
from ragrounds.evals.stats.intervals import binomial_error
from ragrounds.graphs.answer_prompts import options_block
from ragrounds.graphs.continuation import Part
from ragrounds.graphs.documents import render_documents
from ragrounds.graphs.model_text import boxed, boxed_line, last_between
from ragrounds.graphs.search_o1 import END_QUERY, QUERY, text_so_far
from ragrounds.graphs.search_r1 import first_action
from ragrounds.models.faults import CallFailed
from ragrounds.prompts.loader import PromptFolder
from tests.golden.cases import Case, Comparison, near
from tests.golden.strategy import Strategy, failed, passage

_LONG = Question(id="q", benchmark="golden", text="Who?", kind="long")
_ENOUGH = 1_000_000
SCORERS = all_scorers()


# Search-R1


def _read_passages(contents: list[str], query: str = "") -> list:  # type: ignore[type-arg]
    """Passages of their search server: a title on the first line, the text after it."""
    parted = [text.partition("\n") for text in contents]
    return [passage(number, title, text, query) for number, (title, _, text) in enumerate(parted, 1)]


def _step(case: Case, place: int, agent: str) -> dict[str, object]:
    """One chunk of one sequence through the graph: what was kept of it, what it did, what was read next."""
    engine = dict(case["engine"])
    chunks = [case["raw"][place], "<answer>over</answer>"]

    def script(request: Request) -> str:
        return chunks.pop(0)

    strategy = Strategy(agent, _LONG, script, lambda query, k: _read_passages(engine.get(query, []), query))
    last = {} if case["do_search"] else {"turns": strategy.agent.parameters["turns"]}
    ended = strategy.run(last)
    kept = ended["parts"][0]["text"]
    requests = strategy.model.requests
    observation = requests[1].prefix.removeprefix(kept) if len(requests) > 1 else ""
    invalid = f"\n{PromptFolder().text('search_r1/correction')}\n"
    first = first_action(kept)
    return {
        "cut": kept,
        "action": first[0],
        "content": first[1],
        "observation": "{INVALID_NOTICE}" if observation == invalid else observation,
        "done": int(len(requests) == 1),
        "queries": [query for query, _ in strategy.searcher.asked],
    }


def _r1_step(case: Case, agent: str) -> bool:
    sent = []
    for place, active in enumerate(case["active"]):
        if not active:  # another sequence of the batch that has ended: an attempt of ours has one sequence
            continue
        if case["predictions"][place] != case["cut"][place]:
            # Their step was given a text that their own cut would have shortened.
            action, content = first_action(case["predictions"][place])
            wanted = (case["actions"][place] or "invalid", case["contents"][place])
            if (action, content) != wanted:
                return False
            continue
        found = _step(case, place, agent)
        wanted = {
            "cut": case["cut"][place],
            "action": case["actions"][place] or "invalid",
            "content": case["contents"][place],
        }
        if case["raises"] is None and case["do_search"]:
            wanted |= {"observation": case["observations"][place], "done": case["dones"][place]}
        if any(found[key] != value for key, value in wanted.items()):
            return False
        sent += found["queries"]  # type: ignore[operator]
    whole = case["raises"] is None and case["predictions"] == case["cut"]
    return not whole or sent == (case["queries_sent"] or [])


def _r1(case: Case, agent: str, form: str) -> bool:
    if case["group"] == "step":
        return _r1_step(case, agent)
    return render_documents(_read_passages(case["contents_list"]), form) == case["formatted"]


def _r1_match(case: Case) -> bool:
    """Their reward's exact and looser match, and their normalisation. Their text holds the prompt, with a tag in it."""
    if case["group"] == "normalize":
        return normalised(case["text"]) == case["normalized"]
    found = last_answer(case["solution"], least=2)
    targets = [case["target"]] if isinstance(case["target"], str) else case["target"]
    if found is None or case["extracted"] is None:
        return found == case["extracted"] and case["score_em"] == case["score_subem"] == 0
    told = [normalised(target) for target in targets]
    checks = [max(measure(normalised(found), target) for target in told) for measure in (exact, within)]
    scores = [case["score"] if check else case["format_score"] for check in checks]
    if normalised(found) and all(map(str.strip, targets)):  # through the scorers that a user names
        gold = Gold(question_id="q", answer=targets[0], facts=(tuple(targets),))
        attempt = Attempt(run="r", question_id="q", epoch=0, status="completed", text=case["solution"])
        if [SCORERS[name].score(attempt, _LONG, gold).value for name in ("exact-match", "answer-within")] != checks:
            return False
    return (found, *checks, *scores) == tuple(
        case[key] for key in ("extracted", "em_check", "subem_check", "score_em", "score_subem")
    )


# Search-o1


def _o1_scores(case: Case) -> bool | None:
    """Their evaluation of a question with names as its answers; mathematics and letters are left out."""
    if case["mode"] != "qa":
        return None
    found = boxed_line(case["text"]) or ""
    told = [(normalised(found), normalised(label)) for label in case["label"]]
    # Theirs leaves a reference out that shares no word with the answer, whatever else would hold.
    kept = [pair for pair in told if word_f1(*pair)]
    names = {"em": exact, "acc": within, "f1": word_f1}
    ours = {name: max((measure(*pair) for pair in kept), default=0.0) for name, measure in names.items()}
    return found == case["pred"] and all(near(ours[name], case["metrics"][name]) for name in names)


def _plain(text: str) -> str:
    """Our fixed texts as the recorded cases name theirs."""
    prompts = PromptFolder()
    for name, mark in _FIXED.items():
        text = text.replace(prompts.text(name), mark)
    return text


_FIXED = {
    "search_o1/no_more_searches": "{LIMIT_NOTICE}",
    "search_o1/searched_before": "{REPEAT_NOTICE}",
    "reason_in_documents/nothing": "{NO_INFO}",
}


def _sequence(case: Case, place: int, agent: str) -> dict[str, object]:
    """One sequence through the graph, in the words of the recorded cases."""
    given = case["sequences"][place]
    chunks, analyses = [*given["chunks"], *["nothing further"] * 100], [*given["analyses"], *[""] * 100]
    text: list[str] = []
    direct = []

    def model(request: Request) -> str:
        if request.prefix != "".join(text):
            # What was put between since.
            text.append(request.prefix.removeprefix("".join(text)))
        if not request.stop:
            direct.append(request)
            return ""
        text.append(chunks.pop(0))
        return text[-1]

    def found(query: str, k: int) -> list[Passage]:
        if query in case["engine_errors"]:
            raise failed("the search engine is down")
        return [passage(number, f"page {number}", "text", query) for number in range(1, 4)]

    def read(request: Request) -> str:
        return analyses.pop(0)

    limits = f"search_limit={case['max_search_limit']},turns={case['max_turn']}"
    strategy = Strategy(agent.replace("LIMITS", limits), _LONG, model, found, read)
    ended = strategy.run()
    parts = ended["parts"]
    readings = [_reading(request) for request in strategy.reader.requests]
    return {
        "output": _plain(text_so_far(strategy.context, parts)),
        "events": _events(parts, readings),
        "extracted": "" if direct else ended["answer"],
    }


def _reading(request: Request) -> tuple[str, int]:
    """The previous reasoning that the reader was shown, and the number of documents."""
    shown = request.messages[-1].content
    reasoning = shown.partition("### Reasoning so far\n")[2].rpartition("\n\n### Query\n")[0]
    return _plain(reasoning), shown.count("\nDocument [")


def _events(parts: list[Part], readings: list[tuple[str, int]]) -> list[dict[str, object]]:
    notices = {_plain(PromptFolder().text(name)): kind for name, kind in _NOTICES.items()}
    readings, events = list(readings), []
    for number, part in enumerate(parts):
        if part["by"] != "model":
            continue
        event: dict[str, object] = {"event": "end"}
        if number + 1 < len(parts) and parts[number + 1]["by"] == "search":
            put = _plain(parts[number + 1]["text"])
            event = {"event": notices[put]} if parts[number + 1].get("notice") else {"event": "search", "inserted": put}
            if event["event"] == "search":
                event["previous_reasoning"], event["n_pages"] = readings.pop(0) if readings else ("", 0)
        events.append(event)
    return events


_NOTICES = {"search_o1/no_more_searches": "limit_notice", "search_o1/searched_before": "repeat_notice"}
_SAME = ("event", "inserted", "previous_reasoning", "n_pages")


def _o1(case: Case, agent: str, what: str) -> bool:
    for place, wanted in enumerate(case["out"]):
        try:
            found = _sequence(case, place, agent)
        except CallFailed:
            return False
        theirs = {
            "events": [{key: event[key] for key in _SAME if key in event} for event in wanted["events"]],
            "output": wanted["output"],
            "extracted": wanted["extracted"]["qa"],
        }
        if what == "all" and found != theirs:
            return False
        ours = found["events"]
        if what != "all" and [event.get(what) for event in ours] != [event.get(what) for event in theirs["events"]]:  # type: ignore[attr-defined]
            return False
    return True


def _o1_boxed(case: Case, line: bool) -> bool:
    if not line:
        return all((boxed(case["text"]) or "") == case[mode] for mode in ("gen", "choose", "qa"))
    plain = boxed_line(case["text"]) or ""
    return (boxed_line(case["text"], plain=False) or "", plain, plain) == (case["gen"], case["choose"], case["qa"])


def _o1_information(case: Case, agent: str) -> bool:
    """The reader's text, by the graph that reads documents."""
    chunks = [f"{QUERY}q{END_QUERY}", "done"]
    strategy = Strategy(
        agent, _LONG, lambda request: chunks.pop(0) if chunks else "", _one_page, lambda request: case["text"]
    )
    put = strategy.run()["parts"][1]["text"]
    default = put == PromptFolder().text("reason_in_documents/nothing")
    return (None if default else put) == case["infogen"]


def _o1_between(case: Case, agent: str) -> bool:
    """The query of a chunk: ours takes one only where the chunk ends with it, so that is added."""
    strategy = Strategy(agent, _LONG, lambda request: case["text"], _one_page, lambda request: "")
    if case["text"].rstrip().endswith(END_QUERY):
        found = strategy.run()["query"]
        return found == (case["result"] or None)
    return last_between(case["text"], QUERY, END_QUERY) == case["result"]


def _one_page(query: str, k: int) -> list[Passage]:
    return [passage(1, "page", "text", query)]


# i-MedRAG


def _turns(name: str, **values: str) -> dict[str, str]:
    given = {"known": "", "question": "", "options": "", "number": "", "text": "", "documents": "", **values}
    return {message.role: message.content for message in PromptFolder().render(name, **given)}


class _Medrag:
    """One recorded case through the graph; what was asked is told in the words of the cases."""

    def __init__(self, case: Case, agent: str) -> None:
        self.case, self.events, self.replies = case, [], {kind: list(all) for kind, all in case["script"].items()}
        rounds = case["n_rounds"] if "profile" in agent else max(1, case["n_rounds"])
        limits = f"rounds={rounds},queries={case['n_queries']},top_k={case['k']},retriever=bm25"
        given = case["options"] or {}
        question = Question(
            id="q", benchmark="golden", text=case["question"], options=given, kind="choice" if given else "long"
        )
        self.strategy = Strategy(agent.replace("LIMITS", limits), question, self.reply, self.found)
        cache = case["qa_cache"]
        self.ended = self.strategy.run({"blocks": cache} if isinstance(cache, list) else {})

    def found(self, query: str, k: int) -> list[Passage]:
        self.events.append({"type": "retrieve", "query": query, "k": k})
        return [passage(number, f"t{number}", f"text {number}", query) for number in range(min(k, self.case["n_docs"]))]

    def reply(self, request: Request) -> str:
        if not self.case["k"] and request.messages[0].content == _READER:
            # Ours does not search for no passages; theirs asks its retriever for them.
            query = request.messages[-1].content.rpartition("### Question\n")[2].partition("\n\n### Answer")[0]
            self.found(query, 0)
        event = self.told(request)
        left = self.replies.get(str(event["kind"]), [])
        said = left.pop(0) if left else ""
        self.events.append({**event, "reply": said})
        if isinstance(said, dict):
            raise failed(said["error"])
        return said

    def told(self, request: Request) -> dict[str, object]:
        case, messages = self.case, request.messages
        users = [message.content for message in messages if message.role == "user"]
        system = next((message.content for message in messages if message.role == "system"), None)
        options = options_block(dict(sorted((case["options"] or {}).items())))

        def sees(text: str, part: str) -> bool:
            return bool(part) and part in text

        kind = self.kind(system, users[-1])
        event: dict[str, object] = {
            "type": "llm",
            "kind": kind,
            "roles": [message.role for message in messages],
            "system": {_SYSTEM: "i_medrag", _READER: "medrag"}.get(system or ""),
        }
        for what, part in (("options", options), ("question", case["question"])):
            event[f"last_user_sees_{what}"] = sees(users[-1], part)
            event[f"any_message_sees_{what}"] = any(sees(message.content, part) for message in messages)
        if kind in ("ask", "answer"):
            event |= self.request(users[-1], options, kind)
        if kind in ("ask", "answer", "json"):
            event["assistant_replies_in_messages"] = [one.content for one in messages if one.role == "assistant"]
        if kind == "json":
            event["asks_for_letter"] = users[-1] == _turns("i_medrag/as_json_choice")["user"]
        if kind == "parse":
            event["passage_contains_reply"] = str(self.events[-1]["reply"]) in users[-1]
        if kind == "rag":
            numbers = re.findall(r"^Document \[(\d+)\]", users[-1], re.M)
            event |= {
                "query": self.events[-1]["query"],
                "options_empty": "### Options" not in users[-1],
                "n_documents_in_prompt": len(numbers),
                "first_document_number": int(numbers[0]) if numbers else None,
            }
        return event

    def kind(self, system: str | None, last: str) -> str:
        if system is None:
            return "parse"
        if system == _READER:
            return "rag"
        if last in (_turns("i_medrag/as_json_choice")["user"], _turns("i_medrag/as_json")["user"]):
            return "json"
        return "answer" if last.endswith(_FINAL) else "ask"

    def request(self, shown: str, options: str, kind: str) -> dict[str, object]:
        before, _, _ = shown.partition("### Question\n")
        places = {
            "context": 0 if before else -1,
            "question": shown.find(self.case["question"], len(before)),
            "options": shown.find(options) if options else -1,
            "instruction": shown.find("### Instruction"),
        }
        event: dict[str, object] = {
            "context": before.removeprefix("### Known so far\n").removesuffix("\n\n"),
            "order": sorted((part for part, at in places.items() if at >= 0), key=lambda part: places[part]),
        }
        if kind == "ask":
            number = _turns("i_medrag/follow_up", number=str(self.case["n_queries"]))["user"].rpartition("\n")[2]
            event["n_queries_asked"] = self.case["n_queries"] if shown.endswith(number) else -1
        return event

    def out(self) -> dict[str, object]:
        turns, answer = self.ended["turns"], self.ended["answer"]
        accepted = self.ended["step"] == "finish"
        last = "assistant" if accepted else turns[-1]["role"]
        roles = [turn["role"] for turn in turns] + (["user", "assistant"] if accepted else [])
        counted = Counter(str(event["kind"]) for event in self.events if event["type"] == "llm")
        return {
            "raises": None,
            "returned": answer if last == "assistant" else None,
            "returned_is_system_message": answer == _SYSTEM,
            "returned_is_user_prompt": last == "user",
            "returned_role": last,
            "final_roles": roles,
            "n_calls_by_kind": {kind: counted[kind] for kind in self.replies},
            "n_llm_calls": counted.total(),
            "n_retrievals": len(self.queries()),
            "queries_run": self.queries(),
            "script_left": {kind: len(left) for kind, left in self.replies.items()},
        }

    def queries(self) -> list[str]:
        return [str(event["query"]) for event in self.events if event["type"] == "retrieve"]


_SYSTEM, _READER = _turns("i_medrag/follow_up")["system"], _turns("long/rag_direct")["system"]
_ASKING = _turns("i_medrag/ask_further")["system"]
_FINAL = _turns("i_medrag/final")["user"].rpartition("\n")[2]


def _imedrag(case: Case, agent: str) -> bool:
    medrag = _Medrag(case, agent)
    for ours, theirs in zip(medrag.events, case["events"], strict=False):
        if any(ours.get(key) != value for key, value in theirs.items() if key != "rrf_k"):
            return False
    out = medrag.out()
    wrong = {key: (out.get(key), value) for key, value in case["out"].items() if key in out and out[key] != value}
    return len(medrag.events) == len(case["events"]) and not wrong


def _imedrag_queries(case: Case) -> bool:
    """The queries that our own loop runs where the model replies as theirs did."""
    medrag = _DefaultMedrag(case)
    return medrag.queries() == case["out"]["queries_run"]


class _DefaultMedrag(_Medrag):
    def __init__(self, case: Case) -> None:
        super().__init__(case, "i_medrag[LIMITS]")

    def told(self, request: Request) -> dict[str, object]:
        system = request.messages[0].content
        kind = "rag" if system == _READER else "ask" if system.startswith(_ASKING[:40]) else "answer"
        return {"type": "llm", "kind": kind}


# MIRAGE

_FOUR = dict(zip("ABCD", ("one", "two", "three", "four"), strict=True))
_CHOICE = Question(id="q", benchmark="golden", text="Which?", options=_FOUR)
_READERS = {"locate_answer": MIRAGE, "locate_answer4pub_llama": MIRAGE_PMC_LLAMA}


def _letter(scorer: ChoiceScorer, text: str) -> str:
    """The letter under which a completed attempt with this text is right."""
    attempt = Attempt(run="r", question_id="q", epoch=0, status="completed", text=text)
    golds = (Gold(question_id="q", answer=letter) for letter in _FOUR)
    return "".join(gold.answer for gold in golds if scorer.score(attempt, _CHOICE, gold).value == 1.0)


def _mirage(case: Case, scorer: ChoiceScorer, key: str) -> bool:
    return _letter(scorer, case["text"]) == case[key]


def _mirage_accuracy(case: Case) -> bool:
    scorer = _READERS[case["locate_fun"]]
    right = []
    for item in case["items"]:
        text, status = (item["responses"][0], "completed") if item["responses"] else ("", "failed")
        attempt = Attempt(run="r", question_id="q", epoch=0, status=status, text=text)
        right.append(scorer.score(attempt, _CHOICE, Gold(question_id="q", answer=item["gold"])).value)
    mean = sum(right) / len(right)
    return near(mean, case["acc"]) and near(binomial_error(mean, len(right)), case["std"])


_PUBLISHED_O1 = "search_o1[LIMITS,profile=search_o1]"
_SEARCH_R1 = f"search_r1[observation_tokens={_ENOUGH}"

COMPARISONS = (
    Comparison("mirage_locate", "scorer mirage", True, partial(_mirage, scorer=MIRAGE, key="evaluate_letter")),
    Comparison(
        "mirage_locate",
        "scorer mirage-pmc-llama",
        True,
        partial(_mirage, scorer=MIRAGE_PMC_LLAMA, key="evaluate_letter_pub"),
    ),
    Comparison("mirage_accuracy", "scorers mirage, mirage-pmc-llama", True, _mirage_accuracy),
    Comparison(
        "imedrag_loop", "i_medrag[profile=medrag]", True, partial(_imedrag, agent="i_medrag[LIMITS,profile=medrag]")
    ),
    Comparison(
        "imedrag_loop",
        "i_medrag",
        False,
        _imedrag_queries,
        reason="queries are read from the reply itself, and at most so many as were asked for; none is asked twice; a "
        "round whose queries cannot be read is made up for; its list may be any JSON",
        what="queries",
    ),
    Comparison("search_o1_loop", "search_o1[profile=search_o1]", True, partial(_o1, agent=_PUBLISHED_O1, what="all")),
    Comparison(
        "search_o1_loop",
        "search_o1",
        False,
        partial(_o1, agent="search_o1[LIMITS]", what="event"),
        reason="a repeated query is met before the limit, and whatever its case and spaces; tags that stand open are "
        "closed; the last turn does not search; a search that fails fails the attempt",
        what="events",
    ),
    Comparison(
        "search_o1_loop",
        "search_o1",
        False,
        partial(_o1, agent="search_o1[LIMITS]", what="inserted"),
        reason="beside the events: the reader's marker is found anywhere, and its lines are not joined",
        what="inserted text",
    ),
    Comparison(
        "search_o1_loop",
        "search_o1",
        False,
        partial(_o1, agent="search_o1[LIMITS]", what="previous_reasoning"),
        reason="beside the events: steps are paragraphs, as a train of thought is written, and not lines",
        what="previous reasoning",
    ),
    Comparison(
        "search_o1_extract",
        "scorers exact-match, answer-within, word-f1",
        True,
        _o1_scores,
        reason="mathematics and letters are not compared",
        groups=("evaluate",),
        what="answers",
    ),
    Comparison(
        "search_o1_extract",
        "search_o1[boxed=line]",
        True,
        partial(_o1_boxed, line=True),
        groups=("boxed",),
        what="boxed answers",
    ),
    Comparison(
        "search_o1_extract",
        "search_o1[boxed=braces]",
        False,
        partial(_o1_boxed, line=False),
        reason="a box ends with its own brace, also over lines; nothing is taken out of it",
        groups=("boxed",),
        what="boxed answers",
    ),
    Comparison(
        "search_o1_extract",
        "search_o1[profile=search_o1]",
        True,
        partial(_o1_information, agent="search_o1[profile=search_o1]"),
        groups=("infogen",),
        what="the reader's information",
    ),
    Comparison(
        "search_o1_extract",
        "search_o1",
        False,
        partial(_o1_information, agent="search_o1"),
        reason="the reader's marker is found anywhere, and its lines are not joined",
        groups=("infogen",),
        what="the reader's information",
    ),
    Comparison(
        "search_o1_extract",
        "search_o1[profile=search_o1]",
        True,
        partial(_o1_between, agent="search_o1[profile=search_o1,turns=1,last_turn=answers]"),
        groups=("extract_between",),
        what="the query of a chunk",
    ),
    Comparison(
        "search_r1",
        "search_r1[profile=search_r1]",
        True,
        partial(_r1, agent=f"{_SEARCH_R1},profile=search_r1]", form="search_r1"),
        groups=("step", "passages"),
        what="steps and documents",
    ),
    Comparison(
        "search_r1",
        "search_r1",
        False,
        partial(_r1, agent=f"{_SEARCH_R1}]", form="plain"),
        reason="documents are written as in every strategy of ours; the model stops at the first tag; queries are sent "
        "with plain spaces, and no empty one",
        groups=("step", "passages"),
        what="steps and documents",
    ),
    Comparison(
        "search_r1",
        "scorers exact-match, answer-within",
        True,
        _r1_match,
        reason="the reward for a text's form is compared by what it extracts and by the answer's share alone",
        groups=("em", "normalize"),
        what="exact match and normalisation",
    ),
)
