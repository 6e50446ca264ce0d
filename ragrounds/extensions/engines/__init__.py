"""Search engines of others as retrievers: Chroma, pgvector, LanceDB, Qdrant, and any over HTTP."""
