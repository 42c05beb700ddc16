package compat

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/internal/test/goldentest"
)

// field is a line of the lists of fields.
type field struct{ kind, path, goType, enum, status string }

// readFields reads the list of the fields of a version.
func readFields(t *testing.T, version string) []field {
	t.Helper()
	file, statusColumn := "../testdata/fields.tsv.gz", 6
	if version == api.V1Alpha3 {
		file, statusColumn = "../testdata/fields_v1alpha3.tsv.gz", 5
	}
	var fields []field
	for _, l := range goldentest.Rows(t, file) {
		fields = append(fields, field{l[0], l[1], l[2], l[3], l[statusColumn]})
	}
	return fields
}

// TestSchemasMatchTheLists compares the schema of each version, of which that of
// v1alpha2 follows from the steps, with the list of its fields in both directions.
func TestSchemasMatchTheLists(t *testing.T) {
	for _, version := range []string{api.V1Alpha2, api.V1Alpha3} {
		t.Run(version, func(t *testing.T) {
			listed := map[string]bool{}
			for _, f := range readFields(t, version) {
				listed[f.kind+" "+f.path] = true
				if s := schemaAt(kinds()[f.kind].schemas[version], f.path); s == nil {
					t.Errorf("%s %s is in the list only", f.kind, f.path)
				} else if want := sortOf(f.goType); s.retired == nil && want != sortAny && s.sort != want {
					t.Errorf("%s %s is %v, not %v", f.kind, f.path, s.sort, want)
				}
			}
			for _, kind := range []string{api.KindCluster, api.KindInstanceGroup, api.KindKeyset, api.KindSSHCredential, api.KindHost} {
				kinds()[kind].schemas[version].fields["spec"].walk("spec", func(path string, s *schema) {
					isField := path != "spec" && !strings.HasSuffix(path, "[]")
					if isField && !listed[kind+" "+path] && !unlisted(path) {
						t.Errorf("%s %s is in the schema only", kind, path)
					}
				})
			}
		})
	}
}

// unlisted tells the fields that are right to be in no list: those inside of types of
// the core API, our own, one that v1alpha3 only knows, two that users wrote early, and in
// v1alpha3 those that only v1alpha2 lists.
func unlisted(path string) bool {
	for _, prefix := range []string{
		"spec.kubeAPIServer.env[].", "spec.kubeDNS.tolerations[].", "spec.kubeDNS.affinity.",
		"spec.assets.trustedKeys", "spec.externalDNS.allowedDomains", "spec.externalDns.allowedDomains", "spec.gcpShielded", "spec.gcpConfidential", "spec.repair", "spec.repair.after", "spec.repair.maxUnhealthy", "spec.cloudConfig.binariesLocation", "spec.serviceOIDCProvider", "spec.openstackServiceAccount", "spec.cloudProvider.local",
	} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	switch parent, name, _ := strings.Cut(strings.TrimPrefix(path, "spec."), "."); parent {
	case "etcdClusters[]":
		return name == "leaderElectionTimeout" || name == "heartbeatInterval"
	case "kubeAPIServer":
		return strings.Contains(" etcdCAFile etcdCertFile etcdKeyFile basicAuthFile tlsCertFile tlsPrivateKeyFile allowPrivileged kubeletClientCertificate kubeletClientKey proxyClientCertFile proxyClientKeyFile authorizationRbacSuperUser experimentalEncryptionProviderConfig requestheaderClientCAFile etcdQuorumRead ", " "+name+" ")
	case "kubeControllerManager":
		return name == "serviceAccountPrivateKeyFile" || name == "rootCAFile"
	case "kubeProxy":
		return name == "hostnameOverride" || name == "bindAddress"
	case "kubelet", "controlPlaneKubelet":
		return strings.Contains(" clientCAFile hostnameOverride allowPrivileged babysitDaemons nvidiaGPUs reconcileCIDR registerSchedulable nodeLabels enableCustomMetrics ", " "+name+" ")
	}
	return false
}

// schemaAt finds the schema at a path; what is below a retired field is that field.
func schemaAt(s *schema, path string) *schema {
	for key := range strings.SplitSeq(path, ".") {
		name, isList := strings.CutSuffix(key, "[]")
		if s = s.fields[name]; s == nil || s.retired != nil {
			return s
		}
		if isList {
			s = s.elem
		}
	}
	return s
}

// sortOf returns what a Go type of the lists is; sortAny for the names of structs and enumerations.
func sortOf(goType string) sort {
	switch goType = strings.TrimPrefix(goType, "*"); {
	case goType == "[]byte":
		return sortBytes
	case strings.HasPrefix(goType, "[]"):
		return sortList
	case strings.HasPrefix(goType, "map["):
		return sortMap
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"):
		if goType == "intstr.IntOrString" {
			return sortIntOrString
		}
		return sortInt
	}
	return map[string]sort{
		"string": sortString, "bool": sortBool, "metav1.Duration": sortDuration,
		"metav1.Time": sortTime, "resource.Quantity": sortQuantity,
	}[goType]
}

// TestEveryFieldSurvivesAlone writes a document for each line of the lists with that
// one field set, reads it, and writes it in both versions.
func TestEveryFieldSurvivesAlone(t *testing.T) {
	for _, version := range []string{api.V1Alpha2, api.V1Alpha3} {
		t.Run(version, func(t *testing.T) {
			for _, f := range readFields(t, version) {
				survivesAlone(t, version, f)
			}
		})
	}
}

