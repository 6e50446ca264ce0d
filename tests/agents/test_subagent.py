"""What a run's identity says of an agent inside an agent, and which may be one."""

import pytest

from ragrounds.agents.agent import graph_name, open_agent, subagent
from ragrounds.base.errors import UserError
from ragrounds.evals.engine.plan import subagent_identity


def test_an_agent_inside_is_a_part_of_the_identity():
    outer = open_agent("vanilla_rag[query_generation=answer[agent=search_o1[turns=3]]]")
    covered = subagent_identity(outer)
    assert covered is not None
    assert covered["agent"] == "search_o1[turns=3]"
    assert covered["parameters"]["turns"] == 3
    assert "search_o1/reason" in covered["prompts"]
    assert subagent_identity(open_agent("vanilla_rag[query_generation=hyde]")) is None


@pytest.mark.parametrize("inner", ["oracle", '"direct[model=openai:gpt-4o]"', "./mine.py:build"])
def test_who_cannot_run_inside(inner):
    with pytest.raises(UserError):
        subagent(open_agent(f"vanilla_rag[query_generation=answer[agent={inner}]]"))


def test_a_graph_is_found_by_its_own_name_and_by_an_agent_s():
    assert graph_name("search_o1") == "search_o1"
    assert graph_name("cot_refine_rag") == "cot_refine"
    assert graph_name("./mine.py:build") == "./mine.py:build"
    with pytest.raises(UserError, match="search_o1"):
        graph_name("search_01")
