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

// confined returns the context of a root container that may do no more than its component needs:
// use the named capabilities, and read and write its mounts, whose files may have any owner. Its
// log and the user's own files may be closed to root.
func confined(add ...string) *staticpod.SecurityContext {
	return staticpod.Confined(append([]string{"DAC_OVERRIDE"}, add...)...)
}

// component is a pod of the control plane with one container.
type component struct {
	name      string
	container staticpod.Container
	volumes   []any
}

// logOf is the file that a component logs to.
func logOf(name string) string { return "/var/log/" + name + ".log" }

// newComponent starts a confined component that logs to a file of its own and is run
// by a program that keeps its output.
func newComponent(name, image, binary string, flags []string) *component {
	c := &component{name: name, container: staticpod.Container{Name: name, Image: image, SecurityContext: confined()}}
	log := logOf(name)
	c.container.Command = append([]string{"/go-runner", "--log-file=" + log, "--also-stdout", binary}, flags...)
	c.mount("logfile", log, "FileOrCreate", false)
	return c
}

// mount shows a path of the machine to the component at the same place.
func (c *component) mount(name, at, kind string, readOnly bool) {
	if slices.ContainsFunc(c.container.VolumeMounts, func(m staticpod.VolumeMount) bool { return m.MountPath == at }) {
		return
	}
	c.container.VolumeMounts = append(c.container.VolumeMounts, staticpod.VolumeMount{Name: name, MountPath: at, ReadOnly: readOnly})
	c.volumes = append(c.volumes, staticpod.Volume{Name: name, HostPath: &staticpod.HostPath{Path: at, Type: kind}})
}

// shows reports whether a file is in a folder that is shown already.
func (c *component) shows(file string) bool {
	return slices.ContainsFunc(c.container.VolumeMounts, func(m staticpod.VolumeMount) bool { return strings.HasPrefix(file, m.MountPath+"/") })
}

// mountFolder shows the folder of a file that the user names, which may be one that is shown already.
func (c *component) mountFolder(name, file string, readOnly bool) {
	if file == "" || file == "-" || c.shows(file) {
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
	c.container.Resources = staticpod.Resources{Requests: requests, Limits: limits}
}

// pod wraps the component.
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

// manifest adds a static pod of a component, and its log: the kubelet would make
// one that everybody may read. kubeconfig is the file with which the component
// calls the API, if it does so; see startedAnew.
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
		b.readsTrust(p, []string{pki.KubernetesCA})
	}
	text, err := p.Encode()
	if err != nil {
		return err
	}
	if kubeconfig == "" {
		return b.staticPod(p.Metadata.Name, resource.Lit(string(text)))
	}
	return b.startedAnew(p.Metadata.Name, string(text), kubeconfig)
}
