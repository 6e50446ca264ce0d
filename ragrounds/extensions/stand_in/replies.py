"""What the stand-in model says: replies that have the form that a prompt asks for, and follow from it alone.

A prompt is told by the form that it demands (a JSON key, tags, the form of a verdict), not by its wording, so that a
user's own prompts are answered too. What is chosen goes by words: the option, relation or verdict that the documents
and answers in the prompt speak for, and a lot drawn from model and question where they speak for none. Answers of two
models therefore differ, retrieval makes a difference, and a judge's verdicts hold information. None of it is knowledge.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

_OPTION = re.compile(r"^\(?([A-Z])[.):] ?(\S.*)$", re.MULTILINE)
_FENCED = re.compile(r"<<<\n(.*?)\n>>>", re.DOTALL)
_PAIR = re.compile(r"^###.*?\b([AB])\n<<<\n(.*?)\n>>>", re.DOTALL | re.MULTILINE)
_AXIS = re.compile(r'"([^"\n]+)": ((?:"[^"\n]+" or )+"[^"\n]+")')
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_SENTENCE = re.compile(r"[^.!?。！？\n]{12,}[.!?。！？]")
_NAMED = re.compile(r"^(\S+):\n<<<\n(.*?)\n>>>", re.DOTALL | re.MULTILINE)
_LABELS = (("S", 0.4), ("A", 0.25), ("B", 0.15), ("C", 0.08), ("D", 0.0))
"""A label, and the share of the query's words from which it is given."""
_ONE_KEY = re.compile(r'\{"(question|reasoning)": "[^"\n]*"\}')
_COUNT = re.compile(r"(\d+)\s*(?:个|new|further|follow|quer|question)")
_SHORT = 40
"""Words of a passage or an answer, about."""
_EVENTS = 40
"""Of a timeline."""
_ASK, _ASKED = "<|begin_search_query|>", "<|end_search_query|>"


class StandInReply(Struct, frozen=True, kw_only=True):
    """A reply: a text, or a call of a tool."""

    text: str = ""
    tool: str = ""
    """The tool that is called; empty: none."""
    arguments: Mapping[str, object] = {}
    finish: str = "stop"
    stopped_at: str = ""
    """The stop string that ended it, as vLLM tells it; empty: none."""
    asked_tokens: int = 0
    """Tokens of the request, by a count of four characters each."""
    said_tokens: int = 0


def reply_to(
    messages: Sequence[Mapping[str, object]],
    model: str,
    *,
    tools: Sequence[Mapping[str, object]] = (),
    tool_choice: object = None,
    response_format: Mapping[str, object] | None = None,
    stops: Sequence[str] = (),
    most: int | None = None,
) -> StandInReply:
    """The reply to a conversation.

    Args:
        messages: in OpenAI's form.
        model: the name that was asked for; another name has other opinions.
        tools: in OpenAI's form: one is called first, ``search`` where it is among them.
        tool_choice: as the API takes it: after a search, ``required`` calls the last tool, which agents that want a
            form put there.
        response_format: as the API takes it: ``json_object``, or ``json_schema``.
        stops: strings that end the reply; they are not part of it.
        most: tokens that it may have.
    """
    turns = [(str(message.get("role", "user")), _text(message.get("content"))) for message in messages]
    asked = sum(len(text) for _, text in turns) // 4 + 1
    if call := _call(turns, model, tools, tool_choice):
        name, arguments = call
        size = sum(len(str(value)) for value in arguments.values()) // 4 + 1
        return StandInReply(tool=name, arguments=arguments, finish="tool_calls", asked_tokens=asked, said_tokens=size)
    said, finish = _formatted(_said(turns, model), response_format), "stop"
    place, stopped = min(
        ((place, stop) for stop in stops if stop and (place := said.find(stop)) >= 0), default=(-1, "")
    )
    if stopped:
        said = said[:place]
    if most is not None and len(said) > 4 * most:
        said, finish, stopped = said[: 4 * most], "length", ""
    size = len(said) // 4 + 1
    return StandInReply(text=said, finish=finish, stopped_at=stopped, asked_tokens=asked, said_tokens=size)


