"""The other families on small files of their form."""

import json
import re
from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.benchmarks import all_cards, benchmark_names, load, register
from ragrounds.evals.benchmarks.benchmark import must_have, nice_to_have
from ragrounds.evals.benchmarks.family import families


def lines(path, *values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), encoding="utf-8")
    return path


def test_pubmedqa_splits(tmp_path):
    entry = {"QUESTION": "Does it?", "CONTEXTS": ["x"], "final_decision": "maybe", "YEAR": "2011"}
    (tmp_path / "ori_pqal.json").write_text(json.dumps({"1": entry, "2": entry}))
    (tmp_path / "test_ground_truth.json").write_text('{"2": "maybe"}')
    benchmark = load(f"pubmedqa:{tmp_path}", tmp_path)
    assert benchmark.counts == {"pubmedqa/cv": 1, "pubmedqa/test": 1}
    assert benchmark.golds["pubmedqa/2"].answer == "C"
    assert [question.id for question in load(f"pubmedqa/test:{tmp_path}", tmp_path).questions] == ["pubmedqa/2"]
    (tmp_path / "test_ground_truth.json").write_text('{"2": "yes"}')
    with pytest.raises(UserError, match=r"test_ground_truth.json: record '2': the label differs"):
        load(f"pubmedqa:{tmp_path}", tmp_path)


def test_kqa_statements_stay_apart(tmp_path):
    line = {"Question": "Why?", "Free_form_answer": "So.", "Must_have": ["a", "b"], "Nice_to_have": ["c"]}
    benchmark = load(f"kqa:{lines(tmp_path / 'questions_w_answers.jsonl', line)}", tmp_path)
    gold = benchmark.golds["kqa/0"]
    assert must_have(gold) == ("a", "b")
    assert nice_to_have(gold) == ("c",)


@pytest.fixture
def r2med(tmp_path):
    folder = tmp_path / "R2MED" / "Biology"
    lines(folder / "query.jsonl", {"id": "0", "text": "Why?", "answer": "So.", "body_system": "Skin"})
    lines(folder / "corpus.jsonl", {"id": "d1", "text": "…"}, {"id": "d2", "text": "…"})
    lines(folder / "qrels.jsonl", {"q_id": "0", "p_id": "d1", "score": 1}, {"q_id": "0", "p_id": "d2", "score": 0})
    return folder


def test_r2med_one_folder_or_all(r2med, tmp_path):
    for reference in (f"r2med:{r2med}", f"r2med:{r2med.parent}", f"r2med/biology:{r2med.parent}"):
        benchmark = load(reference, tmp_path)
        assert benchmark.datasets == ("r2med/biology",)
        assert benchmark.golds["biology/0"].documents == ("d1",)
        assert benchmark.questions[0].group == "Skin"
    with pytest.raises(UserError, match=r"holds no query\.jsonl"):
        load(f"r2med:{tmp_path}", tmp_path)


def test_a_folder_is_registered_with_what_it_needs(r2med, tmp_path):
    (r2med / "notes.txt").write_text("mine")
    register("r2med/biology", r2med, tmp_path / "home")
    assert len(load("r2med/biology", tmp_path / "home")) == 1
    assert not list((tmp_path / "home").rglob("notes.txt"))
    register("r2med/biology", r2med, tmp_path / "home")
    register("r2med", r2med.parent, tmp_path / "home")
    assert load("r2med/biology", tmp_path / "home").path.endswith("r2med--biology")


def test_beir(tmp_path):
    folder = tmp_path / "mini"
    lines(folder / "queries.jsonl", {"_id": "1", "text": "a"}, {"_id": "2", "text": "b"})
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n2\td7\t1\n2\td8\t0\n")
    benchmark = load(f"beir:{folder}", tmp_path)
    assert benchmark.name == "beir/mini"
    assert [benchmark.golds[question.id].documents for question in benchmark.questions] == [("d7",)]
    (folder / "qrels" / "test.tsv").write_text("9\td7\t1\n")
    with pytest.raises(UserError, match=r"test\.tsv: query '9': queries\.jsonl has no such query"):
        load(f"beir:{folder}", tmp_path)
    with pytest.raises(UserError, match=r"dev\.tsv: there is no such file"):
        load(f"beir[split=dev]:{folder}", tmp_path)


