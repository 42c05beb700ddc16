package node

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/gce/gcetest"
)

var update = flag.Bool("update", false, "rewrite the facts in testdata")

// Each file has the metadata server's responses, and the resulting facts or the error.
func TestFactsOfAMachine(t *testing.T) {
	files, err := filepath.Glob("testdata/detect/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := detectText(t, a.Files[0].Data)
			if *update {
				a.Files[1].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(a.Files[1].Data), got); d != "" {
				t.Errorf("%s; with -update it is what is expected", d)
			}
		})
	}
}

// detectText returns the facts of an instance, as YAML, or the error.
func detectText(t *testing.T, metadata []byte) string {
	t.Helper()
	answers := map[string]string{}
	if err := yaml.UnmarshalStrict(metadata, &answers); err != nil {
		t.Fatal(err)
	}
	facts, err := detect(t.Context(), world(gcetest.Start(t, answers)), &nodeconfig.Boot{}, &nodeconfig.Config{})
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	text, err := yaml.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAMachineThatCannotBeIdentified(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer silent.Close()
	_, err := detect(t.Context(), world(&gcetest.Cloud{Host: strings.TrimPrefix(silent.URL, "http://")}), &nodeconfig.Boot{}, &nodeconfig.Config{})
	if !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "identify this machine") {
		t.Errorf("error %v", err)
	}
}
