"""The controller: requests make records, and replaying records is all that changes the cluster."""
