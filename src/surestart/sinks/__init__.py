"""Where a stage writes to. Every write carries the pair (query id from the checkpoint, batch id)."""
