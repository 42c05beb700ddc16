package complete

import (
	_ "embed"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
)

// Files that the API server of a hardened cluster reads, in a folder of its machine
// that it sees anyway.
const (
	auditPolicyPath   = "/srv/kubernetes/kube-apiserver/audit-policy.yaml"
	admissionPath     = "/srv/kubernetes/kube-apiserver/admission.yaml"
	auditLogPath      = "/var/log/kube-audit/audit.log"
	terminatedPods    = 1000
	processesOfPod    = 4096
	oldestTLS         = "VersionTLS12"
	auditFileMegabyte = 100 // times the files kept, and one: at most 1.1 GB
	auditFiles        = 10
	auditDays         = 30
)

//go:embed harden_audit.yaml
var auditPolicy string

//go:embed harden_admission.yaml
var admission string

// Enforced is what the admission of pods does outside of kube-system.
type Enforced string

const (
	// Baseline refuses pods that reach the machine, and warns of what is not restricted.
	Baseline Enforced = "baseline"
	// Nothing warns of what is not of the baseline, and refuses nothing.
	Nothing Enforced = "privileged"
)

// Harden sets the fields by which a cluster follows the CIS benchmark, where the
// spec says nothing else: an audit log, limits of pods, no profiling, strong ciphers
// and the default profile of system calls.
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
		for _, plugin := range []string{"DenyServiceExternalIPs", "EventRateLimit"} { // EventRateLimit has its limits in the file
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
		if k == nil { // the control plane's is made of the other's
			continue
		}
		fill.Ptr(&k.SeccompDefault, true)
		fill.Ptr(&k.PodPidsLimit, processesOfPod)
		fill.List(&k.TLSCipherSuites, ciphers()...)
		fill.Value(&k.TLSMinVersion, oldestTLS)
	}
}

// ciphers are the TLS 1.2 suites that the benchmark considers strong and that
// all programs of a cluster know; TLS 1.3 suites cannot be chosen.
func ciphers() []string {
	return []string{
		"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
		"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	}
}

// controlPlaneFile adds a file of the machines with an API server, unless the spec has one there.
func controlPlaneFile(s *api.ClusterSpec, path, content string) {
	if slices.ContainsFunc(s.FileAssets, func(f api.FileAssetSpec) bool { return f.Path == path }) {
		return
	}
	name := path[strings.LastIndex(path, "/")+1:]
	s.FileAssets = append(s.FileAssets, api.FileAssetSpec{Name: name, Path: path, Content: content, Mode: "0600",
		Roles: []api.InstanceGroupRole{api.RoleControlPlane, api.RoleAPIServer}})
}

// podSecurity is the configuration of admission.
func podSecurity(pods Enforced) string {
	told := "restricted"
	if pods == Nothing {
		told = "baseline"
	}
	return strings.NewReplacer("@enforced@", string(pods), "@told@", told).Replace(admission)
}
