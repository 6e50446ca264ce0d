"""`ragrounds index`: build, list, show, remove."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from ragrounds.api import index
from ragrounds.cli.index import index as index_app
from ragrounds.errors import UserError


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


def test_an_index_is_changed(run, corpus, tmp_path):
    run("build", "mine", "--from", corpus)
    more = tmp_path / "more"
    more.mkdir()
    (more / "c.txt").write_text("Croup again")
    added = run("add", "mine", "--from", more)
    assert "1 file read" in added.stderr
    assert "generation 2: 1 added, 2 unchanged" in added.stderr
    assert "`ragrounds index prune`" in added.stderr
    with pytest.raises(UserError, match=r"documents were added to it from .*more, which would go"):
        run("build", "mine", "--from", corpus)
    assert "generation 3: 1 removed, 2 unchanged" in run("delete", "mine", "a.md").stderr
    assert "3 of 3" in run("ls").stdout
    told = run("show", "mine").stdout
    assert "delete: 1 removed, 2 unchanged; searched" in told
    assert "add: 1 added, 2 unchanged; not needed any more" in told
    looked = json.loads(run("prune", "--dry-run", "--json").stdout)["generations"]
    assert [one["generation"]["number"] for one in looked] == [1, 2]
    with pytest.raises(UserError, match="Nothing was removed: give `confirmed=True`"):
        run("prune")
    assert "removed 2" in run("prune", "--yes").stderr
    assert "there is no generation to remove" in run("prune", "--yes").stderr


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


def without_pointer(folder, home):
    (folder.parent.parent / "current.json").write_text("junk{{{")


@pytest.fixture(scope="module")
def two_indexes(tmp_path_factory):
    """A home with two indexes of two generations each, to be copied, and the documents."""
    home, corpus = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("documents")
    (corpus / "a.md").write_text("# Croup\n\nBarking cough.")
    (corpus / "b.txt").write_text("Gout")
    for name in ("broken", "mine"):
        for _ in range(2):
            (corpus / f"{len(list(corpus.iterdir()))}.txt").write_text(f"more for {name}")
            index.build(name, corpus, home=home, progress=False)
    return home, corpus


DAMAGES = [damaged_json, without_passages, cut_short("passages.bin"), cut_short("offsets.u64"), without_pointer]


@pytest.mark.parametrize("harm", DAMAGES, ids=["json", "missing", "passages", "offsets", "pointer"])
def test_a_damaged_index_hinders_no_other_and_is_removed(run, two_indexes, tmp_path, harm):
    home, corpus = two_indexes
    shutil.copytree(home, tmp_path / "home")
    harm(tmp_path / "home" / "indexes" / "broken" / "generations" / "0002", tmp_path / "home")
    listed = run("ls")
    assert [line.split()[1] for line in listed.stdout.splitlines() if line.split()[0] in ("broken", "mine")] == [
        "damaged",
        "6",
    ]
    assert "broken is damaged. " in listed.stderr
    assert "`ragrounds index rm broken`" in listed.stderr
    found = json.loads(run("ls", "--json").stdout)["indexes"]
    assert [bool(one["damage"]) for one in found] == [True, False]
    assert "`ragrounds index rm broken`" in " ".join(run("show", "broken").stdout.split())
    for command in (["build", "broken", "--from", corpus, "--yes"], ["prune", "broken"]):
        with pytest.raises(UserError, match="`ragrounds index rm broken`"):
            run(*command)
    pruned = run("prune", "--yes")
    assert "removed 1" in pruned.stderr
    assert "broken is damaged and was passed over" in pruned.stderr
    assert run("rm", "broken", "--yes").exit_code == 0
    assert [one["name"] for one in json.loads(run("ls", "--json").stdout)["indexes"]] == ["mine"]
    assert run("build", "broken", "--from", corpus).exit_code == 0


def test_a_build_again_keeps_the_chunker_of_the_index(run, corpus):
    run("build", "mine", "--from", corpus, "--chunker", "headings")
    (corpus / "c.txt").write_text("Grown")
    assert "generation 2: 1 added, 2 unchanged" in run("build", "mine", "--from", corpus).stderr
    with pytest.raises(UserError, match=r"it was cut with headings\[.*, now with none"):
        run("build", "mine", "--from", corpus, "--chunker", "none")


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
