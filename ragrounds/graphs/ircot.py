"""`ircot`: one sentence of reasoning, one search with it, in turns (IRCoT: Trivedi et al., 2023, Section 3).

The question is searched for. Then the model, given all passages so far and its reasoning so far, writes the next
sentence of its reasoning; only the first sentence counts, and the next search uses it. A sentence
that says "the answer is" ends that, and so does an empty one, or `steps` sentences. A reader then answers from the
passages that were collected, at most `passages`, whatever the reasoning concluded. The numbers are those of the
authors' code (StonyBrookNLP/ircot: ircot_qa_codex_hotpotqa.jsonnet, ircot.py): six passages a search, 15 in all, ten
sentences.

``queries=published`` searches as their program does: for the last sentence that states a fact (none that begins with
"so", "thus", "therefore" … or holds a sum), without question words. `paragraph_words` cuts every passage to its first
words before a prompt shows it (theirs: 350; 0: whole passages).

Sees the options: `answer`. Differs: the model is asked in words for one sentence, where the authors show it worked
examples of the same data set; passages that are nearly alike, and those of more than 600 words, are kept, where theirs
are left out; sentences are cut at their punctuation, where theirs are by spaCy; a window that is full ends the loop.
"""

from __future__ import annotations

import operator
import re
from typing import Annotated

from msgspec.structs import replace

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message, Passage, Query
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.continuation import asked_within
from ragrounds.graphs.documents import render_documents_for
from ragrounds.graphs.model_text import without_thought, written_query
from ragrounds.graphs.shapes import answered, joined, loop, sentences
from ragrounds.graphs.state import Graph, Runtime, choice, int_parameter
from ragrounds.graphs.state import State as Shared

PROMPTS = (*ANSWERING, "ircot/reason")

_ENDS = re.compile(r"\banswer is\b|答案(?:是|为)", re.IGNORECASE)
_INFERS = re.compile(r"(?:thus[ ,]|so[ ,]|that is,|therefore|hence|因此|所以|故)", re.IGNORECASE)
_SUM = re.compile(r"\d [+-] [\d,.]+ = \d")
_QUESTION_WORDS = frozenset({"who", "what", "when", "where", "why", "which", "how", "does", "is"})


class State(Shared, total=False):
    sentences: Annotated[list[str], operator.add]
    """The reasoning so far."""


def build() -> Graph:
    """Build the graph START → search ⇄ reason → answer → END."""
    return loop(State, search, reason, leave=reason, over=over, answer=answer)


def over(state: State, context: Context) -> bool:
    """Return True if the last sentence ends the reasoning, or no further one may be written."""
    sentences = state["sentences"]
    return (
        not sentences[-1] or bool(_ENDS.search(sentences[-1])) or len(sentences) >= int_parameter(context, "steps", 10)
    )


async def search(state: State, runtime: Runtime[Context]) -> State:
    """Search for the last sentence, at first for the question's stem; passages are collected."""
    context, sentences = runtime.context, state.get("sentences", [])
    queries = choice(context, "queries", ("sentence", "published"))
    if queries == "published":
        sentences = [sentence for sentence in sentences if not _INFERS.match(sentence) and not _SUM.search(sentence)]
    query = written_query(context, sentences[-1]) if sentences else Query.from_stem(context.stem)
    if queries == "published":
        query = Query(" ".join(token for token in query.text.split() if token.casefold() not in _QUESTION_WORDS))
    passages = await context.search(query, int_parameter(context, "top_k", 6))
    return {"passages": joined(state.get("passages", []), passages, int_parameter(context, "passages", 15))}


async def reason(state: State, runtime: Runtime[Context]) -> State:
    """Ask for the next sentence of the reasoning."""
    context, stem, before = runtime.context, runtime.context.stem, state.get("sentences", [])

    def prompt(documents: str) -> tuple[Message, ...]:
        """Render the prompt with these documents."""
        so_far = " ".join(before) or "(none yet)"
        return context.prompts.render(
            "ircot/reason", stem.language, question=stem.text, documents=documents, reasoning=so_far
        )

    documents = render_documents_for(context, visible_passages(state, context), prompt)
    reply = await asked_within(context, prompt(documents), len(before) + 1)
    sentence = next(iter(sentences(without_thought(reply.text))), "") if reply else ""
    if reply and not sentence:
        context.note("no_sentence", "the model wrote no further sentence; the reasoning ends here")
    elif not _ENDS.search(sentence) and len(before) + 1 >= int_parameter(context, "steps", 10):
        context.note("step_limit", f"all {len(before) + 1} sentences were written without an answer")
    return {"sentences": [sentence]}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Ask the reader for the answer, with the passages that were collected."""
    return await answered(runtime.context, visible_passages(state, runtime.context))


def visible_passages(state: State, context: Context) -> list[Passage]:
    """Return the passages that were collected, each cut to `paragraph_words` words."""
    limit = int_parameter(context, "paragraph_words", 0, 0)
    passages = [context.passage(id) for id in state.get("passages", [])]
    # Words are cut at single spaces, as in the authors' program, so that line feeds stay.
    return [replace(passage, text=" ".join(passage.text.split(" ")[: limit or None])) for passage in passages]
