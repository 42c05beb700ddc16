package run

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/manager"
	"kops.local/kops/internal/node/metrics"
)

// serveMetrics serves /metrics until ctx ends. If it cannot be served, etcd is not affected.
func serveMetrics(ctx context.Context, l net.Listener, cluster string, status func() manager.Status, log *slog.Logger) {
	m := http.NewServeMux()
	m.Handle("GET /metrics", metrics.Handler(func() []metrics.Metric { return metricsOf(cluster, status()) }))
	s := &http.Server{Handler: m, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() }) // its responses need not be completed
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		log.Error("cannot serve the metrics of the manager", "error", err)
	}
}

// metricsOf returns a manager's metrics. Metrics that only a leader knows are not
// exported by others, so that a sum over all managers is right.
func metricsOf(cluster string, s manager.Status) []metrics.Metric {
	own := [][2]string{{"cluster", cluster}}
	one := func(name string, kind metrics.Kind, help string, value float64) metrics.Metric {
		return metrics.Metric{Name: "etcd_manager_" + name, Kind: kind, Help: help, Samples: []metrics.Sample{{Labels: own, Value: value}}}
	}
	out := []metrics.Metric{
		one("leads", metrics.Gauge, "1 if this manager leads the others.", metrics.Bool(s.Leads)),
		one("peers", metrics.Gauge, "Managers heard from recently, including this one.", float64(s.Peers)),
		one("etcd_seated", metrics.Gauge, "1 if this machine has the data of a member.", metrics.Bool(s.Local.Token != "")),
		one("etcd_quarantined", metrics.Gauge, "1 if the etcd of this machine is closed to clients.", metrics.Bool(s.Local.Quarantined)),
		one("failures_total", metrics.Counter, "Failed actions and observations since the start.", float64(s.Failures)),
		one("backups_total", metrics.Counter, "Backups that this manager took since its start.", float64(s.Backups.Taken)),
		one("backup_failures_total", metrics.Counter, "Backups that this manager failed to take since its start.", float64(s.Backups.Failed)),
	}
	if s.Took > 0 {
		out = append(out, one("backup_duration_seconds", metrics.Gauge, "How long the last backup of this manager took.", s.Took.Seconds()))
	}
	if !s.Leads {
		return out
	}
	out = append(out,
		one("waits", metrics.Gauge, "1 if something keeps the cluster from its wanted state; see the log.", metrics.Bool(s.Waits)),
		one("members_wanted", metrics.Gauge, "Voting members that the spec asks for.", float64(s.Wanted)),
		one("backup_timestamp_seconds", metrics.Gauge, "When the newest backup was taken; 0: no backup exists.", metrics.Time(s.LastBackup)))
	if s.BackupSize > 0 {
		out = append(out, one("backup_size_bytes", metrics.Gauge, "Stored size of the newest backup.", float64(s.BackupSize)))
	}
	of := func(name, help string, value func(etcd.Member) bool) metrics.Metric {
		m := metrics.Metric{Name: "etcd_manager_" + name, Kind: metrics.Gauge, Help: help}
		for _, x := range s.Members {
			m.Samples = append(m.Samples, metrics.Sample{Labels: append(own[:1:1], [2]string{"member", x.Name}, [2]string{"id", x.ID}), Value: metrics.Bool(value(x))})
		}
		return m
	}
	return append(out,
		of("member_healthy", "1 if a member of etcd responds and knows a leader.", func(m etcd.Member) bool { return m.Healthy }),
		of("member_votes", "1 if a member of etcd has a vote.", func(m etcd.Member) bool { return !m.Learner }),
		of("member_leads", "1 if a member of etcd is the leader.", func(m etcd.Member) bool { return m.Leader }))
}
