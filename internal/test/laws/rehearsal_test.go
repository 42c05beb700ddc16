package laws

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// startsProgram matches commands that are started without a network namespace of their own.
var startsProgram = regexp.MustCompile(`exec\.Command(Context)?\(`)

// TestProgramsOfRehearsalsHaveNetworksOfTheirOwn checks that rehearsals start each program with
// rehearsal.StartProgram: their servers require no password, and any user of this host
// can connect to its loopback addresses.
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
			} else if startsProgram.MatchString(line) {
				t.Errorf("%s starts a program by itself: %s", f, strings.TrimSpace(line))
			}
		}
	}
	if programs < 2 {
		t.Errorf("%d programs were found", programs)
	}
}
