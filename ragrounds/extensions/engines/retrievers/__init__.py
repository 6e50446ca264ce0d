"""Retrievers over an index that another engine holds, one file each."""
