"""Images, compose file and manifests, and the check of them."""
