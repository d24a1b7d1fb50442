"""Where a stage reads from: files (Auto Loader or its twin), Kafka, Delta."""
