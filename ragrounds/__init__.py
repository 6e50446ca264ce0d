"""ragrounds: agentic RAG evaluation for medical question answering."""

__version__ = "0.1.0"
