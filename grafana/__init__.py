"""Dashboards as code, built with Grafana's Foundation SDK and written as JSON."""
