package report_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api/status"
	"kops.local/kops/internal/node/agent/report"
)

// completedStart returns the report of a completed start, as nodeup writes it.
func completedStart() *report.Report {
	r := &report.Report{Cluster: "k.example.com", Group: "nodes-us-east-1a", Node: "i-0123456789abcdef0", Version: "1.37.0",
		Started: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Run: 3, Done: true, Warnings: []string{"a warning"}}
	for i, name := range []string{"identify", "configure", "read", "model", "observe", "system", "download", "files", "certificates", "services", "images", "launch"} {
		r.Phases = append(r.Phases, report.Phase{Name: name, State: report.Passed, Attempts: i, Started: r.Started.Add(time.Duration(i) * time.Second), Seconds: float64(i) / 3, Steps: 2 * i})
	}
	for _, name := range []string{"kubelet", "kubelet-server", "kube-apiserver", "etcd-client", "aggregator", "kops-controller", "kube-scheduler", "kube-controller-manager"} {
		r.Certificates = append(r.Certificates, status.Certificate{File: "/srv/kubernetes/" + name + ".crt", Subject: name, Ends: r.Started.Add(9999 * time.Hour)})
	}
	r.Phases[1].Error, r.Phases[1].Remedy = "connect to https://10.0.0.9:3988/: connection refused", "check that kops-controller runs on the control plane"
	return r
}

const before = "[   12.345678] nodeup[812]: nodeup: "

func TestAReportPassesThroughAConsole(t *testing.T) {
	want := completedStart()
	line := report.Line(want)
	t.Logf("a whole report takes %d bytes", len(line))
	if len(line) > report.MaxLine/2 || strings.ContainsAny(line, "\n\r") {
		t.Errorf("%d bytes: %s", len(line), line)
	}
	failed := completedStart()
	failed.Done, failed.Phases[1].State = false, report.Failed
	earlier := before + report.Line(failed)
	lines := []string{"GRUB", earlier, "nodeup: launch: done after 0.1 s", before + line, "login:"}
	got, at := report.Last(lines)
	if d := cmp.Diff(want, got); d != "" || at != 3 || !report.IsLine(lines[3]) || report.IsLine(lines[2]) {
		t.Errorf("line %d (-want +got):\n%s", at, d)
	}
	// kernel messages in between, or a truncated console, leave the previous report
	for _, broken := range []string{line[:len(line)-9], line[:99] + "[ 9.1] eth0: link up" + line[99:], strings.Replace(line, "boot report 1 ", "boot report 1 0", 1)} {
		lines[3] = before + broken
		if got, at := report.Last(lines); at != 1 || cmp.Diff(failed, got) != "" {
			t.Errorf("of %.60s… line %d is read: %+v", broken, at, got)
		}
	}
	if r, at := report.Last([]string{"nothing", "boot report 1 "}); r != nil || at != -1 {
		t.Errorf("line %d: %+v", at, r)
	}
}

func TestALineIsOfBoundedLength(t *testing.T) {
	noise := func(n int) string { // which cannot be compressed
		b := make([]byte, n)
		r := rand.New(rand.NewPCG(1, 2))
		for i := range b {
			b[i] = byte(' ' + r.IntN(90))
		}
		return string(b)
	}
	r := completedStart()
	for i := range r.Phases {
		r.Phases[i].Error, r.Phases[i].Remedy = noise(9000), noise(9000)
	}
	for range 100 {
		r.Certificates = append(r.Certificates, status.Certificate{File: noise(999), Subject: noise(999)})
		r.Warnings = append(r.Warnings, noise(5000))
	}
	for range 99 {
		r.Down = append(r.Down, report.Down{Name: "kubelet", Error: noise(9000), Log: []string{noise(9000), noise(9000)}})
	}
	line := report.Line(r)
	got, _ := report.Last([]string{line})
	if len(line) > report.MaxLine || got == nil || len(got.Phases) != 12 || got.Phases[11].Name != "launch" || !strings.HasPrefix(r.Phases[1].Error, strings.TrimSuffix(got.Phases[1].Error, "…")) || got.Phases[1].Error == "" {
		t.Errorf("%d bytes: %+v", len(line), got)
	}
	if len(r.Warnings) != 101 || len(r.Phases[0].Error) != 9000 {
		t.Error("the report itself was changed")
	}
}

// Root on a machine can write anything to its console.
func TestForgedReports(t *testing.T) {
	forge := func(doc string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write([]byte(doc))
		if cerr := z.Close(); err != nil || cerr != nil {
			t.Fatal(err, cerr)
		}
		return fmt.Sprintf("boot report 1 %08x %s", crc32.ChecksumIEEE(b.Bytes()), base64.RawStdEncoding.EncodeToString(b.Bytes()))
	}
	for _, doc := range []string{`{"cluster":"` + strings.Repeat("a", 50<<20) + `"}`, "[]", "", `{"phases":1}`} {
		if r, _ := report.Last([]string{forge(doc)}); r != nil {
			t.Errorf("of %.20s… was read %.100v", doc, r)
		}
	}
	many := `{"phases":[` + strings.Repeat(`{"name":"x\u001b[2Jy","error":"\u001b]0;title\u0007no"},`, 500) + `{}],"down":[{"name":"\u001b","log":["\u001b"]}]}`
	r, _ := report.Last([]string{forge(many)})
	if r == nil || len(r.Phases) != 501 {
		t.Fatalf("%+v", r)
	}
	r = report.Sanitize(r, func(s string) string { return strings.ReplaceAll(s, "\x1b", "") })
	if text := r.String() + fmt.Sprint(r.Down); len(r.Phases) > 24 || len(r.Down) != 1 || strings.Contains(text, "\x1b") || !strings.Contains(text, "x[2Jy") {
		t.Errorf("%d phases, %q", len(r.Phases), text)
	}
}

func TestPublic(t *testing.T) {
	for text, want := range map[string]string{
		"read s3://state/c/pki: 403 Forbidden":                                     "read s3://state/c/pki: 403 Forbidden",
		"fetch https://me:secret@files.e.com/kubelet: 404":                         "fetch https://files.e.com/kubelet: 404",
		`Get "https://x.blob.core/kubelet?sv=1&sig=secret": dial tcp 10.0.0.1:443`: `Get "https://x.blob.core/kubelet?…": dial tcp 10.0.0.1:443`,
		"https://m.e.com/kubelet?X-Amz-Signature=secret: the server answers 403":   "https://m.e.com/kubelet?…: the server answers 403",
		"two: http://a:secret@b/c and http://d?secret=1":                           "two: http://b/c and http://d?…",
		"http://a%zz:secret@b/c":                                                   "http://b/c",
		"read tcp 10.0.0.1:1234->10.0.0.2:3988: reset; what? nothing":              "read tcp 10.0.0.1:1234->10.0.0.2:3988: reset; what? nothing",
	} {
		if got := report.Public(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
