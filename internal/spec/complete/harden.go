package complete

import (
	_ "embed"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
)

// Files that the API server of a hardened cluster reads, in a folder that is mounted into it in any
// case.
const (
	auditPolicyPath   = "/srv/kubernetes/kube-apiserver/audit-policy.yaml"
	admissionPath     = "/srv/kubernetes/kube-apiserver/admission.yaml"
	auditLogPath      = "/var/log/kube-audit/audit.log"
	terminatedPods    = 1000
	processesOfPod    = 4096
	oldestTLS         = "VersionTLS12"
	auditFileMegabyte = 100 // times the number of kept files plus one: at most 1.1 GB
	auditFiles        = 10
	auditDays         = 30
)

//go:embed harden_audit.yaml
var auditPolicy string

//go:embed harden_admission.yaml
var admission string

// Enforced is the level that pod admission enforces outside of kube-system.
type Enforced string

const (
	// Baseline rejects pods that can access the host, and warns about pods that are not restricted.
	Baseline Enforced = "baseline"
	// Nothing only warns about pods that do not meet the baseline, and rejects none.
	Nothing Enforced = "privileged"
)

// Harden sets the fields for the CIS benchmark, unless the spec sets them: an audit log, limits of
// pods, no profiling, strong ciphers and the default seccomp profile.
func Harden(s *api.ClusterSpec, pods Enforced) {
	c := fill.Ensure(&s.KubeAPIServer)
	if c.AuditLogPath == nil && c.AuditPolicyFile == "" && c.AuditWebhookConfigFile == "" {
		c.AuditLogPath, c.AuditPolicyFile = ptr(auditLogPath), auditPolicyPath
		fill.Ptr(&c.AuditLogMaxAge, auditDays)
		fill.Ptr(&c.AuditLogMaxBackups, auditFiles)
		fill.Ptr(&c.AuditLogMaxSize, auditFileMegabyte)
		controlPlaneFile(s, auditPolicyPath, auditPolicy)
	}
	if c.AdmissionControlConfigFile == "" {
		c.AdmissionControlConfigFile = admissionPath
		controlPlaneFile(s, admissionPath, podSecurity(pods))
		for _, plugin := range []string{"DenyServiceExternalIPs", "EventRateLimit"} { // the file contains EventRateLimit's limits
			if !slices.Contains(c.AppendAdmissionPlugins, plugin) {
				c.AppendAdmissionPlugins = append(c.AppendAdmissionPlugins, plugin)
			}
		}
	}
	fill.Ptr(&c.EnableProfiling, false)
	fill.List(&c.TLSCipherSuites, ciphers()...)
	fill.Value(&c.TLSMinVersion, oldestTLS)
	m := fill.Ensure(&s.KubeControllerManager)
	fill.Ptr(&m.EnableProfiling, false)
	fill.Ptr(&m.TerminatedPodGCThreshold, terminatedPods)
	fill.List(&m.TLSCipherSuites, ciphers()...)
	fill.Value(&m.TLSMinVersion, oldestTLS)
	fill.Ptr(&fill.Ensure(&s.KubeScheduler).EnableProfiling, false)
	fill.Ensure(&s.Kubelet)
	for _, k := range []*api.KubeletConfigSpec{s.Kubelet, s.ControlPlaneKubelet} {
		if k == nil { // the control plane's is derived from the other
			continue
		}
		fill.Ptr(&k.SeccompDefault, true)
		fill.Ptr(&k.PodPidsLimit, processesOfPod)
		fill.List(&k.TLSCipherSuites, ciphers()...)
		fill.Value(&k.TLSMinVersion, oldestTLS)
	}
}

// ciphers returns the TLS 1.2 suites that the benchmark considers strong and that all programs of a
// cluster support; TLS 1.3 suites cannot be configured.
func ciphers() []string {
	return []string{
		"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
		"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	}
}

// controlPlaneFile adds a file to the machines with an API server, unless the spec already has one
// at the path.
func controlPlaneFile(s *api.ClusterSpec, path, content string) {
	if slices.ContainsFunc(s.FileAssets, func(f api.FileAssetSpec) bool { return f.Path == path }) {
		return
	}
	name := path[strings.LastIndex(path, "/")+1:]
	s.FileAssets = append(s.FileAssets, api.FileAssetSpec{Name: name, Path: path, Content: content, Mode: "0600",
		Roles: []api.InstanceGroupRole{api.RoleControlPlane, api.RoleAPIServer}})
}

// podSecurity returns the admission configuration.
func podSecurity(pods Enforced) string {
	warned := "restricted"
	if pods == Nothing {
		warned = "baseline"
	}
	return strings.NewReplacer("@enforced@", string(pods), "@told@", warned).Replace(admission)
}
