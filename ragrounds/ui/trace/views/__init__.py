"""Views of the viewer other than the list of attempts, one per file: each has a
:class:`ragrounds.ui.trace.view.View`."""
