"""`ragrounds doctor`: what works here, and what a model's server can do."""

from __future__ import annotations

import typer

app = typer.Typer()
_EXTRAS = {
    "pandas": "pandas",
    "polars": "polars",
    "chinese": "jieba",
    "dense": "chromadb",
    "export": "pyarrow",
    "fast": "numba",
    "files": "bs4",
    "inspect": "inspect_ai",
    "local": "sentence_transformers",
    "mcp": "mcp",
    "postgresql": "psycopg",
    "ragas": "ragas",
    "ray": "ray",
    "train": "peft",
    "vllm": "vllm",
    "web": "trafilatura",
}
"""Extra → a module that it brings."""


@app.command("doctor")
def doctor_command(
    model: str | None = typer.Option(None, help="Also ask this model's server what it can do: openai:NAME."),
    base_url: str | None = typer.Option(None, help="An OpenAI-compatible server."),
    as_json: bool = typer.Option(False, "--json", help="As JSON."),
) -> None:
    """Say where things live, which extras are here, and, of a model, how it goes on with a text and takes tools.

    With --model the server is asked a few questions of some twenty tokens each.

    Example: ragrounds doctor --model openai:NAME --base-url http://127.0.0.1:8000/v1
    """
    import asyncio
    import importlib.util
    import platform

    from ragrounds.api.workspace import open_store, user_settings
    from ragrounds.cli.output import print_json
    from ragrounds.models.options import with_defaults
    from ragrounds.models.providers import probe
    from ragrounds.settings import settings_file
    from ragrounds.version import __version__

    chosen = user_settings()
    with open_store(chosen) as store:
        place, runs = store.place, len(store.runs())
    facts: dict[str, object] = {
        "ragrounds": __version__,
        "python": platform.python_version(),
        "home": str(chosen.home),
        "settings": str(settings_file()) + ("" if settings_file().is_file() else " (not there: defaults)"),
        "store": f"{place}, {runs:,} runs",
    }
    extras = {name: importlib.util.find_spec(module) is not None for name, module in _EXTRAS.items()}
    probed = None
    if model is not None:
        probed = asyncio.run(probe(with_defaults(model, {"base_url": base_url or chosen.base_url, "timeout": 60.0})))
    if as_json:
        print_json({**facts, "extras": extras, "model": probed})
        return
    for name, fact in facts.items():
        typer.echo(f"{name:10} {fact}")
    here = ", ".join(name for name, there in extras.items() if there) or "none"
    missing = ", ".join(name for name, there in extras.items() if not there) or "none"
    typer.echo(f"{'extras':10} here: {here}; not here: {missing} (pip install 'ragrounds[NAME]')")
    if probed is None:
        return
    answers = {True: "yes", False: "no", None: "could not be told"}
    typer.echo(f"{'model':10} {probed.spec}")
    typer.echo(f"  goes on with its own text by: {probed.continues} ({probed.why})")
    typer.echo(f"  stop strings end the text: {answers[probed.stops]}")
    typer.echo(f"  says which stop string it was: {answers[probed.names_stop]}")
    typer.echo(f"  leaves the stop string in the text: {answers[probed.keeps_stop]}")
    typer.echo(f"  takes tools: {answers[probed.tools]}")