Turns = Sequence[tuple[str, str]]


def _call(
    turns: Turns, model: str, tools: Sequence[Mapping[str, object]], choice: object
) -> tuple[str, Mapping[str, object]] | None:
    """The tool that is called, with its arguments; ``None``: none is."""
    functions = [one["function"] for one in tools if isinstance(one.get("function"), dict)]
    known = {str(one.get("name")): one.get("parameters") for one in functions if isinstance(one, dict)}
    function = choice.get("function") if isinstance(choice, dict) else None
    if choice == "none" or not known:
        return None
    if isinstance(function, dict):
        name = str(function.get("name"))
    elif not any(role == "tool" for role, _ in turns):
        name = "search" if "search" in known else next(iter(known))
    elif choice == "required":
        name = next(reversed(known))
    else:
        return None
    query, schema = _query(_question(turns)), known.get(name)
    if not isinstance(schema, dict):
        return name, {"query": query} if name == "search" else {}
    forced = name != "search" and (isinstance(function, dict) or choice == "required")
    said = _said(turns, model) if forced else query
    made = _instance(schema, _object(said), said)
    return name, made if isinstance(made, dict) else {}


def _said(turns: Turns, model: str) -> str:
    everything = "\n\n".join(text for _, text in turns)
    demands = _FENCED.sub("", everything)
    begun = any(role == "assistant" for role, _ in turns)
    if '"criteria_met"' in demands and len(fenced := _FENCED.findall(everything)) > 2:
        met = _share(fenced[-1], fenced[-2]) >= 0.5
        return json.dumps({"explanation": "The stand-in compared words.", "criteria_met": met})
    if '"claims"' in demands and (fenced := _FENCED.findall(everything)):
        return json.dumps({"claims": [one.strip() for one in _SENTENCE.findall(fenced[-1])]}, ensure_ascii=False)
    if axes := dict(_AXIS.findall(demands)):
        return _verdicts(everything, axes, model)
    if built := _built(_FENCED.findall(everything), model, demands):
        return json.dumps(built, ensure_ascii=False)
    # A later prompt may show what an earlier step wrote, tags and all: its own demand is asked for first.
    if "answer_choice" in demands:
        return _choice(turns, model, demands)
    if '"output"' in demands or '"answer"' in turns[-1][1]:
        return _copied(turns, model)
    if instruction := _section(turns[-1][1], "Instruction"):
        return _sections(turns, model, instruction)
    if "Final information:" in demands or "最终信息：" in demands:
        return _information(turns, demands)
    if _ASK in demands:
        return _search_o1(turns, begun)
    if "<search>" in demands and "<answer>" in demands:
        return _search_r1(turns, begun)
    if '"queries"' in demands:
        return _queries(turns, demands)
    return _long(turns, model, demands)


def _text(content: object) -> str:
    if isinstance(content, list):  # content blocks
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _section(text: str, heading: str) -> str:
    """What stands under the last heading of this name; empty: there is none."""
    _, found, rest = text.rpartition(f"### {heading}\n")
    return rest.split("\n### ")[0].strip() if found else ""


def _question(turns: Turns) -> str:
    asked = [text for role, text in turns if role == "user"]
    for text in reversed(asked):
        if question := _section(text, "Question"):
            return question
    return asked[0] if asked else ""


def _evidence(turns: Turns) -> str:
    """All that was shown beside question and options."""
    shown = turns[-1][1] if turns else ""
    for heading in ("Question", "Options", "Answer"):
        if part := _section(shown, heading):
            shown = shown.replace(part, " ")
    earlier = [text for role, text in turns[:-1] if role != "system"]
    return "\n".join([*earlier, shown]) if len(turns) > 2 else shown


def _words(text: str) -> set[str]:
    """Words of four letters or more, in lower case; of Chinese every two characters that follow each other."""
    chinese = map("".join, itertools.pairwise("".join(_CHINESE.findall(text))))
    return {*re.findall(r"[^\W_\u4e00-\u9fff]{4,}", text.casefold()), *chinese}


def _share(text: str, of: str) -> float:
    """The share of a text's words that another holds."""
    wanted = _words(text)
    return len(wanted & _words(of)) / len(wanted) if wanted else 0.0


