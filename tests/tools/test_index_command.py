"""`ragrounds index`: build, list, show, remove."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from ragrounds.api import index
from ragrounds.base.errors import UserError
from ragrounds.cli.index import index as index_app


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("RAGROUNDS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RAGROUNDS_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments, **options):
        return CliRunner().invoke(
            index_app, [str(argument) for argument in arguments], catch_exceptions=False, **options
        )

    return call


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("# Croup\n\nBarking cough.\n\n# Treatment\n\n" + "Dexamethasone helps. " * 60)
    (folder / "b.txt").write_text("Gout\x1b[31m and [bold]uric acid[/bold]")
    return folder


def test_build_list_show_remove(run, corpus, tmp_path):
    built = run(
        "build", "mine", "--from", corpus, "--chunker", "headings", "--retriever", "bm25[analyser=plain]", "--json"
    )
    found = json.loads(built.stdout)["index"]
    assert (found["documents"], found["chunker"]) == (2, "headings[most=1000,short=200]")
    assert found["passages"] > 2
    assert [engine["index"] for engine in found["engines"]] == ["bm25[analyser=plain,b=0.4,k1=0.9]"]
    again = json.loads(run("build", "mine", "--from", corpus, "--chunker", "headings", "--json").stdout)["index"]
    assert again["version"] == found["version"]
    other = json.loads(run("build", "other", "--from", corpus, "--json").stdout)["index"]
    assert other["version"] != found["version"]
    assert "mine" in run("ls").stdout
    assert [entry["name"] for entry in json.loads(run("ls", "--json").stdout)["indexes"]] == ["mine", "other"]
    assert json.loads(run("show", "mine", "--json").stdout)["index"]["source"].endswith("b.txt")
    assert "headings[most=1000,short=200]" in run("show", "mine").stdout
    assert run("rm", "mine", input="n\n").exit_code == 1
    assert run("rm", "mine", "--yes").exit_code == 0
    assert [entry["name"] for entry in json.loads(run("ls", "--json").stdout)["indexes"]] == ["other"]
    assert (corpus / "a.md").exists()


def test_earlier_versions_are_told_and_removed(run, corpus):
    run("build", "mine", "--from", corpus, "--chunker", "headings")
    (corpus / "c.txt").write_text("Grown")
    grown = run("build", "mine", "--from", corpus).stderr
    assert "3 files read" in grown
    former = grown.rpartition("`ragrounds index rm ")[2].partition("`")[0]
    shown = run("show", "mine").stdout
    assert "headings[most=1000,short=200]" in shown  # cut as before
    assert shown.count("documents, version") == 2
    assert run("rm", former, "--yes").exit_code == 0
    assert run("show", "mine").stdout.count("documents, version") == 1
    assert "nothing changed" in run("build", "mine", "--from", corpus).stderr


def test_bad_lines_are_counted_and_listed(run, tmp_path):
    file = tmp_path / "c.jsonl"
    file.write_text('{"id": "1", "text": "x"}\n{broken\n{"id": "1", "text": "again"}\n{"id": "2", "text": "y"}\n')
    with pytest.raises(UserError, match=r"line 2 .*`skip_bad`"):
        run("build", "c", "--from", file)
    half = json.loads(run("ls", "--json").stdout)["indexes"]
    assert [(entry["name"], entry["passages"]) for entry in half] == [("c", None)]
    assert "half-built" in run("ls").stdout
    found = json.loads(run("build", "c", "--from", file, "--skip-bad", "--json").stdout)
    assert (found["index"]["passages"], found["index"]["skipped"]) == (2, 2)
    assert [line.split(":")[0].split(" of ")[0] for line in found["passed_over"]] == ["line 2", "line 3"]


def damaged_json(folder, home):
    for path in [*folder.glob("*.json"), *folder.glob("*/*.json")]:
        path.write_bytes(b"junk{{{\xff")


def without_passages(folder, home):
    (folder / "passages.bin").unlink()


def cut_short(name):
    def _cut(folder, home):
        (folder / name).write_bytes((folder / name).read_bytes()[:3])

    return _cut


@pytest.fixture(scope="module")
def two_indexes(tmp_path_factory):
    """A home with two indexes of two versions each, to be copied, and the documents."""
    home, corpus = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("documents")
    (corpus / "a.md").write_text("# Croup\n\nBarking cough.")
    (corpus / "b.txt").write_text("Gout")
    for name in ("broken", "mine"):
        for _ in range(2):
            (corpus / f"{len(list(corpus.iterdir()))}.txt").write_text(f"more for {name}")
            index.build(name, corpus, home=home, progress=False)
    return home, corpus


DAMAGES = [damaged_json, without_passages, cut_short("passages.bin"), cut_short("offsets.u64")]


@pytest.mark.parametrize("harm", DAMAGES, ids=["json", "missing", "passages", "offsets"])
def test_a_damaged_index_hinders_no_other_and_is_removed(run, two_indexes, tmp_path, harm):
    home, corpus = two_indexes
    shutil.copytree(home, tmp_path / "home")
    version = index.describe("broken", home=home).versions[-1].version
    harm(tmp_path / "home" / "indexes" / "broken" / version, tmp_path / "home")
    listed = run("ls")
    assert [line.split()[1] for line in listed.stdout.splitlines() if line.split()[0] in ("broken", "mine")] == [
        "damaged",
        "6",
    ]
    assert "broken is damaged. " in listed.stderr
    assert f"`ragrounds index rm broken@{version}`" in listed.stderr
    found = json.loads(run("ls", "--json").stdout)["indexes"]
    assert [bool(one["damage"]) for one in found] == [True, False]
    assert f"`ragrounds index rm broken@{version}`" in " ".join(run("show", "broken").stdout.split())
    with pytest.raises(UserError, match=f"`ragrounds index rm broken@{version}`"):
        run("build", "broken", "--from", corpus)
    assert run("rm", f"broken@{version}", "--yes").exit_code == 0
    assert "damaged" not in run("ls").stdout
    assert run("rm", "broken", "--yes").exit_code == 0
    assert [one["name"] for one in json.loads(run("ls", "--json").stdout)["indexes"]] == ["mine"]
    assert run("build", "broken", "--from", corpus).exit_code == 0


def test_what_could_not_be_read_is_counted_once(run, corpus):
    (corpus / "a.pdf").write_text("no PDF")
    (corpus / "loop.txt").symlink_to(corpus.parent)
    run("build", "mine", "--from", corpus, "--skip-bad")
    told = run("show", "mine").stdout
    assert "skipped" in told
    assert not any(line.startswith("skipped") for line in told.splitlines())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["build", "../x", "--from", "sample"], "cannot name an index"),
        (["build", "x", "--from", "/nowhere"], "no '/nowhere'"),
        (["build", "x", "--from", "sample", "--chunker", "wordz"], "chunker"),
        (["show", "nothing"], "index ls"),
        (["rm", "../../etc", "--yes"], "index ls"),
    ],
)
def test_what_cannot_be_done_is_told(run, arguments, reason):
    with pytest.raises(UserError, match=reason):
        run(*arguments)
