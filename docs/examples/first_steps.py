"""First steps in Python: two agents on the sample benchmark, compared, as frames. Needs no key and no network.

The notebook next to this file does the same; docs/reference/api.md explains it.
"""

import asyncio

import ragrounds as rr

AGENTS = ["direct", "vanilla_rag[top_k=8]"]


def main() -> None:
    # Two agents answer twenty questions. The same call resumes a run that was interrupted, and pays for nothing twice.
    result = rr.run("sample", AGENTS, limit=20)
    print(result)

    # Stored runs are compared under any scorer, by any property of the questions.
    comparison = rr.compare(result, group_by="subject", claims="separated(vanilla_rag, direct) @ 95%")
    print(comparison.claims[0].decision, comparison.claims[0].claim)

    # Everything comes as frames, for pandas.
    attempts = result.to_pandas("attempts")
    print(attempts.groupby("agent")[["input_tokens", "output_tokens", "seconds"]].sum())
    passages = result.to_pandas("passages")
    print("searches that found the gold document:", passages[passages["gold"]]["question_id"].nunique())

    # What is recorded is never asked again: this makes no call.
    again = asyncio.run(rr.arun("sample", AGENTS, limit=20))
    print("model calls made again:", again.made)


if __name__ == "__main__":
    main()
