"""Every form of a system of somebody's own, as it stands: it knows nothing of ragrounds."""

import asyncio
import textwrap

import pytest

from ragrounds.agents.agent import read_card
from ragrounds.agents.systems.kinds import kind_of
from ragrounds.agents.systems.place import drawable
from ragrounds.base.errors import UserError
from ragrounds.base.records import Called, Entered, Left
from ragrounds.graphs import diagram
from ragrounds.recorder.function import in_thread
from tests.graphs.playing import LONG, play

FORMS = """
import contextlib
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Literal, TypedDict

from beside import GREETING
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig, RunnableLambda, RunnablePassthrough
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import BaseModel

from ragrounds.base.records import Answer, Question

threads = []
saver = InMemorySaver()


def one_node(state, node, **schemas):
    graph = StateGraph(state, **schemas)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph


def reply(state: MessagesState, config: RunnableConfig):
    threads.append(config["configurable"]["thread_id"])
    return {"messages": [AIMessage([{"type": "text", "text": f"{GREETING}: {state['messages'][-1].content[-14:]}"}])]}


builder = one_node(MessagesState, reply)
compiled = builder.compile()
remembered = builder.compile(checkpointer=saver)
nested = one_node(MessagesState, compiled).compile()
limited = builder.compile().with_config(recursion_limit=3)


class Typed(BaseModel):
    question: str
    answer: str = ""


pydantic_state = one_node(Typed, lambda state: {"answer": state.question[-14:]}).compile()


class Wide(TypedDict):
    user_input: str
    middle: str
    graph_output: str


class Given(TypedDict):
    user_input: str


class Told(TypedDict):
    graph_output: str


schemas = one_node(Wide, lambda state: {"graph_output": state["user_input"][-14:]}, input_schema=Given,
                   output_schema=Told).compile()


@dataclass
class Depth:
    depth: int = 1


class Deep(BaseModel):
    depth: int


def told_depth(state: MessagesState, runtime: Runtime[Depth]):
    return {"messages": [AIMessage(f"depth {runtime.context.depth}")]}


dataclass_context = one_node(MessagesState, told_depth, context_schema=Depth).compile()
pydantic_context = one_node(MessagesState, told_depth, context_schema=Deep).compile()


def configured_node(state: MessagesState, config: RunnableConfig):
    return {"messages": [AIMessage(str(config["configurable"].get("model")))]}


configured = one_node(MessagesState, configured_node).compile()


def two_questions(state: MessagesState):
    return {"messages": [AIMessage(f"{interrupt('Who?')} and {interrupt({'ask': 'When?'})}")]}


asking = one_node(MessagesState, two_questions).compile(checkpointer=InMemorySaver())
asking_bare = one_node(MessagesState, two_questions).compile()
stopping = builder.compile(checkpointer=InMemorySaver(), interrupt_before=["node"])


def person(asked):
    return {"Who?": "me"}.get(asked, "now") if isinstance(asked, str) else "now"


approved = one_node(MessagesState, lambda state: {"messages": [AIMessage(str(interrupt("May I?")["type"]))]}).compile()


def formed(state: MessagesState):
    return {"messages": [AIMessage("a form follows")], "structured_response": Verdict(letter="C", why="since")}


class Verdict(BaseModel):
    letter: str
    why: str


class Formed(MessagesState):
    structured_response: object
    answer: str


form = one_node(Formed, formed).compile()


class Letter(Enum):
    B = "B"


class OptionsByLetter(TypedDict, total=False):
    question: str
    options: dict[str, str]
    answer: str


letters = one_node(OptionsByLetter, lambda state: {"answer": " ".join(state["options"])})


class Structured(TypedDict):
    question: str
    structured: object
    documents: list


structured = one_node(Structured, lambda state: {
    "structured": {"letter": Letter.B, "why": "since"},
    "documents": [Document("Text one.", metadata={"source": "d1", "title": "One"}), Document("Text two.")],
}).compile()


@task
def asked(messages: list[BaseMessage]) -> BaseMessage:
    return AIMessage(messages[-1].content[-14:])


@entrypoint()
def functional(messages: list[BaseMessage]):
    assert isinstance(messages[0], HumanMessage)
    return add_messages(messages, asked(messages).result())


@entrypoint(checkpointer=InMemorySaver())
async def functional_asking(topic: str) -> dict:
    return {"answer": interrupt("Is it so?"), "topic": topic}


model = RunnableLambda(lambda prompt: AIMessage(prompt.to_string()[-14:]))
chain = ChatPromptTemplate.from_template("Answer: {question}") | model | StrOutputParser()
one_key = ChatPromptTemplate.from_template("Answer: {anything}") | model
with_context = (
    {"context": lambda question: "Some text.", "question": RunnablePassthrough()}
    | ChatPromptTemplate.from_template("{context} {question}") | model
)
two_keys = ChatPromptTemplate.from_template("{one} {other}") | model


def text_to_text(question):
    return question[-14:]


async def text_to_text_async(question: str) -> str:
    return question[-14:]


def question_to_answer(question: Question) -> Answer:
    return Answer(text="Heparin it is.", choice="(b)", passages=())


def options_apart(question: str, options: dict[str, str]) -> str:
    return " ".join(f"{letter}{bool(text)}" for letter, text in options.items())


def arguments(question, options, language="en"):
    return f"{'zqa' in question} {'zqa' in options} {language}"


def messages_to_text(messages: list[dict]) -> str:
    return messages[0]["content"][-14:]


def mapping(inputs: dict) -> dict:
    return {"output": inputs["prompt"][-14:]}


def typed(question) -> object:
    return Typed(question="?", answer="typed")


def streamed(question):
    yield from ("so ", "it ", "is")


async def streamed_async(question):
    for part in ("so ", AIMessage("it "), "is"):
        yield part


class Bot:
    def __call__(self, question: str) -> str:
        return question[-14:]

    async def reply(self, question: str) -> str:
        return question[-14:]


bot = Bot()


def making():
    return builder


async def making_async():
    return compiled


def making_configured(config: RunnableConfig):
    return one_node(MessagesState, lambda state: {"messages": str(config["configurable"].get("model"))}).compile()


async def making_fails():
    raise ConnectionError("no server")


again = StateGraph(MessagesState)
again.add_node("again", lambda state: {})
again.add_edge(START, "again")
again.add_edge("again", "again")
endless = again.compile().with_config(recursion_limit=7)
closed = []


@contextlib.asynccontextmanager
async def making_entered(config):
    yield compiled
    closed.append(True)


def raising(question):
    raise ValueError("no [bold]such[/] thing")


def stopping_short(question):
    return next(iter(()))


def needs(patient, ward):
    return ""


def nothing(question):
    return None


number = 3
"""
LAST = "C. Aspirin zqc"


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forms")
    (folder / "mine.py").write_text(FORMS)
    (folder / "beside.py").write_text('GREETING = "hello"\n')
    return f"{folder}/mine.py"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("builder", f"hello: {LAST}"),
        ("compiled", f"hello: {LAST}"),
        ("remembered", f"hello: {LAST}"),
        ("nested", f"hello: {LAST}"),
        ("limited", f"hello: {LAST}"),
        ("pydantic_state", LAST),
        ("schemas", LAST),
        ("dataclass_context", "depth 1"),
        ("dataclass_context[context.depth=3]", "depth 3"),
        ("pydantic_context[context.depth=3]", "depth 3"),
        ("configured[config.model=gpt-x]", "gpt-x"),
        ("asking[on_interrupt=yes]", "yes and yes"),
        ("asking_bare[on_interrupt=yes]", "yes and yes"),
        ('asking[on_interrupt="{file}:person"]', "me and now"),
        ("stopping[on_interrupt=yes]", f"hello: {LAST}"),
        ('approved[on_interrupt="{{\\"type\\": \\"approve\\"}}"]', "approve"),
        ("form", '{"letter":"C","why":"since"}'),
        ("form[output=messages]", "a form follows"),
        ("form[choice=structured_response.letter]", '{"letter":"C","why":"since"}'),
        ("functional", LAST),
        ("functional_asking[on_interrupt=B]", "B"),
        ("chain", LAST),
        ("one_key", LAST),
        ("with_context", LAST),
        ("two_keys[input.one=language,input.other=prompt]", LAST),
        ("text_to_text", LAST),
        ("text_to_text_async", LAST),
        ("question_to_answer", "Heparin it is."),
        ("arguments", "False True en"),
        ("options_apart", "ATrue BTrue CTrue"),
        ("letters", "A B C"),
        ("messages_to_text", LAST),
        ("mapping", LAST),
        ("typed", "typed"),
        ("typed[output=question]", "?"),
        ("streamed", "so it is"),
        ("streamed_async", "so it is"),
        ("bot", LAST),
        ("bot.reply", LAST),
        ("Bot", LAST),
        ("making", f"hello: {LAST}"),
        ("making_async", f"hello: {LAST}"),
        ("making_configured[config.model=gpt-x]", "gpt-x"),
        ("making_entered", f"hello: {LAST}"),
        ("nothing", ""),
    ],
)
async def test_a_system_runs_as_it_stands(forms, name, text):
    played = await play(f"{forms}:{name.format(file=forms)}", [])
    assert (played.attempt.status, played.attempt.text) == ("completed", text), played.attempt.reason


