"""Pages of what there is: agents, profiles, prompts, retrievers, scorers, analyses, benchmarks, studies, formats."""

from __future__ import annotations

from collections.abc import Mapping

from ragrounds.api.agents import describe_graph, list_agents, list_graphs, list_profiles, list_prompts, prompt_text
from ragrounds.api.choices import list_analyses, list_retrievers, list_scorers
from ragrounds.api.data import list_cards
from ragrounds.api.frames import columns_table
from ragrounds.extensions.exchange.functions import list_formats
from ragrounds.extensions.studies.study import open_study, shipped_studies
from ragrounds.models.options import cards as model_cards
from reference_pages.filters import filters_page
from reference_pages.markdown import code, markdown, table, unrolled

FOLDER = "reference/lists"


def list_pages() -> tuple[dict[str, str], dict[str, str]]:
    """The pages, and what code in sentences links to."""
    made = {
        "agents": _agents(),
        "graphs": _graphs(),
        "profiles": _profiles(),
        "prompts": _prompts(),
        "retrievers": _retrievers(),
        "scorers": _scorers(),
        "analyses": _analyses(),
        "benchmarks": _benchmarks(),
        "studies": _studies(),
        "export-formats": _exports(),
        "frames": _frames(),
        "filters": filters_page(),
        "model-cards": _model_cards(),
    }
    lines = []
    for name, text in made.items():
        title, _, rest = text.removeprefix("# ").partition("\n")
        lines.append(f"- [{title}]({name}.md): {rest.strip().split(chr(10))[0]}")
    about = "What comes with the package, as it says of itself. Installed packages and your own files add to each list."
    pages = {f"{FOLDER}/{name}.md": text for name, text in made.items()}
    pages[f"{FOLDER}/index.md"] = f"# What there is\n\n{about}\n\n" + "\n".join(lines) + "\n"
    targets = {name: f"{FOLDER}/agents#agent-{_slug(name)}" for name in list_agents()}
    targets |= {one.name: f"{FOLDER}/scorers#scorer-{_slug(one.name)}" for one in list_scorers()}
    return pages, {name: place for name, place in targets.items() if "_" in name or name.startswith("mirage_")}


def _slug(name: str) -> str:
    return name.replace("_", "-").replace("/", "-").lower()


def _labelled(kind: str, name: str, title: str = "") -> str:
    """A heading with an anchor of its own."""
    return f"({kind}-{_slug(name)})=\n## {title or code(name)}"


def _frames() -> str:
    about = "The frames of results, for pandas, and their columns. What is not known is null."
    return "\n\n".join(["# Frames", about, columns_table().replace("### ", "## ")])


def _agents() -> str:
    parts = [
        "# Agents",
        "The agents that ship: a graph with its parameters. `name[key=value,…]` sets them, also in tables.",
    ]
    for name, card in list_agents().items():
        parts += [_labelled("agent", name), card.summary]
        facts = [("graph", code(card.graph)), ("after", card.source), ("searches", "yes" if card.searches else "no")]
        parts.append(table(("", ""), facts))
        given: Mapping[str, object] = {**card.parameters, **card.switches}
        rows = [
            (code(key), code(_toml(value)), "switch" if key in card.switches else "") for key, value in given.items()
        ]
        if rows:
            parts.append(table(("parameter", "default", ""), rows))
    parts += ["## More", "[The strategies](../strategies.md) says what each does and where it differs from its paper."]
    return "\n\n".join(parts) + "\n"


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _graphs() -> str:
    parts = [
        "# Graphs",
        "The state machines behind the agents, drawn from the graphs themselves; dashed: on a condition.",
    ]
    for name in list_graphs():
        graph = describe_graph(name)
        parts += [_labelled("graph", name), unrolled(markdown(graph.about)), f"```mermaid\n{graph.mermaid}```"]
    return "\n\n".join(parts) + "\n"


def _profiles() -> str:
    parts = [
        "# Profiles of papers",
        "With `--profile NAME` agents run as a paper's authors ran them; each value has its source.",
    ]
    for one in list_profiles():
        parts += [
            _labelled("profile", one.name),
            one.summary,
            f"Paper: {one.paper}" + (f" Code: {one.code}" if one.code else ""),
        ]
        if one.scorer:
            parts.append(f"Scorer: {code(one.scorer.value)} ({one.scorer.source}).")
        for graph, settings in one.graphs.items():
            rows = [(code(key), code(_toml(each.value)), each.source) for key, each in settings.items()]
            if rows:
                parts.append(table((f"of {code(graph)}", "value", "source"), rows))
        for family in one.models:
            given = {**family.sampling, **family.parameters}
            rows = [(code(key), code(_toml(each.value)), each.source) for key, each in given.items()]
            named = ", ".join(map(code, family.names)) or "every model"
            if rows:
                parts.append(table((f"for {named}", "value", "source"), rows))
        if one.open:
            parts.append("Left open by the paper:\n\n" + "\n".join(f"- {each}" for each in one.open))
    return "\n\n".join(parts) + "\n"


