package node

import (
	"path"
	"slices"
	"strings"

	quantity "k8s.io/apimachinery/pkg/api/resource"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/staticpod"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// confinedContext returns the security context of a root container that may do no more than its
// component needs: use the named capabilities, and read and write its mounts, whose files may
// have any owner. Its log and the user's own files may deny access to root.
func confinedContext(add ...string) *staticpod.SecurityContext {
	return staticpod.Confined(append([]string{"DAC_OVERRIDE"}, add...)...)
}

// component is a pod of the control plane with one container.
type component struct {
	name      string
	container staticpod.Container
	volumes   []any
}

// logOf returns the file that a component logs to.
func logOf(name string) string { return "/var/log/" + name + ".log" }

// newComponent returns a confined component that logs to its own file and is run by
// a program that writes its output there.
func newComponent(name, image, binary string, flags []string) *component {
	c := &component{name: name, container: staticpod.Container{Name: name, Image: image, SecurityContext: confinedContext()}}
	log := logOf(name)
	c.container.Command = append([]string{"/go-runner", "--log-file=" + log, "--also-stdout", binary}, flags...)
	c.mount("logfile", log, "FileOrCreate", false)
	return c
}

// mount mounts a path of the machine into the component at the same path.
func (c *component) mount(name, at, kind string, readOnly bool) {
	if slices.ContainsFunc(c.container.VolumeMounts, func(m staticpod.VolumeMount) bool { return m.MountPath == at }) {
		return
	}
	c.container.VolumeMounts = append(c.container.VolumeMounts, staticpod.VolumeMount{Name: name, MountPath: at, ReadOnly: readOnly})
	c.volumes = append(c.volumes, staticpod.Volume{Name: name, HostPath: &staticpod.HostPath{Path: at, Type: kind}})
}

// hasMount reports whether a file is in a folder that is already mounted.
func (c *component) hasMount(file string) bool {
	return slices.ContainsFunc(c.container.VolumeMounts, func(m staticpod.VolumeMount) bool { return strings.HasPrefix(file, m.MountPath+"/") })
}

// mountFolder mounts the folder of a file that the user names, unless it is already mounted.
func (c *component) mountFolder(name, file string, readOnly bool) {
	if file == "" || file == "-" || c.hasMount(file) {
		return
	}
	c.mount(name, path.Dir(file), "DirectoryOrCreate", readOnly)
}

// mountCertificates mounts the system's CA certificates.
func (c *component) mountCertificates(family string) {
	if family == "rhel" {
		c.mount("etcpkitls", "/etc/pki/tls", "", true)
		c.mount("etcpkica-trust", "/etc/pki/ca-trust", "", true)
		return
	}
	c.mount("etcssl", "/etc/ssl", "", true)
	c.mount("usrshareca", "/usr/share/ca-certificates", "", true)
}

// amounts sets the pod's resource requests and limits. Without a request of the user, the request of
// CPU is the usual one, or a lower limit: the kubelet rejects requests above a limit.
func (c *component) amounts(cpu string, cpuRequest, cpuLimit, memoryRequest, memoryLimit *quantity.Quantity) {
	switch {
	case cpuRequest != nil:
		cpu = cpuRequest.String()
	case cpuLimit != nil && cpuLimit.Cmp(quantity.MustParse(cpu)) < 0:
		cpu = cpuLimit.String()
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
	c.container.Resources = staticpod.Resources{Requests: requests, Limits: limits}
}

// pod returns the component as a pod.
func (c *component) pod(priority string, labels map[string]string) *staticpod.Pod {
	all := map[string]string{"k8s-app": c.name}
	for k, v := range labels {
		all[k] = v
	}
	return &staticpod.Pod{
		Metadata: staticpod.Metadata{Name: c.name, Namespace: "kube-system", Labels: all},
		Spec: staticpod.Spec{
			Containers: []any{c.container}, Volumes: c.volumes, HostNetwork: true, PriorityClassName: priority,
			Tolerations: staticpod.Critical(),
		},
	}
}

// manifest adds a component's static pod and its log: the kubelet would create a
// world-readable one. kubeconfig is the file with which the component calls the
// API, if it does; see podRestartedWithCertificate.
func (b *builder) manifest(p *staticpod.Pod, kubeconfig string) error {
	log, err := add(b, &host.Logs, logOf(p.Metadata.Name), host.Log{Path: logOf(p.Metadata.Name)})
	if err != nil {
		return err
	}
	b.node = append(b.node, log)
	if c := b.Config.ContainerdConfig; c != nil && c.SelinuxEnabled {
		p.Spec.SecurityContext = &staticpod.SecurityContext{SELinuxOptions: map[string]string{"type": "spc_t"}}
	}
	if kubeconfig != "" && p.Metadata.Annotations[trustAnnotation] == "" {
		b.annotateTrust(p, []string{pki.KubernetesCA})
	}
	text, err := p.Encode()
	if err != nil {
		return err
	}
	if kubeconfig == "" {
		return b.staticPod(p.Metadata.Name, resource.Lit(string(text)))
	}
	return b.podRestartedWithCertificate(p.Metadata.Name, string(text), kubeconfig)
}
