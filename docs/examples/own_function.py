"""A plain function as an agent, next to a strategy that ships."""

import ragrounds as rr


def always_b(question: str) -> str:
    """Answers the same whatever is asked: what must a real agent beat?"""
    return "The answer is (B)."


if __name__ == "__main__":
    result = rr.run("sample", {"always B": always_b, "RAG": "vanilla_rag[top_k=8]"}, limit=40, progress=False)
    print(result)
