"""The views of the viewer beside the list of attempts, one a file: each has a :class:`ragrounds.ui.trace.view.View`."""
