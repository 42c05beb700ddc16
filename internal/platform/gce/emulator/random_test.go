package emulator_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/emulator/description"
	"kops.local/kops/internal/standin/standintest"
)

// chance makes random calls: they are valid according to the description, and use few names, so
// that they interact.
type chance struct {
	*rand.Rand
	t     *testing.T
	apis  *description.APIs
	stamp string // a fingerprint from an earlier response
}

var (
	someNames  = []string{"one", "two", "three"}
	someRanges = []string{"10.0.0.0/16", "10.1.0.0/20", "10.2.0.0/24", "0.0.0.0/0", "::/0", "/24", "10.1.0.9/32"}
)

// someText returns a random value for a field that allows any text.
func (r *chance) someText(field string) string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	place := pick("global/networks/", "regions/us-test1/subnetworks/", "zones/us-test1-a/disks/", "global/instanceTemplates/", "regions/us-test1/targetPools/", "zones/us-test1-a/instances/", "regions/us-test1/backendServices/",
		"regions/us-test1/healthChecks/", "global/httpHealthChecks/", "zones/us-test1-a/instanceGroups/", "regions/us-test1/addresses/")
	switch lower := strings.ToLower(field); {
	case lower == "network":
		return "global/networks/" + pick(someNames...)
	case lower == "subnetwork":
		return "regions/us-test1/subnetworks/" + pick(someNames...)
	case strings.Contains(lower, "template"):
		return "global/instanceTemplates/" + pick(someNames...)
	case strings.Contains(lower, "fingerprint"):
		return r.stamp
	case strings.Contains(lower, "range") || strings.Contains(lower, "cidr"):
		return pick(someRanges...)
	case lower == "machinetype":
		return pick("e2-medium", "zones/us-test1-a/machineTypes/e2-medium")
	case lower == "sourceimage":
		return "projects/debian-cloud/global/images/debian-12"
	case strings.Contains(lower, "name") || lower == "key" || lower == "items":
		return pick(someNames...)
	case strings.Contains(lower, "ports") || lower == "portrange":
		return pick("80", "443-444")
	case lower == "ipprotocol":
		return pick("tcp", "udp", "icmp", "esp")
	case strings.Contains(lower, "email"):
		return pick("default", "someone@testproject.iam.gserviceaccount.com")
	case lower == "members":
		return pick("allUsers", "user:u@example.com", "serviceAccount:someone@testproject.iam.gserviceaccount.com")
	case lower == "accountid":
		return "someone"
	case lower == "rrdatas":
		return pick("10.0.0.1", "fd00::1", "www.example.com.")
	case lower == "type":
		return pick("A", "AAAA", "CNAME", "zones/us-test1-a/diskTypes/pd-ssd")
	}
	return place + pick(someNames...)
}

// value returns a random value for a schema; deep is the maximum nesting of objects.
func (r *chance) value(s *description.Schema, field string, deep int, method string) any {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[r.IntN(len(s.Enum))]
	case s.Type == "object":
		o := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			sub := s.Properties[name]
			needed := slices.Contains(sub.Annotations.Required, method) || slices.Contains([]string{"network", "subnetwork", "properties", "disks", "networkInterfaces", "initializeParams", "ipCidrRange", "instanceTemplate", "boot", "targetSize"}, name)
			if sub.ReadOnly || deep == 0 && (sub.Type == "object" || sub.Type == "array") || !needed && r.IntN(8) > 0 || needed && r.IntN(10) == 0 {
				continue
			}
			o[name] = r.value(sub, name, deep-1, method)
			if strings.HasSuffix(method, ".patch") && r.IntN(6) == 0 {
				o[name] = nil
			}
		}
		if s.Additional != nil && r.IntN(2) == 0 {
			o[someNames[r.IntN(3)]] = r.value(s.Additional, field, deep-1, method)
		}
		return o
	case s.Type == "array":
		list := []any{}
		for range 1 + r.IntN(2) {
			list = append(list, r.value(s.Items, field, deep, method))
		}
		return list
	case s.Type == "boolean":
		return r.IntN(2) == 0
	case s.Type == "integer" || s.Type == "number":
		return r.IntN(100)
	case s.Format == "int64" || s.Format == "uint64":
		return fmt.Sprint(r.IntN(200))
	case s.Format == "byte":
		return r.stamp
	case strings.HasPrefix(s.Pattern, "[a-z](?:"):
		return someNames[r.IntN(3)]
	}
	return r.someText(field)
}

