"""What PostgreSQL or Chroma alone do, on real servers, which are killed too; `test_engines` has what all engines do."""

import asyncio
import json
import uuid

import pytest
from aiohttp import ClientSession, web

from ragrounds.base.errors import GaveUp, UserError
from ragrounds.base.specs import parse
from ragrounds.extensions.engines import external_index
from ragrounds.tools.retriever import open_searcher
from tests.extensions.engines.engine_servers import chroma, free_port
from tests.extensions.engines.hashed_words import EMBED, found, push


@pytest.mark.parametrize(
    ("name", "client", "place"), [("pgvector", "pgvector", "table"), ("chroma", "chromadb", "collection")]
)
def test_no_key_stands_in_a_spec_or_an_error(name, client, place, home, monkeypatch):
    pytest.importorskip(client, reason=f"{client} is not installed: an extra")
    secret = "Kennwort-93451-geheim"
    spec = parse(name).having(embed=EMBED, **{place: "x"})
    for wrong in ({"url": f"http://u:{secret}@127.0.0.1:1/x"}, {"url": f"http://h/?password={secret}"}):
        with pytest.raises(UserError) as refused:
            open_searcher(spec.having(**wrong), "", home)
        assert secret not in str(refused.value)
        assert "url_env" in str(refused.value)
    with pytest.raises(UserError, match="is not set"):
        open_searcher(spec.having(url_env="NO_SUCH_PLACE"), "", home)
    with pytest.raises(UserError) as named:
        open_searcher(spec.having(url="http://h", key_env="sk-12345+67890"), "", home)
    assert "12345" not in str(named.value)
    monkeypatch.setenv(
        "PLACE", f"postgresql://u:{secret}@127.0.0.1:1/x" if name == "pgvector" else "http://127.0.0.1:1"
    )
    monkeypatch.setattr(external_index, "FIRST_WAIT", 0.01)
    with pytest.raises(GaveUp) as away:
        open_searcher(spec.having(url_env="PLACE"), "", home)
    assert away.value.kind == "connection"
    assert secret not in str(away.value)
    assert "\n" not in str(away.value)


async def test_words_and_both_in_postgresql(home, pgvector_server):
    target = parse("pgvector").having(url=pgvector_server.url, table="public.words_" + uuid.uuid4().hex[:8])
    push(target, vectors=False)
    words = target.having(mode="text", words="words")
    hits = await found(words, "does allopurinol lower the acids", home=home)
    assert [hit.id for hit in hits] == ["gout-2", "gout-1"]
    assert hits[0].score > hits[1].score > 0
    assert await found(words, "it's : & | ! <-> \\ '", home=home) == []
    both = parse("pgvector").having(url=pgvector_server.url, table="both_" + uuid.uuid4().hex[:8])
    spec = push(both).having(mode="hybrid", words="words")
    hits = await found(spec, "uric acid and allopurinol", home=home, k=4)
    assert hits[0].id == "gout-2"
    assert hits[0].score == pytest.approx(2 / 61)
    # Without the column of words they are made row by row; a filter with a percent sign is no parameter.
    plain = parse("pgvector").having(
        mode="text", filter="title like 'G%'", **{k: both.parameters[k] for k in both.parameters}
    )
    assert [hit.id for hit in await found(plain, "uric acid crystals", home=home)] == ["gout-1", "gout-2"]


