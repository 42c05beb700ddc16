package description

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the documents anew")

// texts are the keys of a document that tell people what is meant, and judge nothing.
var texts = map[string]bool{"description": true, "enumDescriptions": true, "enumDeprecated": true, "deprecated": true, "scopes": true, "apiVersion": true, "id": true, "parameterOrder": true}

// strip takes the texts out of a document. A field whose text says that only the server
// sets it is read only, whether the document marks it or not.
func strip(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := map[string]any{}
		if text, ok := x["description"].(string); ok && (strings.HasPrefix(text, "[Output Only]") || strings.HasPrefix(text, "Output only.")) && x["type"] != nil {
			out["readOnly"] = true
		}
		for k, sub := range x {
			if _, isMap := sub.(map[string]any); isMap || !texts[k] || k == "id" && x["httpMethod"] != nil {
				out[k] = strip(sub)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, item := range x {
			out = append(out, strip(item))
		}
		return out
	}
	return v
}

// TestTheDocumentsAreGooglesOwn holds that the documents are those of the module
// google.golang.org/api.
func TestTheDocumentsAreGooglesOwn(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "google.golang.org/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), name, "v1", name+"-api.json"))
		if err != nil {
			t.Fatal(err)
		}
		var d map[string]any
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		kept := map[string]any{}
		for _, key := range []string{"servicePath", "schemas", "parameters", "resources"} {
			kept[key] = strip(d[key])
		}
		want, err := json.Marshal(kept)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("documents", name+".json.gz")
		if *update {
			var out bytes.Buffer
			z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
			if _, err := z.Write(want); err != nil {
				t.Fatal(err)
			}
			z.Close()
			if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		packed, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the module says: run this test with -update; %v", file, err)
		}
	}
}
