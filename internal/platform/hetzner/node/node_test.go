package node

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/hetzner/hetznertest"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/standin/standintest"
	"kops.local/kops/internal/test/goldentest"
)

var update = flag.Bool("update", false, "rewrite the facts in testdata")

// Each file has the metadata service's responses, and the resulting facts or the error.
func TestFactsOfAMachine(t *testing.T) {
	goldentest.Archives(t, "testdata/detect/*.txtar", *update, func(t *testing.T, files map[string][]byte) string {
		answers := map[string]string{}
		if err := yaml.UnmarshalStrict(files["metadata"], &answers); err != nil {
			t.Fatal(err)
		}
		return detectText(t, withMetadata(t, answers))
	})
}

// withMetadata returns the world of a server whose metadata service has some values.
func withMetadata(t *testing.T, values map[string]string) onmachine.World {
	t.Helper()
	at := standintest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, known := values[strings.TrimPrefix(r.URL.Path, "/hetzner/v1/")]
		if !known {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(text)) // if it fails, the client is gone
	}))
	return onmachine.World{Direct: http.DefaultClient, Env: func(name string) string {
		return map[string]string{hetznercloud.MetadataVariable: at + "/hetzner/v1/"}[name]
	}}
}

// detectText returns the facts of a server, as YAML, or the error.
func detectText(t *testing.T, w onmachine.World) string {
	t.Helper()
	facts, err := detect(t.Context(), w, nil, nil)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	text, err := yaml.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAServerIsDetected(t *testing.T) {
	p := hetznertest.Start(t)
	id := p.Server("nodes-1", "nodes", nil)
	want := "address: 10.0.0.2\nnames:\n- 10.0.0.2\n- 198.18.0.2\n- nodes-1\nnodeName: nodes-1\nproviderID: hcloud://" + strconv.FormatInt(id, 10) + "\n"
	if got := detectText(t, p.Machine("nodes-1")); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	prover, err := newProver(p.Machine("nodes-1"))
	if err != nil {
		t.Fatal(err)
	}
	if token, err := prover.Prove(t.Context(), nil); err != nil || token != "x-hetzner-id "+strconv.FormatInt(id, 10) {
		t.Errorf("it proves itself with %q, %v", token, err)
	}
}

func TestAMachineThatCannotBeIdentified(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer silent.Close()
	w := onmachine.World{Direct: http.DefaultClient, Env: func(string) string { return silent.URL }}
	if _, err := detect(t.Context(), w, nil, nil); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "identify this machine: get metadata/instance-id from the metadata service") {
		t.Errorf("error %v", err)
	}
	prover, err := newProver(w)
	if err != nil {
		t.Fatal(err)
	}
	if token, err := prover.Prove(t.Context(), nil); !fault.Is(err, fault.NotYet) || token != "" {
		t.Errorf("it proves itself with %q, %v", token, err)
	}
}

func TestKeysOfTheStore(t *testing.T) {
	p := hetznertest.Start(t)
	keys := storekeys.Pair{ID: "id", Secret: "secret"}
	p.Server("with", "control-plane", map[string]any{"user_data": "#!/bin/bash\n" + storekeys.ScriptVariable + "=" + keys.Encode() + "\n"})
	p.Server("without", "control-plane", nil)
	if got, err := storeKeys(t.Context(), p.Machine("with"), storekeys.UserData); err != nil || got != (onmachine.Credentials{ID: "id", Secret: "secret"}) {
		t.Errorf("got %v, %v", got, err)
	}
	for name, place := range map[string]string{"without": storekeys.UserData, "with": "/elsewhere"} {
		if got, err := storeKeys(t.Context(), p.Machine(name), place); !fault.Is(err, fault.Permanent) || got.ID != "" {
			t.Errorf("%s, at %s: %v, %v", name, place, got, err)
		}
	}
}
