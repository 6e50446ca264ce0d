"""Two retrievers scored without any model: trec_eval's measures, and a paired test."""

import json
import tempfile
from pathlib import Path

import ragrounds as rr

DOCUMENTS = {
    "d1": "Calcium gluconate steadies the heart when potassium is very high.",
    "d2": "Insulin with glucose moves potassium into cells.",
    "d3": "Vitamin K reverses warfarin within a day.",
    "d4": "A barking cough in a toddler suggests croup.",
}
QUERIES = {"q1": "heart and high potassium", "q2": "what reverses warfarin", "q3": "toddler with a barking cough"}
RELEVANT = {"q1": "d1", "q2": "d3", "q3": "d4"}


def folder() -> Path:
    """A set in BEIR's form: documents, queries, and which belong together."""
    made = Path(tempfile.mkdtemp()) / "notes"
    (made / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", DOCUMENTS), ("queries", QUERIES)):
        rows = [json.dumps({"_id": id, "title": "", "text": text}) for id, text in texts.items()]
        (made / f"{name}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    judged = [f"{query}\t{document}\t1" for query, document in RELEVANT.items()]
    (made / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "\n".join(judged) + "\n", encoding="utf-8"
    )
    return made


if __name__ == "__main__":
    found = rr.retrieve(
        f"beir:{folder()}", ["bm25", "bm25[analyser=plain]"], measures=["nDCG@3", "R@1"], progress=False
    )
    measures = found.to_pandas("measures")
    print(measures[["retriever", "measure", "value"]].round(3).to_string(index=False))
