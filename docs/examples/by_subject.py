"""Two agents by subject: where does a search help?"""

import ragrounds as rr

AGENTS = ["direct", "vanilla_rag[top_k=8]"]

if __name__ == "__main__":
    result = rr.run("sample", AGENTS, progress=False)
    subjects = result.to_pandas("attempts")[["run", "question_id", "subject"]]
    scores = result.to_pandas("scores").query("scorer == 'robust'").merge(subjects, on=["run", "question_id"])
    table = scores.pivot_table(index="subject", columns="agent", values="value").mul(100).round(1)
    print(table.to_string())
