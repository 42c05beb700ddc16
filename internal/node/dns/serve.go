package dns

import (
	"net/http"

	"kops.local/kops/internal/node/metrics"
)

// Handler answers /healthz, /readyz and, in the text format of Prometheus, /metrics.
func (c *Controller) Handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	m.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		switch s := c.Status(); {
		case s.Lacking != "":
			http.Error(w, s.Lacking, http.StatusServiceUnavailable)
		case !s.Ready():
			http.Error(w, "the cluster or the zones were not listed yet", http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusOK)
		}
	})
	m.Handle("GET /metrics", metrics.Handler(func() []metrics.Metric {
		s := c.Status()
		return []metrics.Metric{
			metrics.One("dns_controller_records_wanted", metrics.Gauge, "Record sets that the cluster wants.", float64(s.Wanted)),
			metrics.One("dns_controller_names_refused", metrics.Gauge, "Names that are not published, because there is no zone or another owner has them.", float64(s.Refused)),
			metrics.One("dns_controller_zones_failing", metrics.Gauge, "Zones that could not be brought up to date when last tried.", float64(len(s.Failing))),
			metrics.One("dns_controller_changes_total", metrics.Counter, "Names changed since the start.", float64(s.Changed)),
			metrics.One("dns_controller_failures_total", metrics.Counter, "Failed tries to bring a zone up to date since the start.", float64(s.Failed)),
			metrics.One("dns_controller_synced_timestamp_seconds", metrics.Gauge, "When all zones agreed with the cluster last; 0: not yet.", metrics.Time(s.Synced)),
		}
	}))
	return m
}
