package description

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the documents anew")

// texts are the keys of a document that are not needed for checks, mostly texts for people.
var texts = map[string]bool{"description": true, "enumDescriptions": true, "enumDeprecated": true, "deprecated": true, "scopes": true, "apiVersion": true, "id": true, "parameterOrder": true}

// strip removes the texts from a document. A field whose description says that only the server sets
// it becomes read-only, whether or not the document marks it so.
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

// TestTheDocumentsAreGooglesOwn checks that the documents are the ones in the module
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

func TestAPathAndAVerbMeanAMethod(t *testing.T) {
	a, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		verb, path, id, variables string
		elsewhere                 bool
	}{
		{"GET", "/compute/v1/projects/p/global/images/i", "compute.images.get", "image=i project=p", false},
		{"GET", "/compute/v1/projects/p/global/images/family/f", "compute.images.getFromFamily", "family=f project=p", false},
		{"PUT", "/compute/v1/projects/p/global/firewalls/f", "compute.firewalls.update", "firewall=f project=p", false},
		{"PUT", "/compute/v1/projects/p/global/networks/n", "", "", true},
		{"GET", "/compute/v1/projects/p/nowhere", "", "", false},
		{"GET", "/compute/v1/projects/example.com:p/zones", "compute.zones.list", "project=example.com:p", false},
		{"GET", "/v1/projects/p/serviceAccounts/a@p.iam.gserviceaccount.com", "iam.projects.serviceAccounts.get", "name=projects/p/serviceAccounts/a@p.iam.gserviceaccount.com", false},
		{"POST", "/v1/projects/-/serviceAccounts/a%40x:disable", "iam.projects.serviceAccounts.disable", "name=projects/-/serviceAccounts/a@x", false},
		{"POST", "/v1/projects/p:setIamPolicy", "cloudresourcemanager.projects.setIamPolicy", "resource=p", false},
		{"POST", "/dns/v1/projects/p/managedZones/z/changes", "dns.changes.create", "managedZone=z project=p", false},
		{"GET", "/storage/v1/b/x/iam", "storage.buckets.getIamPolicy", "bucket=x", false},
	} {
		m, variables, elsewhere := a.Find(c.verb, c.path)
		id := ""
		if m != nil {
			id = m.ID
		}
		var got []string
		for _, name := range sorted(variables) {
			got = append(got, name+"="+variables[name])
		}
		if id != c.id || elsewhere != c.elsewhere || strings.Join(got, " ") != c.variables {
			t.Errorf("%s %s is %s %s, elsewhere %t", c.verb, c.path, id, got, elsewhere)
		}
	}
}

// TestEveryMethodIsFound checks that no method is hidden by another with the same verb and path.
func TestEveryMethodIsFound(t *testing.T) {
	a, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range a.IDs() {
		m := a.Method(id)
		var parts []string
		for _, s := range m.segments {
			if s.variable != "" {
				s.text = "v" + s.text
			}
			parts = append(parts, s.text)
		}
		if found, _, _ := a.Find(m.Verb, "/"+strings.Join(parts, "/")); found != m {
			t.Errorf("%s %s is not %s", m.Verb, strings.Join(parts, "/"), id)
		}
	}
}

// checked returns the checked request body as JSON, or the error.
func checked(t *testing.T, id, body string) (string, error) {
	t.Helper()
	a, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	got, err := a.Method(id).Body(v)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), nil
}

