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

// readFields reads the list of a version's fields.
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

// TestSchemasMatchTheLists compares the schema of each version with the list of its fields
// in both directions. The schema of v1alpha2 is derived by the steps.
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

// unlisted reports whether a field is rightly missing from the lists: fields inside core API
// types, our own fields, one that only v1alpha3 has, two that users wrote early, and in
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

// schemaAt finds the schema at a path; a path below a retired field leads to that field.
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

// sortOf returns the sort of a Go type in the lists; sortAny for names of structs and enumerations.
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

// TestEveryFieldSurvivesAlone writes, for each line of the lists, a document with only that
// field set, reads it, and writes it in both versions.
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
		setValue(doc, "spec.cloudProvider", cloud)
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

// expected changes a document to what it must be after reading and writing.
func expected(version string, f field, doc map[string]any) {
	if f.kind != api.KindCluster {
		return
	}
	if version == api.V1Alpha3 {
		if !hasValue(doc, "spec.networking.topology.dns") {
			setValue(doc, "spec.networking.topology.dns", "Public")
		}
	} else {
		if !hasValue(doc, "spec.topology.dns.type") {
			setValue(doc, "spec.topology.dns.type", "Public")
		}
		if hasValue(doc, "spec.iam") {
			setValue(doc, "spec.iam.legacy", false)
		}
	}
	if !hasValue(doc, "spec.authorization.rbac") && !hasValue(doc, "spec.authorization.alwaysAllow") {
		setValue(doc, "spec.authorization.rbac", map[string]any{})
	}
	if hasValue(doc, "spec.networking.flannel") && !hasValue(doc, "spec.networking.flannel.backend") {
		setValue(doc, "spec.networking.flannel.backend", "udp")
	}
	if cloud, _ := doc["spec"].(map[string]any)["cloudProvider"].(string); cloud == "gce" && !hasValue(doc, "spec.cloudConfig") {
		setValue(doc, "spec.cloudConfig", map[string]any{})
	}
	if f.path == "spec.externalDns.disable" {
		doc["spec"].(map[string]any)["externalDns"] = map[string]any{"provider": "none"}
	}
}

// meaninglessWhenEmpty reports whether a block is not a pointer in v1alpha3 or does not
// exist there, so that an empty block is the same as a missing one.
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

// putSample sets a value at a path, creating lists of one item.
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

// sample returns a non-zero value for a schema.
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
