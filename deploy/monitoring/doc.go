// Package monitoring holds Prometheus' rules, Grafana's dashboard, the runbook and
// the reference of metrics to each other, and to what running services expose.
// Prometheus itself judges: its parser reads the rules and the dashboard's queries,
// its rule manager runs the alerts, and its engine runs every query over what was
// scraped.
//
// It is a module of its own, outside the workspace, so that Prometheus has no say
// in the versions that the services link.
package monitoring
