"""Benchmark construction: pipelines as LangGraph graphs, replayed like any agent.

A pipeline turns *items* (case reports, queries) into a benchmark. Each item is the question of a run whose agent is the
pipeline's graph, so it has the journal, trace, ledger, caps, budget, retries and resuming of every run. A new pipeline
has:

1. **A graph**, ``NAME.py`` here with ``build()`` and ``PROMPTS``:
   :func:`ragrounds.extensions.construction.stages.in_line` joins stages, each an async function of state and
   :class:`ragrounds.base.contracts.Context`. A stage returns changes of the state, or raises
   :class:`~ragrounds.extensions.construction.stages.Rejected` with one of a few reasons (they are counted) and a
   detail; the last returns :func:`~ragrounds.extensions.construction.stages.keep_item`. It calls a model by
   :func:`~ragrounds.extensions.construction.stages.ask_for`, which reads a JSON object into a record, asks once more if
   that fails, and then rejects the item. Calls about one part of an item go through
   :func:`~ragrounds.extensions.construction.stages.of_part`, so that a refusal costs only that part. A graph sees the
   item's question, never its gold. Its prompts are in ``prompts/build``.
2. **A** :class:`~ragrounds.extensions.construction.pipeline.Pipeline` in the same file: name, graph, stages in order,
   parameters with defaults.
3. **Items**: a function that reads files and ends in :func:`ragrounds.extensions.construction.items.draw_items`, with
   the items that are dropped before any model is called, and the reasons.
4. **A benchmark**, a function in ``extensions/construction/benchmark.py``: from the
   :class:`~ragrounds.extensions.construction.pipeline.ItemResult` of every item, in order, to a
   :class:`~ragrounds.extensions.construction.files.Product`, which
   :func:`ragrounds.extensions.construction.files.write_built` writes with a card of its provenance. A stage after the
   graph (experts) is counted from the items that the product drops.
5. **A request** in ``extensions/construction/requests.py``, whose fields are the command's options too; ten lines in
   ``extensions/construction/cli.py``.
"""

BASES = ("retrieval",)
