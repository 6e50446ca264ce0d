"""Which server gives an embedder's vectors: an index of one is never searched with the vectors of another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.specs import parse
from ragrounds.evals.store.store import Store
from ragrounds.models.started_server import free_port
from ragrounds.tools.index.embedding_servers import embedding_models, fingerprints_in, with_fingerprints
from tests.conftest import Cli
from tests.servers.process import Running
from tests.servers.ragas_server import ragas_server


def agent(url: str, more: str = "") -> tuple[str, ...]:
    retriever = f'dense[model="openai:letters",base_url="{url}",store=faiss{more}]'
    return ("--agent", f"vanilla_rag[retriever={retriever}]", "--limit", "4", "--display", "none")


def embedded(server: Running) -> int:
    return int(server.stats()["embedded"])


def indexes(home: Path) -> list[str]:
    return sorted(path.name for path in home.glob("indexes/**/dense-*"))


def retrievers(home: Path) -> list[str]:
    with Store(home) as store:
        return [run.identity["retriever"] for run in store.runs()]


@pytest.mark.slow
def test_two_servers_have_two_indexes_unless_they_have_one_name(command: Cli, home: Path) -> None:
    pytest.importorskip("faiss")
    with ragas_server("--root", "/weights/a") as one, ragas_server("--root", "/weights/a") as two:
        assert command("run", *agent(one.url)).returncode == 0
        assert command("run", *agent(two.url)).returncode == 0
        assert len(indexes(home)) == 2
        assert embedded(one) == embedded(two) > 4
        before = embedded(one) + embedded(two)
        assert command("run", *agent(one.url, ",alias=lab")).returncode == 0
        built = embedded(one) + embedded(two) - before
        assert built == before / 2
        done = command("run", *agent(two.url, ",alias=lab"))
        assert (done.returncode, len(indexes(home))) == (0, 3)
        assert embedded(one) + embedded(two) == before + built  # moved: its vectors and its searches are still there
    named = retrievers(home)
    assert named[2] == named[3] == "dense[alias=lab,model=openai:letters,store=faiss]"


def test_a_query_that_is_refused_fails_its_attempt_alone(command: Cli, home: Path, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    texts = ["What treats zygomycosis?", *(f"What treats illness {number}?" for number in range(3))]
    (tmp_path / "q.jsonl").write_text(
        "\n".join(json.dumps({"id": str(n), "question": text, "answer": "rest"}) for n, text in enumerate(texts))
    )
    with ragas_server() as server:
        asked = ("--benchmark", f"jsonl:{tmp_path / 'q.jsonl'}", "--corpus", "sample", "--model", "baseline:extractive")
        done = command("run", *asked, *agent(server.url), "--json")
    assert done.returncode == 3, done.stderr
    assert [row["statuses"] for row in json.loads(done.stdout)["rows"]] == [{"completed": 3, "failed": 1}]
    assert "1 failed: " in done.stderr
    assert "maximum context length is 8 tokens" in done.stderr


def test_another_server_behind_an_address_stops_or_embeds_anew(command: Cli, home: Path) -> None:
    pytest.importorskip("faiss")
    port = str(free_port())
    with ragas_server("--port", port, "--root", "/weights/a") as server:
        line = ("run", *agent(server.url))
        assert command(*line).returncode == 0
        count = embedded(server)
    with ragas_server("--port", port, "--root", "/weights/b") as server:
        for asked in (line, ("index", "build", "mine", "--from", "sample", "--retriever", line[2][22:-1])):
            stopped = command(*asked)
            assert stopped.returncode == 2, stopped.stderr
            assert "it reported root /weights/a, now root /weights/b" in stopped.stderr
        with Store(home) as store:
            (run,) = store.runs()
        assert f"to resume {run.id}" in command("runs", "resume", run.id).stderr
        assert embedded(server) == 0
        assert command(*line, "--server-changed", "new").returncode == 0
        assert embedded(server) == count
        assert command(*line, "--new").returncode == 0
        assert embedded(server) == count
    first, *others = retrievers(home)
    assert "fingerprint" not in first
    assert len(set(others)) == 1
    assert "fingerprint=" in others[0]
    assert len(indexes(home)) == 2
    with Store(home) as store:
        assert [one.servers.popitem()[1]["root"] for one in store.runs()] == ["/weights/a", "/weights/b", "/weights/b"]


def test_embedders_are_found_wherever_they_stand_in_a_spec() -> None:
    spec = parse(
        'rrf[a=bm25,b=dense[model="openai:x",base_url="http://h/v1/"],'
        'c=rerank[of=dense[model="openai:y",base_url="http://g/v1",alias=lab],model=monobert],d=dense[model="openai:z"]]'
    )
    texts = list(embedding_models(spec))
    assert texts == ["openai:x[base_url=http://h/v1/]", "openai:y[alias=lab,base_url=http://g/v1]"]
    marked = with_fingerprints(spec, {texts[1]: str(parse(texts[1]).having(fingerprint="abc"))})
    assert str(marked).count("fingerprint") == 1
    servers = {"openai:x[server=http://h/v1]": "", "openai:y[server=lab]": "abc"}
    assert fingerprints_in(marked) == servers
    with pytest.raises(UserError, match="an embedder asks one server"):
        list(embedding_models(parse('dense[model="openai:x",base_url="http://h/v1,http://g/v1"]')))


def test_an_embedders_tokens_are_counted_and_priced_by_its_name(command: Cli, home: Path) -> None:
    """The server's address is no part of the name under which prices.toml has the embedder."""
    pytest.importorskip("faiss")

    def searching() -> dict[str, float | None]:
        ledger = json.loads(command("ledger", "--json").stdout)
        (line,) = (line for line in ledger["lines"] if line["role"] == "searching")
        return {"tokens": line["usage"]["input"], "cost": line["cost_uncached"]}

    with ragas_server() as server:
        retriever = f'dense[model="openai:letters[base_url={server.url}]",store=faiss]'
        chosen = ("--agent", f"vanilla_rag[retriever={retriever}]", "--model", "baseline:extractive", "--limit", "2")
        assert command("run", *chosen, "--display", "none").returncode == 0
    before = searching()
    assert before["tokens"]
    assert before["cost"] is None
    (home / "prices.toml").write_text('["openai:letters"]\ninput = 0.02\n')
    assert command("ledger", "--reprice").returncode == 0
    assert searching() == {"tokens": before["tokens"], "cost": pytest.approx(before["tokens"] * 0.02e-6)}
