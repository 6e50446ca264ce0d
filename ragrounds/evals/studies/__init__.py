"""Many runs as one table of a paper: studies, their cells, the published figures beside ours."""
