"""A table with published figures next to ours, as a study."""

import tempfile
from pathlib import Path

import ragrounds as rr

TABLE = """
title = "Does a search help?"
baseline = "no search"
settings = { benchmark = "sample", corpus = "sample", model = "baseline:extractive" }

[[rows]]
name = "no search"
agent = "direct"
published = [29.0, 31.2]

[[rows]]
name = "8 passages"
agent = "vanilla_rag[top_k=8]"
published = [71.5, 66.0]

[[columns]]
name = "all"

[[columns]]
name = "nephrology"
where = { subject = "nephrology" }
"""

if __name__ == "__main__":
    file = Path(tempfile.mkdtemp()) / "search.toml"
    file.write_text(TABLE, encoding="utf-8")
    cells = rr.study(file, progress=False).to_pandas("cells")
    print(cells[["row", "column", "value", "published"]].to_string(index=False))
