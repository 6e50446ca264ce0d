"""Benchmark families, one file each, that read the authors' formats. They are found by scanning this folder."""
