"""How a request is put to the backend, and what its answers teach about that."""
