"""What a broker knows of the partitions it hosts: epochs, high watermarks, who waits for them."""
