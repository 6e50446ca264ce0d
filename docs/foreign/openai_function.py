"""Two plain functions with OpenAI's client: no framework at all."""

import os

from openai import AsyncOpenAI, OpenAI

client, waiting = OpenAI(), AsyncOpenAI()


def answer(question: str) -> str:
    """Answer a question in one call."""
    asked = [{"role": "user", "content": f"Think briefly, then end with the letter of one option.\n\n{question}"}]
    model = os.environ.get("MODEL", "gpt-4o-mini")
    if not os.environ.get("STREAM"):
        reply = client.chat.completions.create(model=model, messages=asked, temperature=0)
        return reply.choices[0].message.content or ""
    pieces = client.chat.completions.create(model=model, messages=asked, temperature=0, stream=True)
    return "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)


async def respond(question: str) -> str:
    """The same by the newer form of the client, without waiting in a thread."""
    model = os.environ.get("MODEL", "gpt-4o-mini")
    told = "Think briefly, then end with the letter of one option."
    if not os.environ.get("STREAM"):
        reply = await waiting.responses.create(model=model, instructions=told, input=question)
        return reply.output_text
    async with waiting.responses.stream(model=model, instructions=told, input=question) as events:
        reply = await events.get_final_response()
    return reply.output_text
