"""What nobody should do to a checkpoint, spelled once: the two that are done most, and cost most."""

KEEP = "delete the checkpoint: without its query id the sink cannot tell old rows from new ones."
NO_EDIT = "write into the checkpoint by hand or delete single files: the batch ids stay known to the sink."
