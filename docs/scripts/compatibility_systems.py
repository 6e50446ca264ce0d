"""The rows of perf/compatibility.md, as data: what a system is called, where it stands, what it needs."""

from __future__ import annotations

from compatibility_rows import Foreign

GRAPHS = ("langgraph", "langchain", "langchain-openai", "openai>=3")
LANGGRAPH = ("langgraph", "langchain-core", "openai")
GENERATION = 'input = { question = "prompt" }\noutput = "generation"\n'
LLAMA = ("llama-index-llms-openai", "llama-index-embeddings-openai")
ENDPOINT = """
[endpoint]
url = "http://127.0.0.1:{port}/ask"
form = "json"
price = { input = 2.0, output = 8.0 }
request = { query = "{prompt}" }
answer = "result.text"
passages = { list = "sources", text = "body", title = "heading", id = "ref" }
usage = { input = "usage.tokens_in", output = "usage.tokens_out" }
"""
OPENAI_ENDPOINT = """
[endpoint]
url = "http://127.0.0.1:{port}/v1"
form = "openai"
model = "gpt-4o-mini"
price = { input = 2.0, output = 8.0 }
"""
RECORDED = 'record = ["http://127.0.0.1:{port}/"]\n'
"""The searches of a service, which has no form that is known, are recorded where the user names its address."""
ANTHROPIC = {"ANTHROPIC_BASE_URL": "{root}", "ANTHROPIC_API_KEY": "none"}
ELASTIC = {
    "ELASTICSEARCH_URL": "{root}",
    "ELASTICSEARCH_USER": "elastic",
    "ELASTICSEARCH_PASSWORD": "none",
    "ELASTICSEARCH_API_KEY": "none",
}
QUIET_CREW = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}
SMOL = ("smolagents[openai,litellm]", "smolagents")
STRANDS = ("strands-agents[openai]",)
AUTOGEN = ("autogen-agentchat", "autogen-ext[openai]")
CLIENTS = ("requests", "aiohttp", "httpx", "curl_cffi", "websockets", "grpcio")
SYSTEMS = (
    Foreign(
        "react_agent",
        "LangGraph `create_react_agent`",
        "react_agent.py:graph",
        GRAPHS,
        ("langgraph-prebuilt", "openai"),
    ),
    Foreign("agent", "LangChain `create_agent`", "agent.py:graph", GRAPHS, ("langchain", "langchain-openai")),
    Foreign("deep_agent", "deepagents", "deep_agent.py:graph", (*GRAPHS, "deepagents"), ("deepagents",)),
    Foreign(
        "supervisor",
        "langgraph-supervisor",
        "supervisor.py:graph",
        (*GRAPHS, "langgraph-supervisor"),
        ("langgraph-supervisor",),
    ),
    Foreign("swarm", "langgraph-swarm", "swarm.py:graph", (*GRAPHS, "langgraph-swarm"), ("langgraph-swarm",)),
    Foreign("agentic_rag", "agentic RAG (recipe)", "agentic_rag.py:graph", GRAPHS, LANGGRAPH),
    Foreign("corrective_rag", "corrective RAG (recipe)", "corrective_rag.py:app", GRAPHS, LANGGRAPH, GENERATION),
    Foreign("self_rag", "self-RAG (recipe)", "self_rag.py:workflow", GRAPHS, LANGGRAPH, GENERATION),
    Foreign("adaptive_rag", "adaptive RAG (recipe)", "adaptive_rag.py:build", GRAPHS, LANGGRAPH, GENERATION),
    Foreign(
        "langgraph_app",
        "app with a langgraph.json",
        "langgraph_app/langgraph.json:notes",
        GRAPHS,
        LANGGRAPH,
        bare=False,
    ),
    Foreign(
        "llama_engine",
        "LlamaIndex query engine",
        "llama_engine.py:engine",
        LLAMA,
        ("llama-index-core", "llama-index-llms-openai", "openai"),
    ),
    Foreign(
        "llama_workflow",
        "LlamaIndex workflow",
        "llama_workflow.py:ask",
        LLAMA,
        ("llama-index-core", "llama-index-workflows"),
    ),
    Foreign(
        "openai_function",
        "function with OpenAI's client",
        "openai_function.py:answer",
        GRAPHS,
        ("openai", "httpx2"),
        searches=False,
    ),
    Foreign(
        "openai_responses",
        "coroutine with OpenAI's responses",
        "openai_function.py:respond",
        GRAPHS,
        ("openai",),
        searches=False,
    ),
    Foreign(
        "openai_2",
        "the same function, openai below 3",
        "openai_function.py:answer",
        LLAMA,
        ("openai", "httpx"),
        searches=False,
    ),
    Foreign("endpoint", "JSON endpoint", "", GRAPHS, (), card=ENDPOINT),
    Foreign("openai_endpoint", "OpenAI-compatible agent", "", GRAPHS, (), card=OPENAI_ENDPOINT, searches=False),
    # From here on, what stands in an environment of its own: ragrounds is told its Python.
    Foreign(
        "rag_research",
        "LangChain's rag-research-agent-template (2024)",
        "langgraph.json:retrieval_graph",
        ("-r", "{clone}/pyproject.toml"),
        ("langchain-core", "langgraph", "langchain-anthropic", "openai"),
        repository="langchain-ai/rag-research-agent-template",
        card=RECORDED,
        environment=ANTHROPIC | ELASTIC,
    ),
    Foreign(
        "retrieval_agent",
        "LangChain's retrieval-agent-template (2024)",
        "langgraph.json:retrieval_graph",
        ("-r", "{clone}/pyproject.toml"),
        ("langchain-core", "langgraph", "langchain-anthropic"),
        repository="langchain-ai/retrieval-agent-template",
        card=RECORDED + '[config]\nuser_id = "me"\n',
        environment=ANTHROPIC | ELASTIC,
    ),
    Foreign(
        "react_template",
        "LangChain's react-agent template",
        "langgraph.json:agent",
        ("-r", "{clone}/pyproject.toml"),
        ("langchain", "langgraph", "langchain-anthropic", "langchain-tavily"),
        repository="langchain-ai/react-agent",
        card=RECORDED,
        environment=ANTHROPIC | {"TAVILY_API_KEY": "none", "MODEL": "anthropic/claude-sonnet-4-5-20250929"},
        site="import langchain_tavily._utilities as t, os; t.TAVILY_API_URL = os.environ['ROOT_URL']",
    ),
    Foreign(
        "gemini",
        "gemini-fullstack-langgraph-quickstart",
        "backend/langgraph.json:agent",
        ("-r", "{clone}/backend/pyproject.toml"),
        ("langgraph", "google-genai", "langchain-google-genai"),
        repository="google-gemini/gemini-fullstack-langgraph-quickstart",
        environment={"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{root}"},
        searches=False,
    ),
    Foreign(
        "open_deep_research",
        "open_deep_research",
        "langgraph.json:Deep Researcher",
        ("-r", "{clone}/pyproject.toml"),
        ("langgraph", "langchain", "openai"),
        repository="langchain-ai/open_deep_research",
        card='output = "final_report"\n',
        environment={"SEARCH_API": "openai"},
        searches=False,
    ),
    Foreign(
        "gpt_researcher",
        "gpt-researcher",
        "researcher.py:ask",
        ("gpt-researcher",),
        ("gpt-researcher", "langchain-openai"),
        environment={
            "RETRIEVER": "custom",
            "RETRIEVER_ENDPOINT": "{root}/search",
            "FAST_LLM": "openai:gpt-4o-mini",
            "SMART_LLM": "openai:gpt-4.1",
            "STRATEGIC_LLM": "openai:gpt-4.1-mini",
            "EMBEDDING": "openai:text-embedding-3-small",
        },
        card=RECORDED,
        apart=True,
    ),
    Foreign(
        "llama_example",
        "the agent of LlamaIndex's examples",
        "llama_example.py:ask",
        LLAMA,
        ("llama-index-core", "llama-index-workflows"),
        notebook="run-llama/workflows-py:examples/agent.ipynb",
        apart=True,
    ),
    Foreign(
        "deep_stream",
        "deepagents over Anthropic, streamed",
        "deep_stream.py:graph",
        ("deepagents", "langchain-anthropic"),
        ("deepagents", "langchain-anthropic"),
        environment=ANTHROPIC,
        apart=True,
    ),
    Foreign("crew", "CrewAI", "crew.py:ask", ("crewai",), ("crewai",), environment=QUIET_CREW, apart=True),
    Foreign(
        "agents_sdk",
        "OpenAI Agents SDK, streamed",
        "agents_sdk.py:ask",
        ("openai-agents",),
        ("openai-agents",),
        apart=True,
    ),
    Foreign(
        "pydantic_agent",
        "pydantic-ai, streamed",
        "pydantic_agent.py:ask",
        ("pydantic-ai-slim[anthropic]",),
        ("pydantic-ai-slim", "anthropic"),
        environment=ANTHROPIC,
        apart=True,
    ),
    Foreign("smol", "smolagents, one agent shared by all questions", "smol_agents.py:ask", SMOL, SMOL[1:], apart=True),
    Foreign(
        "smol_code",
        "smolagents that codes (LiteLLM)",
        "smol_agents.py:code",
        SMOL,
        ("litellm",),
        apart=True,
        searches=False,
    ),
    Foreign("dspy", "DSPy module", "dspy_program.py:program", ("dspy",), ("dspy",), bare=False, apart=True),
    Foreign(
        "haystack",
        "Haystack pipeline",
        "haystack_pipeline.py:ask",
        ("haystack-ai",),
        ("haystack-ai",),
        apart=True,
    ),
    Foreign(
        "agno",
        "agno, with its clock in the prompt",
        "agno_agent.py:ask",
        ("agno", "openai"),
        ("agno",),
        apart=True,
    ),
    Foreign(
        "adk",
        "Google ADK over Gemini",
        "adk_agent.py:ask",
        ("google-adk",),
        ("google-adk", "google-genai"),
        environment={"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{root}"},
        apart=True,
    ),
    Foreign("strands", "Strands, streamed", "strands_agent.py:ask", STRANDS, ("strands-agents",), apart=True),
    Foreign(
        "griptape",
        "griptape, a function without async",
        "griptape_agent.py:ask",
        ("griptape[drivers-prompt-openai]",),
        ("griptape", "openai"),
        apart=True,
        searches=False,
    ),
    Foreign("mirascope", "mirascope", "mirascope_call.py:ask", ("mirascope[openai]",), ("mirascope",), apart=True),
    Foreign("autogen", "AutoGen assistant", "autogen_agent.py:ask", AUTOGEN, AUTOGEN[:1], apart=True),
    *(
        Foreign(name, title, f"clients.py:{name}", CLIENTS, shown, apart=True, searches=False, heard=heard, **more)
        for name, title, shown, heard, more in (
            ("in_threads", "requests, four threads", ("requests",), True, {}),
            ("aiohttp_stream", "aiohttp, streamed", ("aiohttp",), True, {}),
            ("own_transport", "httpx, own transport", ("httpx",), True, {}),
            ("forked", "multiprocessing, forked", (), True, {}),
            ("child", "a Python of its own", (), True, {}),
            ("urllib_alone", "urllib", (), False, {}),
            ("curl", "curl_cffi", ("curl_cffi",), False, {}),
            ("websocket", "websocket", ("websockets",), False, {}),
            ("grpc_call", "gRPC", ("grpcio",), False, {"environment": {"GRPC_TARGET": "127.0.0.1:{grpc}"}}),
        )
    ),
)
