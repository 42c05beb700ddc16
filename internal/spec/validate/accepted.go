package validate

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/accepted"
	"kops.local/kops/internal/spec/fields"
	"kops.local/kops/internal/spec/versions"
)

// program is a program of Kubernetes and its block of a spec.
type program struct {
	name, path string
	config     any
	gates      map[string]string
	image      string
}

// programs returns the programs with a block in the cluster's spec.
func (c *Check) programs() []program {
	var out []program
	s := c.Spec
	if b := s.KubeAPIServer; b != nil {
		out = append(out, program{"kube-apiserver", "spec.kubeAPIServer", b, b.FeatureGates, b.Image})
	}
	if b := s.KubeControllerManager; b != nil {
		out = append(out, program{"kube-controller-manager", "spec.kubeControllerManager", b, b.FeatureGates, b.Image})
	}
	if b := s.KubeScheduler; b != nil {
		out = append(out, program{"kube-scheduler", "spec.kubeScheduler", b, b.FeatureGates, b.Image})
	}
	if b := s.KubeProxy; b != nil {
		out = append(out, program{"kube-proxy", "spec.kubeProxy", b, b.FeatureGates, b.Image})
	}
	if b := s.Kubelet; b != nil {
		out = append(out, program{name: "kubelet", path: "spec.kubelet", gates: b.FeatureGates})
	}
	if b := s.ControlPlaneKubelet; b != nil {
		out = append(out, program{name: "kubelet", path: "spec.masterKubelet", gates: b.FeatureGates})
	}
	return out
}

// release returns the minor version of Kubernetes that the cluster should have, if it is known what
// it accepts.
func (c *Check) release() (accepted.Release, bool) {
	v, err := versions.ParseVersion(c.Spec.KubernetesVersion)
	if err != nil {
		return "", false
	}
	return accepted.Of(v)
}

// acceptedValues rejects values with which programs of this Kubernetes exit at once.
func acceptedValues(c *Check) {
	r, known := c.release()
	for _, p := range c.programs() {
		if known {
			c.gates(r, p)
			if p.name != "kubelet" {
				c.flags(r, p)
			}
		}
		c.imageVersion(p)
	}
	a := c.Spec.KubeAPIServer
	if a == nil {
		return
	}
	if known {
		c.plugins(r, "spec.kubeAPIServer.enableAdmissionPlugins", a.EnableAdmissionPlugins)
		c.plugins(r, "spec.kubeAPIServer.disableAdmissionPlugins", a.DisableAdmissionPlugins)
		c.plugins(r, "spec.kubeAPIServer.appendAdmissionPlugins", a.AppendAdmissionPlugins)
	}
	c.OneOf("spec.kubeAPIServer.storageBackend", text(a.StorageBackend), "etcd3")
	c.auditPolicy(a.AuditPolicyFile)
}

// groupStarts rejects gates with which the kubelets of a group exit at once.
func groupStarts(c *Check, g *api.InstanceGroup) {
	if r, known := c.release(); known && g.Spec.Kubelet != nil {
		c.gates(r, program{name: "kubelet", path: "spec.kubelet", gates: g.Spec.Kubelet.FeatureGates})
	}
}

// replacement has, by flag, what replaces a flag that was removed.
var replacement = map[string]string{
	"experimental-cluster-signing-duration":   "use ClusterSigningDuration",
	"experimental-encryption-provider-config": "use encryptionProviderConfig",
}

// flags rejects fields whose flag the program no longer has. A kubelet gets a file instead, see
// kubeletRemoved.
func (c *Check) flags(r accepted.Release, p program) {
	fields.Each(p.path, reflect.ValueOf(p.config), func(path string, f reflect.StructField, v reflect.Value) bool {
		flag, _, _ := strings.Cut(f.Tag.Get("flag"), " ")
		flag, _, _ = strings.Cut(flag, ",")
		if flag != "" && flag != "-" && !v.IsZero() && !r.Flag(p.name, flag) {
			c.Bad(c.older(path), shortValue(v), fmt.Sprintf("%s of Kubernetes %s has no flag --%s, and would not start with it", p.name, r, flag), cmp.Or(replacement[flag], "remove it"))
		}
		return true
	})
}

// shortValue returns a value as a message shows it, or "" for a block.
func shortValue(v reflect.Value) string {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64:
		return shorten(fmt.Sprint(v.Interface()))
	}
	return ""
}

// gates rejects feature gates that no longer exist.
func (c *Check) gates(r accepted.Release, p program) {
	for _, name := range sortedKeys(p.gates) {
		if !r.Gate(name) {
			c.Bad(p.path+".featureGates["+name+"]", p.gates[name], fmt.Sprintf("Kubernetes %s has no such feature gate, and %s would not start with it", r, p.name), "remove it")
		}
	}
}

// plugins rejects admission plugins that no longer exist.
func (c *Check) plugins(r accepted.Release, path string, names []string) {
	for i, name := range names {
		if !r.Plugin(name) && name != "PodSecurityPolicy" { // it has a rule of its own
			c.Bad(At(path, i), name, fmt.Sprintf("Kubernetes %s has no such admission plugin, and kube-apiserver would not start with it", r), "remove it")
		}
	}
}

// imageVersion warns about an image whose minor version is not the cluster's.
func (c *Check) imageVersion(p program) {
	i := strings.LastIndexByte(p.image, ':')
	if i < 0 {
		return
	}
	want, err := versions.ParseVersion(c.Spec.KubernetesVersion)
	have, ierr := versions.ParseVersion(p.image[i+1:])
	if err == nil && ierr == nil && (have.Major != want.Major || have.Minor != want.Minor) {
		c.Warn(p.path+".image", p.image, "is not of version "+c.Spec.KubernetesVersion+", as the other Kubernetes components are", "remove it, or use an image of that version")
	}
}

// auditPolicy rejects an audit policy in a version that API servers no longer read.
func (c *Check) auditPolicy(file string) {
	for i, f := range c.Spec.FileAssets {
		if file == "" || f.Path != file || f.IsBase64 {
			continue
		}
		var head struct{ APIVersion string }
		if err := yaml.Unmarshal([]byte(f.Content), &head); err == nil && strings.HasPrefix(head.APIVersion, "audit.k8s.io/") && head.APIVersion != "audit.k8s.io/v1" {
			c.Bad(At("spec.fileAssets", i)+".content", head.APIVersion, "is an audit policy version that kube-apiserver no longer supports, so it would not start", "write apiVersion: audit.k8s.io/v1")
		}
	}
}
