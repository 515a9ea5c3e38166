"""A worker that uses the models of a Django project."""
