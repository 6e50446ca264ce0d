"""Replies of the stand-in model: they have the form that a prompt asks for, and depend only on the prompt.

A prompt is recognised by the form that it demands (a JSON key, tags, the form of a verdict), not by its wording, so a
user's own prompts are answered too. Choices depend on words: the option, relation or verdict that the documents
and answers in the prompt support, and a hash of model and question if they support none. Answers of two
models therefore differ, retrieval makes a difference, and a judge's verdicts are informative. None of it is knowledge.
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
"""Labels, each with the share of the query's words from which it is given."""
_ONE_KEY = re.compile(r'\{"(question|reasoning)": "[^"\n]*"\}')
_COUNT = re.compile(r"(\d+)\s*(?:个|new|further|follow|quer|question)")
_PASSAGE_WORDS = 40
"""Approximate number of words of a passage or an answer."""
_MAX_EVENTS = 40
"""Largest number of events of a timeline."""
_QUERY_START, _QUERY_END = "<|begin_search_query|>", "<|end_search_query|>"


class StandInReply(Struct, frozen=True, kw_only=True):
    """Reply: a text, or a call of a tool."""

    text: str = ""
    tool: str = ""
    """Name of the called tool; empty if none is called."""
    arguments: Mapping[str, object] = {}
    finish: str = "stop"
    stopped_at: str = ""
    """Stop string that ended the reply, as vLLM reports it; empty if none did."""
    prompt_tokens: int = 0
    """Number of tokens of the request, at four characters each."""
    reply_tokens: int = 0


def reply_to(
    messages: Sequence[Mapping[str, object]],
    model: str,
    *,
    tools: Sequence[Mapping[str, object]] = (),
    tool_choice: object = None,
    response_format: Mapping[str, object] | None = None,
    stops: Sequence[str] = (),
    max_tokens: int | None = None,
) -> StandInReply:
    """Return the reply to a conversation.

    Args:
        messages: in OpenAI's form.
        model: name of the requested model; another name gives other replies.
        tools: in OpenAI's form: one is called first, ``search`` if it is among them.
        tool_choice: as the API takes it: after a search, ``required`` calls the last tool, because agents that want a
            form put it last.
        response_format: as the API takes it: ``json_object``, or ``json_schema``.
        stops: strings that end the reply; they are not part of it.
        max_tokens: largest number of tokens of the reply.
    """
    turns = [(str(message.get("role", "user")), _text(message.get("content"))) for message in messages]
    prompt_tokens = (sum(len(text) for _, text in turns) + sum(len(str(tool)) for tool in tools)) // 4 + 1
    if call := _call(turns, model, tools, tool_choice):
        name, arguments = call
        size = sum(len(str(value)) for value in arguments.values()) // 4 + 1
        return StandInReply(
            tool=name, arguments=arguments, finish="tool_calls", prompt_tokens=prompt_tokens, reply_tokens=size
        )
    reply, finish = _formatted(_reply_text(turns, model), response_format), "stop"
    position, stopped = min(
        ((position, stop) for stop in stops if stop and (position := reply.find(stop)) >= 0), default=(-1, "")
    )
    if stopped:
        reply = reply[:position]
    if max_tokens is not None and len(reply) > 4 * max_tokens:
        reply, finish, stopped = reply[: 4 * max_tokens], "length", ""
    size = len(reply) // 4 + 1
    return StandInReply(text=reply, finish=finish, stopped_at=stopped, prompt_tokens=prompt_tokens, reply_tokens=size)


Turns = Sequence[tuple[str, str]]


def _call(
    turns: Turns, model: str, tools: Sequence[Mapping[str, object]], choice: object
) -> tuple[str, Mapping[str, object]] | None:
    """Return the tool to call, with its arguments; ``None`` if none is called."""
    functions = [tool["function"] for tool in tools if isinstance(tool.get("function"), dict)]
    parameters_by_name = {
        str(function.get("name")): function.get("parameters") for function in functions if isinstance(function, dict)
    }
    function = choice.get("function") if isinstance(choice, dict) else None
    if choice == "none" or not parameters_by_name:
        return None
    if isinstance(function, dict):
        name = str(function.get("name"))
    elif not any(role == "tool" for role, _ in turns):
        name = "search" if "search" in parameters_by_name else next(iter(parameters_by_name))
    elif choice == "required":
        name = next(reversed(parameters_by_name))
    else:
        return None
    query, schema = _query(_question(turns)), parameters_by_name.get(name)
    if not isinstance(schema, dict):
        return name, {"query": query} if name == "search" else {}
    forced = name != "search" and (isinstance(function, dict) or choice == "required")
    reply = _reply_text(turns, model) if forced else query
    arguments = _schema_instance(schema, _object(reply), reply)
    return name, arguments if isinstance(arguments, dict) else {}


