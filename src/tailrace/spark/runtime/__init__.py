"""What the pipeline runs on: Spark and its Java, jobs in tasks, and the memory of both."""
