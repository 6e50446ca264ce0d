"""The stages: what each trains, what it leaves alone, and that it learns."""

import numpy as np
import pytest

from ragrounds.base.errors import UserError
from tests.extensions.training.tiny import needs_torch, sentence

needs_torch()


def weights(opened):
    return {key: value.clone() for key, value in opened.state_dict().items()}


def changed(one, other):
    import torch

    assert one.keys() == other.keys()
    return {key for key in one if not torch.equal(one[key], other[key])}


def test_stage_1_moves_the_student_to_the_frozen_encoder(opened):
    steps = []
    from ragrounds.extensions.training.pipeline import TrainingListeners

    run = opened(told=TrainingListeners(step=steps.append))
    state = run.recipe("stage-1")
    assert state.document == ""  # it is the teacher's own, untouched
    texts = run.material.texts
    theirs = run.frozen(run.start)(texts)

    def distance(at):
        mine = run.open_query(at).encode(texts, show_progress_bar=False)
        return ((mine - theirs) ** 2).sum(axis=1).mean()

    before, after = distance(run.start), distance(state)
    assert after < before / 4
    spent = next(iter(run.spent(state).values()))
    assert spent.losses[-1] < spent.losses[0]
    assert spent.steps == steps[-1].step == steps[-1].steps == 4 * (len(texts) // 8)
    assert spent.processor > 0
    assert spent.peak > 2**20
    assert spent.device_peak == 0  # there is no GPU
    assert spent.tokens == 16 * spent.examples  # twelve words, two full stops, and the marks of beginning and end


def test_only_the_layers_asked_for_are_kept(opened):
    run = opened(student="layers = [0, 2]")
    query, teacher = run.open_query(run.start), run.open_document(run.start)
    assert query[0].model.config.num_hidden_layers == len(query[0].model.encoder.layer) == 2
    mine, theirs = weights(query[0].model.encoder.layer[1]), weights(teacher[0].model.encoder.layer[2])
    assert not changed(mine, theirs)
    with pytest.raises(UserError, match="no layer 7: it has 3"):
        opened(student="layers = [7]").recipe("stage-1")


def test_joint_training_changes_both_encoders(opened):
    run = opened()
    first, last = run.recipe("stage-1"), run.recipe("both")
    assert last.stages[0] == first.stages[0]  # the first stage is shared, not made again
    assert changed(weights(run.open_query(first)), weights(run.open_query(last)))
    assert changed(weights(run.open_document(first)), weights(run.open_document(last)))


def test_lora_changes_linear_layers_alone_and_is_merged(opened):
    run = opened(lora="lora = {rank = 2, alpha = 4}")
    state = run.recipe("both")
    different = changed(weights(run.open_document(run.start)), weights(run.open_document(state)))
    assert different
    assert all("dense" in key or "query" in key or "key" in key or "value" in key for key in different)
    assert not any("bias" in key or "embeddings" in key for key in different)


def test_a_distilled_student_is_both_encoders(opened):
    run = opened()
    state = run.recipe("distilled")
    assert state.symmetric
    query, document = run.open_query(state), run.open_document(state)
    assert not changed(weights(query), weights(document))
    assert query.max_seq_length == 32  # the stage's 16 were for training alone


def test_supervised_alignment_is_another_stage_1(opened):
    run = opened()
    one, other = run.recipe("stage-1"), run.recipe("supervised")
    assert one.key != other.key
    assert changed(weights(run.open_query(one)), weights(run.open_query(other)))


def test_independent_initialisation_of_both(opened):
    run = opened()
    state = run.recipe("whole")
    assert [stage.rpartition("/")[2].rpartition("-")[0] for stage in state.stages] == [
        "first-query",
        "first-document",
        "align",
        "joint",
    ]
    assert changed(weights(run.open_document(run.start)), weights(run.open_document(state)))


def test_a_larger_document_encoder_is_cut_to_the_query_encoders_dimensions(opened, wide):
    run = opened(document=wide)
    assert run.dimensions == 16
    document = run.open_document(run.start)
    whole = opened(document=wide, query=wide, out="other")
    text = [sentence(1)]
    cut = whole.open_document(whole.start).encode(text)[:, :16]
    np.testing.assert_allclose(document.encode(text), cut / np.linalg.norm(cut), atol=1e-6)
    state = run.recipe("both")
    trained = run.open_document(state)
    kept = [module.linear.weight for module in trained if type(module).__name__ == "Dense"]
    np.testing.assert_array_equal(kept[0].detach().numpy(), np.eye(16, 24))  # the cut is never trained


def test_the_diversity_filter_and_mining_are_part_of_the_data(opened):
    run = opened("diversity={seeds=10, queries=0.9, documents=0.9}", "mining={candidates=5, keep=2}")
    counts = run.material.counts
    assert counts.texts < counts.texts_read
    assert counts.candidates == counts.negative + counts.positive + counts.unsaid > 0
    assert {len(example.negatives) for example in run.material.examples} <= {1, 2}  # one was given
    assert run.material.key != opened(out="other").material.key


def test_too_few_hard_negatives(opened):
    with pytest.raises(UserError, match="uses 3 hard negatives a query, and 0 of 40 examples have so many"):
        opened("stage.joint.negatives=3").recipe("both")


def test_a_model_that_is_not_there(opened, tmp_path):
    with pytest.raises(UserError, match="cannot be loaded"):
        opened(query=str(tmp_path)).recipe("stage-1")
