"""The agent of LlamaIndex's own example: the classes of its notebook (NOTEBOOK), run as they stand."""

import json
import os
from pathlib import Path

from llama_index.llms.openai import OpenAI
from plain_notes import search_notes

cells = json.loads(Path(os.environ["NOTEBOOK"]).read_text(encoding="utf-8"))["cells"]
for cell in (one for one in cells if one["cell_type"] == "code"):
    if "class " in (text := "".join(cell["source"])):
        exec(text, globals())


async def ask(question: str) -> str:
    """Run the notebook's workflow with a search of the notes."""
    from llama_index.core.tools import FunctionTool

    tools = [FunctionTool.from_defaults(search_notes)]
    agent = globals()["FuncationCallingAgent"](llm=OpenAI(model="gpt-4o-mini"), tools=tools, timeout=60)
    return str((await agent.run(input=question))["response"].message.content)