def test_csv_with_a_mapping(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text('Key,Stem,w,x,y,Right,Area\n7,"Which, then?",one,two,,x,heart\n', encoding="utf-8")
    reference = f"csv[id=Key,question=Stem,options=w;x;y,labels=A;B;C,answer=Right,group=Area]:{path}".replace(
        "w;x;y", '"w;x;y"'
    ).replace("A;B;C", '"A;B;C"')
    with pytest.raises(UserError, match="'x' is not among the options"):
        load(reference, tmp_path)
    path.write_text('Key,Stem,w,x,y,Right,Area\n7,"Which, then?",one,two,,B,heart\n', encoding="utf-8")
    benchmark = load(reference, tmp_path)
    question = benchmark.questions[0]
    assert (question.id, question.text, question.group) == ("mine/7", "Which, then?", "heart")
    assert question.options == {"A": "one", "B": "two"}
    assert question.metadata == {}
    assert benchmark.golds["mine/7"].answer == "B"


@pytest.mark.parametrize(("first", "right"), [(0, "b"), (1, "a")])
def test_csv_answers_that_are_numbers(tmp_path, first, right):
    path = tmp_path / "mine.csv"
    path.write_text("question,a,b,cop\nWhich?,x,y,1\n")
    benchmark = load(f'csv[options="a;b",answer=cop,first={first}]:{path}', tmp_path)
    assert benchmark.golds["mine/1"].answer == right
    with pytest.raises(UserError, match="line 2: the answer 1 is no option, counted from `first`"):
        load(f'csv[options="a;b",answer=cop,first=2]:{path}', tmp_path)


@pytest.mark.parametrize(
    ("text", "reference", "said"),
    [
        ("Stem,answer\na,b\n", "csv[question=Stam]", "no column 'Stam' for question. Did you mean 'Stem'"),
        ("Stem,answer\na,b\n", "csv", "no column 'question'"),
        ("question,answer\na\n", "csv", "line 2: it and the heading have different numbers of fields"),
        ("question,question\na,b\n", "csv", "two columns have the same name"),
        ('question,answer\n"a,b\n', "csv", "this is not CSV"),
        (
            "question,A,B,answer,topic\nWhich?,x,y,B,heart\n",
            "csv",
            "line 2: the answer 'B' is the name.*=\"A;B\"",
        ),
        ("question,answer\na,b\n", "csv[qestion=x]", "no parameter 'qestion'. Did you mean 'question'"),
    ],
)
def test_a_broken_csv(tmp_path, text, reference, said):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        load(f"{reference}:{path}", tmp_path)


def test_csv_long_answers_are_numbered(tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("question\tanswer\nWhy?\tSo.\nHow?\tThus.\n")
    assert [question.id for question in load(f"csv:{path}", tmp_path).questions] == ["mine/1", "mine/2"]


def test_ogcarebench(tmp_path):
    path = tmp_path / "questions.csv"
    path.write_text('Title,pmc_id,Classification,question,answer\nA rare case,PMC1,Treatment,"What, next?",Drug\n')
    benchmark = load(f"ogcarebench:{path}", tmp_path)
    question = benchmark.questions[0]
    assert (question.group, question.metadata, question.cluster) == ("Treatment", {}, "ogcarebench/PMC1")
    assert benchmark.golds["ogcarebench/1"].documents == ("PMC1",)
    path.write_text("pmc_id,question,answer,significance_type\nPMC1,What?,Drug, Treatment\nPMC2,Which?,That,\n")
    kinds = [question.metadata for question in load(f"ogcarebench:{path}", tmp_path).questions]
    assert kinds == [{"significance_type": "treatment"}, {}]
    rows = [{"pmc_id": 5, "question": "What?", "answer": "That."}]
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(rows))
    assert load(f"ogcarebench:{path}", tmp_path).golds["ogcarebench/1"].documents == ("5",)


def test_ddi(tmp_path):
    sentence = {
        "id": "s",
        "text": "A raises B {0}.",
        "entities": [{"id": "e0", "text": "A"}, {"id": "e1", "text": "B"}],
        "pairs": [{"e1": "e0", "e2": "e1", "ddi": "true", "type": "effect"}],
    }
    untyped = {**sentence, "pairs": [{"e1": "e0", "e2": "e1", "ddi": "true"}]}
    document = {"id": "d", "split": "Train/DrugBank", "sentences": [sentence, sentence, untyped]}
    benchmark = load(f"ddi:{lines(tmp_path / 'ddi2013.jsonl', document)}", tmp_path)
    question = benchmark.questions[0]
    assert (question.id, question.kind) == ("train/d", "extraction")
    assert "A raises B {0}." in question.text
    assert json.loads(benchmark.golds["train/d"].answer) == [["A", "effect", "B"]]


def test_chemprot(tmp_path):
    (tmp_path / "chemprot_test_abstracts_gs.tsv").write_text("1\tTitle\tAbstract.\n")
    (tmp_path / "chemprot_test_entities_gs.tsv").write_text(
        "1\tT1\tCHEMICAL\t0\t1\taspirin\n1\tT2\tGENE-Y\t2\t3\tCOX-1\n"
    )
    gold = tmp_path / "chemprot_test_gold_standard.tsv"
    gold.write_text("1\tCPR:4\tArg1:T1\tArg2:T2\n1\tCPR:10\tArg1:T1\tArg2:T2\n")
    benchmark = load(f"chemprot:{tmp_path}", tmp_path)
    assert json.loads(benchmark.golds["chemprot/1"].answer) == [["aspirin", "downregulator", "COX-1"]]
    with pytest.raises(UserError, match=r"gold_standard\.tsv: this is a file, and the folder of one split's three"):
        load(f"chemprot:{gold}", tmp_path)
    gold.write_text("1\tCPR:4\tArg1:T1\tArg2:T9\n")
    with pytest.raises(UserError, match="line 1: a relation has an entity"):
        load(f"chemprot:{tmp_path}", tmp_path)


def test_cmeie(tmp_path):
    line = {
        "text": "头痛的治疗",
        "spo_list": [{"subject": "头痛", "predicate": "药物治疗", "object": {"@value": "甲"}}],
    }
    benchmark = load(f"cmeie:{lines(tmp_path / 'x.jsonl', line)}", tmp_path)
    assert benchmark.questions[0].language == "zh"
    assert json.loads(benchmark.golds["cmeie/1"].answer) == [["头痛", "药物治疗", "甲"]]


GRAPH = "a\tis\tb\na\thas\tb\na\tuses\tc\nc\tmakes\ta\n"


def test_a_link_question_has_one_right_answer(tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text(GRAPH)
    benchmark = load(f"link[options=4]:{path}", tmp_path)
    for question in benchmark.questions[:2]:
        right = benchmark.golds[question.id].answer
        assert {"is", "has"} & set(question.options.values()) == {question.options[right]}
        assert len(question.options) == 3
        assert not question.group
    assert benchmark.questions[0].cluster == benchmark.questions[1].cluster
    again = load(f"link[options=4]:{path}", tmp_path)
    other = load(f"link[options=4,seed=1]:{path}", tmp_path)
    assert again.version == benchmark.version
    assert [question.id for question in other.questions] == [question.id for question in benchmark.questions]


@pytest.mark.parametrize(("reference", "said"), [("link[options=1]", "2 options or more"), ("link[seed=x]", "whole")])
def test_bad_parameters_of_a_link_benchmark(tmp_path, reference, said):
    path = tmp_path / "graph.txt"
    path.write_text(GRAPH)
    with pytest.raises(UserError, match=said):
        load(f"{reference}:{path}", tmp_path)


def test_cmedteb_rerank(tmp_path):
    path = lines(tmp_path / "rerank.jsonl", {"query": "问", "positive": ["对"], "negative": ["错", "误", "对"]})
    benchmark = load(f"cmedteb/rerank:{path}", tmp_path)
    (question,) = benchmark.questions
    assert len(question.options) == 3
    assert question.options[benchmark.golds[question.id].answer] == "对"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"positiv": ["对"], "neg": ["错"]}, "it has no field `pos` (or `positive`)"),
        ({"pos": ["对"]}, "it has no field `neg` (or `negative`)"),
        ({"pos": ["对"], "neg": ["错", " "]}, "a text of neg is blank"),
        ({"pos": [""], "neg": ["错"]}, "a text of pos is blank"),
        ({"pos": ["对"], "neg": []}, "neg is empty"),
        ({"pos": ["对"], "neg": ["对"]}, "every text of neg is one of pos too"),
    ],
)
def test_no_line_of_cmedteb_is_dropped(tmp_path, line, said):
    whole = {"query": "问", "pos": ["对"], "neg": ["错"]}
    path = lines(tmp_path / "rerank.jsonl", whole, {"query": "问"} | line)
    with pytest.raises(UserError, match=re.escape(f"rerank.jsonl: line 2: {said}")):
        load(f"cmedteb/rerank:{path}", tmp_path)


