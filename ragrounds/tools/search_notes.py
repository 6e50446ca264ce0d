"""Notes of a searcher on a search, besides its passages, and the name of corpora that change by themselves."""

from __future__ import annotations

from ragrounds.base.contracts import EventCollector, SearchNote, Used

LIVE = "@live"
"""Suffix of the name of a corpus that changes by itself and has no version, such as the web or PubMed."""
SEARCH_NOTES = EventCollector[SearchNote]("ragrounds_search_notes")
"""Collector to which searchers report notes on the current search. The caller that began the search collects them."""
SEARCH_REQUESTS = EventCollector[Used]("ragrounds_search_requests")
"""Collector to which search providers report the requests that a search has to be paid for."""
