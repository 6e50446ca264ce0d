"""What a searcher has to say of a search beside its passages, and the name of corpora that change by themselves."""

from __future__ import annotations

from ragrounds.base.contracts import EventCollector, SearchNote, Used

LIVE = "@live"
"""How the name of a corpus ends that changes by itself and has no version, such as the web or PubMed."""
SEARCH_NOTES = EventCollector[SearchNote]("ragrounds_search_notes")
"""Searchers report here what is to be noted of the search that runs; whoever began it collects it."""
SEARCH_REQUESTS = EventCollector[Used]("ragrounds_search_requests")
"""Search providers report here the requests that a search has to be paid for."""