func survivesAlone(t *testing.T, version string, f field) {
	s := schemaAt(kinds()[f.kind].schemas[version], f.path)
	if s == nil || s.retired != nil || meaninglessWhenEmpty(version, f, s) {
		return
	}
	doc := map[string]any{"apiVersion": "kops.k8s.io/" + version, "kind": f.kind, "metadata": map[string]any{"name": "a"}}
	if cloud := cloudFor(f.path); cloud != "" && f.kind == api.KindCluster && version == api.V1Alpha2 {
		put(doc, "spec.cloudProvider", cloud)
	}
	putSample(doc, f.path, sample(s))
	data := asJSON(t, doc)
	objects, warnings, err := Decode(data, Options{})
	if err != nil || len(warnings) > 0 {
		t.Errorf("%s: %v %v", f.path, err, warnings)
		return
	}
	for _, via := range []string{api.V1Alpha2, api.V1Alpha3} {
		between := mustEncode(t, via, objects...)
		again, _, err := Decode(between, Options{})
		if err != nil {
			t.Errorf("%s in %s: %v\n%s", f.path, via, err, between)
			return
		}
		var got map[string]any
		if err := json.Unmarshal(mustEncodeJSON(t, version, again...), &got); err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		expected(version, f, want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s by way of %s: got (+), want (-):\n%s", f.kind, f.path, via, diff)
		}
	}
}

// expected makes a document what it must look like after reading and writing.
func expected(version string, f field, doc map[string]any) {
	if f.kind != api.KindCluster {
		return
	}
	if version == api.V1Alpha3 {
		if !has(doc, "spec.networking.topology.dns") {
			put(doc, "spec.networking.topology.dns", "Public")
		}
	} else {
		if !has(doc, "spec.topology.dns.type") {
			put(doc, "spec.topology.dns.type", "Public")
		}
		if has(doc, "spec.iam") {
			put(doc, "spec.iam.legacy", false)
		}
	}
	if !has(doc, "spec.authorization.rbac") && !has(doc, "spec.authorization.alwaysAllow") {
		put(doc, "spec.authorization.rbac", map[string]any{})
	}
	if has(doc, "spec.networking.flannel") && !has(doc, "spec.networking.flannel.backend") {
		put(doc, "spec.networking.flannel.backend", "udp")
	}
	if cloud, _ := doc["spec"].(map[string]any)["cloudProvider"].(string); cloud == "gce" && !has(doc, "spec.cloudConfig") {
		put(doc, "spec.cloudConfig", map[string]any{})
	}
	if f.path == "spec.externalDns.disable" {
		doc["spec"].(map[string]any)["externalDns"] = map[string]any{"provider": "none"}
	}
}

// meaninglessWhenEmpty tells the blocks that are no pointers in v1alpha3, or that do
// not exist there: an empty one is the same as none.
func meaninglessWhenEmpty(version string, f field, s *schema) bool {
	isBlock := s.sort == sortObject
	if isBlock && version == api.V1Alpha3 {
		switch f.path {
		case "spec.authentication.oidc", "spec.rootVolume":
			return true
		}
	}
	if isBlock && version == api.V1Alpha2 {
		switch f.path {
		case "spec.networking", "spec.api", "spec.cloudConfig.openstack", "spec.cloudConfig.azure":
			return true
		}
	}
	return isBlock && !strings.HasPrefix(f.goType, "*")
}

// cloudFor returns the cloud of a field of v1alpha2, or "".
func cloudFor(path string) string {
	for _, s := range cloudSteps() {
		if path == "spec."+s.old || strings.HasPrefix(path, "spec."+s.old+".") {
			return string(s.cloud)
		}
	}
	return ""
}

// putSample sets a value at a path with lists of one item.
func putSample(m map[string]any, path string, v any) {
	key, rest, deeper := strings.Cut(path, ".")
	name, isList := strings.CutSuffix(key, "[]")
	if !deeper {
		m[name] = v
		return
	}
	inner := map[string]any{}
	if old, ok := m[name].(map[string]any); ok {
		inner = old
	}
	m[name] = inner
	if isList {
		m[name] = []any{inner}
	}
	putSample(inner, rest, v)
}

// sample returns a value for a place, not a zero one.
func sample(s *schema) any {
	switch s.sort {
	case sortObject:
		return map[string]any{}
	case sortMap:
		return map[string]any{"key": sample(s.elem)}
	case sortList:
		return []any{sample(s.elem)}
	case sortBool:
		return true
	case sortInt:
		return 7
	case sortIntOrString:
		return "25%"
	case sortQuantity:
		return "100m"
	case sortDuration:
		return "1m30s"
	case sortTime:
		return "2026-01-02T03:04:05Z"
	case sortBytes:
		return "AQI="
	}
	switch {
	case len(s.enum) > 0:
		return s.enum[0]
	case s.check != nil:
		return "key=value"
	}
	return "text"
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mustEncode(t *testing.T, version string, objects ...api.Object) []byte {
	t.Helper()
	data, err := Encode(version, objects...)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mustEncodeJSON(t *testing.T, version string, objects ...api.Object) []byte {
	t.Helper()
	data, err := EncodeJSON(version, objects...)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
