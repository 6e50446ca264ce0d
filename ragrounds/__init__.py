"""ragrounds: agentic RAG evaluation for medical question answering."""

from ragrounds.version import __version__ as __version__
