"""Why is an agent wrong: was the right passage never found, or was it found and not followed?"""

import ragrounds as rr

if __name__ == "__main__":
    rr.run("sample", "vanilla_rag[top_k=8]", progress=False)
    run = rr.load("vanilla_rag[top_k=8]")
    scores = run.to_pandas("scores").query("scorer == 'robust'")
    wrong = set(scores.query("value == 0").question_id)
    passages = run.to_pandas("passages")
    found = set(passages[passages.gold].question_id)
    print(f"wrong: {len(wrong)}")
    print(f"  the right passage was never found: {len(wrong - found)}")
    print(f"  it was found, and not followed:    {len(wrong & found)}")
