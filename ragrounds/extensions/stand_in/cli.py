"""`ragrounds stand-in`: serve a stand-in for a model, to try things out without a key or a GPU."""

from __future__ import annotations

from typing import Annotated

import typer

from ragrounds.cli.output import say
from ragrounds.extensions.stand_in.functions import serve_stand_in

app = typer.Typer()


@app.command("stand-in")
def stand_in(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0: a free one.")] = 8000,
) -> None:
    """Serve a stand-in for a model, to try things out without a key or a GPU.

    It speaks OpenAI's protocol on this machine alone, under any model's name. It is no language model: what it says
    follows from the words in the prompt, so that the same prompt always gets the same reply. Ctrl-C ends it.

    Example, in two terminals:

    ragrounds stand-in

    ragrounds run --model openai:any-name --base-url http://127.0.0.1:8000/v1
    """
    serve_stand_in(port, message=lambda url: say(f"The stand-in listens at {url}, for --base-url. Ctrl-C ends it."))