async def test_fields_in_json_and_a_table_of_another_form(home, pgvector_server):
    import psycopg

    with psycopg.connect(pgvector_server.url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS clinic")
        connection.execute("CREATE TABLE IF NOT EXISTS clinic.notes (pk int PRIMARY KEY, body text, about jsonb)")
        about = json.dumps({"title": "On gout", "of": {"doc": "d7"}})
        connection.execute("INSERT INTO clinic.notes VALUES (7, 'uric acid', %s) ON CONFLICT DO NOTHING", (about,))
    spec = parse("pgvector[table=clinic.notes,mode=text,id=pk,text=body,title=about.title,document=about.of.doc]")
    hits = await found(spec.having(url=pgvector_server.url), "what is gout?", home=home)
    assert [(hit.id, hit.document, hit.title, hit.text) for hit in hits] == [("7", "d7", "On gout", "uric acid")]


async def test_a_server_behind_a_token(chroma_server, home, monkeypatch):
    """Chroma's own server takes no token: one that does stands before it here, as a proxy would."""
    token = "t0ken-4711-of-the-clinic"

    async def forward(request: web.Request) -> web.Response:
        if request.headers.get("X-Chroma-Token") != token:
            return web.json_response({"error": "AuthError", "message": f"no: {dict(request.headers)}"}, status=401)
        async with (
            ClientSession() as session,
            session.request(
                request.method,
                chroma_server.url + request.path_qs,
                data=await request.read(),
                headers={"Content-Type": "application/json"},
            ) as answer,
        ):
            return web.Response(body=await answer.read(), status=answer.status, content_type=answer.content_type)

    application = web.Application(client_max_size=1 << 26)
    application.router.add_route("*", "/{any:.*}", forward)
    runner = web.AppRunner(application)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    monkeypatch.setenv("CLINIC_TOKEN", token)
    try:
        spec = parse("chroma").having(url=f"http://127.0.0.1:{port}", key_env="CLINIC_TOKEN", collection="behind")
        spec = await asyncio.to_thread(push, spec)
        assert token not in str(spec)
        searcher = await asyncio.to_thread(open_searcher, spec, "", home)
        assert (await searcher.search("fever", 1))[0].id == "flu-1"
        monkeypatch.setenv("CLINIC_TOKEN", "another-0815-token")
        monkeypatch.setattr(external_index, "FIRST_WAIT", 0.01)
        with pytest.raises(GaveUp) as refused:
            await asyncio.to_thread(open_searcher, spec, "", home)
        assert "another-0815" not in str(refused.value)
    finally:
        await runner.cleanup()


@pytest.mark.slow
async def test_a_chroma_server_that_is_killed_and_comes_back(home, tmp_path, monkeypatch):
    pytest.importorskip("chromadb", reason="chromadb is not installed: the extra `chroma`")
    with chroma(tmp_path / "killed") as server:
        spec = push(parse("chroma").having(url=server.url, collection="tiny"))
        searcher = open_searcher(spec, "", home)
        assert (await searcher.search("fever", 1))[0].id == "flu-1"
        server.kill()
        asking = asyncio.ensure_future(searcher.search("fever", 1))
        await asyncio.sleep(1)
        await asyncio.to_thread(server.start)
        assert (await asking)[0].id == "flu-1"  # the pause is outlived
        server.kill()
        monkeypatch.setattr(external_index, "OUTAGE", 1.0)
        with pytest.raises(GaveUp, match="chroma gave no answer within"):
            await searcher.search("fever", 1)
        await asyncio.to_thread(server.start)
        assert (await searcher.search("fever", 1))[0].id == "flu-1"


@pytest.mark.slow
async def test_a_postgresql_server_that_crashes_and_comes_back(home, pgvector_server, monkeypatch):
    spec = push(parse("pgvector").having(url=pgvector_server.url, table="crashing"))
    searcher = open_searcher(spec, "", home)
    before = await searcher.search("fever", 1)
    pgvector_server.stop("immediate")
    asking = asyncio.ensure_future(searcher.search("fever", 1))
    await asyncio.sleep(1)
    await asyncio.to_thread(pgvector_server.start)
    assert await asking == before
    pgvector_server.stop("immediate")
    monkeypatch.setattr(external_index, "OUTAGE", 1.0)
    try:
        with pytest.raises(GaveUp) as gone:
            await searcher.search("fever", 1)
        assert gone.value.kind == "connection"
    finally:
        await asyncio.to_thread(pgvector_server.start)
    assert await searcher.search("fever", 1) == before


async def test_with_a_version_of_its_own_nothing_is_asked_before_a_search(home, monkeypatch):
    pytest.importorskip("chromadb", reason="chromadb is not installed: the extra `chroma`")
    monkeypatch.setattr(external_index, "OUTAGE", 0.1)
    monkeypatch.setattr(external_index, "FIRST_WAIT", 0.05)
    spec = parse("chroma[collection=x,version=3]").having(url=f"http://127.0.0.1:{free_port()}", embed=EMBED)
    searcher = open_searcher(spec, "papers", home)
    assert searcher.corpus == "papers@3"
    with pytest.raises(GaveUp) as away:
        await searcher.search("fever", 1)
    assert away.value.kind == "connection"


def test_a_folder_that_is_not_there_is_not_made(home, tmp_path):
    pytest.importorskip("chromadb", reason="chromadb is not installed: the extra `dense`")
    spec = parse("chroma").having(path=str(tmp_path / "nowhere"), collection="c", embed=EMBED)
    with pytest.raises(UserError, match="no folder"):
        open_searcher(spec, "", home)
    assert not (tmp_path / "nowhere").exists()
