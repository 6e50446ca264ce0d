"""`ragrounds compare` as a user gives it, on the shipped sample; its figures recomputed from the stored scores."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET

import pytest


@pytest.fixture
def ran(command, home):
    done = command("run", "--agent", "direct", "--agent", "vanilla_rag[top_k=8]", "--display", "none")
    assert done.returncode == 0, done.stderr
    return command


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
