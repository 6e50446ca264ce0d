"""Systems of users: their import paths, their source code, and how each is opened in its form
(:mod:`ragrounds.recorder.forms`).
"""
