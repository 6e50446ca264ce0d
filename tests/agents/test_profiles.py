"""Papers' profiles: what they set, what comes before them, and what of them reaches a run and its server."""

import json

import pytest

import ragrounds as rr
from ragrounds.agents import profiles
from ragrounds.agents.agent import names, open_agent, profile_of, read_card
from ragrounds.agents.profile import profile_names, read_profile
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.specs import parse
from ragrounds.models.options import cards, read_options
from tests.graphs.playing import play
from tests.servers.scripted_http import scripted


def test_there_is_one_for_each_paper_and_method():
    of_papers = ["cmedteb", "medrag", "mrag", "ogcarebench", "r2med", "search_o1", "search_r1"]
    of_strategies = ["crag", "flare", "ircot", "mdagents", "medagents", "self_rag", "sure"]
    assert profile_names() == sorted(of_papers + of_strategies)


@pytest.mark.parametrize("name", profile_names())
def test_everything_that_it_sets_is_known_and_has_a_source(name):
    profile = read_profile(name)
    cards = [read_card(agent) for agent in names()]
    for graph, settings in profile.graphs.items():
        agents = [agent for agent in names() if read_card(agent).graph == graph]
        assert agents, graph
        known = {key for card in cards if card.graph == graph for key in (*card.parameters, *card.switches)}
        assert settings.keys() <= {*known, "retriever", "question_only"}
        for agent in agents:
            text = profiles.apply(agent, name, "openai:gpt-3.5-turbo")
            assert profiles.apply(text, name, "openai:gpt-3.5-turbo") == text == open_agent(text).spec
    everything = [*profile.graphs.values(), *(one.sampling for one in profile.models)]
    assert all(len(one.source) > 5 for settings in everything for one in settings.values())
    for family in profile.models:
        read_options(parse("openai:m").having(**{key: one.value for key, one in family.sampling.items()}))


def test_its_values_are_explicit_and_what_the_text_says_comes_before_them():
    assert profiles.apply("i_medrag", "medrag", "openai:gpt-4").startswith("i_medrag[context_tokens=30000,")
    mine = open_agent(profiles.apply("i_medrag[rounds=2,retriever=bm25]", "medrag"))
    assert (mine.parameters["rounds"], mine.card.retriever) == (2, "bm25")
    assert open_agent("i_medrag[profile=medrag]").spec == profiles.apply("i_medrag", "medrag")
    assert "profile" not in open_agent("i_medrag[profile=medrag]").spec


@pytest.mark.parametrize(
    ("text", "profile", "said"),
    [
        ("i_medrag", "medrg", "Did you mean 'medrag'"),
        ("i_medrag[profile=mdrag]", "mrag", "Did you mean 'medrag' or 'mrag'"),
        ("search_o1", "medrag", "has no settings for the graph 'search_o1'"),
        ("i_medrg", "medrag", "Did you mean 'i_medrag'"),
    ],
)
def test_what_is_unknown_is_refused_by_the_nearest_name(text, profile, said):
    with pytest.raises(UserError, match=said):
        profiles.apply(text, profile)


def test_a_name_that_is_known_several_times_is_told_once():
    assert nearest("parent", ["direct", "direct", "parents"]) == " Did you mean 'parents' or 'direct'?"


def test_a_dataset_without_its_family_is_found_in_each_that_has_it():
    with pytest.raises(UserError, match=r"Did you mean 'mirage/medqa' or 'mrag/medqa' or 'pubmedqa'\?"):
        rr.run("medqa", "direct")
    assert nearest("MMLU", ["mu", "mrag/mmlu", "mirage/mmlu"]).startswith(" Did you mean 'mirage/mmlu' or 'mrag/mmlu'")


def test_without_an_agent_a_profile_of_others_says_which_to_name():
    profiles.names_agents("medrag", ("direct", "vanilla_rag[top_k=8]"))
    with pytest.raises(UserError, match=r"has search_o1: choose one, .* search_o1"):
        profiles.names_agents("search_o1", ("direct",))
    with pytest.raises(UserError, match="only for retrieval"):
        profiles.names_agents("cmedteb", ("direct",))


