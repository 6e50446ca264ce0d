"""Training of retrievers. Everything heavy (torch, sentence-transformers, peft) is imported where it is used."""