def word_vector(text: str, dimensions: int) -> list[float]:
    """A vector of length 1 by the words of a text: each word counts at the place that its hash gives."""
    counts = [0.0] * dimensions
    for word in _words(text) or {text}:
        counts[_lot(word) % dimensions] += 1.0
    length = math.sqrt(math.fsum(count * count for count in counts))
    return [count / length for count in counts]


def _lot(*texts: str) -> int:
    return int(hashlib.sha256("\n".join(texts).encode("utf-8", "replace")).hexdigest()[:12], 16)


def _query(question: str) -> str:
    found = list(dict.fromkeys(re.findall(r"[^\W\d_]{4,}", question)))
    return " ".join(found[:8]) or question[:80] or "medicine"


def _choice(turns: Turns, model: str, demands: str) -> str:
    letter = _chosen(turns, model)
    chosen = {"answer_choice": letter}
    if "step_by_step_thinking" in demands:
        thought = f"The stand-in holds the options against what it was shown, which speaks most for option {letter}."
        return json.dumps({"step_by_step_thinking": thought, **chosen}, ensure_ascii=False)
    return json.dumps(chosen)


def _chosen(turns: Turns, model: str) -> str:
    """The letter of the option that what was shown speaks most for."""
    question = _question(turns)
    shown = next((text for _, text in reversed(turns) if _OPTION.search(_section(text, "Options") or text)), "")
    options = dict(_OPTION.findall(_section(shown, "Options") or shown)) or dict.fromkeys("ABCD", "")
    evidence = _evidence(turns)
    letter: str = max(options, key=lambda one: (_share(options[one], evidence), _lot(model, question, one)))
    return letter


def _queries(turns: Turns, demands: str) -> str:
    queries = _written_queries(turns, demands)
    return json.dumps({"analysis": "The stand-in asks word by word.", "queries": queries}, ensure_ascii=False)


def _written_queries(turns: Turns, demands: str) -> list[str]:
    """As many queries as are asked for, of other words in every round."""
    question, found = _question(turns), _COUNT.search(demands)
    words = list(dict.fromkeys(re.findall(r"[^\W\d_]{4,}", question))) or [question[:40]]
    begun = sum(text.count("Query:") for _, text in turns)
    number = min(int(found[1]), 10) if found else 3
    return [f"What is known of {words[(begun + place) % len(words)]}, {begun + place}?" for place in range(number)]


def _sections(turns: Turns, model: str, instruction: str) -> str:
    """A reply under headings, the last of which is the one that the instruction names."""
    if "## Answer" in instruction:
        answer = _chosen(turns, model) if _section(turns[-1][1], "Options") else _long(turns, model, "")
        return f"## Analysis\nThis is enough.\n\n## Answer\n{answer}"
    queries = "\n".join(_written_queries(turns, instruction))
    return f"## Analysis\nThe stand-in asks word by word.\n\n## Queries\n{queries}"


def _copied(turns: Turns, model: str) -> str:
    """What was written before, as a JSON object: queries, or the answer."""
    last = turns[-1][1]
    if '"output"' in last:
        lines = _section(last, "Text").rpartition("## Queries")[2].splitlines()
        return json.dumps({"output": [line.strip() for line in lines if line.strip()]}, ensure_ascii=False)
    options = any(_section(text, "Options") for _, text in turns)
    before = next((text for role, text in reversed(turns) if role == "assistant"), "")
    answer = before.rpartition("## Answer")[2].strip()
    return json.dumps({"answer": _chosen(turns, model) if options else answer}, ensure_ascii=False)


def _search_o1(turns: Turns, begun: bool) -> str:
    question = _question(turns)
    if not begun and "<|begin_search_result|>" not in turns[-1][1].rpartition("### Question")[2]:
        return f"The stand-in looks the question up.\n\n{_ASK}{_query(question)}{_ASKED}"
    return f"What was found settles it.\n\n\\boxed{{{_supported(turns, question)}}}"


def _search_r1(turns: Turns, begun: bool) -> str:
    question = _question(turns)
    if not begun:
        return f"<think>The stand-in looks it up.</think>\n<search>{_query(question)}</search>"
    return f"<think>That was found.</think>\n<answer>{_supported(turns, question)}</answer>"


