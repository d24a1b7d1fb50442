"""`surestart adopt`: which streams and tables lie under some folders, and which belong together, by evidence alone.

walk ──> read each checkpoint and each table ──> join ──> tell (TOML, questions) ──> add to the file
"""
