package shell

import (
	"maps"
	"slices"

	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/world"
)

// uselessVariables are variables of kOps that have no effect, and what to do instead.
var uselessVariables = map[string]string{
	"DNS_IGNORE_NS_CHECK":                "kops does not look up the name servers of a zone",
	"OTEL_EXPORTER_OTLP_DIR":             tracing,
	"OTEL_EXPORTER_OTLP_FILE":            tracing,
	"OTEL_EXPORTER_OTLP_TRACES_DIR":      tracing,
	"OTEL_EXPORTER_OTLP_TRACES_FILE":     tracing,
	"OTEL_EXPORTER_OTLP_ENDPOINT":        tracing,
	"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": tracing,
}

const tracing = "kops writes no traces; -v 2 shows every request and how long it took"

// warnEnvironment warns once about environment variables and feature flags that have no effect, and
// about values that are ignored.
func (a *App) warnEnvironment() {
	if a.environmentWarned {
		return
	}
	a.environmentWarned = true
	var l diag.List
	for _, name := range slices.Sorted(maps.Keys(uselessVariables)) {
		if a.Env(name) != "" {
			l = append(l, diag.Finding{Path: name, Rule: "environment", Message: "has no effect", Remedy: uselessVariables[name], Warning: true})
		}
	}
	l = append(l, world.Check(a.Env)...)
	for _, name := range slices.Sorted(maps.Keys(complete.ParseGates(a.Env("KOPS_FEATURE_FLAGS")))) {
		if f := complete.CheckFeature(name); f != nil {
			l = append(l, *f)
		}
	}
	a.Warn(l)
}
