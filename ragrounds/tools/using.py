"""What a search uses of models on servers: embedders tell it while they work, whoever began the search listens."""

from __future__ import annotations

from ragrounds.contracts import EventCollector, Used

USED = EventCollector[Used]("ragrounds_used")
