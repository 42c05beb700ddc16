package node

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/gce/gcetest"
	"kops.local/kops/internal/test/goldentest"
)

var update = flag.Bool("update", false, "rewrite the facts in testdata")

// Each file has the metadata server's responses, and the resulting facts or the error.
func TestFactsOfAMachine(t *testing.T) {
	goldentest.Archives(t, "testdata/detect/*.txtar", *update, func(t *testing.T, files map[string][]byte) string {
		return detectText(t, files["metadata"])
	})
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
