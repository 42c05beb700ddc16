// Package metrics writes a program's metrics in Prometheus' text format
// (prometheus.io/docs/instrumenting/exposition_formats, version 0.0.4).
//
// It must not know which metrics there are, nor of which program.
package metrics

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Kind is the type of a metric.
type Kind string

const (
	// Gauge can go up and down.
	Gauge Kind = "gauge"
	// Counter only increases while the program runs; its name ends in _total.
	Counter Kind = "counter"
)

// Metric is a name with its values.
type Metric struct {
	Name string
	Kind Kind
	// Help is a sentence for people.
	Help string
	// Samples are its values; a metric without samples is not written.
	Samples []Sample
}

// Sample is one value.
type Sample struct {
	// Labels are pairs of a name and a value, in the order in which they are written.
	Labels [][2]string
	Value  float64
}

// One returns a metric with one value and no labels.
func One(name string, kind Kind, help string, value float64) Metric {
	return Metric{name, kind, help, []Sample{{Value: value}}}
}

// Bool returns 1 for true and 0 for false.
func Bool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Time returns a time in seconds since 1970, and 0 for the zero time.
func Time(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}

// Handler serves the metrics that gather returns.
func Handler(gather func() []Metric) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = Write(w, gather()) // the client has disconnected
	})
}

// Write writes metrics in their order.
func Write(w io.Writer, all []Metric) error {
	var b strings.Builder
	for _, m := range all {
		if len(m.Samples) == 0 {
			continue
		}
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", m.Name, escape(m.Help, false), m.Name, m.Kind)
		for _, s := range m.Samples {
			b.WriteString(m.Name)
			for i, l := range s.Labels {
				b.WriteString(separator(i) + l[0] + `="` + escape(l[1], true) + `"`)
			}
			if len(s.Labels) > 0 {
				b.WriteByte('}')
			}
			b.WriteString(" " + strconv.FormatFloat(s.Value, 'f', -1, 64) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// separator returns what precedes the label at index i.
func separator(i int) string {
	if i == 0 {
		return "{"
	}
	return ","
}

func escape(s string, quoted bool) string {
	s = strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(s)
	if quoted {
		s = strings.ReplaceAll(s, `"`, `\"`)
	}
	return s
}
