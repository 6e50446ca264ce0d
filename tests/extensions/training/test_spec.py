"""The training file, and what is said of a wrong one. Needs no torch."""

import importlib.util

import pytest

from ragrounds.base.errors import UserError
from ragrounds.extensions.training.spec import Lora, Stage, read_training
from tests.extensions.training.tiny import write_file


@pytest.fixture
def file(tmp_path):
    return write_file(tmp_path, "/world", "some/model", lora="lora = {rank = 4}")


def test_a_file_is_read(file):
    training = read_training(file)
    assert training.query.layers == (0,)
    assert training.document.lora == Lora(rank=4, alpha=64)
    assert training.stage["align"] == Stage(kind="align", epochs=4, batch=8, rate=1e-2, checkpoint=5)
    assert training.recipe["both"] == ("align", "joint")
    assert training.evaluate[0].split == "test"


def test_the_papers_values_are_the_defaults(file):
    """Equation 3's weights, Table 14, Table 17, Appendix B.1 and C.3."""
    training = read_training(file, ["diversity={}", "mining={}", "document.lora={}"])
    stage = Stage(kind="align")
    assert (stage.contrastive, stage.mse, stage.rate, stage.warmup) == (1, 1, 1e-4, 0.05)
    filter = training.diversity
    assert (filter.seeds, filter.neighbours, filter.most, filter.queries, filter.documents) == (5000, 5, 1, 0.85, 0.78)
    assert training.mining.candidates == 50
    assert (training.document.lora.rank, training.document.lora.alpha) == (32, 64)


def test_changes_stand_over_the_file(file):
    training = read_training(file, ["query.layers=[0, 2]", 'device = "cuda:1"', "stage.align.rate=0.5", "seed=9"])
    assert (training.query.layers, training.device) == ((0, 2), "cuda:1")
    assert (training.stage["align"].rate, training.stage["align"].batch, training.seed) == (0.5, 8, 9)


def test_variables_are_filled_in(file, monkeypatch):
    monkeypatch.setenv("WEIGHTS", "/weights")
    assert read_training(file, ['query.model="$WEIGHTS/small"']).query.model == "/weights/small"
    assert read_training(file, ['query.model="${WEIGHTS}b"']).query.model == "/weightsb"
    with pytest.raises(UserError, match=r"uses \$NOWHERE_SET.*is not set"):
        read_training(file, ['query.model="$NOWHERE_SET"'])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("sed=1", r"unknown field `sed`.*Did you mean 'seed'"),
        ("stage.align.rates=1", r"unknown field `rates`.*'rate'"),
        ('stage.align.kind="allign"', "Invalid enum value 'allign'"),
        ('query.layers=["a"]', "Expected `int`, got `str`"),
        ('recipe.care=["algn"]', r"has the unknown stage 'algn'.*Did you mean 'align'"),
        ("recipe.teacher=[]", "cannot be called 'teacher'"),
        ("recipe.vectors=[]", "cannot be called 'vectors'"),
        ("pairs=[]", r"trains on labelled pairs: give \[\[pairs\]\]"),
        ("texts=[]", r"trains on texts: give \[\[texts\]\]"),
        ("texts=[{}]", "0 sources.*expected one of source, file"),
        ('pairs=[{file="a", benchmark="beir:b"}]', "2 sources"),
        ('texts=[{file="a"}]', "give the fields"),
        ("stage.align.epochs=0", r"Expected `int` >= 1.*epochs"),
        ("stage.align.temperature=0", r"Expected `float` > 0.*temperature"),
        ("stage.align={kind='align', contrastive=0, mse=0}", "sum of the losses' weights is above 0"),
        ("stage.joint.batch=1", "no other text"),
        ("query.layers", "expected KEY=VALUE"),
        ("query.model=minilm", "texts need quotes"),
        ("name.first=1", "holds no fields"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(file, change, said):
    with pytest.raises(UserError, match=said) as raised:
        read_training(file, [change])
    assert "\n" not in str(raised.value)


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(UserError, match=r"Cannot read the training file.*No such file"):
        read_training(tmp_path / "absent.toml")
    (tmp_path / "broken.toml").write_text("name = ")
    with pytest.raises(UserError, match="is not TOML"):
        read_training(tmp_path / "broken.toml")


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed here")
@pytest.mark.parametrize("name", ["care", "evaluate"])
def test_without_the_extra_one_line_says_what_to_install(command, file, name):
    done = command("train", name, str(file))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "install ragrounds[train]" in done.stderr


def test_unknown_names_on_the_command_line(command, file):
    done = command("train", "care", str(file), "--recipe", "bth")
    assert done.returncode == 2
    assert "--recipe 'bth' is unknown. Did you mean 'both'?" in done.stderr
