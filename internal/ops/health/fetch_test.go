package health

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/platform"
)

// The boot script and kops doctor use the same names for causes.
func TestEveryCauseOfTheBootScriptIsKnown(t *testing.T) {
	parts, err := filepath.Glob("../../platform/*/spec/fetch*.sh")
	if err != nil || len(parts) == 0 {
		t.Fatalf("%d parts of the boot script: %v", len(parts), err)
	}
	var script []byte
	for _, file := range append(parts, "../../model/boot.sh.tmpl") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		script = append(script, text...)
	}
	var said, known []string
	for _, m := range regexp.MustCompile(`\bfailed ([a-z]+) "`).FindAllStringSubmatch(string(script), -1) {
		said = append(said, m[1])
	}
	for _, c := range fetchCauses() {
		known = append(known, c.name)
	}
	slices.Sort(said)
	slices.Sort(known)
	if said = slices.Compact(said); !slices.Equal(said, known) {
		t.Errorf("the script says %q, and known are %q", said, known)
	}
	for _, text := range []string{unfetched + "${SECONDS} s: ${LINK} $1: ${PLACE}: ", fetched + "${SECONDS} s", roundEnd} {
		if !strings.Contains(string(script), text) {
			t.Errorf("the script does not say %q", text)
		}
	}
}

func TestWhyNodeupWasNotFetched(t *testing.T) {
	const (
		absent  = "nodeup is not fetched after 7 s: control-plane silent: https://10.0.0.1:3988/programs/x/nodeup.gz: curl: (7) Failed to connect\n"
		late    = "nodeup is not fetched after 301 s: control-plane silent: https://10.0.0.1:3988/programs/x/nodeup.gz: curl: (7) Failed to connect\n"
		refused = "nodeup is not fetched after 8 s: control-plane server: https://10.0.0.2:3988/programs/x/nodeup.gz: 502 the store refuses\n"
		other   = "cloud-init[9]: nodeup is not fetched after 9 s: mirror digest: https://m/nodeup: its SHA-256 is 1, and not 2; it is not run\r\n"
		packed  = "nodeup is not fetched after 8 s: mirror absent: https://m/nodeup.xz: 404 \n"
		round   = "No place gave a valid nodeup; trying all of them again in 3 seconds\n"
		kernel  = "[    0.000000] Linux version 6.1\n"
	)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	told := "[ 5.1] nodeup[80]: nodeup: " + report.Line(&report.Report{Started: at, Phases: []report.Phase{{Name: "images", State: report.Running, Started: at}}}) + "\n"
	const under = "its boot has been in the phase images since 2026-01-02T03:04:05Z"
	for _, c := range []struct {
		name, console, want, remedy string
		broken                      bool
	}{
		{"it waits", absent + round, waitsForControlPlane, "", false},
		{"it waits for long", late + round, "it gets no answer from kops-controller at 10.0.0.1:3988: curl: (7) Failed to connect", seeListed, true},
		{"of two servers the one that answers tells more", refused + absent + round, "kops-controller at 10.0.0.2:3988 cannot serve nodeup now: 502 the store refuses", seeLog, true},
		{"an old round is over", refused + round + absent + round, waitsForControlPlane, "", false},
		{"a round is under way", refused + round + absent, "kops-controller at 10.0.0.2:3988 cannot serve nodeup now: 502 the store refuses", seeLog, true},
		{"a packed file that is not there is no news", packed + other + round, "the file from https://m/nodeup is not the expected nodeup: its SHA-256 is 1, and not 2; it is not run", putThere, true},
		{"a line that was cut", "nodeup is not fetched after 12 s: sto\n", "it cannot fetch nodeup", seeConsole, true},
		{"a word that nobody knows", "nodeup is not fetched after 12 s: store magic: s3://x: y\n", "it cannot fetch nodeup", seeConsole, true},
		{"it is over", other + round + "nodeup is fetched after 12 s\n", "it has fetched nodeup, which has not written a report yet", "", false},
		{"a report", other + "nodeup is fetched after 12 s\n" + told, under, "", false},
		{"a report, and the kernel crashed", told + "Kernel panic - not syncing\n", "its kernel has crashed: Kernel panic - not syncing", "delete the machine, so that its group creates another", true},
		{"a report of the start before", told + kernel + absent, waitsForControlPlane, "", false},
		{"a report that the kernel wrote into", told + strings.Replace(told, "boot report 1 ", "boot report 1 x[ 9] eth0: up", 1), under, "", false},
	} {
		got := ReadStart(platform.BootRecord{Console: []byte(c.console)})
		if got.Message != c.want || got.Remedy != c.remedy || got.Broken != c.broken {
			t.Errorf("%s: %q, %q, %v; want %q, %q, %v", c.name, got.Message, got.Remedy, got.Broken, c.want, c.remedy, c.broken)
		}
		if slices.ContainsFunc(got.Console, report.IsLine) {
			t.Errorf("%s: the console shows the packed report", c.name)
		}
	}
}

// Root on a machine controls its report, and kops doctor shows it on a terminal.
func TestAReportCannotControlTheTerminal(t *testing.T) {
	r := report.Report{Version: "1\x1b[2J", Warnings: []string{"\x1b]0;x\a"}, Phases: []report.Phase{{Name: "read\x1b[31m", State: "failed", Error: "first\nlast \x1b[5mline\r", Remedy: "\x1b[1mdo"}}}
	got := ReadStart(platform.BootRecord{Report: boot(r)})
	if text := got.Message + got.Remedy + got.Report.String() + got.Report.Version + got.Report.Warnings[0]; strings.ContainsAny(text, "\x1b\a\r") {
		t.Errorf("%q", text)
	}
	if got.Message != "its boot failed in the phase read: last line" || got.Remedy != "do" {
		t.Errorf("%q %q", got.Message, got.Remedy)
	}
}
