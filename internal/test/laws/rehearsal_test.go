package laws

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// started finds the commands that are started without a network of their own.
var started = regexp.MustCompile(`exec\.Command(Context)?\(`)

// TestProgramsOfRehearsalsHaveNetworksOfTheirOwn has rehearsals start each program by
// rehearsal.StartProgram: their servers ask for no password, and any user of this host
// reaches what listens at its loopback.
func TestProgramsOfRehearsalsHaveNetworksOfTheirOwn(t *testing.T) {
	files, err := filepath.Glob("../../platform/*/rehearsal/*.go")
	if err != nil {
		t.Fatal(err)
	}
	shared, err := filepath.Glob("../../platform/rehearsal/*.go")
	if err != nil {
		t.Fatal(err)
	}
	programs := 0
	for _, f := range append(files, shared...) {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "rehearsal.StartProgram(") {
				programs++
			} else if started.MatchString(line) {
				t.Errorf("%s starts a program by itself: %s", f, strings.TrimSpace(line))
			}
		}
	}
	if programs < 2 {
		t.Errorf("%d programs were found", programs)
	}
}