// call returns a random request for a method.
func (r *chance) call(m *description.Method) *http.Request {
	path, query := m.Template(), url.Values{}
	for _, name := range slices.Sorted(maps.Keys(m.Parameters)) {
		s := m.Parameters[name]
		v := someNames[r.IntN(3)]
		switch name {
		case "project", "resource":
			if v = emulatorProject; strings.Contains(path, "{project}") && name == "resource" {
				v = someNames[r.IntN(3)]
			}
		case "projectId":
			v = emulatorProject
		case "region":
			v = region
		case "zone":
			v = zone
		case "name":
			v = "projects/testproject"
			if !strings.Contains(path, "{+name}/") {
				v += "/serviceAccounts/someone@testproject.iam.gserviceaccount.com"
			}
		case "managedZone":
			v = "example"
		case "bucket":
			v = "things"
		}
		if s.Location == "path" {
			path = strings.NewReplacer("{"+name+"}", url.PathEscape(v), "{+"+name+"}", v).Replace(path)
		} else if s.Required || name == "maxResults" && r.IntN(3) == 0 {
			if s.Type == "integer" {
				v = fmt.Sprint(1 + r.IntN(3))
			}
			query.Set(name, v)
		}
	}
	var body bytes.Buffer
	if m.Request != nil {
		sent := r.value(m.Request, "", 5, m.ID)
		if good := goodOnes[m.ID]; good != "" && r.IntN(5) > 0 {
			fields, _ := sent.(map[string]any)
			sent = r.body(fields, good)
		}
		if err := json.NewEncoder(&body).Encode(sent); err != nil {
			r.t.Fatal(err)
		}
	}
	return httptest.NewRequest(m.Verb, "/"+path+"?"+query.Encode(), &body)
}

const emulatorProject = project

const nic = `"networkInterfaces":[{"subnetwork":"regions/us-test1/subnetworks/one"}]`

// goodOnes are request bodies that can succeed, if what they refer to exists. NAME is replaced by
// one of the names.
var goodOnes = map[string]string{
	"compute.networks.insert":              `{"name":"NAME","autoCreateSubnetworks":false}`,
	"compute.subnetworks.insert":           `{"name":"NAME","network":"global/networks/NAME","ipCidrRange":"10.1.0.0/20"}`,
	"compute.firewalls.insert":             `{"name":"NAME","network":"global/networks/NAME","allowed":[{"IPProtocol":"tcp","ports":["443"]}]}`,
	"compute.routers.insert":               `{"name":"NAME","network":"global/networks/NAME"}`,
	"compute.addresses.insert":             `{"name":"NAME","addressType":"INTERNAL","purpose":"SHARED_LOADBALANCER_VIP","subnetwork":"regions/us-test1/subnetworks/NAME"}`,
	"compute.regionHealthChecks.insert":    `{"name":"NAME","type":"TCP","tcpHealthCheck":{"port":443}}`,
	"compute.regionBackendServices.insert": `{"name":"NAME","loadBalancingScheme":"INTERNAL","healthChecks":["regions/us-test1/healthChecks/NAME"]}`,
	"compute.forwardingRules.insert":       `{"name":"NAME","loadBalancingScheme":"INTERNAL","ports":["443"],"backendService":"regions/us-test1/backendServices/NAME","subnetwork":"regions/us-test1/subnetworks/NAME"}`,
	"compute.instanceTemplates.insert":     `{"name":"NAME","properties":{"machineType":"e2-medium","disks":[{"boot":true,"autoDelete":true,"initializeParams":{"sourceImage":"projects/debian-cloud/global/images/debian-12"}}],` + nic + `}}`,
	"compute.instances.insert":             `{"name":"NAME","machineType":"zones/us-test1-a/machineTypes/e2-medium","disks":[{"boot":true,"autoDelete":true,"initializeParams":{"sourceImage":"projects/debian-cloud/global/images/debian-12"}}],` + nic + `}`,
	"compute.instanceGroupManagers.insert": `{"name":"NAME","instanceTemplate":"global/instanceTemplates/NAME","targetSize":2}`,
	"compute.instances.attachDisk":         `{"source":"zones/us-test1-a/disks/NAME"}`,
}

