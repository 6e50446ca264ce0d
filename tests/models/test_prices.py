"""Prices: the user's own over the dated list; cached, reasoning; the GPU-hour; unknown stays unknown."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Reply, Usage
from ragrounds.models.prices import Price, listed_price, read_prices
from ragrounds.models.providers import open_model

USAGE = Usage(input=1000, output=100, cached=400, reasoning=60)


def test_each_kind_of_token_has_its_price() -> None:
    plain = Price(input=1.0, output=10.0)
    assert plain.dollars(USAGE) == pytest.approx((1000 + 1000) / 1e6)
    assert Price(input=1, output=10, cached=0.1).dollars(USAGE) == pytest.approx((600 + 40 + 1000) / 1e6)
    assert Price(input=1, output=10, reasoning=20).dollars(USAGE) == pytest.approx((1000 + 400 + 1200) / 1e6)


def test_an_embedder_is_priced_by_what_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('["openai:hashes"]\ninput = 0.02\n')
    price = read_prices(tmp_path)["openai:hashes"]
    assert price.dollars(Usage(input=1_000_000)) == pytest.approx(0.02)
    assert price.dollars(Usage(input=1, output=1)) is None  # a text has no known price without one for output


def test_what_a_price_depends_on_and_is_not_known_leaves_it_unknown() -> None:
    assert Price(input=1, output=10).dollars(None) is None
    assert Price(gpu_hour=2.5).dollars(USAGE) is None
    assert Price(gpu_hour=2.5, gpus=4).dollars(None, 36.0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "text",
    [
        "output = 1",
        "cached = 1",
        "input = 1\noutput = 1\ngpu_hour = 2",
        "gpu_hour = -1",
        "input = 1\noutput = nan",
        "input = 1\noutput = 1\ncahced = 0.5",
    ],
)
def test_a_wrong_price_is_one_line_with_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(f'["openai:m"]\n{text}\n')
    with pytest.raises(UserError, match=r"prices\.toml, 'openai:m': .*Expected one table a model"):
        read_prices(tmp_path)


def test_a_folder_in_its_place_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").mkdir()
    with pytest.raises(UserError, match=r"prices\.toml.*directory"):
        read_prices(tmp_path)


def test_the_spec_stands_above_the_file_and_the_file_above_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdefghijkl")
    path = tmp_path / "prices.toml"
    path.write_text('["openai:gpt-4o-mini"]\ninput = 1\noutput = 10\n["vllm:m"]\ngpu_hour = 3.6\n')
    prices, reply = read_prices(tmp_path), Reply(text="", usage=USAGE, busy=10.0)
    # By hand, of OpenAI's page: 600 tokens at $0.15 a million, 400 cached ones at $0.075, 100 written at $0.60.
    assert open_model("openai:gpt-4o-mini").price(reply) == pytest.approx((600 * 0.15 + 400 * 0.075 + 100 * 0.6) / 1e6)
    assert open_model("openai:gpt-4o-mini", prices).price(reply) == pytest.approx(2000 / 1e6)
    own = open_model("openai:gpt-4o-mini[price_input=2,price_output=20]", prices)
    assert own.price(reply) == pytest.approx(4000 / 1e6)
    # GPUs: the file's, or those that the model is spread over.
    assert open_model("vllm:m", prices).price(reply) == pytest.approx(0.01)
    assert open_model("vllm:m[tensor_parallel=4]", prices).price(reply) == pytest.approx(0.04)
    assert open_model("vllm:m[tensor_parallel=4,gpus=8]", prices).price(reply) == pytest.approx(0.08)
    assert open_model("vllm:m[price_gpu_hour=36]", prices).price(reply) == pytest.approx(0.1)
    assert open_model("vllm:m").price(reply) is None
    assert open_model("vllm:m", prices).price(msgspec.structs.replace(reply, busy=None)) is None


@pytest.mark.parametrize("wrong", ["price_gpu_hour=-1", "price_input=-1,price_output=1", "price_gpu_hour=1,gpus=-2"])
def test_a_wrong_price_in_a_model_is_one_line(wrong: str) -> None:
    with pytest.raises(UserError, match="price of the model"):
        open_model(f"vllm:m[{wrong}]")


def test_tokens_written_to_a_cache_have_a_price_of_their_own():
    usage = Usage(input=2000, output=100)
    expected = (500 * 3 + 1500 * 3.75 + 100 * 15) / 1e6
    assert listed_price("anthropic", "claude-sonnet-4-5", usage, 1500) == pytest.approx(expected)
    assert listed_price("anthropic", "claude-sonnet-4-5", usage) == pytest.approx((2000 * 3 + 100 * 15) / 1e6)
    assert Price(input=3, output=15, cache_write=3.75).dollars(usage, cache_writes=1500) == pytest.approx(expected)
    assert Price(input=3, output=15).dollars(usage, cache_writes=1500) == Price(input=3, output=15).dollars(usage)
