"""Long answers: graded one by one against a reference, then set against each other in pairs.

The judge is the stand-in that comes with the package, which compares words: the figures show how it works, no more.
"""

import ragrounds as rr
from ragrounds.extensions.stand_in.server import ALIAS, stand_in_server

AGENTS = ["vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]"]

if __name__ == "__main__":
    rr.run("sample", AGENTS, progress=False)
    with stand_in_server() as url:
        server = {"base_url": url, "alias": ALIAS, "progress": False}
        judged = rr.judge(AGENTS, "equivalence", judges="openai:judge", **server)
        scores = judged.to_pandas("scores").query("scorer == 'equivalent'")
        for run, share in scores.groupby("run").value.mean().items():
            print(f"{run}: {100 * share:.1f} % equivalent to the reference")
        played = rr.arena(AGENTS, judges="openai:judge", **server)
    ratings = played.to_pandas("ratings")
    print(ratings[["axis", "system", "rating", "low", "high"]].round(0).to_string(index=False))