func TestWhatIsSentIsJudged(t *testing.T) {
	for _, c := range []struct{ id, body, want, fault string }{
		{id: "compute.networks.insert", body: `{"name":"n","mtu":1500,"autoCreateSubnetworks":false}`, want: `{"autoCreateSubnetworks":false,"mtu":1500,"name":"n"}`},
		{id: "compute.networks.insert", body: `{"name":"n","kind":"compute#network"}`, want: `{"name":"n"}`},
		{id: "compute.networks.insert", body: `{"name":"n","description":null}`, want: `{"name":"n"}`},
		{id: "compute.networks.insert", body: `{}`, fault: "Required field 'resource.name' not specified"},
		{id: "compute.networks.insert", body: `{"name":"N"}`, fault: "Invalid value for field 'resource.name': 'N'. Must be a match of regex"},
		{id: "compute.networks.insert", body: `{"name":"n","mtu":"big"}`, fault: `Invalid value at 'resource.mtu' (TYPE_INT32), "big"`},
		{id: "compute.networks.insert", body: `{"name":"n","mtu":1500.5}`, fault: `(TYPE_INT32), 1500.5`},
		{id: "compute.networks.insert", body: `{"name":"n","mtu":3000000000}`, fault: `(TYPE_INT32), 3000000000`},
		{id: "compute.networks.insert", body: `{"name":"n","autoCreateSubnetworks":"no"}`, fault: `(TYPE_BOOLEAN), "no"`},
		{id: "compute.networks.insert", body: `{"name":"n","nmae":"x"}`, fault: `Unknown name "nmae" at 'resource': Cannot find field.`},
		{id: "compute.networks.insert", body: `{"name":"n","routingConfig":{"routingMode":"LOCAL"}}`, fault: "Invalid value for field 'resource.routingConfig.routingMode': 'LOCAL'. Must be one of GLOBAL, REGIONAL"},
		{id: "compute.networks.insert", body: `{"name":"n","selfLink":"x"}`, fault: "output only"},
		{id: "compute.networks.insert", body: `{"name":"n","id":"7"}`, fault: "output only"},
		{id: "compute.networks.patch", body: `{"id":"7","description":null}`, want: `{"description":null}`},
		{id: "compute.disks.insert", body: `{"name":"d","sizeGb":20}`, want: `{"name":"d","sizeGb":"20"}`},
		{id: "compute.disks.insert", body: `{"name":"d","sizeGb":"20GB"}`, fault: `(TYPE_INT64), "20GB"`},
		{id: "compute.disks.setLabels", body: `{"labels":{"a":1}}`, fault: `Invalid value at 'resource.labels.a' (TYPE_STRING), 1`},
		{id: "compute.disks.setLabels", body: `{"labelFingerprint":"?"}`, fault: `(TYPE_BYTE), "?"`},
		{id: "compute.firewalls.insert", body: `{"name":"f","allowed":[{"IPProtocol":"tcp","port":"1"}]}`, fault: `Unknown name "port" at 'resource.allowed[0]'`},
		{id: "compute.firewalls.insert", body: `{"name":"f","allowed":{}}`, fault: `(TYPE_ARRAY), {}`},
		{id: "compute.instanceGroupManagers.insert", body: `{"name":"m"}`, fault: "Required field 'resource.targetSize' not specified"},
	} {
		switch got, err := checked(t, c.id, c.body); {
		case c.fault == "" && (err != nil || got != c.want):
			t.Errorf("%s %s: got %s, %v, want %s", c.id, c.body, got, err, c.want)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s %s: got %s, %v, want %s", c.id, c.body, got, err, c.fault)
		}
	}
}

func TestParametersAreJudged(t *testing.T) {
	a, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	for query, fault := range map[string]string{
		"":                          "",
		"maxResults=7&alt=json":     "",
		"maxResults=many":           "Must be a number",
		"maxResult=7":               `Unknown name "maxResult"`,
		"project=other":             `Unknown name "project"`,
		"maxResults=7&maxResults=8": "set 2 times",
		"prettyPrint=maybe":         "Must be true or false",
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Method("compute.networks.list").Query(map[string]string{"project": "p1"}, q); (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: got %v, want %q", query, err, fault)
		}
	}
	if _, err := a.Method("compute.instanceGroupManagers.resize").Query(map[string]string{"project": "p1", "zone": "z", "instanceGroupManager": "m"}, nil); err == nil || !strings.Contains(err.Error(), "'size'") {
		t.Errorf("a parameter that is needed is not missed: %v", err)
	}
}