@pytest.mark.parametrize("name", ["asking", "asking_bare", "stopping", "functional_asking"])
async def test_a_question_to_a_person_pauses(forms, name):
    played = await play(f"{forms}:{name}", [])
    assert played.attempt.status == "paused"
    assert played.attempt.reason.startswith("the system asked a person: ")


async def test_the_steps_are_those_that_the_graph_allows_itself(forms):
    played = await play(f"{forms}:endless", [])
    assert (played.attempt.status, played.attempt.reason) == ("capped", "the graph did not finish within 7 steps")


async def test_what_was_answered_stands_in_the_trace(forms):
    played = await play(f"{forms}:asking[on_interrupt=yes]", [])
    assert played.notes.count("person") == 2


@pytest.mark.parametrize("name", ["nested", "asking[on_interrupt=yes]"])
async def test_a_langgraph_that_streams_no_tasks_tells_the_same_by_what_a_debugger_is_told(forms, name, monkeypatch):
    def told(attempt):
        steps = [event for event in attempt.events if isinstance(event, Entered | Left)]
        return attempt.text, [(step.node, step.parent) if isinstance(step, Entered) else step.changes for step in steps]

    usual = told((await play(f"{forms}:{name}", [])).attempt)
    monkeypatch.setattr("ragrounds.recorder.langgraph_graph._tasks_mode", lambda: "debug")
    assert told((await play(f"{forms}:{name}", [])).attempt) == usual
    assert usual[1]


