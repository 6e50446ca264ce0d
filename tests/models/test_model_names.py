"""The model that a reply names, beside the one that was asked."""

from __future__ import annotations

import pytest

from ragrounds.models.model_names import answered_otherwise, other_models, other_name, same_model


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("gpt-4o", "gpt-4o"),
        ("gpt-4o", "GPT-4o"),
        ("gpt-4o", "gpt-4o-2024-08-06"),
        ("gpt-4", "gpt-4-0613"),
        ("gpt-4o", "openai/gpt-4o-2024-08-06"),
        ("openai/gpt-4o", "gpt-4o"),
        ("claude-3-5-sonnet", "claude-3-5-sonnet-20240620"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
        ("claude-3-5-sonnet", "claude-3-5-sonnet@20240620"),
        ("gemini-2.0-flash", "models/gemini-2.0-flash-001"),
        ("mistral-small-latest", "mistral-small-2409"),
        ("llama3", "llama3:latest"),
        ("meta-llama/llama-3.1-8b:free", "meta-llama/llama-3.1-8b"),
    ],
)
def test_the_same_model_by_another_form_of_its_name(asked: str, told: str) -> None:
    assert same_model(asked, told)
    assert not answered_otherwise(asked, {told: 3})


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("gpt-4o", "gpt-4o-mini"),
        ("gpt-4o", "gpt-4o-mini-2024-07-18"),
        ("gpt-4o", "gpt-3.5-turbo"),
        ("gpt-4o-2024-08-06", "gpt-4o-2024-05-13"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("llama3", "llama3:8b"),
        ("one/m", "two/m"),
        ("m", "m-7b"),
        ("m.n", "mxn"),
        ("m", ""),
    ],
)
def test_another_model(asked: str, told: str) -> None:
    assert not same_model(asked, told)


def test_what_the_server_lists_for_it_is_its_name() -> None:
    assert not same_model("mine", "/weights/llama")
    assert same_model("mine", "/weights/Llama", ["mine", "/weights/llama"])
    assert not answered_otherwise("mine", {"/weights/llama": 2}, ["/weights/llama"])


def test_it_is_said_how_often() -> None:
    assert answered_otherwise("gpt-4o", {"gpt-3.5-turbo": 12, "gpt-4o-2024-08-06": 1188}) == (
        "answered by gpt-3.5-turbo in 12 of 1,200 calls, asked gpt-4o"
    )
    assert answered_otherwise("m", {"b": 1, "a": 1, "c": 2}) == (
        "answered by c in 2 and a in 1 and b in 1 of 4 calls, asked m"
    )


def test_several_names_of_the_same_model_are_a_change_while_it_ran() -> None:
    assert answered_otherwise("gpt-4o", {"gpt-4o-2024-05-13": 3, "gpt-4o-2024-08-06": 1}) == (
        "answered by gpt-4o-2024-05-13 in 3 and gpt-4o-2024-08-06 in 1 of 4 calls, asked gpt-4o"
    )
    assert not answered_otherwise("gpt-4o", {"GPT-4o": 3, "openai/gpt-4o": 1})


def test_the_built_in_baseline_is_itself() -> None:
    assert other_models({"baseline:extractive": {"baseline:extractive": 107}}) == []
    assert other_models({"baseline:extractive": {"baseline:other": 1}})


@pytest.mark.parametrize(
    ("told", "shown"), [("gpt-4o", ""), ("openai:gpt-4o", ""), ("gpt-4o-2024-08-06", "gpt-4o-2024-08-06"), ("", "")]
)
def test_a_step_shows_the_name_that_says_more(told: str, shown: str) -> None:
    assert other_name("openai:gpt-4o[temperature=0]", told) == shown
