from ragrounds.contracts import SearchRequest
from ragrounds.evals.analyses.flips import count_flips, first_answer, refinements
from ragrounds.evals.analyses.searches import Searched, searches_of, use_of_searches
from ragrounds.evals.scorers import find_scorer
from ragrounds.evals.store.traces import Trace, TracedCall, TracedStep
from ragrounds.records import Call, Left, Passage, Run
from tests.scorers.making import attempt, gold, question


def passage(document, text):
    return Passage(id=f"{document}#0", document=document, title="", text=text, corpus="c")


VITAMIN = passage("d1", "Scurvy follows from a lack of vitamin C, which collagen needs.")
BONE = passage("d2", "Rickets softens growing bones when vitamin D is missing.")
OTHER = passage("d3", "The liver stores glycogen and makes bile.")


def test_a_gold_document_is_followed_through_the_searches():
    searches = [
        Searched(query="bones", passages=(BONE, OTHER)),
        Searched(query="gums", passages=(OTHER, VITAMIN)),
        Searched(query=" GUMS ", passages=(VITAMIN,)),
        Searched(query="nothing", passages=()),
    ]
    first, second, third, last = use_of_searches(searches, gold("B", documents=("d1",)))
    assert (first.found, first.new_gold, first.new) == (None, False, 1.0)
    assert (second.found, second.new_gold, second.new) == (2, True, 0.5)
    assert (third.found, third.new_gold, third.new, third.repeated) == (1, False, 0.0, True)
    assert (last.found, last.new, last.repeated) == (None, 0.0, False)


def test_searches_of_a_trace():
    def searched(number, *passages):
        call = Call(key=f"k{number}", kind="search", role="querying", node="search", actor="bm25", at=0, seconds=0)
        request = SearchRequest(corpus="c", query=f"q{number}", k=2)
        return TracedCall(call, searched=request, passages=passages)

    def step(*calls, **changes):
        return TracedStep(node="x", seconds=0.1, calls=calls, notes=(), changes=changes, error="")

    steps = (step(searched(1, BONE)), step(information="Bones."), step(searched(2, VITAMIN)), step(answer="B"))
    run = Run(id="r", agent="a", benchmark="b", questions="", count=1, epochs=1, fingerprint="", identity={}, created=0)
    trace = Trace(run, question(), gold(), attempt("B"), (), steps)
    made = searches_of(trace)
    assert [search.query for search in made] == ["q1", "q2"]
    assert made[1].passages == (VITAMIN,)


def refined(first, last):
    left = Left(step=0, seconds=0.1, changes={} if first is None else {"first": first})
    return attempt(last, events=(left,))


def test_flips():
    attempts = [
        refined("A", "A"),
        refined("A", "B"),
        refined("B", "A"),
        refined("B", "C"),
        refined(None, "A"),
    ]
    made = count_flips("strict", refinements(attempts, {"x/1": question()}, {"x/1": gold("A")}, find_scorer("strict")))
    assert (made.right_right, made.right_wrong, made.wrong_right, made.wrong_wrong) == (1, 1, 1, 1)
    assert (made.changed, made.without, made.net) == (3, 1, 0)
    assert first_answer(attempts[1]) == "A"
