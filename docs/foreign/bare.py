"""Runs a system of this folder as its author would, with nothing around it: `python bare.py FILE.py:NAME QUESTION`."""

import asyncio
import importlib
import inspect
import sys
from pathlib import Path


def loaded(place: str) -> object:
    """The object that `FILE.py:NAME` or `package.module:NAME` names."""
    file, _, name = place.rpartition(":")
    if file.endswith(".py"):
        sys.path.insert(0, str(Path(file).resolve().parent))
        file = Path(file).stem
    return getattr(importlib.import_module(file), name)


async def answered(system: object, question: str) -> str:
    """What a system answers."""
    if hasattr(system, "compile"):
        system = system.compile()
    if hasattr(system, "get_graph"):
        asked: dict[str, object] = {"question": question}
        if "messages" in system.channels:
            asked = {"messages": [("user", question)]}
        state = await system.ainvoke(asked, {"configurable": {"thread_id": "bare"}})
        if "generation" in state:
            return str(state["generation"])
        return str(state.get("final_report") or state["messages"][-1].content)
    if hasattr(system, "aquery"):
        return str(await system.aquery(question))
    if hasattr(system, "run"):
        return str(await system.run(query=question))
    if callable(system):
        given = system(question) if inspect.iscoroutinefunction(system) else await asyncio.to_thread(system, question)
        return str(await given if inspect.isawaitable(given) else given)
    raise SystemExit(f"{type(system).__name__} is no system that this knows")


def main() -> None:
    """Answer one question."""
    place, question = sys.argv[1:3]
    system = loaded(place)
    if inspect.isfunction(system) and not inspect.signature(system).parameters:
        system = system()
    sys.stdout.write(asyncio.run(answered(system, question)) + "\n")


if __name__ == "__main__":
    main()