def _supported(turns: Turns, question: str) -> str:
    """The sentence that was shown and shares most with the question."""
    shown = "\n".join(text for role, text in turns[1:] if role != "system")
    sentences = _SENTENCE.findall(shown) or [question]
    best: str = max(sentences, key=lambda one: (_share(question, one), -len(one)))
    return best.strip()[:300]


def _information(turns: Turns, demands: str) -> str:
    marker = "Final information:" if "Final information:" in demands else "最终信息："
    documents = _section(turns[-1][1], "Documents") or turns[-1][1]
    sentences = _SENTENCE.findall(documents) or [documents[:200]]
    query = _section(turns[-1][1], "Query")
    return f"{marker} {max(sentences, key=lambda one: _share(query, one)).strip()}"


def _built(fenced: Sequence[str], model: str, demands: str) -> Mapping[str, object] | None:
    """What a stage of `ragrounds build` demands, from the words of what it shows; ``None``: no stage asks."""
    if not fenced:
        return None
    asked = {key for key in ("significance", "timeline", "decision", "distractors") if f'"{key}"' in demands}
    if found := _ONE_KEY.search(demands):
        asked.add(found[1])
    sentences = [one.strip() for one in _SENTENCE.findall(fenced[0])] or [fenced[0].strip()]
    if "significance" in asked:
        late = sentences[len(sentences) // 2 :]
        kind = ("treatment", "test", "diagnosis")[_lot(model, fenced[0]) % 3]
        return {"kind": kind, "significance": late[_lot(model, *late) % len(late)]}
    if "timeline" in asked:
        return {"timeline": sentences[:_EVENTS] if len(sentences) > 1 else [*sentences, "It ended there."]}
    if "decision" in asked:
        events = [line.partition(". ")[2] for line in fenced[-1].splitlines()]
        place = max(range(1, len(events)), key=lambda one: _share(fenced[0], events[one]), default=0)
        case = " ".join(events[:place])
        return {"decision": place + 1, "case": case, "question": "What comes next?", "answer": events[place]}
    if "distractors" in asked:
        added = f"The patient keeps {2 + _lot(model, fenced[0]) % 8} cats."
        return {"question": f"{added} {fenced[0]}", "distractors": [added]}
    if "question" in asked:
        return {"question": fenced[0]}
    if "reasoning" in asked:
        return {"reasoning": f"This speaks of {_query(fenced[0])}. From that follows {fenced[-1]}."}
    return None


def _verdicts(everything: str, axes: Mapping[str, str], model: str) -> str:
    """A verdict on each axis, by the texts alone: the order in which they are shown does not count."""
    pair, named = dict(_PAIR.findall(everything)), dict(_NAMED.findall(everything))
    fenced = _FENCED.findall(everything)
    said: dict[str, str] = {}
    for number, (axis, choices) in enumerate(axes.items()):
        values = re.findall(r'"([^"\n]+)"', choices)
        if set(pair) <= set(values) and len(pair) == 2:
            said[axis] = _better(axis, fenced[0], pair)
        elif "entailment" in values:
            before = max(len(fenced) - len(axes), 0)  # the text comes last before the statements
            held = _share(fenced[before + number], fenced[before - 1]) if before and number < len(axes) else 0.0
            said[axis] = "entailment" if held >= 0.5 else "neutral"
        elif "equivalent" in values:
            reference, answer = (fenced[-2], fenced[-1]) if len(fenced) > 1 else ("", "")
            said[axis] = "equivalent" if _share(reference, answer) >= 0.5 else "mismatch"
        elif values == [label for label, _ in _LABELS]:
            held = _share(fenced[0], named.get(axis, "")) - _lot(model, axis, *fenced) % 8 / 100
            said[axis] = next((label for label, least in _LABELS if held >= least), values[-1])
        elif all(value.isdecimal() for value in values) and len(fenced) > number + 2:
            held = _share(fenced[number + 1], fenced[-1])  # of the answer, then of the steps, in the document
            said[axis] = values[min(len(values) - 1, round(1.5 * held * len(values)))]
        elif values == ["yes", "no"] and len(fenced) > 1:
            said[axis] = "yes" if _share(fenced[0], fenced[-1]) >= 0.5 or _share(fenced[-1], fenced[0]) >= 0.5 else "no"
        else:
            said[axis] = values[_lot(axis, *fenced) % len(values)]
    return f"The stand-in compared words.\n{json.dumps(said, ensure_ascii=False)}"


def _better(axis: str, question: str, pair: Mapping[str, str]) -> str:
    """The label of the better answer, or ``tie`` where nothing tells them apart."""

    def _worth(text: str) -> float:
        if axis == "readability":
            return -len(text)
        if axis == "knowledge":
            return len(_words(text))
        if axis == "reasoning":
            return len(_SENTENCE.findall(text)) + _share(question, text)
        return _share(question, text) + _lot(axis, text) % 1000 / 10_000

    worth = {label: _worth(text) for label, text in pair.items()}
    first, second = pair
    return "tie" if worth[first] == worth[second] else max(worth, key=lambda label: worth[label])


def _long(turns: Turns, model: str, demands: str) -> str:
    """A passage or an answer: what was shown first, then the question's own words; how much depends on the model."""
    question, evidence = _question(turns), _evidence(turns)
    sentences = sorted(_SENTENCE.findall(evidence), key=lambda one: -_share(question, one))
    kept = [one.strip() for one in sentences[: 1 + _lot(model) % 3]]
    words = question.split()[: _SHORT - _lot(model, question) % 20]
    chinese = len(_CHINESE.findall(question)) > len(question) // 4
    own = f"关于{question[:60]}，可以这样说。" if chinese else f"Of {' '.join(words).rstrip('?.')} this can be said."
    answer = " ".join([*kept, own])
    if "Answer:" in demands or "“Answer:”" in demands:
        return f"The stand-in goes by the words of the question.\nAnswer:\n{answer}"
    return answer


def _formatted(said: str, response_format: Mapping[str, object] | None) -> str:
    """The reply as the API's `response_format` demands it."""
    kind = (response_format or {}).get("type")
    if kind not in ("json_object", "json_schema"):
        return said
    value = _object(said)
    wanted = (response_format or {}).get("json_schema")
    schema = wanted.get("schema") if isinstance(wanted, dict) else None
    if isinstance(schema, dict):
        value = _instance(schema, value, said)
    return json.dumps(value, ensure_ascii=False)


def _object(said: str) -> object:
    """The JSON object in a reply, or one that holds the reply."""
    found = re.search(r"\{.*\}", said, re.DOTALL)
    try:
        return json.loads(found[0]) if found else {"answer": said}
    except ValueError:
        return {"answer": said}


def _instance(schema: Mapping[str, object], given: object, said: str) -> object:
    """A value of a JSON schema: what was said where it fits, else the least that does."""
    defined, others = schema.get("$defs"), schema.get("anyOf")
    if isinstance(defined, dict) and (place := schema.get("$ref")) is not None:
        named = defined.get(str(place).rpartition("/")[2])
        return _instance({**named, "$defs": defined}, given, said) if isinstance(named, dict) else said
    if isinstance(others, list) and others and isinstance(others[0], dict):
        return _instance({**others[0], "$defs": defined}, given, said)
    kind, chosen = schema.get("type"), [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(chosen, list) and chosen:
        return given if given in chosen else chosen[_lot(said) % len(chosen)]
    properties = schema.get("properties")
    if kind == "object" or isinstance(properties, dict):
        fields = properties if isinstance(properties, dict) else {}
        known = given if isinstance(given, dict) else {}
        return {name: _instance({**part, "$defs": defined}, known.get(name), said) for name, part in fields.items()}
    if kind == "array":
        items = schema.get("items")
        one = [_instance({**items, "$defs": defined}, None, said)] if isinstance(items, dict) else []
        return given if isinstance(given, list) else one
    if kind in ("integer", "number"):
        return given if isinstance(given, int | float) else _lot(said) % 10
    if kind == "boolean":
        return given if isinstance(given, bool) else _lot(said) % 2 == 0
    return given if isinstance(given, str) else said