def test_an_agent_s_file_names_one_and_says_more_itself(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'graph = "vanilla_rag"\nsummary = "x"\nsearches = true\nprofile = "medrag"\n[parameters]\ntop_k = 4\n'
    )
    agent = open_agent(str(file))
    assert (agent.parameters["top_k"], agent.card.retriever) == (4, "rrf4[bm25=bm25[lengths=lucene,ties=id]]")
    assert agent.parameters["order"] == "best_first"
    again = open_agent(agent.spec)
    assert (again.parameters, again.spec) == (agent.parameters, agent.spec)
    assert (profile_of(agent.spec) or agent).name == "medrag"
    assert open_agent(f"{file}[top_k=8]").parameters["top_k"] == 8


def test_models_that_an_agent_names_get_the_sampling_that_they_leave_open():
    agent = open_agent("search_o1[model=openai:QwQ-32B[temperature=0],profile=search_o1]")
    assert parse(agent.card.models["model"]).parameters == {
        "max_tokens": 20480, "repetition_penalty": 1.05, "temperature": 0, "top_k": 20, "top_p": 0.8,
    }  # fmt: skip


def test_sampling_and_scorer_are_a_record():
    found = profiles.published("mrag", "openai:llama-3-70b")
    assert found.sampling == {"temperature": 0.7, "top_p": 0.8, "repetition_penalty": 1.05}
    assert "repetition_penalty" not in profiles.published("mrag", "openai:gpt-4o").sampling
    assert profiles.published("medrag", "openai:x").scorer == "mirage"
    assert profiles.published("medrag", "openai:x").words().endswith("scored by mirage")
    assert profiles.published("cmedteb", "openai:x").scorer is None


def test_agents_of_other_papers_are_not_sampled_alike_in_silence():
    both = ["vanilla_rag[profile=medrag]", "cot_refine_rag[profile=mrag]"]
    with pytest.raises(UserError, match=r"medrag: temperature=0.*mrag: temperature=0.7.*Run them separately"):
        profiles.sampled("openai:m", both, None)
    assert profiles.sampled("openai:m[temperature=1,top_p=1,repetition_penalty=1]", both, None).startswith("openai:m[")
    with pytest.raises(UserError, match="no profile: as the model does by default"):
        profiles.sampled("openai:m", ["direct", "vanilla_rag[profile=medrag]"], None)


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_a_run_as_published_samples_as_published_and_the_command_comes_first(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with scripted(lambda prompt, before: json.dumps({"answer_choice": "A"})) as server:
        given = {"model": "openai:gpt-3.5-m", "base_url": server.url, "limit": 1}
        result = rr.run("sample", "vanilla_rag[retriever=bm25]", profile="medrag", **given)
        assert [body.get("temperature") for body in server.bodies] == [0]
        assert result.runs[0].identity["parameters"]["context_tokens"] == 15000
        assert "context_tokens=15000,document_format=medrag" in result.runs[0].agent
        again = rr.run("sample", "vanilla_rag[retriever=bm25,profile=medrag]", **given)
        assert (again.ids, again.made) == (result.ids, 0)
        rr.run("sample", "vanilla_rag[retriever=bm25]", profile="medrag", temperature=0.3, **given)
        assert server.bodies[-1]["temperature"] == 0.3


def test_a_model_s_own_layout_and_context_come_before_the_graph_s():
    agent = open_agent(profiles.apply("vanilla_rag", "medrag", "vllm:epfl-llm/meditron-70b"))
    assert agent.parameters["context_tokens"] == 3072
    assert agent.layout.startswith("documents@system")
    assert (
        open_agent(profiles.apply("vanilla_rag", "medrag", "openai:x[alias=gpt-4]")).parameters["context_tokens"] == 0
    )


async def test_meditron_s_documents_stand_before_the_demonstration_that_its_card_has():
    agent = profiles.apply("vanilla_rag[retriever=bm25,top_k=1]", "medrag", "vllm:meditron-70b")
    played = await play(agent, ['{"answer_choice":\n\n"B"}'])
    assert played.attempt.text == '{"answer_choice": "B"}', "white space is squeezed before it is read"
    text = cards()["meditron"].render(played.model.requests[0].messages)
    places = [
        text.index(part) for part in ("Document [0] (Title: Title 1)", '"answer_choice": "X"', "Which drug is given")
    ]
    assert places == sorted(places)
