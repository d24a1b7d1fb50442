"""Evidence in, findings and a verdict out. Nothing in this package writes."""
