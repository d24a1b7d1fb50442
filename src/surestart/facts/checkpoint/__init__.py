"""Read a checkpoint from any storage, without Spark. Nothing in this package writes."""
