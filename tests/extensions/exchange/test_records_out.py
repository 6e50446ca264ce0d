"""Model cards of Hugging Face."""

import pytest

from ragrounds.extensions.exchange.exporters import model_card
from ragrounds.extensions.exchange.formats import Export


def test_a_model_card_has_its_results(store, run, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    path = tmp_path / "card.md"
    (part,) = model_card.FORMAT.parts(Export(store, [run], model_card.ModelCardOptions("me/mine")))
    part.write(path)
    card = hub.ModelCard(path.read_text(encoding="utf-8"))
    (result,) = card.data.eval_results
    assert (card.data.model_name, result.metric_value, result.dataset_name) == ("me/mine", 25.0, "x/one")
