"""The quorum that keeps the metadata log: KRaft, with one voter for now."""
