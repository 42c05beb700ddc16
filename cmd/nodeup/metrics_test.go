package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/node/agent/report"
)

// metrics returns the metrics of the machine.
func (p *testMachine) metrics() string {
	p.Helper()
	text, err := os.ReadFile(filepath.Join(p.root, report.Metrics))
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

// renewal returns the phase of the last renewal.
func (p *testMachine) renewal() report.Phase {
	p.Helper()
	r := p.report()
	last := r.Phases[len(r.Phases)-1]
	if last.Name != report.Renewal || !r.Done {
		p.Fatalf("report\n%s", r.String())
	}
	return last
}

// The expiry of certificates, and the result of the last renewal, are in the report and in the metrics.
func TestAMachineReportsWhenItsCertificatesExpire(t *testing.T) {
	p := newTestMachine(t)
	if code := p.run(); code != 0 {
		t.Fatalf("code %d\n%s", code, &p.err)
	}
	text := p.metrics()
	if strings.Contains(text, "kops_renewal") {
		t.Errorf("before the first renewal\n%s", text)
	}
	certificates := p.report().Certificates
	for _, c := range certificates {
		if want := fmt.Sprintf("kops_certificate_end_timestamp_seconds{file=%q,subject=%q} %d\n", c.File, c.Subject, c.Ends.Unix()); !strings.Contains(text, want) {
			t.Errorf("no line %s", want)
		}
	}
	if n := strings.Count(text, "\nkops_certificate_end"); n != len(certificates) || n < 10 {
		t.Errorf("%d certificates in\n%s", n, text)
	}

	if code := p.run("--renew"); code != 0 || !strings.HasPrefix(p.err.String(), "nodeup: renewal: done") || strings.Count(p.err.String(), "\n") != 1 {
		t.Errorf("code %d\n%s", code, &p.err)
	}
	if r := p.renewal(); r.State != report.Passed || !strings.Contains(p.metrics(), fmt.Sprintf("\nkops_renewal_timestamp_seconds %d\n", r.Started.Unix())) {
		t.Errorf("%+v\n%s", r, p.metrics())
	}
	if text := p.metrics(); !strings.Contains(text, "\nkops_renewal_failed 0\n") || strings.Count(text, "\nkops_certificate_end") != len(certificates) {
		t.Errorf("after the renewal\n%s", text)
	}

	if err := os.RemoveAll(filepath.Join(p.state, "c/pki")); err != nil {
		t.Fatal(err)
	}
	if code := p.run("--renew"); code != 1 || !strings.Contains(p.err.String(), "nodeup: renewal: failed") {
		t.Errorf("without the store: code %d\n%s", code, &p.err)
	}
	if r := p.renewal(); r.State != report.Failed || r.Error == "" || r.Remedy == "" {
		t.Errorf("%+v", r)
	}
	if text := p.metrics(); !strings.Contains(text, "\nkops_renewal_failed 1\n") || strings.Count(text, "\nkops_certificate_end") != len(certificates) {
		t.Errorf("after a renewal that failed\n%s", text)
	}
}
