"""Benchmark construction: pipelines as LangGraph graphs, replayed like any agent.

A pipeline turns *items* (case reports, queries) into a benchmark. Each item is the question of a run whose agent is the
pipeline's graph, so journal, trace, ledger, caps, budget, retries and resuming are those of every run. A new one is:

1. **A graph**, ``build/NAME/graph.py`` with ``build()`` and ``PROMPTS``: :func:`ragrounds.build.stages.in_line` joins
   stages, each an async function of state and :class:`ragrounds.contracts.Context`. A stage gives changes of the state,
   or raises :class:`~ragrounds.build.stages.Rejected` with one of a few reasons (they are counted) and a detail; the
   last gives :func:`~ragrounds.build.stages.kept`. It asks a model by :func:`~ragrounds.build.stages.ask_for`, which
   reads a JSON object into a record, asks once more where that fails, and then rejects the item. What is asked of a
   part of an item alone goes through :func:`~ragrounds.build.parts.of_part`, so that a refusal costs that part. A graph
   sees the item's question alone, never its gold. Prompts stand under ``prompts/build``.
2. **A** :class:`~ragrounds.build.pipeline.Pipeline`: name, graph, stages in order, parameters with defaults.
3. **An intake** (:func:`ragrounds.build.intake.take_in`): from files to items, with what is dropped before any model is
   asked and why.
4. **A finish**: from :class:`~ragrounds.build.running.Result` (every item's outcome, in order) to the files of a
   benchmark, written by :func:`ragrounds.build.writing.write_built` with a card of how it was made. Stages after the
   graph (experts) add a :class:`~ragrounds.build.counting.StageCount` each.
5. **A command** in ``cli/build_NAME.py``: options, then :func:`ragrounds.cli.build.carried_out`.
"""
