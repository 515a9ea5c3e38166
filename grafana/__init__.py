"""Dashboards as code: made with Grafana's Foundation SDK, written as JSON that Grafana loads as it is."""
