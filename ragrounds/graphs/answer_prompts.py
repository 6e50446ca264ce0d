"""The answering node's prompt: the only place where a question's options are shown."""

from __future__ import annotations

from collections.abc import Mapping

from ragrounds.base.contracts import Context
from ragrounds.base.errors import UserError
from ragrounds.base.records import Message, Question
from ragrounds.graphs.model_text import ending

KINDS = ("choice", "long", "extraction")
"""Kinds of question with prompts of their own."""
CONCLUDE = ("choice/conclude",)
PROMPTS = tuple(f"{kind}/{form}" for kind in KINDS for form in ("direct", "cot", "rag", "rag_direct"))


def options_block(options: Mapping[str, str]) -> str:
    """Options as lines ``A. text``."""
    return "\n".join(f"{letter}. {text}" for letter, text in options.items())


def asked(context: Context) -> str:
    """The question with its options, if any: for what judges an answer."""
    question = context.question
    return f"{question.text}\n\n{options_block(question.options)}" if question.options else question.text


def answer_prompt(
    context: Context, documents: str | None = None, *, question: Question | None = None
) -> tuple[Message, ...]:
    """The prompt that asks for the answer, with or without documents, by the agent's `prompting` (direct or cot).
    `question`: in place of the attempt's own."""
    question = question or context.question
    prompting = context.parameters.get("prompting", "cot")
    if prompting not in ("direct", "cot"):
        raise UserError(f"Unknown prompting {str(prompting)!r}. Expected direct or cot.")
    values = _values(question)
    if documents is None:
        form = str(prompting)
    else:
        form = "rag" if prompting == "cot" else "rag_direct"
        values["documents"] = documents
    return context.prompts.render(f"{_kind(question)}/{form}", question.language, **values)


def refine_prompt(context: Context, first: str, documents: str | None = None) -> tuple[Message, ...]:
    """The prompt that asks to go over a first answer, with or without documents."""
    question = context.question
    values = {**_values(question), "first": first}
    if documents is not None:
        values["documents"] = documents
    form = "refine" if documents is None else "refine_rag"
    return context.prompts.render(f"{_kind(question)}/{form}", question.language, **values)


def conclude_prompt(context: Context, reasoning: str, conclusion: str) -> tuple[Message, ...]:
    """The prompt that maps a conclusion, reached without sight of the options, to one of them."""
    question = context.question
    values = {**_values(question), "conclusion": conclusion}

    def prompt(shown: str) -> tuple[Message, ...]:
        """With the reasoning `shown`."""
        return context.prompts.render("choice/conclude", question.language, reasoning=shown, **values)

    return prompt(ending(context, reasoning, context.room(prompt(""))))


def choose_prompt(context: Context) -> tuple[Message, ...]:
    """The turn that asks, at the end of a conversation without options, for one of them."""
    question = context.question
    return context.prompts.render("choice/choose", question.language, **_values(question))


def _kind(question: Question) -> str:
    if question.kind == "extraction":
        return "extraction"
    return "choice" if question.options else "long"


def _values(question: Question) -> dict[str, str]:
    values = {"question": question.text}
    if question.options:
        values["options"] = options_block(question.options)
    return values
