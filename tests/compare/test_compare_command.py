"""`ragrounds compare` as a user gives it, on the shipped sample; its figures recomputed from the stored scores."""

import csv
import io
import json
import math
import re
import xml.etree.ElementTree as ET

import pytest

from ragrounds.evals.store.store import Store


@pytest.fixture
def ran(command, home):
    done = command("run", "--agent", "direct", "--agent", "vanilla_rag[top_k=8]", "--display", "none")
    assert done.returncode == 0, done.stderr
    return command


def test_the_figures_are_those_of_the_stored_scores(ran, home):
    found = json.loads(ran("compare", "direct", "vanilla_rag[top_k=8]", "--json").stdout)
    table = next(table for table in found["tables"] if table["scorer"] == "strict")
    right = {}
    with Store(home) as store:
        for line in table["lines"]:
            run = store.run(line["run"])
            right[run.id] = {score.question_id: score.value for score in store.scores(run, "strict")}
            attempts = [one for one in store.summaries(run) if one.question_id in right[run.id]]
            used = sum(one.usage.input + one.usage.output for one in attempts)
            share = sum(right[run.id].values()) / len(right[run.id])
            assert line["overall"]["value"] == pytest.approx(share)
            assert line["overall"]["error"] == pytest.approx(math.sqrt(share * (1 - share) / len(right[run.id])))
            point = next(point for point in table["frontier"]["points"] if point["run"] == run.id)
            assert point["cost"]["value"] == pytest.approx(used / len(right[run.id]))
            assert point["per_correct"]["value"] == pytest.approx(used / sum(right[run.id].values()))
    (pair,) = table["pairs"]
    first, second = right[pair["first"]], right[pair["second"]]
    assert pair["tests"]["difference"] == pytest.approx(sum(second[id] - first[id] for id in first) / len(first))
    gained = sum(second[id] > first[id] for id in first)
    lost = sum(second[id] < first[id] for id in first)
    assert (pair["tests"]["second_only"], pair["tests"]["first_only"]) == (gained, lost)
    tail = sum(math.comb(gained + lost, k) for k in range(min(gained, lost) + 1)) / 2 ** (gained + lost)
    assert pair["tests"]["p_mcnemar"] == pytest.approx(min(1.0, 2 * tail))


@pytest.mark.slow
def test_formats_claims_and_exit_codes(ran, tmp_path):
    runs = ("direct", "vanilla_rag[top_k=8]")
    picture = tmp_path / "frontier.svg"
    shown = ran("compare", *runs, "--group-by", "subject", "--plot", str(picture), "--full")
    assert shown.returncode == 0, shown.stderr
    assert " by subject, percent" in ran("compare", *runs, "--group-by", "subject").stdout
    assert "cost per additional right question" in shown.stdout
    assert " by subject, percent" in shown.stdout
    assert ET.parse(picture).getroot().tag.endswith("svg")
    assert ran("compare", *runs, "--markdown").stdout.startswith("**")
    assert "\\toprule" in ran("compare", *runs, "--latex").stdout
    assert next(csv.DictReader(io.StringIO(ran("compare", *runs, "--csv").stdout)))["figure"] == "score"
    more = "accuracy(vanilla_rag) - accuracy(direct) > {} @ 95%"
    assert ran("compare", *runs, "--assert", more.format("0")).returncode == 0
    assert ran("compare", *runs, "--assert", more.format("90%")).returncode == 1
    unsure = ran("compare", *runs, "--assert", more.format("0"), "--assert", "accuracy(direct) > 30% @ 95%")
    assert unsure.returncode == 4
    assert re.search(
        r"accuracy\(direct\) = 0\.\d+, 95 % interval 0\.\d+ to 0\.\d+, claimed: > 0\.3, n = 89", unsure.stderr
    )
    assert "holds: accuracy(vanilla_rag)" in unsure.stderr
    assert "undecided: accuracy(direct)" in unsure.stderr
    both = ran("compare", *runs, "--json", "--csv")
    assert both.returncode == 2
    assert "choose one format" in both.stderr
    wrong = ran("compare", *runs, "--assert", "accuracy(direct >")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
    judged = json.loads(ran("compare", *runs, "--json", "--assert", more.format("0")).stdout)["claims"]
    assert judged[0]["decision"] == "holds"