def _reply_text(turns: Turns, model: str) -> str:
    conversation = "\n\n".join(text for _, text in turns)
    demands = _FENCED.sub("", conversation)
    has_replied = any(role == "assistant" for role, _ in turns)
    if '"criteria_met"' in demands and len(fenced := _FENCED.findall(conversation)) > 2:
        criteria_met = _share(fenced[-1], fenced[-2]) >= 0.5
        return json.dumps({"explanation": "The stand-in compared words.", "criteria_met": criteria_met})
    if '"claims"' in demands and (fenced := _FENCED.findall(conversation)):
        return json.dumps(
            {"claims": [sentence.strip() for sentence in _SENTENCE.findall(fenced[-1])]}, ensure_ascii=False
        )
    if axes := dict(_AXIS.findall(demands)):
        return _verdicts(conversation, axes, model)
    if stage_reply := _build_stage_reply(_FENCED.findall(conversation), model, demands):
        return json.dumps(stage_reply, ensure_ascii=False)
    # A later prompt may show an earlier step's output with its tags, so that its own demand must be checked first.
    if "answer_choice" in demands:
        letter = _best_letter(turns, model)
        answer = {"answer_choice": letter}
        if "step_by_step_thinking" in demands:
            thought = (
                f"The stand-in holds the options against what it was shown, which speaks most for option {letter}."
            )
            return json.dumps({"step_by_step_thinking": thought, **answer}, ensure_ascii=False)
        return json.dumps(answer)
    if '"output"' in demands or '"answer"' in turns[-1][1]:
        return _copy_as_json(turns, model)
    if instruction := _section(turns[-1][1], "Instruction"):
        return _sections(turns, model, instruction)
    if "Final information:" in demands or "最终信息：" in demands:
        marker = "Final information:" if "Final information:" in demands else "最终信息："
        documents = _section(turns[-1][1], "Documents") or turns[-1][1]
        sentences = _SENTENCE.findall(documents) or [documents[:200]]
        query = _section(turns[-1][1], "Query")
        return f"{marker} {max(sentences, key=lambda sentence: _share(query, sentence)).strip()}"
    if _QUERY_START in demands:
        question = _question(turns)
        if not has_replied and "<|begin_search_result|>" not in turns[-1][1].rpartition("### Question")[2]:
            return f"The stand-in looks the question up.\n\n{_QUERY_START}{_query(question)}{_QUERY_END}"
        return f"What was found settles it.\n\n\\boxed{{{_most_similar_sentence(turns, question)}}}"
    if "<search>" in demands and "<answer>" in demands:
        question = _question(turns)
        if not has_replied:
            return f"<think>The stand-in looks it up.</think>\n<search>{_query(question)}</search>"
        return f"<think>That was found.</think>\n<answer>{_most_similar_sentence(turns, question)}</answer>"
    if '"queries"' in demands:
        queries = _written_queries(turns, demands)
        return json.dumps({"analysis": "The stand-in asks word by word.", "queries": queries}, ensure_ascii=False)
    return _long(turns, model, demands)


def _text(content: object) -> str:
    if isinstance(content, list):  # content blocks
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _section(text: str, heading: str) -> str:
    """Return the text under the last heading of this name; empty if there is no such heading."""
    _, separator, rest = text.rpartition(f"### {heading}\n")
    return rest.split("\n### ")[0].strip() if separator else ""


def _question(turns: Turns) -> str:
    user_texts = [text for role, text in turns if role == "user"]
    for text in reversed(user_texts):
        if question := _section(text, "Question"):
            return question
    return user_texts[0] if user_texts else ""


