"""What led to an error is told once, whatever it says of itself."""

from ragrounds.base.http import causes, root_cause


def test_an_error_that_is_its_own_cause_is_told_once():
    first = ValueError("no such field")
    second = RuntimeError("the search failed")
    second.__cause__ = first
    first.__cause__ = first  # `raise error from error`, as some clients do
    assert list(causes(second)) == [second, first]
    assert root_cause(second) == "no such field"
    first.__cause__ = second
    assert list(causes(second)) == [second, first]
