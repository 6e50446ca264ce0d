"""What is said before figures: no language model, a scorer's default letter, datasets of a few questions."""

from __future__ import annotations

import msgspec
import pytest

from ragrounds.evals.compare.comparison import compare, no_model
from ragrounds.evals.store.store import Store
from ragrounds.ui.tables.comparison_warnings import average_heading, drawn_words, limitation_sentences
from ragrounds.ui.tables.one_screen import conclusion_lines
from tests.compare.making import add_run, questions

COUNT = 12


def test_a_limitation_follows_the_scorer(store: Store) -> None:
    run = add_run(store, "mine", questions(COUNT), [1] * COUNT, id="mine", scorer="robust")
    unread = dict.fromkeys(range(6), "unreadable")
    read = add_run(store, "read", questions(COUNT), [1] * COUNT, scorer="mirage", answer_statuses=unread)
    store.add_scores(run, store.scores(read))
    made = compare(store, [run], scorers=["mirage", "robust"])

    def said(scorer: str) -> str:
        return " ".join(limitation_sentences(store, [run], made, [scorer], {"mine": "mine"}))

    assert "mirage can read no choice; it counts them as A, which is right wherever A is" in said("mirage")
    assert "Of 12 attempts each: mine 6." in said("mirage")
    assert "not right" not in said("mirage")
    assert "can read no choice" not in said("robust")


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("baseline:extractive", "extractive"),
        ("openai:stand-in[base_url=http://127.0.0.1:1/v1]", "stand-in"),
        ("openai:any[alias=stand-in,temperature=0]", "stand-in"),
        ("openai:gpt-4o-mini", ""),
    ],
)
def test_what_is_no_language_model_is_said(store: Store, model: str, kind: str) -> None:
    run = add_run(store, "one", questions(COUNT), [1] * COUNT, id="one")
    run = msgspec.structs.replace(run, identity={**run.identity, "models": {"model": model}})
    assert no_model(run, ()) == kind


def test_a_server_that_names_itself_the_stand_in_is_known(store: Store) -> None:
    run = add_run(store, "one", questions(COUNT), [1] * COUNT, id="one")
    told = {"openai:any http://127.0.0.1:1/v1": {"id": "stand-in", "owned_by": "ragrounds"}}
    assert no_model(msgspec.structs.replace(run, servers=told), ()) == "stand-in"


def test_a_system_that_calls_the_stand_in_itself_is_named_with_the_run_that_asked_the_server(store: Store) -> None:
    server = "openai:any[server=http://127.0.0.1:1/v1]"
    own, other, asked = (add_run(store, id, questions(COUNT), [1] * COUNT, id=id) for id in ("own", "other", "asked"))
    own = msgspec.structs.replace(own, identity={**own.identity, "models": {"model": server}})
    asked = msgspec.structs.replace(asked, servers={server: {"id": "stand-in"}})
    assert [row.no_model for row in compare(store, [own, other, asked]).rows] == ["stand-in", "", "stand-in"]
    later = msgspec.structs.replace(own, servers={server: {"id": "vllm"}})  # at the same address
    assert no_model(later, (later, asked)) == ""


def test_cautions_name_the_runs_where_others_asked_a_model(store: Store) -> None:
    runs = [add_run(store, id, questions(COUNT), [1] * COUNT, id=id) for id in ("one", "two")]
    made, names = compare(store, runs), {run.id: run.agent for run in runs}
    assert "No language model" not in "".join(conclusion_lines(made, (), names))
    first, second = made.rows
    made = msgspec.structs.replace(made, rows=(msgspec.structs.replace(first, no_model="extractive"), second))
    assert conclusion_lines(made, (), names)[-1] == (
        "The figures of one come from a built-in word-matching baseline, not a language model."
    )
    assert next(limitation_sentences(store, runs, made, (), names)).startswith("Answers of no language model show")


def test_the_heading_of_an_average_names_its_datasets(store: Store) -> None:
    asked = [*questions(2, "x/a"), *questions(2, "x/b")]
    assert (
        average_heading(compare(store, [add_run(store, "one", asked, [1, 0, 1, 0])]).tables[0])
        == "average of 2 datasets"
    )
    assert average_heading(compare(store, [add_run(store, "two", asked[:2], [1, 0])]).tables[0]) == ""


def test_a_limit_that_leaves_a_dataset_a_few_questions_names_the_other_option() -> None:
    said = drawn_words({"m/a": 1, "m/b": 39}, 40)
    assert said.startswith("With --limit 40, 1 dataset has fewer than 10 questions (a 1)")
    assert said.endswith("--per-dataset 20 draws as many of each.")
    assert drawn_words({"m/a": 4}, 4) == ""
    assert drawn_words({"m/a": 10, "m/b": 30}, 40) == ""
