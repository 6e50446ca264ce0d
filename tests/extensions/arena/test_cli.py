"""The commands, with a judge made of Python in place of a model."""

import json

import pytest
from typer.testing import CliRunner

import ragrounds as rr
import ragrounds.evals.engine.plan  # it binds open_model: before a test replaces that, or it keeps the replacement
from ragrounds.base.errors import UserError
from ragrounds.extensions.arena.cli import arena as arena_app
from ragrounds.extensions.arena.functions import show_arena
from tests.extensions.arena.staging import by_strength, stage
from tests.judges.doubles import Scripted
from tests.servers.process import openai_server


@pytest.fixture
def judges(monkeypatch):
    """Judges by name; every model that is opened is one of them."""
    opened = {}

    def open_scripted(text, *_):
        name = str(text)
        return opened.setdefault(name, Scripted(_four, name))

    monkeypatch.setattr("ragrounds.api.servers.open_model", open_scripted)
    return opened


def _four(prompt, occurrence):
    word = json.loads(by_strength(prompt))["usefulness"]
    return json.dumps(dict.fromkeys(("usefulness", "readability", "knowledge", "reasoning"), word))


@pytest.fixture
def run(home):
    stage(home, 20).close()

    def invoke(*arguments, **more):
        done = CliRunner().invoke(arena_app, list(arguments), catch_exceptions=True, **more)
        if isinstance(done.exception, UserError):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done

    return invoke


PLAY = ("play", "strong", "middle", "weak", "--judge", "openai:j", "--schedule", "full", "--resamples", "100")


def test_play_show_and_list(run, judges):
    played = run(*PLAY, "--json")
    report = json.loads(played.stdout)
    assert [axis["axis"] for axis in report["axes"]] == ["usefulness", "readability", "knowledge", "reasoning"]
    assert report["axes"][0]["ratings"]["rows"][0]["system"] == "strong"
    assert [spent["calls"] for spent in report["costs"].values()] == [120]
    shown = run("show", "--json", "--resamples", "100")
    assert json.loads(shown.stdout) == report
    listed = json.loads(run("ls", "--json").stdout)["arenas"]
    assert [row["id"] for row in listed] == [report["id"]]
    text = run("show", report["id"][:9], "--resamples", "100", "--full").stdout
    assert "usefulness: 60 matches" in text
    assert "strong never lost a point" in text


def test_the_same_command_goes_on_and_another_setting_is_another_arena(run, judges):
    run(*PLAY)
    asked = len(judges["openai:j"].requests)
    again = run(*PLAY)
    assert len(judges["openai:j"].requests) == asked
    assert "0 model calls made" in again.stderr
    run(*PLAY, "--seed", "1")
    first, second = json.loads(run("ls", "--json").stdout)["arenas"]
    assert f"Removed {second['id']}" in run("rm", second["id"], "--yes").stderr
    assert [one["id"] for one in json.loads(run("ls", "--json").stdout)["arenas"]] == [first["id"]]
    assert "0 model calls made" in run(*PLAY, "--seed", "1").stderr  # recorded calls stay


def test_plan_asks_nobody(run, judges):
    together, apart = json.loads(run(*PLAY, "--plan", "--json").stdout)["estimates"]
    assert (together["judge_calls"], apart["judge_calls"]) == (120, 480)
    assert judges["openai:j"].requests == []
    assert "120 judge calls" in run(*PLAY, "--plan").stdout
    assert json.loads(run("ls", "--json").stdout)["arenas"] == []


@pytest.mark.slow
def test_votes_from_the_keyboard(run, judges):
    run(*PLAY)
    cast = run("vote", "--voter", "ann", "--axis", "usefulness", "--limit", "3", input="1\nt\n2\n")
    assert "3 votes kept" in cast.stderr
    report = json.loads(run("show", "--json", "--resamples", "100").stdout)
    assert report["votes"] == 3
    assert any(pair["other"] == "voter ann" for pair in report["axes"][0]["agreement"])


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--schedule", "fulll"), "'full'"),
        (("--calls", "apat"), "'apart'"),
        (("--orders", "none"), "both, one"),
        (("--axis", "style"), "usefulness|axis"),
        (("--judge", "openai:j"), "given twice"),
        (("--journal", "again"), "reuse"),
    ],
)
def test_bad_options_are_told(run, judges, more, told):
    with pytest.raises(UserError, match=told):
        run(*PLAY, *more)


def test_without_any_verdict_the_exit_code_is_3(home, monkeypatch):
    stage(home, 20).close()
    monkeypatch.setattr("ragrounds.api.servers.open_model", lambda text, *_: Scripted(lambda *_: "Hm.", str(text)))
    done = CliRunner().invoke(arena_app, list(PLAY))
    assert done.exit_code == 3, done.output
    assert "No ranking" in done.output


def test_an_arena_that_is_not_there_is_told(run, judges):
    with pytest.raises(UserError, match="no arena yet"):
        run("show")
    run(*PLAY)
    with pytest.raises(UserError, match="matches no arena"):
        run("show", "arena-zzz")


def test_answers_that_changed_are_told(run, judges, home):
    from msgspec.structs import replace

    from ragrounds.evals.store.store import Store

    run(*PLAY)
    with Store(home) as store:
        changed = store.run("weak")
        store.add_attempts(changed, [replace(store.attempt(changed, "q3"), text="another answer")])
    with pytest.raises(UserError, match="different answers than"):
        run("show")


@pytest.mark.slow
def test_another_model_that_judges_is_noted(command, home):
    stage(home, 4).close()
    play = ("arena", "play", "strong", "weak", "--schedule", "full", "--tries", "1", "--resamples", "100", "--json")
    with openai_server("--says", "j,cheap") as server:
        report = json.loads(command(*play, "--judge", "openai:j", "--base-url", server.url).stdout)
        asked = server.stats()["asked"]
    assert f"Judges' calls were answered by cheap in {asked - 1} of {asked} calls, asked j." in report["notes"]
    assert json.loads(command("arena", "show", "--json", "--resamples", "100").stdout)["notes"] == report["notes"]


@pytest.mark.slow
def test_systems_play_under_names_of_their_own(run, judges, home):
    names = ("--as", "strong=GPT-4 <b>+</b> RAG", "--as", "weak=No search")
    played = json.loads(run(*PLAY, *names, "--json").stdout)
    assert played["names"] == ["GPT-4 <b>+</b> RAG", "middle", "No search"]
    assert played["axes"][0]["ratings"]["rows"][0]["system"] == "GPT-4 <b>+</b> RAG"
    assert [system["name"] for system in played["arena"]["systems"]] == ["strong", "middle", "weak"]
    plain = run(*PLAY, "--json")
    assert json.loads(plain.stdout)["id"] == played["id"]  # a name is no part of the arena
    assert "0 model calls made" in plain.stderr
    shown = run("show", "--resamples", "100", *names).stdout
    assert "GPT-4 <b>+</b> RAG never lost a point" in shown
    assert "strong" not in shown.replace("--", "")
    frame = show_arena(names={"weak": "No search"}).to_pandas("ratings")
    assert dict(zip(frame["system"], frame["name"], strict=True)) == {
        "strong": "strong",
        "middle": "middle",
        "weak": "No search",
    }
    report = home / "report.html"
    rr.report(["strong", "middle", "weak"], report, names={"strong": "GPT-4 <b>+</b> RAG"})
    assert "GPT-4 &lt;b&gt;+&lt;/b&gt; RAG" in report.read_text(encoding="utf-8").partition("Arena</h2>")[2]
    with pytest.raises(UserError, match="matches none of the runs"):
        run("show", "--as", "stronk=x")
