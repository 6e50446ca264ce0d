"""Link prediction from files in DRKG's and ADInt's form, made up; and what the frequency of relations gets right."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.benchmarks import load
from ragrounds.extensions.relations.families.link import gives_away

NAMES = {
    "Compound::DB1": "alphamycin", "Compound::DB2": "betaprofen", "Compound::DB3": "gammastatin",
    "Disease::M1": "first fever", "Disease::M2": "second ache", "Disease::M3": "treatment of a sore", "Gene::7": "ABC7",
}  # fmt: skip
TRIPLETS = [
    ("Compound::DB1", "DRUGBANK::treats::Compound:Disease", "Disease::M1"),
    ("Compound::DB1", "Hetionet::CtD::Compound:Disease", "Disease::M1"),
    ("Compound::DB1", "GNBR::Sa::Compound:Disease", "Disease::M1"),
    ("Compound::DB2", "GNBR::T::Compound:Disease", "Disease::M2"),
    ("Compound::DB2", "GNBR::Pr::Compound:Disease", "Disease::M1"),
    ("Compound::DB3", "GNBR::Sa::Compound:Disease", "Disease::M2"),
    ("Compound::DB3", "GNBR::T::Compound:Disease", "Disease::M3"),
    ("Compound::NONAME", "GNBR::T::Compound:Disease", "Disease::M1"),
    *[("Compound::DB1", "GNBR::N::Compound:Gene", "Gene::7")] * 3,
    ("Gene::7", "GNBR::J::Gene:Disease", "Disease::M2"),
]


def drkg(folder: Path, triplets=TRIPLETS, names=NAMES) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "drkg.tsv").write_text("".join("\t".join(one) + "\n" for one in triplets))
    (folder / "names.tsv").write_text("".join(f"{id}\t{name}\n" for id, name in names.items()))
    return folder


def test_drug_and_disease_pairs_of_drkg_by_name_and_without_their_source(tmp_path: Path) -> None:
    found = load(f"mrag/drkg:{drkg(tmp_path / 'g')}", tmp_path)
    asked = {question.text: question for question in found.questions}
    # Two databases say that alphamycin treats the first fever: one question. Unnamed entities, and a name that gives
    # its relation away (treats, treatment of a sore), are not asked.
    assert len(found) == 5
    assert not any("::" in question.text or "DB" in question.text for question in found.questions)
    assert not any("sore" in text for text in asked)
    words = {option for question in found.questions for option in question.options.values()}
    assert words <= {
        "treats", "prevents", "has as an adverse effect", "inhibits", "takes part in the development of",
    }  # fmt: skip
    for question in found.questions:
        assert question.metadata == {"types": "Compound, Disease"}
        right = question.options[found.golds[question.id].answer]
        if "alphamycin" in question.text:
            # The other relation of the pair is no distractor.
            assert {"treats", "has as an adverse effect"} & set(question.options.values()) == {right}
    assert max(len(question.options) for question in found.questions) == 5
    kept = load(f"mrag/drkg[hints=keep]:{tmp_path / 'g'}", tmp_path)
    assert len(kept) == 6


def test_the_draw_follows_from_the_content_in_any_order(tmp_path: Path) -> None:
    drawn = random.Random(3)
    triplets = [
        (f"Compound::{one}", f"GNBR::{drawn.choice(['T', 'Pa', 'Sa', 'Pr'])}::Compound:Disease", f"Disease::{other}")
        for one in range(60)
        for other in range(4)
    ]
    names = {id: f"name {id.rpartition(':')[2]}" for one, _, other in triplets for id in (one, other)}
    drkg(tmp_path / "a", triplets, names)
    drkg(tmp_path / "b", drawn.sample(triplets, len(triplets)), names)
    reference = 'link[options=all,between="Compound,Disease",seed=content,sample=20]:{}'
    versions = {load(reference.format(f"{tmp_path}/{name}/drkg.tsv"), tmp_path).version for name in "ab"}
    assert len(versions) == 1
    assert len(load(reference.format(tmp_path / "a"), tmp_path)) == 20
    drkg(tmp_path / "c", triplets[1:], names)
    other = load(reference.format(tmp_path / "c" / "drkg.tsv"), tmp_path)
    assert other.version not in versions


def test_adint_by_its_names_in_time_order(tmp_path: Path) -> None:
    rows = ["subject\tpredicate\tobject\tPMID"]
    most = 18_000  # the newest tenth has more than the 1,500 questions that are drawn
    newest = most * 9 // 10
    places = random.Random(1).sample(range(most), most)
    rows += [f"C{place}\t{('TREATS', 'AFFECTS')[place % 2]}\tC{place + 100_000}\t{place}" for place in places]
    with gzip.open(tmp_path / "ADIntKG.tsv.gz", "wt") as file:
        file.write("\n".join(rows))
    ids = [f"C{place}" for place in (*range(most), *range(100_000, 100_000 + most))]
    (tmp_path / "cui2name.json").write_text(json.dumps({id: f"concept {id[1:]}" for id in ids}))
    (tmp_path / "cui2semtype.json").write_text(json.dumps({id: ["phsu", "orch"] for id in ids}))
    found = load(f"mrag/adint:{tmp_path}", tmp_path)
    assert len(found) == found.card.size == 1_500
    heads = [int(question.text.partition("concept ")[2].partition("”")[0]) for question in found.questions]
    assert min(heads) >= newest
    assert {tuple(sorted(question.options.values())) for question in found.questions} == {("AFFECTS", "TREATS")}
    assert found.questions[0].metadata == {"types": "phsu, phsu"}
    assert found.questions[0].benchmark == "mrag/adint"


def test_names_that_give_a_relation_away() -> None:
    assert gives_away("treats", "Treatment of pain", "x")
    assert gives_away("has as an adverse effect", "a", "adverse drug effects")
    assert not gives_away("has as an adverse effect", "adverse event", "x")
    assert not gives_away("is a", "an island", "x")


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("link[between=Compound]", "is not two types"),
        ('link[between="Compound,Sickness"]', "no triplet joins Compound and Sickness"),
        ("link[hints=no]", "hints='no' is unknown"),
        ("link[hints=dro]", "Did you mean 'drop'"),
        ("mrag/drkg[options=1]", "2 options or more"),
    ],
)
def test_what_cannot_be_asked_is_said(tmp_path: Path, reference: str, said: str) -> None:
    with pytest.raises(UserError, match=said.replace("(", "\\(")):
        load(f"{reference}:{drkg(tmp_path)}", tmp_path)


def test_ids_without_names_are_not_asked(tmp_path: Path) -> None:
    drkg(tmp_path)
    (tmp_path / "names.tsv").unlink()
    with pytest.raises(UserError, match=r"Put names\.tsv"):
        load(f"mrag/drkg:{tmp_path}", tmp_path)
