"""Analysers against Lucene's rules, and Porter against another implementation of Lucene's variant."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.base.errors import UserError
from ragrounds.tools.index.analysers import LuceneEnglish, _lowered, _tokens, analyser, chinese_bigram, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The patients' lesions were treated with 5-FU.", ["patient", "lesion", "were", "treat", "5", "fu"]),
        ("Crohn's and Crohn’s disease", ["crohn", "crohn", "diseas"]),
        ("1,000 mg of 3.5% saline, e.g. NaCl", ["1,000", "mg", "3.5", "salin", "e.g", "nacl"]),
        ("don't stop: IL-6_a", ["don't", "stop", "il", "6_a"]),
        ("pathology biology possibly as", ["patholog", "biologi", "possibl"]),
        ("as if by the", []),
        ("", []),
        ("CO₂ and 5 m² of ½", ["co", "5", "m"]),  # digits and fractions that are no letters split
        ("soft\u00adhyphen हिन्दी", ["soft\u00adhyphen", "हिन्दी"]),  # what extends a letter stays with it
        ("İstanbul ΟΔΟΣ", ["istanbul", "οδοσ"]),  # lower case a character at a time
        ("_ __ foo_bar_ It's", ["foo_bar_"]),
    ],
)
def test_lucene_english(text, expected):
    assert analyser("lucene-english")(text) == expected


def test_words_are_cut_at_the_length_lucene_cuts_them():
    assert [len(word) for word in words("a" * 600)] == [255, 255, 90]


def test_a_piece_is_a_word_inside_the_buffer():
    assert words("a" * 254 + "'" + "b" * 3) == ["a" * 254, "bbb"]
    assert words("é" * 254 + "_" + "b") == ["é" * 254 + "_", "b"]
    assert [len(word) for word in words("𝒜" * 200)] == [127, 73]  # two units each


def test_emoji_are_words_with_what_they_are_joined_to():
    family, flag = "👨\u200d👩\u200d👧", "🇩🇪"
    assert words(f"x👍y {family} 👍🏽 {flag}🇫🇷 🇩 #\ufe0f\u20e3 ❤\ufe0f\u200d🔥") == [
        *("x", "👍", "y", family, "👍🏽", flag, "🇫🇷", "#\ufe0f\u20e3", "❤\ufe0f\u200d🔥"),
    ]


def test_scripts_without_blanks_and_quotes_in_hebrew():
    assert words("คนไทย カタカナ ひら 한국어") == ["คนไทย", "カタカナ", "ひ", "ら", "한국어"]
    assert words('צה"ל ג\' a"b') == ['צה"ל', "ג'", "a", "b"]


@given(st.text(alphabet="abZ019'.,:;_- \t\"s@#*"))
def test_ascii_is_split_as_all_text_is(text):
    assert words(text) == [_lowered(word) for word in _tokens(text)]


@pytest.mark.parametrize("unit", ["_", "_\u0301", "\u200d", "é", "é'", 'א"', "👍\u200d", "ก", "#", "1."])
def test_no_text_takes_longer_than_its_length(unit):
    assert len(words(unit * 20_000)) <= 20_000  # seconds, and not hours


def test_a_decomposed_accent_does_not_split_a_word():
    assert words("Me\u0301nie\u0300re disease") == ["me\u0301nie\u0300re", "disease"]


def test_plain_takes_each_ideograph_for_a_word():
    assert analyser("plain")("高血压 COPD病人") == ["高", "血", "压", "copd", "病", "人"]


def test_bigrams_overlap_and_do_not_cross_other_text():
    assert chinese_bigram("高血压,COPD病人x人") == ["高血", "血压", "copd", "病人", "x", "人"]


def test_unknown_names_are_told_with_the_nearest():
    with pytest.raises(UserError, match="lucene-english"):
        analyser("lucene-englsh")


@given(st.text())
def test_any_text_can_be_analysed(text):
    for name in ("lucene-english", "plain", "chinese-bigram"):
        assert all(isinstance(term, str) and term for term in analyser(name)(text))


@pytest.mark.slow
@pytest.mark.data
def test_stems_agree_with_porters_later_code_on_a_real_vocabulary(data):
    porter = pytest.importorskip("nltk.stem.porter")
    reference = porter.PorterStemmer(mode="MARTIN_EXTENSIONS")
    vocabulary: set[str] = set()
    with (data / "beir/scifact/corpus.jsonl").open() as lines:
        for line in lines:
            vocabulary.update(word for word in words(json.loads(line)["text"]) if word.isascii() and word.isalpha())
    ours = LuceneEnglish()
    differing = {
        word: (ours._stem(word), expected)
        for word in vocabulary
        if ours._stem(word) != (expected := reference.stem(word))
    }
    assert len(vocabulary) > 20_000
    assert differing == {}


@pytest.mark.parametrize(
    ("text", "terms"), [("ＡＢＣ", ["abc"]), ("高血压１２０", ["高血", "血压", "120"]), ("ＣＯＰＤ病", ["copd", "病"])]
)
def test_full_width_letters_are_those_of_lucene_s_width_filter(text, terms):
    assert chinese_bigram(text) == terms