def chemprot_folder(tmp_path):
    (tmp_path / "chemprot_test_abstracts_gs.tsv").write_text("1\tTitle\tAbstract.\n")
    (tmp_path / "chemprot_test_entities_gs.tsv").write_text("1\tT1\tCHEMICAL\t0\t1\taspirin\n")
    (tmp_path / "chemprot_test_gold_standard.tsv").write_text("1\tCPR:10\tArg1:T1\tArg2:T1\n")
    return tmp_path


def mrag_source(name, tmp_path):
    """A small source for a dataset of MRAG, in its original's form."""
    if name in ("mmlu", "medqa", "medmcqa", "pubmedqa", "bioasq"):
        path = tmp_path / "benchmark.json"
        path.write_text(json.dumps({name: {"1": {"question": "?", "options": {"A": "x", "B": "y"}, "answer": "A"}}}))
        return path
    if name == "tcm":
        return lines(tmp_path / "x.jsonl", {"id": 1, "question": "问？", "options": ["甲", "乙"], "answer": "B"})
    if name in ("multimedqa", "clfqa"):
        return lines(tmp_path / "x.jsonl", {"id": 1, "question": "?", "answer": "So."})
    if name == "chemprot":
        return chemprot_folder(tmp_path)
    if name == "ddi":
        return lines(tmp_path / "x.jsonl", {"id": "d", "split": "Train/x", "sentences": [{"text": "None."}]})
    if name == "cmeie":
        return lines(tmp_path / "x.jsonl", {"text": "头痛", "spo_list": []})
    path = tmp_path / "graph.tsv"
    path.write_text(GRAPH)
    return path


