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
    """Return the options as lines ``A. text``."""
    return "\n".join(map(". ".join, options.items()))


def question_with_options(context: Context) -> str:
    """Return the question with its options, if any, for a judge of answers."""
    question = context.question
    return f"{question.text}\n\n{options_block(question.options)}" if question.options else question.text


def answer_prompt(
    context: Context, documents: str | None = None, *, question: Question | None = None
) -> tuple[Message, ...]:
    """Return the prompt that asks for the answer, with or without documents, in the style of the agent's `prompting`
    (direct or cot). `question` replaces the attempt's own question.
    """
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
    """Return the prompt that asks for a revision of a first answer, with or without documents."""
    question = context.question
    values = {**_values(question), "first": first}
    if documents is not None:
        values["documents"] = documents
    form = "refine" if documents is None else "refine_rag"
    return context.prompts.render(f"{_kind(question)}/{form}", question.language, **values)


def conclude_prompt(context: Context, reasoning: str, conclusion: str) -> tuple[Message, ...]:
    """Return the prompt that maps a conclusion, reached without sight of the options, to one of them."""
    question = context.question
    values = {**_values(question), "conclusion": conclusion}

    def prompt(visible_reasoning: str) -> tuple[Message, ...]:
        """Render the prompt with a part of the reasoning."""
        return context.prompts.render("choice/conclude", question.language, reasoning=visible_reasoning, **values)

    return prompt(ending(context, reasoning, context.room(prompt(""))))


def choose_prompt(context: Context) -> tuple[Message, ...]:
    """Return the turn that asks for one of the options at the end of a conversation without options."""
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
