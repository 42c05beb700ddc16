package dns

import (
	"net/http"

	"kops.local/kops/internal/node/metrics"
)

// Handler answers /healthz, /readyz and, in Prometheus' text format, /metrics.
func (c *Controller) Handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	m.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		switch s := c.Status(); {
		case s.Unpublished != "":
			http.Error(w, s.Unpublished, http.StatusServiceUnavailable)
		case !s.Ready():
			http.Error(w, "the cluster or the zones have not been listed yet", http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusOK)
		}
	})
	m.Handle("GET /metrics", metrics.Handler(func() []metrics.Metric {
		s := c.Status()
		return []metrics.Metric{
			metrics.One("dns_controller_records_wanted", metrics.Gauge, "Record sets that the cluster wants.", float64(s.Wanted)),
			metrics.One("dns_controller_names_refused", metrics.Gauge, "Names that are not published: without a zone, owned by someone else, or not allowed for their namespace.", float64(s.Refused)),
			metrics.One("dns_controller_zones_failing", metrics.Gauge, "Zones whose last update failed.", float64(len(s.Failing))),
			metrics.One("dns_controller_changes_total", metrics.Counter, "Names changed since the start.", float64(s.Changed)),
			metrics.One("dns_controller_failures_total", metrics.Counter, "Failed attempts to update a zone since the start.", float64(s.Failed)),
			metrics.One("dns_controller_synced_timestamp_seconds", metrics.Gauge, "When all zones last agreed with the cluster; 0: not yet.", metrics.Time(s.Synced)),
		}
	}))
	return m
}
