"""One loader file a family: the authors' own format in, questions and golds out."""
