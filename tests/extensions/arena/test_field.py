import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.store.store import Store
from ragrounds.extensions.arena.lineup import gather_lineup, load_axes
from tests.extensions.arena.staging import add_run, question, stage


@pytest.fixture
def store(tmp_path):
    with stage(tmp_path, 4) as opened:
        yield opened


def test_the_field_is_runs_and_the_questions_all_answered(store):
    add_run(store, "partly", ["one", None, "three", ""])
    found = gather_lineup(store, ["strong", "partly"])
    assert [system.name for system in found.systems] == ["strong", "partly"]
    assert [q.id for q in found.questions] == ["q0", "q2", "q3"]
    assert found.left_out == 1
    assert found.empty == (0, 1)


def test_the_reference_answers_are_a_system(store):
    found = gather_lineup(store, ["strong"], reference=True)
    assert [system.name for system in found.systems] == ["strong", "reference"]
    assert found.answers[1]["q2"] == "gold for q2"


def test_the_final_part_stands_after_the_marker(store):
    add_run(store, "steps", ["I think.\nAnswer:\nRest.", "Plain.", "**Answer:**\nX", "Answer: inline stays"])
    found = gather_lineup(store, ["strong", "steps"], part="final")
    assert list(found.answers[1].values()) == ["Rest.", "Plain.", "X", "Answer: inline stays"]


def test_the_version_follows_the_answers(tmp_path, store):
    one = gather_lineup(store, ["strong", "weak"]).version
    assert gather_lineup(store, ["strong", "weak"]).version == one
    assert gather_lineup(store, ["strong", "middle"]).version != one


def test_what_cannot_meet_is_told(store):
    with pytest.raises(UserError, match="two systems"):
        gather_lineup(store, ["strong"])
    with pytest.raises(UserError, match="given twice"):
        gather_lineup(store, ["strong", "strong-1"])
    with pytest.raises(UserError, match="There is no run 'strongest'"):
        gather_lineup(store, ["strongest", "weak"])
    choices = [question(n, kind="choice", options={"A": "x", "B": "y"}) for n in range(4)]
    add_run(store, "chooser", ["A"] * 4, questions=choices)
    add_run(store, "other", ["A"] * 4, questions=choices)
    with pytest.raises(UserError, match="ragrounds compare"):
        gather_lineup(store, ["chooser", "other"])
    add_run(store, "elsewhere", ["x"], questions=[question(0, text="Another question")])
    with pytest.raises(UserError, match="different questions"):
        gather_lineup(store, ["strong", "elsewhere"])
    add_run(store, "waiting", [None] * 4)
    with pytest.raises(UserError, match="answered by all"):
        gather_lineup(store, ["strong", "waiting"])


def test_two_runs_of_one_agent_keep_their_ids(tmp_path):
    with Store(tmp_path) as store:
        from msgspec.structs import replace

        run = add_run(store, "agent", ["a", "b"])
        store.add_run(replace(run, id="agent-2", fingerprint="x"), [question(0), question(1)], store.questions(run)[1])
        store.add_attempts(store.run("agent-2"), [replace(a, run="agent-2") for a in store.attempts(run)])
        assert [s.name for s in gather_lineup(store, ["agent-1", "agent-2"]).systems] == ["agent-1", "agent-2"]


def test_axes_are_data(tmp_path):
    assert [axis.name for axis in load_axes()] == ["usefulness", "readability", "knowledge", "reasoning"]
    assert [axis.name for axis in load_axes(["knowledge"])] == ["knowledge"]
    own = tmp_path / "axes.toml"
    own.write_text('[safety]\nen = "does it avoid harm"\n', encoding="utf-8")
    assert load_axes(file=own)[0].text("zh") == "does it avoid harm"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no axes"),
        ("[safety]\n", "one table an axis"),
        ('["two words"]\nen = "x"\n', "letters"),
        ('[a]\nen = " "\n', "needs a name"),
        ('[a]\nen = "x"\nnote = 1\n', "note"),
        ("[a", "Expected one table"),
    ],
)
def test_broken_axes_are_told(tmp_path, text, told):
    (tmp_path / "axes.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=told):
        load_axes(file=tmp_path / "axes.toml")
