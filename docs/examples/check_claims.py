"""Claims about agents: each holds, fails, or is undecided with so few questions."""

import ragrounds as rr

CLAIMS = [
    "accuracy(vanilla_rag) - accuracy(direct) > 0 @ 95%",
    "accuracy(vanilla_rag) >= 90% @ 95%",
    "accuracy(vanilla_rag) >= 60% @ 95%",
    "failed(vanilla_rag) <= 0",
]

if __name__ == "__main__":
    result = rr.run("sample", ["direct", "vanilla_rag[top_k=8]"], progress=False)
    for claim in rr.compare(result, scorers="robust", claims=CLAIMS).claims:
        print(f"{claim.decision:12} {claim.claim}")
