"""`pykraft up`: a KafkaCluster and its Topics as processes on this machine."""