// body returns a good body, with at most one field replaced by a random one.
func (r *chance) body(fields map[string]any, good string) any {
	var out map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(good, "NAME", someNames[r.IntN(3)])), &out); err != nil {
		r.t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(fields)); len(names) > 0 && r.IntN(3) == 0 {
		name := names[r.IntN(len(names))]
		out[name] = fields[name]
	}
	return out
}

// rememberFingerprint remembers a fingerprint from a response, so that some calls use the right one.
func (r *chance) rememberFingerprint(answer []byte) {
	for _, field := range []string{`"fingerprint":"`, `"labelFingerprint":"`, `"etag":"`} {
		if _, rest, ok := bytes.Cut(answer, []byte(field)); ok && r.IntN(2) == 0 {
			end, _, _ := bytes.Cut(rest, []byte(`"`))
			r.stamp = string(end)
		}
	}
}

// TestNoCallBringsTheEmulatorToBreakTheDescription makes random calls to all implemented methods.
// Each response must conform to the description, or be an error; none may reveal a bug in the
// emulator. At the end, everything that was created can be deleted.
func TestNoCallBringsTheEmulatorToBreakTheDescription(t *testing.T) {
	apis, err := description.Read()
	if err != nil {
		t.Fatal(err)
	}
	good := map[string]int{}
	for seed := range uint64(4) {
		clock := standintest.NewClock()
		e, err := emulator.New(emulator.Options{Seed: seed, Latency: time.Second, Now: clock.Now, Sleep: clock.Sleep, Buckets: []emulator.Bucket{{Name: "things"}}, DNSZones: []emulator.DNSZone{{Name: "example", DNSName: "example.com."}},
			OnBug: func(err error) { t.Errorf("seed %d: the emulator is wrong: %v", seed, err) }})
		if err != nil {
			t.Fatal(err)
		}
		r := &chance{rand.New(rand.NewPCG(seed, 1)), t, apis, "AAAA"}
		methods := e.Methods()
		for n := range 1500 {
			m := apis.Method(methods[r.IntN(len(methods))])
			if n%3 == 0 { // the other calls need existing objects
				for !strings.HasSuffix(m.ID, ".insert") {
					m = apis.Method(methods[r.IntN(len(methods))])
				}
			}
			w, request := httptest.NewRecorder(), r.call(m)
			e.ServeHTTP(w, request)
			switch {
			case w.Code < 300:
				good[m.ID]++
				r.rememberFingerprint(w.Body.Bytes())
			case w.Code >= 500 && !strings.Contains(w.Body.String(), "several versions"):
				t.Fatalf("seed %d: %s %s: %d %s", seed, m.Verb, request.URL, w.Code, w.Body)
			}
			if r.IntN(4) == 0 {
				_ = clock.Sleep(t.Context(), 10*time.Second)
			}
		}
		deleteAll(t, e, clock)
	}
	for _, id := range []string{"compute.networks.insert", "compute.subnetworks.insert", "compute.firewalls.insert", "compute.disks.insert", "compute.instanceTemplates.insert", "compute.instances.insert", "compute.instanceGroupManagers.insert", "compute.forwardingRules.insert", "compute.instances.attachDisk"} {
		if good[id] == 0 {
			t.Errorf("chance never made one by %s: it proves nothing", id)
		}
	}
	t.Logf("%d methods went well", len(good))
}

// deleteAll deletes all Compute Engine objects, repeatedly while others still use them.
func deleteAll(t *testing.T, e *emulator.Emulator, clock *standintest.Clock) {
	t.Helper()
	var left []string
	for range 12 {
		left = slices.DeleteFunc(e.Inventory(), func(path string) bool {
			return strings.Contains(path, "/policy/") || strings.Contains(path, "/serviceAccounts/") || strings.Contains(path, "/managedZones/")
		})
		for _, path := range left {
			w := httptest.NewRecorder()
			e.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/compute/v1/"+path, nil))
			if w.Code != http.StatusOK && w.Code != http.StatusBadRequest && w.Code != http.StatusNotFound {
				t.Fatalf("delete %s: %d %s", path, w.Code, w.Body)
			}
		}
		_ = clock.Sleep(t.Context(), time.Minute)
	}
	if len(left) > 0 {
		t.Errorf("cannot be deleted: %s", left)
	}
}