def _evidence(turns: Turns) -> str:
    """Return everything that was shown besides question and options."""
    evidence = turns[-1][1] if turns else ""
    for heading in ("Question", "Options", "Answer"):
        if part := _section(evidence, heading):
            evidence = evidence.replace(part, " ")
    earlier = [text for role, text in turns[:-1] if role != "system"]
    return "\n".join([*earlier, evidence]) if len(turns) > 2 else evidence


def _words(text: str) -> set[str]:
    """Return the words of four letters or more, in lower case; in Chinese, all pairs of adjacent characters."""
    chinese = map("".join, itertools.pairwise("".join(_CHINESE.findall(text))))
    return {*re.findall(r"[^\W_\u4e00-\u9fff]{4,}", text.casefold()), *chinese}


def _share(text: str, other: str) -> float:
    """Return the share of a text's words that are in another text."""
    words = _words(text)
    return len(words & _words(other)) / len(words) if words else 0.0


def word_vector(text: str, dimensions: int) -> list[float]:
    """Return a vector of length 1 from the words of a text: each word is counted at the index that its hash gives."""
    counts = [0.0] * dimensions
    for word in _words(text) or {text}:
        counts[_hash_number(word) % dimensions] += 1.0
    length = math.sqrt(math.fsum(count * count for count in counts))
    return [count / length for count in counts]


def _hash_number(*texts: str) -> int:
    return int(hashlib.sha256("\n".join(texts).encode("utf-8", "replace")).hexdigest()[:12], 16)


def _query(question: str) -> str:
    words = list(dict.fromkeys(re.findall(r"[^\W\d_]{4,}", question)))
    return " ".join(words[:8]) or question[:80] or "medicine"


def _best_letter(turns: Turns, model: str) -> str:
    """Return the letter of the option that the shown texts support most."""
    question = _question(turns)
    options_text = next((text for _, text in reversed(turns) if _OPTION.search(_section(text, "Options") or text)), "")
    options = dict(_OPTION.findall(_section(options_text, "Options") or options_text)) or dict.fromkeys("ABCD", "")
    evidence = _evidence(turns)
    letter: str = max(
        options, key=lambda letter: (_share(options[letter], evidence), _hash_number(model, question, letter))
    )
    return letter


def _written_queries(turns: Turns, demands: str) -> list[str]:
    """Return the requested number of queries, with other words in every round."""
    question, requested_count = _question(turns), _COUNT.search(demands)
    words = list(dict.fromkeys(re.findall(r"[^\W\d_]{4,}", question))) or [question[:40]]
    earlier_queries = sum(text.count("Query:") for _, text in turns)
    number = min(int(requested_count[1]), 10) if requested_count else 3
    return [
        f"What is known of {words[(earlier_queries + offset) % len(words)]}, {earlier_queries + offset}?"
        for offset in range(number)
    ]


def _sections(turns: Turns, model: str, instruction: str) -> str:
    """Return a reply under headings; the last heading is the one that the instruction names."""
    if "## Answer" in instruction:
        answer = _best_letter(turns, model) if _section(turns[-1][1], "Options") else _long(turns, model, "")
        return f"## Analysis\nThis is enough.\n\n## Answer\n{answer}"
    queries = "\n".join(_written_queries(turns, instruction))
    return f"## Analysis\nThe stand-in asks word by word.\n\n## Queries\n{queries}"


def _copy_as_json(turns: Turns, model: str) -> str:
    """Return an earlier reply as a JSON object: queries, or the answer."""
    last = turns[-1][1]
    if '"output"' in last:
        lines = _section(last, "Text").rpartition("## Queries")[2].splitlines()
        return json.dumps({"output": [line.strip() for line in lines if line.strip()]}, ensure_ascii=False)
    options = any(_section(text, "Options") for _, text in turns)
    before = next((text for role, text in reversed(turns) if role == "assistant"), "")
    answer = before.rpartition("## Answer")[2].strip()
    return json.dumps({"answer": _best_letter(turns, model) if options else answer}, ensure_ascii=False)


def _most_similar_sentence(turns: Turns, question: str) -> str:
    """Return the shown sentence that shares most words with the question."""
    evidence = "\n".join(text for role, text in turns[1:] if role != "system")
    sentences = _SENTENCE.findall(evidence) or [question]
    best: str = max(sentences, key=lambda sentence: (_share(question, sentence), -len(sentence)))
    return best.strip()[:300]


