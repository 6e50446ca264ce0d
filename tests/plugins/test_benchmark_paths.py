"""A benchmark's family named by its import path: dataset, parameters and path behind it; typing errors; names taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.benchmarks import load
from ragrounds.evals.benchmarks.catalogue import family_path, parse_reference, typed_reference

CODE = """
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.family import Family
from ragrounds.base.records import Gold, Question

def items(source=None):
    wanted = source.text("word", "which") if source else "shipped"
    question = Question(id="own/1", benchmark="own/set", text=wanted + "?", options={"A": "x", "B": "y"})
    yield Item(question, Gold(question_id=question.id, answer="A"))

FAMILY = Family(name="own", items=items, file="any file", parameters=("word",), open=True)
SHIPPED = Family(name="own", items=items, file="any file", shipped=items)
TAKEN = Family(name="mirage", items=items, file="any file")
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "own_family.py").write_text(CODE)
    return f"{tmp_path}/own_family.py"


def test_dataset_parameters_and_path(file: str, home: Path) -> None:
    found = typed_reference(f'{file}:FAMILY/set[word="a:b]"]:some/file.txt')
    assert (found.name, found.path, found.parameters) == ("own/set", Path("some/file.txt"), {"word": "a:b]"})
    loaded = load(f"{file}:FAMILY[word=why]:{file}", home)
    assert (loaded.name, loaded.questions[0].text, loaded.card.license) == ("own/set", "why?", "not known")
    assert load(f"{file}:SHIPPED", home).questions[0].text == "shipped?"
    with pytest.raises(UserError, match="needs a path: `own:PATH`, where PATH is any file"):
        load(f"{file}:FAMILY", home)
    with pytest.raises(UserError, match="has no parameter 'wort'"):
        load(f"{file}:FAMILY[wort=x]:{file}", home)


def test_what_is_no_import_path(file: str) -> None:
    for reference in ("mirage", "mirage:file.json", "jsonl:questions", "mirage/pubmedqa:FILE", "csv[question=a:b]:x"):
        assert family_path(reference) == "", reference
    assert family_path("own_module:FAMILY:x.json") == "own_module:FAMILY"
    with pytest.raises(UserError, match=r"Unknown benchmark 'mirag'\. Did you mean 'mirage'"):
        typed_reference("mirag:folder")
    with pytest.raises(UserError, match="There is no module 'zzz_nothing'"):
        typed_reference("zzz_nothing:FAMILY")
    with pytest.raises(UserError, match="Unknown benchmark"):
        parse_reference(f"{file}:FAMILY")  # what is not typed by a user is never imported


@pytest.mark.parametrize(("name", "form"), [("own.jsonl", "jsonl"), ("own.csv", "csv"), ("own.tsv", "csv")])
def test_a_file_without_its_form(name: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="See `ragrounds data ls`"):
        typed_reference(name)  # there is no such file
    for given in (name, f"{tmp_path}/{name}"):
        Path(given).write_text("")
        with pytest.raises(UserError, match=f"That is a file: put `{form}:` before it"):
            typed_reference(given)


def test_a_name_that_ships_cannot_be_taken(file: str) -> None:
    with pytest.raises(UserError, match="has the name 'mirage', but a benchmark of this name ships"):
        typed_reference(f"{file}:TAKEN:x")
