"""Remedies: resume, rewind, replay, backfill, reset and retire, as plans that are read, applied by digest, and undone.

chain        which stages hang on which, and what each of them writes
plan         a remedy as a value: what it rests on, what will be done, what it costs, its digest
plan_*       one module per remedy; they read and never write
apply undo   the plan's steps, forward and back, journaled; steps/ has one module per kind of step
start        how a stage begins after a remedy, kept in the run history and obeyed by the runner
certificate  the counted proof
"""
