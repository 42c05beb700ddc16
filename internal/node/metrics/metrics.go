// Package metrics writes a program's metrics in the text format of Prometheus
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

// Kind is what a value may do.
type Kind string

const (
	// Gauge goes up and down.
	Gauge Kind = "gauge"
	// Counter only grows while the program runs; its name ends in _total.
	Counter Kind = "counter"
)

// Metric is one name with its values.
type Metric struct {
	Name string
	Kind Kind
	// Help is a sentence for people.
	Help string
	// Samples are its values; a metric without any is not written.
	Samples []Sample
}

// Sample is one value.
type Sample struct {
	// Labels are pairs of a name and a value, in the order in which they are written.
	Labels [][2]string
	Value  float64
}

// One is a metric of one value without labels.
func One(name string, kind Kind, help string, value float64) Metric {
	return Metric{name, kind, help, []Sample{{Value: value}}}
}

// Bool is 1 for true.
func Bool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Time is a time in seconds since 1970, and 0 for none.
func Time(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}

// Handler answers with what gather returns.
func Handler(gather func() []Metric) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = Write(w, gather()) // who asked is gone
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

// separator is what stands before the label of a number.
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
