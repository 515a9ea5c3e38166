"""A FastAPI service with four handlers in its process."""