async def test_the_letter_comes_from_a_key_of_the_state(forms):
    played = await play(f"{forms}:structured[choice=structured.letter,output=structured.why]", [])
    assert (played.attempt.text, played.attempt.choice) == ("since", "B")
    unknown = await play(f"{forms}:structured[choice=structured.why,output=structured.why]", [])
    assert (unknown.attempt.choice, "choice" in unknown.notes) == ("", True)
    searches = [event.call for event in played.attempt.events if isinstance(event, Called)]
    assert [(call.kind, call.actor, call.passages) for call in searches] == [
        ("search", "sources of the answer", ("d1", "text-d8927cd3e0a0"))
    ]
    given = await play(f"{forms}:question_to_answer", [])
    assert given.attempt.choice == "B"


async def test_every_attempt_has_a_thread_of_its_own_and_no_checkpointer_is_written(forms):
    import sys

    card = read_card(f"{forms}:remembered")
    module = next(module for module in sys.modules.values() if getattr(module, "__file__", "") == forms)
    assert kind_of(card).open() is kind_of(card).open(), "it is opened once"
    module.threads.clear()
    for _ in range(2):
        await play(f"{forms}:remembered", [])
    assert len(set(module.threads)) == 2
    assert not module.saver.storage


async def test_what_an_attempt_opened_is_closed_after_it(forms):
    import sys

    await play(f"{forms}:making_entered", [])
    module = next(module for module in sys.modules.values() if getattr(module, "__file__", "") == forms)
    assert module.closed


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raising", "ValueError: no [bold]such[/] thing"),
        ("stopping_short", "RuntimeError: the function raised StopIteration"),
        ("making_fails", "ConnectionError: no server"),
    ],
)
async def test_what_a_system_raises_ends_its_attempt_alone(forms, name, reason):
    played = await play(f"{forms}:{name}", [], LONG)
    assert (played.attempt.status, played.attempt.reason) == ("failed", reason)
    assert "traceback" in played.notes


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (":needs", "has the arguments patient and ward, which match no field of a question. A function takes"),
        (":needs[input.patient=prompt,input.ward=wrod]", "unknown field 'wrod'"),
        (":text_to_text[input.qestion=prompt]", "no argument 'qestion'. Did you mean 'question'"),
        (":text_to_text[config.a=1]", "is a function: config has no effect on it"),
        (":two_keys", "what is the input of one, other"),
        (":chain[on_interrupt=yes]", "is a runnable: on_interrupt has no effect on it"),
        (":compiled[context.depth=1]", "has no context_schema: context has no effect on it"),
        (":dataclass_context[context.deph=1]", "no 'deph'. Did you mean 'depth'"),
        (":pydantic_context", "its context cannot be made"),
        (":compiled[output=mesages]", "no key 'mesages'. Did you mean 'messages'"),
        (":number", "gave int; expected a StateGraph, a compiled graph"),
        (":compield", "there is no 'compield'. Did you mean 'compiled'"),
        ("", "which one? Expected "),
    ],
)
async def test_what_does_not_fit_is_said_before_anything_runs(forms, name, message):
    with pytest.raises(UserError) as told:
        await play(f"{forms}{name}", [])
    assert message in str(told.value)


def test_graphs_and_chains_are_drawn(forms):
    assert diagram.tree(drawable(f"{forms}:nested")).splitlines() == ["start", "└── node:node", "    └── end"]
    chain = diagram.tree(drawable(f"{forms}:chain"))
    assert "ChatPromptTemplate" in chain
    assert "StrOutputParser" in chain
    with pytest.raises(UserError, match="builds its graph for each attempt"):
        drawable(f"{forms}:making_async")


async def test_functions_that_block_run_side_by_side():
    import threading

    barrier = threading.Barrier(40)  # more than asyncio's own threads on any machine of the tests
    waited = await asyncio.gather(*(in_thread(lambda: barrier.wait(20)) for _ in range(40)))
    assert sorted(waited) == list(range(40))


def test_the_folder_of_the_file_is_on_the_path(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "helper.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "mine.py").write_text(
            textwrap.dedent("""
                from helper import NAME
                def say(question):
                    return NAME
            """)
        )
    said = [asyncio.run(play(f"{tmp_path / name}/mine.py:say", [])).attempt.text for name in ("one", "two")]
    assert said == ["one", "two"]
