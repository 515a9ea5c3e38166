"""The documentation as a site, see :mod:`docs.site.conf`."""
