"""Repetition of last calls: what is asked twice, what it shows, and that it changes no figure of the run."""

import math
from collections import Counter
from types import SimpleNamespace

import pytest

import ragrounds as rr
from ragrounds.api.runs import remove_run
from ragrounds.base.settings import Settings
from ragrounds.evals.engine.derived_runs import plan_repetition
from ragrounds.evals.engine.plan import PlannedRun
from ragrounds.evals.stats.intervals import identical_runs_bound
from ragrounds.evals.store.store import Store
from ragrounds.ui.tables.comparison_warnings import limitation_sentences
from tests.compare.making import add_run, questions
from tests.servers.scripted_http import scripted

ASKED = 10


def answer(letter):
    return f'{{"step_by_step_thinking": "So.", "answer_choice": "{letter}"}}'


def run(server, home, agent="direct", repeat=4):
    return rr.run("sample", agent, model="openai:m", base_url=server.url, limit=ASKED, repeat=repeat, home=home,
                  confirmed=True, progress=False)  # fmt: skip


def test_only_the_requested_questions_are_asked_twice_and_no_figure_changes(tmp_path):
    with scripted(lambda prompt, before: answer("AB"[before])) as server:
        plain = run(server, tmp_path / "plain", repeat=0)
        server.asked.clear()
        repeated = run(server, tmp_path / "repeated")
        assert Counter(server.asked.values()) == {2: 4, 1: ASKED - 4}
        assert run(server, tmp_path / "repeated").made == 0
    figures, plain_figures = (
        [table.lines[0].overall for table in result.comparison.tables] for result in (repeated, plain)
    )
    assert figures == plain_figures
    assert repeated.comparison.rows[0].model_calls == ASKED
    assert plain.comparison.noise == ()
    [noise] = repeated.comparison.noise
    assert (noise.texts.value, noise.texts.n, noise.is_lower_bound) == (1.0, 4, False)
    assert "The same last calls, made again, changed 100 % of the texts (95 %: " in " ".join(str(repeated).split())


def test_a_repetition_is_read_with_its_run_and_removed_with_it(tmp_path):
    with scripted(lambda prompt, before: answer("A")) as server:
        result = run(server, tmp_path)
    [noise] = result.comparison.noise
    assert (noise.texts.value, noise.scores.value, noise.square) == (0.0, 0.0, 0.0)
    assert "made again" not in str(result)
    with Store(tmp_path) as store:
        sentences = limitation_sentences(store, result.runs, result.comparison, (), {result.runs[0].id: "direct"})
        assert any(sentence.startswith("The same last calls, made again, changed 0 %") for sentence in sentences)
        repetition = store.repetition(result.runs[0])
        assert [stored.id for stored in store.runs()] == [result.runs[0].id]
        assert store.counterfactuals(result.runs[0]) == []
    with pytest.raises(rr.UserError, match="repeats last calls of direct-"):
        rr.compare([repetition.id], home=tmp_path)
    remove_run(result.runs[0].id, Settings(home=tmp_path))
    with Store(tmp_path) as store:
        assert store.runs(counterfactuals=True) == []


def test_of_several_calls_only_the_last_is_made_again(tmp_path):
    with scripted(lambda prompt, before: '{"accept": true}' if "critique" in prompt else answer("A")) as server:
        result = run(server, tmp_path, agent="critique")
        assert result.made == result.comparison.rows[0].model_calls + 4
    [noise] = result.comparison.noise
    assert noise.is_lower_bound


def test_runs_with_different_numbers_of_attempts_in_flight_are_named(tmp_path):
    def two_runs(*concurrency):
        runs = [
            rr.run("sample", agent, model="openai:m", base_url=server.url, limit=2, concurrency=number, home=tmp_path,
                   progress=False).runs[0].id
            for agent, number in zip(("direct", "direct_cot"), concurrency, strict=True)
        ]  # fmt: skip
        notes = rr.compare(runs, home=tmp_path).comparison.notes
        return runs, [note for note in notes if "in flight" in note]

    with scripted(lambda prompt, before: answer("A")) as server:
        (first, second), [note] = two_runs(3, None)
        assert note.startswith(f"Attempts in flight differ: 3 for {first}; 16 for {second}. Answers may depend on")
        assert "`ragrounds doctor --model MODEL --concurrency N`" in note
        for id in (first, second):
            remove_run(id, Settings(home=tmp_path))
        assert two_runs(16, None)[1] == []


class Model:
    """Model of a price in dollars; ``None`` if it is not known."""

    def __init__(self, server, dollars):
        self.spec, self.dollars = f"openai:m[server={server}]", dollars

    def price(self, reply):
        return self.dollars


HERE, ELSEWHERE = "http://127.0.0.1:8000/v1", "https://models.example/v1"


@pytest.mark.parametrize(
    ("calls", "count", "server", "dollars", "repeated"),
    [
        (10, None, HERE, None, 9),
        (9, None, HERE, None, 0),
        (100, None, HERE, None, 20),
        (10, None, HERE, 0.1, 0),
        (10, None, ELSEWHERE, None, 0),
        (10, 5, ELSEWHERE, 0.1, 5),
        (10, 0, HERE, None, 0),
    ],
)
def test_what_is_repeated_unasked_is_free_and_few(tmp_path, calls, count, server, dollars, repeated):
    with Store(tmp_path) as store:
        asked = questions(30)
        parent = add_run(store, "direct", asked, [1] * 30, identity={"tier": "journaled"}, model_calls=calls)
        planned = PlannedRun(agent=None, models={"model": Model(server, dollars)}, searcher=None, run=parent)
        benchmark = SimpleNamespace(questions=asked, golds=store.questions(parent)[1])
        plan = plan_repetition(store, planned, benchmark, count, 0)
    assert (len(plan[1]) if plan else 0) == repeated


def test_identical_runs_differ_by_twice_the_variance():
    assert identical_runs_bound(2 * 0.25, 100) == pytest.approx(1.959964 * math.sqrt(2 * 0.25 / 100))
