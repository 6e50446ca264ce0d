"""Commands of publishing, one file each."""
