"""Record batches of format v2: header, checksum, records, compression."""
