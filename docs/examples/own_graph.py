"""A custom graph in ragrounds, several times: see docs/how-to/own-system.md."""

from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from ragrounds.extend import Context, Message, Query, agent, answer_prompt, format_passages


class State(TypedDict, total=False):
    question: str
    passages: list[str]
    answer: str


class Asked(TypedDict, total=False):
    question: str
    options: str
    answer: str


@agent(summary="Search with the model's own keywords, then answer.", searches=True, parameters={"top_k": 4})
def build():
    """It takes the context: models, prompts, corpus and limits are those of the attempt."""

    async def keywords(state: State, runtime: Runtime[Context]) -> State:
        asked = [Message("user", f"Three keywords to search for, on one line: {state['question']}")]
        reply = await runtime.context.ask(asked, role="querying")
        found = await runtime.context.search(Query(reply.text), int(runtime.context.parameters["top_k"]))
        return {"passages": [passage.id for passage in found]}

    async def answer(state: State, runtime: Runtime[Context]) -> State:
        # The options are seen here for the first time: nothing may be searched for after this.
        passages = [runtime.context.passage(id) for id in state["passages"]]
        reply = await runtime.context.ask(answer_prompt(runtime.context, format_passages(passages)))
        return {"answer": reply.text}

    graph = StateGraph(State, context_schema=Context)
    graph.add_node("keywords", keywords)
    graph.add_node("answer", answer)
    graph.add_edge(START, "keywords")
    graph.add_edge("keywords", "answer")
    graph.add_edge("answer", END)
    return graph


@agent(
    summary="LangChain's agent on the attempt's own model and corpus.",
    searches=True,
    question_only=False,  # it sees the options while it searches, and says so
    parameters={"top_k": 3},
    input={"messages": "messages"},
    output="messages",
)
def langchain_agent():
    """It takes the context too: `create_agent` with our model and our search tool, whose calls are journaled."""
    from langchain.agents import create_agent

    from ragrounds.extend import ContextModel, search_tool

    return create_agent(ContextModel(), [search_tool], context_schema=Context, system_prompt="Search, then answer.")


@agent(summary="One plain function, whose answer has a form.", input={"question": "question", "options": "options"})
def structured():
    """Without a coroutine: LangGraph runs the node in a thread, and its call is journaled all the same."""
    from pydantic import BaseModel

    from ragrounds.extend import ContextModel

    class Choice(BaseModel):
        """The letter of the right option, and why it is right."""

        step_by_step_thinking: str
        answer_choice: str

    model = ContextModel(temperature=0).with_structured_output(Choice)

    def answer(state: Asked) -> State:
        return {"answer": model.invoke(f"{state['question']}\n\n{state['options']}").model_dump_json()}

    graph = StateGraph(Asked, context_schema=Context)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph


def own_model():
    """A LangChain model of its own, whose calls are recorded where they leave the process."""
    from langchain.chat_models import init_chat_model

    model = init_chat_model("openai:gpt-4o-mini")

    async def answer(state: State) -> State:
        reply = await model.ainvoke(state["question"])
        return {"answer": reply.text}

    graph = StateGraph(State)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile()


def own_client():
    """It asks no model at all: its time is known, its tokens and cost are not."""

    async def answer(state: State) -> State:
        return {"answer": f"The answer is (A). I was asked: {state['question'][:20]}"}

    graph = StateGraph(State)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph
