package compat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
)

// TestVersionsSayTheSame reads each pair of files in testdata/versions, which have the
// same meaning in the two versions, and writes each as the other. Together they cover every step.
func TestVersionsSayTheSame(t *testing.T) {
	files, err := filepath.Glob("testdata/versions/*.v1alpha2.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata/versions: %v", err)
	}
	var all strings.Builder
	for _, file := range files {
		texts := map[string]string{}
		for _, version := range []string{api.V1Alpha2, api.V1Alpha3} {
			data, err := os.ReadFile(strings.Replace(file, api.V1Alpha2, version, 1))
			if err != nil {
				t.Fatal(err)
			}
			texts[version] = string(data)
		}
		all.WriteString(texts[api.V1Alpha2])
		for from, text := range texts {
			objects, warnings, err := Decode([]byte(text), Options{File: from})
			if err != nil || len(warnings) > 0 {
				t.Fatal(file, err, warnings)
			}
			for to, want := range texts {
				if diff := cmp.Diff(want, string(mustEncode(t, to, objects...))); diff != "" {
					t.Errorf("%s, from %s to %s: got (+), want (-):\n%s", file, from, to, diff)
				}
			}
		}
	}
	for _, s := range append(append(clusterSteps(), groupSteps()...), stepsOf(api.KindKeyset)...) {
		name := s.old[strings.LastIndexByte(s.old, '.')+1:]
		if !strings.Contains(all.String(), name+":") && name != "disable" && name != "binariesLocation" {
			t.Errorf("the step from %s to %s is in no file", s.old, s.new)
		}
	}
}