@pytest.mark.parametrize("card", [card for card in all_cards() if card.name.startswith("mrag/")])
def test_every_dataset_of_mrag_is_read_under_its_name(tmp_path, card):
    name = card.name.partition("/")[2]
    benchmark = load(f"{card.name}:{mrag_source(name, tmp_path)}", tmp_path)
    assert benchmark.card == card
    for question in benchmark.questions:
        assert question.benchmark == card.name
        assert question.id.startswith(f"{name}/")
        assert question.language == card.language
        assert benchmark.golds[question.id].question_id == question.id


def test_the_page_says_where_each_dataset_comes_from_that_only_its_owners_have():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "benchmarks.md").read_text(encoding="utf-8")
    section = page.split("## MRAG-Bench whole")[1].split("\n### ")[0]
    for card in all_cards():
        name = card.name.partition("/")[2]
        if card.name.startswith("mrag/") and "MIRAGE" not in card.source and name != "ddi":
            assert f"| `{card.name}` | " in section


def test_mrag_needs_a_dataset(tmp_path):
    with pytest.raises(UserError, match="Give a dataset of MRAG"):
        load(f"mrag:{tmp_path}", tmp_path)


def test_every_card_belongs_to_a_family_and_names_are_unique():
    names = [card.name for card in all_cards()]
    assert len(set(names)) == len(names)
    assert {name.partition("/")[0] for name in names} <= set(families())
    assert set(families()) <= set(benchmark_names())


def test_the_sample_is_shipped(tmp_path):
    benchmark = load("sample", tmp_path)
    assert len(benchmark) >= 60
    assert {question.kind for question in benchmark.questions} == {"choice", "long"}
    assert all(benchmark.golds[q.id].facts for q in benchmark.questions if q.kind == "long")
