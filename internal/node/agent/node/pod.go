package node

import (
	"fmt"
	"path"
	"slices"
	"strings"

	quantity "k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// pod is as much of a Kubernetes pod as the static pods here need.
type pod struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       podSpec  `json:"spec"`
}

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type podSpec struct {
	// Containers and Volumes are of the types here, or of a manifest that was read.
	Containers        []any               `json:"containers"`
	HostNetwork       bool                `json:"hostNetwork"`
	PriorityClassName string              `json:"priorityClassName"`
	SecurityContext   *securityContext    `json:"securityContext,omitempty"`
	Tolerations       []map[string]string `json:"tolerations"`
	Volumes           []any               `json:"volumes,omitempty"`
}

type container struct {
	Name            string                       `json:"name"`
	Image           string                       `json:"image"`
	Command         []string                     `json:"command,omitempty"`
	Args            []string                     `json:"args,omitempty"`
	Env             []api.ContainerEnvVar        `json:"env,omitempty"`
	Ports           []port                       `json:"ports,omitempty"`
	Resources       map[string]map[string]string `json:"resources,omitempty"`
	SecurityContext *securityContext             `json:"securityContext,omitempty"`
	LivenessProbe   *probe                       `json:"livenessProbe,omitempty"`
	ReadinessProbe  *probe                       `json:"readinessProbe,omitempty"`
	StartupProbe    *probe                       `json:"startupProbe,omitempty"`
	VolumeMounts    []volumeMount                `json:"volumeMounts,omitempty"`
}

type port struct {
	Name          string `json:"name"`
	ContainerPort int32  `json:"containerPort"`
	HostPort      int32  `json:"hostPort"`
}

type securityContext struct {
	Privileged               *bool             `json:"privileged,omitempty"`
	AllowPrivilegeEscalation *bool             `json:"allowPrivilegeEscalation,omitempty"`
	Capabilities             *capabilities     `json:"capabilities,omitempty"`
	ReadOnlyRootFilesystem   *bool             `json:"readOnlyRootFilesystem,omitempty"`
	SeccompProfile           map[string]string `json:"seccompProfile,omitempty"`
	SELinuxOptions           map[string]string `json:"seLinuxOptions,omitempty"`
}

type capabilities struct {
	Add  []string `json:"add,omitempty"`
	Drop []string `json:"drop,omitempty"`
}

// confined is the context of a container of root's that may do no more than its
// component needs: the capabilities named, and reading and writing what is mounted,
// whoever owns it. Its log and the user's own files may be closed to root.
func confined(add ...string) *securityContext {
	yes, no := true, false
	return &securityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, SeccompProfile: map[string]string{"type": "RuntimeDefault"},
		Capabilities: &capabilities{Drop: []string{"ALL"}, Add: append([]string{"DAC_OVERRIDE"}, add...)}}
}

type probe struct {
	HTTPGet             httpGet `json:"httpGet"`
	InitialDelaySeconds int     `json:"initialDelaySeconds,omitempty"`
	TimeoutSeconds      int     `json:"timeoutSeconds,omitempty"`
	PeriodSeconds       int     `json:"periodSeconds,omitempty"`
	FailureThreshold    int     `json:"failureThreshold,omitempty"`
}

type httpGet struct {
	Scheme string `json:"scheme,omitempty"`
	Host   string `json:"host"`
	Path   string `json:"path"`
	Port   int    `json:"port"`
}

type volumeMount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

type volume struct {
	Name     string   `json:"name"`
	HostPath hostPath `json:"hostPath"`
}

type hostPath struct {
	Path string `json:"path"`
	Type string `json:"type,omitempty"`
}

// component is a pod of the control plane with one container.
type component struct {
	name      string
	container container
	volumes   []any
}

// logOf is the file that a component logs to.
func logOf(name string) string { return "/var/log/" + name + ".log" }

// newComponent starts a confined component that logs to a file of its own and is run
// by a program that keeps its output.
func newComponent(name, image, binary string, flags []string) *component {
	c := &component{name: name, container: container{Name: name, Image: image, SecurityContext: confined()}}
	log := logOf(name)
	c.container.Command = append([]string{"/go-runner", "--log-file=" + log, "--also-stdout", binary}, flags...)
	c.mount("logfile", log, "FileOrCreate", false)
	return c
}

