"""What a search uses of models on servers: embedders tell it while they work, whoever began the search listens."""

from __future__ import annotations

from ragrounds.contracts import Used
from ragrounds.listening import Listening

USED = Listening[Used]("ragrounds_used")
