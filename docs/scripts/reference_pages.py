from __future__ import annotations


def reference_pages():
    return {}, {}
