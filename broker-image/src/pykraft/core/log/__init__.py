"""The log of one partition: Apache Kafka's files, byte for byte."""
