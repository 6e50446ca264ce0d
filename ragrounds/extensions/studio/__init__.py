"""The built-in graphs for LangGraph's server and Studio (``langgraph.json``)."""
