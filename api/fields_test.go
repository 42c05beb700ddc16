package api

import (
	"reflect"
	"strings"
	"testing"

	"kops.local/kops/internal/test/goldentest"
)

// onlyInV1Alpha2 are fields that are missing in the list of v1alpha3, although kOps writes or reads them in v1alpha2.
var onlyInV1Alpha2 = map[string]bool{
	"EtcdClusterSpec.leaderElectionTimeout": true, "EtcdClusterSpec.heartbeatInterval": true,

	"KubeAPIServerConfig.etcdCAFile": true, "KubeAPIServerConfig.etcdCertFile": true, "KubeAPIServerConfig.etcdKeyFile": true,
	"KubeAPIServerConfig.basicAuthFile": true, "KubeAPIServerConfig.tlsCertFile": true, "KubeAPIServerConfig.tlsPrivateKeyFile": true,
	"KubeAPIServerConfig.allowPrivileged": true, "KubeAPIServerConfig.kubeletClientCertificate": true,
	"KubeAPIServerConfig.kubeletClientKey": true, "KubeAPIServerConfig.proxyClientCertFile": true,
	"KubeAPIServerConfig.proxyClientKeyFile": true, "KubeAPIServerConfig.authorizationRbacSuperUser": true,
	"KubeAPIServerConfig.experimentalEncryptionProviderConfig": true, "KubeAPIServerConfig.requestheaderClientCAFile": true,
	"KubeAPIServerConfig.etcdQuorumRead": true,

	"KubeControllerManagerConfig.serviceAccountPrivateKeyFile": true, "KubeControllerManagerConfig.rootCAFile": true,
	"KubeProxyConfig.hostnameOverride": true, "KubeProxyConfig.bindAddress": true,

	"KubeletConfigSpec.clientCAFile": true, "KubeletConfigSpec.hostnameOverride": true, "KubeletConfigSpec.allowPrivileged": true,
	"KubeletConfigSpec.babysitDaemons": true, "KubeletConfigSpec.nvidiaGPUs": true, "KubeletConfigSpec.reconcileCIDR": true,
	"KubeletConfigSpec.registerSchedulable": true, "KubeletConfigSpec.nodeLabels": true, "KubeletConfigSpec.enableCustomMetrics": true,
}

// ours are fields that kOps does not have.
var ours = map[string]bool{"CloudProviderSpec.local": true, "AssetsSpec.trustedKeys": true, "ExternalDNSConfig.allowedDomains": true,
	"ClusterSpec.repair": true, "InstanceGroupSpec.repair": true, "RepairSpec.after": true, "RepairSpec.maxUnhealthy": true,
	"InstanceGroupSpec.gcpShielded": true, "GCPShieldedConfig.secureBoot": true, "GCPShieldedConfig.integrityMonitoring": true, "InstanceGroupSpec.gcpConfidential": true}

// row is a line of the list of fields.
type row struct{ object, path, goType, enum, flag string }

// TestEveryListedFieldIsInTheStructs compares the structs with the list of the fields
// of v1alpha3, in both directions: path, type and flag.
func TestEveryListedFieldIsInTheStructs(t *testing.T) {
	listed := map[string]row{}
	for _, r := range readRows(t, "testdata/fields_v1alpha3.tsv.gz") {
		listed[r.object+" "+r.path] = r
	}
	if len(listed) < 1200 {
		t.Fatalf("the list has only %d fields", len(listed))
	}
	found := map[string]bool{}
	for kind, spec := range map[string]reflect.Type{
		KindCluster:       reflect.TypeFor[ClusterSpec](),
		KindInstanceGroup: reflect.TypeFor[InstanceGroupSpec](),
		KindKeyset:        reflect.TypeFor[KeysetSpec](),
		KindSSHCredential: reflect.TypeFor[SSHCredentialSpec](),
		KindHost:          reflect.TypeFor[HostSpec](),
	} {
		walkFields(spec, "spec", func(owner reflect.Type, path string, f reflect.StructField) {
			key := kind + " " + path
			found[key] = true
			r, ok := listed[key]
			name := path[strings.LastIndexByte(path, '.')+1:]
			switch {
			case !ok && !onlyInV1Alpha2[owner.Name()+"."+name] && !ours[owner.Name()+"."+name]:
				t.Errorf("%s is not in the list", key)
			case ok && typeName(f.Type) != strings.ReplaceAll(r.goType, "[]*string", "[]string"):
				t.Errorf("%s is a %s, not a %s", key, typeName(f.Type), r.goType)
			case ok && f.Tag.Get("flag") != r.flag:
				t.Errorf("%s has the flag %q, not %q", key, f.Tag.Get("flag"), r.flag)
			case ok && r.enum != "" && f.Tag.Get("enum") == "":
				t.Errorf("%s has no enum, not %s", key, r.enum)
			}
		})
	}
	for key := range listed {
		if !found[key] {
			t.Errorf("%s is in the list, but in no struct", key)
		}
	}
}

// walkFields visits the fields of a struct and of the structs of this package inside it.
func walkFields(t reflect.Type, path string, visit func(reflect.Type, string, reflect.StructField)) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := path + "." + name
		visit(t, at, f)
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			if inner.Kind() == reflect.Slice {
				at += "[]"
			}
			inner = inner.Elem()
		}
		listsEnd := strings.HasPrefix(typeName(inner), "corev1.")
		if inner.Kind() == reflect.Struct && inner.PkgPath() == t.PkgPath() && !listsEnd {
			walkFields(inner, at, visit)
		}
	}
}

// typeName returns the name of a type as in the list.
func typeName(t reflect.Type) string {
	return strings.NewReplacer(
		"api.ContainerEnvVar", "corev1.EnvVar", "api.Toleration", "corev1.Toleration", "api.Affinity", "corev1.Affinity",
		"api.", "", "v1.", "metav1.", "[]uint8", "[]byte",
	).Replace(t.String())
}

// readRows reads a list of fields.
func readRows(t *testing.T, file string) []row {
	t.Helper()
	var rows []row
	for _, l := range goldentest.Rows(t, file) {
		rows = append(rows, row{l[0], l[1], l[2], l[3], l[4]})
	}
	return rows
}
