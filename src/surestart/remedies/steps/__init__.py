"""One module per kind of step. Each can be called again after it, or any part of it, was done: it does what is missing.

keep      freeze which rows stay                     undo: nothing, the marks are harmless
clear     remove the others from a Delta table       undo: RESTORE
database  remove the others from PostgreSQL, or put what was filled beside in their place     undo: the removed ones
retire    move a checkpoint aside                    undo: move it back, byte for byte
start     say how each stage begins                  undo: say how it goes on
unpause   set the jobs as they were; jobs, stop and look, which begin such a plan, are remedies.jobs.stand_still
"""
