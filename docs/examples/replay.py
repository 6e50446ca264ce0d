"""What is recorded is never asked again: the same figures with the model's server gone."""

import ragrounds as rr
from ragrounds.extensions.stand_in.server import ALIAS, stand_in_server

if __name__ == "__main__":
    given = {"limit": 20, "model": "openai:any-name", "alias": ALIAS, "progress": False}
    with stand_in_server() as url:
        first = rr.run("sample", "vanilla_rag[top_k=4]", base_url=url, **given)
    again = rr.run("sample", "vanilla_rag[top_k=4]", base_url=url, journal="replay", new=True, **given)
    print(f"model calls made the first time: {first.made}, in the replay: {again.made}")
    print("the same answers:", list(first.to_pandas("attempts").text) == list(again.to_pandas("attempts").text))