// mount shows a path of the machine to the component at the same place.
func (c *component) mount(name, at, kind string, readOnly bool) {
	if slices.ContainsFunc(c.container.VolumeMounts, func(m volumeMount) bool { return m.MountPath == at }) {
		return
	}
	c.container.VolumeMounts = append(c.container.VolumeMounts, volumeMount{Name: name, MountPath: at, ReadOnly: readOnly})
	c.volumes = append(c.volumes, volume{Name: name, HostPath: hostPath{Path: at, Type: kind}})
}

// mountFolder shows the folder of a file that the user names, which may be one that is shown already.
func (c *component) mountFolder(name, file string, readOnly bool) {
	if file == "" || file == "-" || strings.HasPrefix(file, srv+"/"+c.name+"/") {
		return
	}
	c.mount(name, path.Dir(file), "DirectoryOrCreate", readOnly)
}

// mountCertificates shows the certificates of the system's own authorities.
func (c *component) mountCertificates(family string) {
	if family == "rhel" {
		c.mount("etcpkitls", "/etc/pki/tls", "", true)
		c.mount("etcpkica-trust", "/etc/pki/ca-trust", "", true)
		return
	}
	c.mount("etcssl", "/etc/ssl", "", true)
	c.mount("usrshareca", "/usr/share/ca-certificates", "", true)
}

// amounts are what the pod reserves and may use.
func (c *component) amounts(cpu string, cpuRequest, cpuLimit, memoryRequest, memoryLimit *quantity.Quantity) {
	if cpuRequest != nil {
		cpu = cpuRequest.String()
	}
	requests, limits := map[string]string{"cpu": cpu}, map[string]string{}
	for _, q := range []struct {
		in   map[string]string
		name string
		q    *quantity.Quantity
	}{{requests, "memory", memoryRequest}, {limits, "cpu", cpuLimit}, {limits, "memory", memoryLimit}} {
		if q.q != nil {
			q.in[q.name] = q.q.String()
		}
	}
	c.container.Resources = map[string]map[string]string{"requests": requests}
	if len(limits) > 0 {
		c.container.Resources["limits"] = limits
	}
}

// pod wraps the component.
func (c *component) pod(priority string, labels map[string]string) *pod {
	all := map[string]string{"k8s-app": c.name}
	for k, v := range labels {
		all[k] = v
	}
	return &pod{
		APIVersion: "v1", Kind: "Pod",
		Metadata: metadata{Name: c.name, Namespace: "kube-system", Labels: all},
		Spec: podSpec{
			Containers: []any{c.container}, Volumes: c.volumes, HostNetwork: true, PriorityClassName: priority,
			Tolerations: []map[string]string{{"key": "CriticalAddonsOnly", "operator": "Exists"}},
		},
	}
}

// merge adds the containers and volumes of a manifest.
func (p *pod) merge(manifest string) error {
	var other struct {
		Spec struct {
			Containers []map[string]any `json:"containers"`
			Volumes    []map[string]any `json:"volumes"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(manifest), &other); err != nil {
		return fmt.Errorf("the manifest to merge into %s: %w", p.Metadata.Name, err)
	}
	for _, c := range other.Spec.Containers {
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	for _, v := range other.Spec.Volumes {
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
	return nil
}

// manifest adds a static pod of a component, and its log: the kubelet would make
// one that everybody may read. kubeconfig is the file with which the component
// calls the API, if it does so; see startedAnew.
func (b *builder) manifest(p *pod, kubeconfig string) error {
	log, err := add(b, &host.Logs, logOf(p.Metadata.Name), host.Log{Path: logOf(p.Metadata.Name)})
	if err != nil {
		return err
	}
	b.node = append(b.node, log)
	if c := b.Config.ContainerdConfig; c != nil && c.SelinuxEnabled {
		p.Spec.SecurityContext = &securityContext{SELinuxOptions: map[string]string{"type": "spc_t"}}
	}
	text, err := yaml.Marshal(p)
	if err != nil {
		return fmt.Errorf("write the pod %s: %w", p.Metadata.Name, err)
	}
	if kubeconfig == "" {
		return b.staticPod(p.Metadata.Name, resource.Lit(string(text)))
	}
	return b.startedAnew(p.Metadata.Name, string(text), kubeconfig)
}
