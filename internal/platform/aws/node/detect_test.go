package node

import (
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/node/ec2/ec2test"
	"kops.local/kops/internal/test/goldentest"
)

var update = flag.Bool("update", false, "rewrite the facts in testdata")

// Each file contains the answers of the metadata service, the other answers of AWS, the boot and
// node configuration; and the expected facts or error.
func TestFactsOfAMachine(t *testing.T) {
	goldentest.Archives(t, "testdata/detect/*.txtar", *update, detectText)
}

// detectText returns the facts of a machine on AWS as YAML, or the error.
func detectText(t *testing.T, in map[string][]byte) string {
	t.Helper()
	answers := map[string]string{}
	var boot nodeconfig.Boot
	var config nodeconfig.Config
	for _, f := range []struct {
		name string
		into any
	}{{"metadata", &answers}, {"boot", &boot}, {"config", &config}} {
		if err := yaml.UnmarshalStrict(in[f.name], f.into); err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
	}
	for k, v := range ec2test.Role(t, "nodes", awsquery.Credentials{ID: "i", Secret: "s"}) {
		answers[k] = v
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status, text, _ := strings.Cut(string(in["api"]), "\n")
		if status != "200" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, text) // the test fails anyway
	}))
	defer api.Close()
	facts, err := detect(t.Context(), world(map[string]string{region: "eu-west-1", endpoint: api.URL, metadata: ec2test.Serve(t, answers) + "/"}), &boot, &config)
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
	silent := httptest.NewServer(http.NotFoundHandler())
	defer silent.Close()
	_, err := detect(t.Context(), world(map[string]string{metadata: silent.URL}), &nodeconfig.Boot{}, &nodeconfig.Config{})
	if err == nil || !strings.Contains(err.Error(), "identify this machine") {
		t.Errorf("error %v", err)
	}
}
