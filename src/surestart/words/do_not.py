"""The two mistakes with a checkpoint that are made most often and cost most, in words that every screen shares."""

KEEP = "delete the checkpoint: without its query id the sink cannot tell old rows from new ones."
NO_EDIT = "write into the checkpoint by hand or delete single files: the batch ids stay known to the sink."
