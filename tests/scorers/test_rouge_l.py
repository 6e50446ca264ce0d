from difflib import SequenceMatcher

from hypothesis import given
from hypothesis import strategies as st

from ragrounds.evals.scorers.rouge_l import _longest_common


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