def _build_stage_reply(fenced: Sequence[str], model: str, demands: str) -> Mapping[str, object] | None:
    """Return the reply that a stage of `ragrounds build` or a judge demands, from its words; ``None`` for other
    prompts."""
    if not fenced:
        return None
    demanded = {
        key for key in ("significance", "timeline", "decision", "distractors", "noncommittal") if f'"{key}"' in demands
    }
    if single_key := _ONE_KEY.search(demands):
        demanded.add(single_key[1])
    sentences = [sentence.strip() for sentence in _SENTENCE.findall(fenced[0])] or [fenced[0].strip()]
    if "significance" in demanded:
        late = sentences[len(sentences) // 2 :]
        kind = ("treatment", "test", "diagnosis")[_hash_number(model, fenced[0]) % 3]
        return {"kind": kind, "significance": late[_hash_number(model, *late) % len(late)]}
    if "timeline" in demanded:
        return {"timeline": sentences[:_MAX_EVENTS] if len(sentences) > 1 else [*sentences, "It ended there."]}
    if "decision" in demanded:
        events = [line.partition(". ")[2] for line in fenced[-1].splitlines()]
        decision_index = max(range(1, len(events)), key=lambda index: _share(fenced[0], events[index]), default=0)
        case = " ".join(events[:decision_index])
        return {
            "decision": decision_index + 1,
            "case": case,
            "question": "What comes next?",
            "answer": events[decision_index],
        }
    if "distractors" in demanded:
        added = f"The patient keeps {2 + _hash_number(model, fenced[0]) % 8} cats."
        return {"question": f"{added} {fenced[0]}", "distractors": [added]}
    if "noncommittal" in demanded:
        return {"question": sentences[0], "noncommittal": False}
    if "question" in demanded:
        return {"question": fenced[0]}
    if "reasoning" in demanded:
        return {"reasoning": f"This speaks of {_query(fenced[0])}. From that follows {fenced[-1]}."}
    return None


def _verdicts(conversation: str, axes: Mapping[str, str], model: str) -> str:
    """Return a verdict on each axis that depends only on the texts, not on their order."""
    pair, passages = dict(_PAIR.findall(conversation)), dict(_NAMED.findall(conversation))
    fenced = _FENCED.findall(conversation)
    verdicts: dict[str, str] = {}
    for number, (axis, choices) in enumerate(axes.items()):
        values = re.findall(r'"([^"\n]+)"', choices)
        if set(pair) <= set(values) and len(pair) == 2:
            verdicts[axis] = _better(axis, fenced[0], pair)
        elif "entailment" in values:
            before = max(len(fenced) - len(axes), 0)  # the text comes last before the statements
            overlap = _share(fenced[before + number], fenced[before - 1]) if before and number < len(axes) else 0.0
            verdicts[axis] = "entailment" if overlap >= 0.5 else "neutral"
        elif values[0] in ("equivalent", "useful"):
            reference, text = (fenced[-2], fenced[-1]) if len(fenced) > 1 else ("", "")
            verdicts[axis] = values[0] if _share(reference, text) >= 0.5 else values[-1]
        elif values == [label for label, _ in _LABELS]:
            overlap = _share(fenced[0], passages.get(axis, "")) - _hash_number(model, axis, *fenced) % 8 / 100
            verdicts[axis] = next((label for label, threshold in _LABELS if overlap >= threshold), values[-1])
        elif all(value.isdecimal() for value in values) and len(fenced) > number + 2:
            overlap = _share(fenced[number + 1], fenced[-1])  # of the answer, then of the steps, in the document
            verdicts[axis] = values[min(len(values) - 1, round(1.5 * overlap * len(values)))]
        elif values == ["yes", "no"] and len(fenced) > 1:
            verdicts[axis] = (
                "yes" if _share(fenced[0], fenced[-1]) >= 0.5 or _share(fenced[-1], fenced[0]) >= 0.5 else "no"
            )
        else:
            verdicts[axis] = values[_hash_number(axis, *fenced) % len(values)]
    return f"The stand-in compared words.\n{json.dumps(verdicts, ensure_ascii=False)}"


def _better(axis: str, question: str, pair: Mapping[str, str]) -> str:
    """Return the label of the better answer, or ``tie`` if they are equal."""

    def _worth(text: str) -> float:
        if axis == "readability":
            return -len(text)
        if axis == "knowledge":
            return len(_words(text))
        if axis == "reasoning":
            return len(_SENTENCE.findall(text)) + _share(question, text)
        return _share(question, text) + _hash_number(axis, text) % 1000 / 10_000

    worth = {label: _worth(text) for label, text in pair.items()}
    first, second = pair
    return "tie" if worth[first] == worth[second] else max(worth, key=lambda label: worth[label])


def _long(turns: Turns, model: str, demands: str) -> str:
    """Return a passage or an answer: evidence first, then words of the question; the length depends on the model."""
    question, evidence = _question(turns), _evidence(turns)
    sentences = sorted(_SENTENCE.findall(evidence), key=lambda sentence: -_share(question, sentence))
    selected = [sentence.strip() for sentence in sentences[: 1 + _hash_number(model) % 3]]
    words = question.split()[: _PASSAGE_WORDS - _hash_number(model, question) % 20]
    chinese = len(_CHINESE.findall(question)) > len(question) // 4
    closing = (
        f"关于{question[:60]}，可以这样说。" if chinese else f"Of {' '.join(words).rstrip('?.')} this can be said."
    )
    answer = " ".join([*selected, closing])
    if "Answer:" in demands:
        return f"The stand-in goes by the words of the question.\nAnswer:\n{answer}"
    return answer


def _formatted(reply: str, response_format: Mapping[str, object] | None) -> str:
    """Convert the reply to the form that the API's `response_format` demands."""
    kind = (response_format or {}).get("type")
    if kind not in ("json_object", "json_schema"):
        return reply
    value = _object(reply)
    json_schema = (response_format or {}).get("json_schema")
    schema = json_schema.get("schema") if isinstance(json_schema, dict) else None
    if isinstance(schema, dict):
        value = _schema_instance(schema, value, reply)
    return json.dumps(value, ensure_ascii=False)


def _object(reply: str) -> object:
    """Return the JSON object in a reply, or an object that contains the reply."""
    match = re.search(r"\{.*\}", reply, re.DOTALL)
    try:
        return json.loads(match[0]) if match else {"answer": reply}
    except ValueError:
        return {"answer": reply}


def _schema_instance(schema: Mapping[str, object], candidate: object, reply: str) -> object:
    """Return a value of a JSON schema: the candidate if it fits, otherwise a minimal one."""
    definitions, alternatives = schema.get("$defs"), schema.get("anyOf")
    if isinstance(definitions, dict) and (reference := schema.get("$ref")) is not None:
        definition = definitions.get(str(reference).rpartition("/")[2])
        return (
            _schema_instance({**definition, "$defs": definitions}, candidate, reply)
            if isinstance(definition, dict)
            else reply
        )
    if isinstance(alternatives, list) and alternatives and isinstance(alternatives[0], dict):
        return _schema_instance({**alternatives[0], "$defs": definitions}, candidate, reply)
    kind, allowed = schema.get("type"), [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(allowed, list) and allowed:
        return candidate if candidate in allowed else allowed[_hash_number(reply) % len(allowed)]
    properties = schema.get("properties")
    if kind == "object" or isinstance(properties, dict):
        fields = properties if isinstance(properties, dict) else {}
        candidate_fields = candidate if isinstance(candidate, dict) else {}
        return {
            name: _schema_instance({**part, "$defs": definitions}, candidate_fields.get(name), reply)
            for name, part in fields.items()
        }
    if kind == "array":
        items = schema.get("items")
        default = [_schema_instance({**items, "$defs": definitions}, None, reply)] if isinstance(items, dict) else []
        return candidate if isinstance(candidate, list) else default
    if kind in ("integer", "number"):
        return candidate if isinstance(candidate, int | float) else _hash_number(reply) % 10
    if kind == "boolean":
        return candidate if isinstance(candidate, bool) else _hash_number(reply) % 2 == 0
    return candidate if isinstance(candidate, str) else reply
