"""Where a prompt is found, how its turns are told apart, and what is said of one that cannot be used."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.prompts.loader import PromptFolder, variants


@pytest.fixture
def own(tmp_path: Path) -> PromptFolder:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notice.md").write_text("Say $what.\n")
    (tmp_path / "mine" / "notice.zh.md").write_text("说$what。\n")
    (tmp_path / "mine" / "both.md").write_text("[user]\nelse\n")
    (tmp_path / "mine" / "both.en.md").write_text("[user]\n  English\nX\n")
    (tmp_path / "mine" / "dollar.md").write_text("[user]\n$5\n")
    (tmp_path / "mine" / "turns.md").write_text("[system]\nBe $how.\n\n[user]\n$what?\n[assistant]\nYes.\n")
    (tmp_path / "mine" / "loose.md").write_text("Hello\n[user]\n$what\n")
    (tmp_path / "mine" / "bare.md").write_text("$what\n")
    (tmp_path / "mine" / "words.txt").write_text("no prompt\n")
    return PromptFolder(str(tmp_path))


def test_names_are_those_of_the_package_and_of_the_folder(own: PromptFolder) -> None:
    package = PromptFolder().names()
    assert "choice/direct" in package
    assert "judge/pair" in package
    assert len(package) == len({name.partition(".")[0] for name in package}), "a name has no ending, and stands once"
    assert not {name for name in package if name.startswith("layout") or name.endswith("py")}
    mine = ["mine/bare", "mine/both", "mine/dollar", "mine/loose", "mine/notice", "mine/turns"]
    assert own.names() == sorted([*package, *mine])
    assert PromptFolder(variants()[0]).names() == package, "a variant words anew what there is"


def test_a_text_is_of_its_language_and_english_where_none_is_said(own: PromptFolder) -> None:
    assert own.text("mine/notice", what="this") == "Say this."
    assert own.text("mine/notice", "zh", what="这") == "说这。"
    assert own.source("mine/notice") == "Say $what.\n"
    assert own.source("mine/notice", "zh") == "说$what。\n"
    assert [one.content for one in own.render("mine/both")] == ["  English\nX"], "its spaces are its own"
    assert (own.source("mine/both"), own.text("mine/both")) == ("[user]\n  English\nX\n", "[user]\n  English\nX")
    forms = "[user]\n  English\nX\n\0[user]\nelse\n"
    assert own.digest(("mine/both",)) == {"mine/both": hashlib.sha256(forms.encode()).hexdigest()[:16]}
    english = PromptFolder().render("choice/direct", question="Q", options="A. a")
    assert english == PromptFolder().render("choice/direct", "en", question="Q", options="A. a")
    assert english != PromptFolder().render("choice/direct", "zh", question="Q", options="A. a")


def test_turns(own: PromptFolder) -> None:
    made = [(one.role, one.content) for one in own.render("mine/turns", how="kind", what="Well")]
    assert made == [("system", "Be kind."), ("user", "Well?"), ("assistant", "Yes.")]
    for name in ("mine/loose", "mine/bare"):
        with pytest.raises(UserError, match=f"The prompt '{name}' must begin with a line"):
            own.render(name, what="x")


def test_what_cannot_be_filled_or_found_says_what_there_is(own: PromptFolder) -> None:
    with pytest.raises(
        UserError, match=r"'mine/turns' asks for \$how, which is not given here. Given: \$a, \$what\. A"
    ):
        own.render("mine/turns", what="x", a="y")
    with pytest.raises(UserError, match=r"'mine/notice' asks for \$what"):
        own.text("mine/notice")
    with pytest.raises(
        UserError, match=r"no prompt 'mine/notise'\. Did you mean 'mine/notice'.* Known: .*choice/cot, cho"
    ):
        own.source("mine/notise")
    with pytest.raises(UserError, match="There is no prompt"):
        PromptFolder(f"{own.folder}/mine").source("../mine/notice")
    with pytest.raises(UserError, match=r"'mine/dollar': Invalid placeholder.* A dollar sign is written \$\$"):
        own.render("mine/dollar")
