"""What `docs/scripts/run_blocks.py` is made of: pages, their blocks, the folder they run in, and what is compared."""
