package dns

import (
	"fmt"
	"net/http"
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
	m.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		s := c.Status()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		var synced int64
		if !s.Synced.IsZero() {
			synced = s.Synced.Unix()
		}
		for _, v := range []struct {
			name, kind, help string
			value            int64
		}{
			{"dns_controller_records_wanted", "gauge", "Record sets that the cluster wants.", int64(s.Wanted)},
			{"dns_controller_names_refused", "gauge", "Names that are not published, for want of a zone or because somebody else has them.", int64(s.Refused)},
			{"dns_controller_zones_failing", "gauge", "Zones that could not be brought up to date when last tried.", int64(len(s.Failing))},
			{"dns_controller_changes_total", "counter", "Names changed since the start.", int64(s.Changed)},
			{"dns_controller_failures_total", "counter", "Failed tries to bring a zone up to date since the start.", int64(s.Failed)},
			{"dns_controller_synced_timestamp_seconds", "gauge", "When all zones agreed with the cluster last; 0: not yet.", synced},
		} {
			_, _ = fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", v.name, v.help, v.name, v.kind, v.name, v.value) // who asked is gone
		}
	})
	return m
}
