from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.base.text import words
from ragrounds.evals.scorers.rouge_l import _longest_common, rouge_l


def plain_longest_common(one, other):
    row = [0] * (len(other) + 1)
    for left in one:
        last = 0
        for index, right in enumerate(other, start=1):
            kept = row[index]
            row[index] = last + 1 if left == right else max(row[index], row[index - 1])
            last = kept
    return row[-1]


WORDS = st.lists(st.sampled_from("abcd"), max_size=40)


@given(WORDS, WORDS)
def test_the_longest_common_subsequence(one, other):
    assert _longest_common(one, other) == plain_longest_common(one, other)
    blocks = sum(block.size for block in SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks())
    assert _longest_common(one, other) >= blocks


def test_rouge_l():
    assert rouge_l("police killed the gunman", "Police kill the gunman.") == pytest.approx(0.75)
    assert rouge_l("", "x") == 0.0
    assert words("维生素B1 缺乏") == ["维", "生", "素", "b1", "缺", "乏"]