def _prompts() -> str:
    parts = [
        "# Prompts",
        "What strategies and judges send, in English. `ragrounds list prompts NAME --language zh` prints Chinese ones.",
    ]
    for name in list_prompts():
        text = prompt_text(name).rstrip()
        fence = "`" * 4 if "```" in text else "`" * 3
        parts += [_labelled("prompt", name), f"{fence}text\n{text}\n{fence}"]
    return "\n\n".join(parts) + "\n"


def _retrievers() -> str:
    known = list_retrievers()
    parts = [
        "# Retrievers",
        "What is searched with. A spec such as `bm25[k1=0.9]` sets parameters; most take another retriever as `of=`.",
    ]
    for one in known.retrievers:
        parts += [_labelled("retriever", one.name), one.summary]
        extra = f"`pip install 'ragrounds[{one.extra}]'`" if one.extra else ""
        facts = [
            ("example", code(one.example)),
            ("builds", one.index),
            ("a search takes", one.cost),
            ("needs", extra),
            ("caution", one.caution),
        ]
        parts.append(table(("", ""), [row for row in facts if row[1]]))
        rows = [
            (code(each.name), "" if each.default is None else code(_toml(each.default)), each.words)
            for each in one.parameters
        ]
        if rows:
            parts.append(table(("parameter", "default", "meaning"), rows))
    rows = [(code(each.name), each.title, each.kind, each.size, "; ".join(each.used_in)) for each, _ in known.cards]
    parts += [
        "## Cards",
        "Dense retrievers and rerankers as the papers used them.",
        table(("name", "what", "kind", "size", "used in"), rows),
    ]
    parts += [
        "## Analysers",
        "Of `bm25`: " + ", ".join(map(code, known.analysers)) + ". [Retrieval](../retrieval.md) says more.",
    ]
    return "\n\n".join(parts) + "\n"


def _scorers() -> str:
    parts = [
        "# Scorers",
        "How an answer is read and scored. A benchmark's card names the one that its table leads with.",
    ]
    for one in list_scorers():
        facts = [
            ("method", one.method), ("unit", one.unit), ("better", one.direction), ("for", ", ".join(one.kinds)),
            ("needs", one.needs),
        ]  # fmt: skip
        parts += [_labelled("scorer", one.name), one.summary, table(("", ""), [row for row in facts if row[1]])]
    return "\n\n".join(parts) + "\n"


def _analyses() -> str:
    rows = [(f"`{one.name}`", one.summary, one.needs) for one in list_analyses()]
    about = (
        "Figures and tables over stored runs: `ragrounds analyse NAME RUN …`, or `rr.analyse`. "
        "[Analyses of stored runs](../analyses.md) shows them."
    )
    return f"# Analyses\n\n{about}\n\n{table(('name', 'what it shows', 'what the runs need'), rows)}\n"


def _benchmarks() -> str:
    parts = [
        "# Benchmarks",
        "One card a dataset. [Benchmarks](../benchmarks.md) says how their files are had and registered.",
    ]
    families: dict[str, list[object]] = {}
    cards = list_cards()
    for one in cards:
        families.setdefault(one.name.partition("/")[0], []).append(one)
    for family in families:
        parts.append(_labelled("benchmark", family))
        for one in cards:
            if one.name.partition("/")[0] != family:
                continue
            facts = [
                ("task", one.task), ("source", one.source), ("licence", one.license), ("revision", one.revision),
                ("questions", f"{one.size:,} ({one.split})" if one.size else ""), ("language", one.language),
                ("scorers", ", ".join(map(code, one.scorers))), ("figures in", one.table),
                ("missing", one.missing), ("note", one.note),
            ]  # fmt: skip
            parts += [f"### `{one.name}`: {one.title}", table(("", ""), [row for row in facts if row[1]])]
    return "\n\n".join(parts) + "\n"


def _studies() -> str:
    rows = []
    for name in shipped_studies():
        one = open_study(name)
        rows.append((code(name), one.title, one.source, f"{len(one.rows)} × {len(one.columns)}"))
    about = (
        "Tables of papers that ship as studies: `ragrounds study run NAME`. "
        "[Studies](../studies.md) says how one is written."
    )
    return f"# Studies\n\n{about}\n\n{table(('name', 'table', 'paper', 'rows × columns'), rows)}\n"


def _exports() -> str:
    parts = ["# Export formats", "What `ragrounds export FORMAT RUN …` writes for other tools."]
    for name, one in list_formats().items():
        parts += [_labelled("export", name), one.help]
    return "\n\n".join(parts) + "\n"


def _model_cards() -> str:
    rows = [
        (code(name), one.summary, one.source, ", ".join(map(code, one.names)), one.window or "")
        for name, one in model_cards().items()
    ]
    about = "How prompts are written for models behind the completions API: `provider:model[card=NAME]`."
    return f"# Model cards\n\n{about}\n\n{table(('name', 'what', 'source', 'chosen for names with', 'window'), rows)}\n"
