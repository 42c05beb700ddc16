package model

import (
	"fmt"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/contract/staticpod"
	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/contract/users"
	"kops.local/kops/internal/model/managedfile"
)

func (b *builder) staticManifests() error {
	healthcheck, err := b.healthcheck().Encode()
	if err != nil {
		return err
	}
	b.file("manifests-static-kube-apiserver-healthcheck", layout.Healthcheck, healthcheck)
	channels, err := b.channels().Encode()
	if err != nil {
		return err
	}
	b.file("manifests-channels-kops-channels", layout.Channels, channels)
	return nil
}

// healthcheck returns the part of the API server's pod that queries the API server's health with a
// certificate, so that others can query it without one.
func (b *builder) healthcheck() staticpod.Pod {
	const secrets = "healthcheck-secrets"
	args := []string{"--ca-cert=/secrets/ca.crt", "--client-cert=/secrets/client.crt", "--client-key=/secrets/client.key"}
	if s := b.spec().KubeAPIServer; s != nil && s.SecurePort != 0 && s.SecurePort != ports.API {
		args = append(args, fmt.Sprintf("--secure-port=%d", s.SecurePort))
	}
	args = append(args, b.healthBalancers()...)
	return staticpod.Pod{Spec: staticpod.Spec{
		Containers: []any{staticpod.Container{
			Name:            "healthcheck",
			Image:           b.ownImage(programs.Healthcheck),
			Args:            args,
			SecurityContext: asUser(users.Healthcheck),
			VolumeMounts:    []staticpod.VolumeMount{{Name: secrets, MountPath: "/secrets", ReadOnly: true}},
			LivenessProbe: &staticpod.Probe{
				HTTPGet:             staticpod.HTTPGet{Host: "127.0.0.1", Path: "/.kube-apiserver-healthcheck/healthz", Port: ports.APIHealth},
				InitialDelaySeconds: 5, TimeoutSeconds: 5,
			},
		}},
		Volumes: []any{staticpod.Volume{Name: secrets, HostPath: &staticpod.HostPath{Path: paths.Healthcheck, Type: "Directory"}}},
	}}
}

// healthBalancers returns the flags for health checks from other hosts, such as a load balancer.
func (b *builder) healthBalancers() []string {
	of := b.Traits.Model.HealthClients
	if of == nil {
		return nil
	}
	address, everybody := of(b.Cluster)
	all := fmt.Sprintf("--listen=:%d", ports.APIHealth)
	switch {
	case everybody:
		return []string{all}
	case address != "":
		return []string{all, "--clients=" + address}
	}
	return nil
}

// channels returns the pod that repeatedly applies the add-ons.
func (b *builder) channels() staticpod.Pod {
	args := []string{"apply", "channel", "--v=4", "--yes", "--interval=1m0s", "--node-labels=" + labels.ControlPlane,
		"--node-name=$(NODE_NAME)", b.url(layout.Channel)}
	for _, a := range b.spec().Addons {
		args = append(args, a.Manifest)
	}
	mounts := []staticpod.VolumeMount{{Name: "kubeconfig", MountPath: paths.Channels, ReadOnly: true}, trustMount()}
	volumes := []any{staticpod.Volume{Name: "kubeconfig", HostPath: &staticpod.HostPath{Path: paths.Channels, Type: "Directory"}}, trust()}
	user := asUser(users.Channels)
	if folder, ok := managedfile.FolderOf(b.spec().ConfigStore.Base); ok {
		mounts = append(mounts, staticpod.VolumeMount{Name: "store", MountPath: folder, ReadOnly: true})
		volumes = append(volumes, staticpod.Volume{Name: "store", HostPath: &staticpod.HostPath{Path: folder, Type: "Directory"}})
		user = reader()
	}
	ready := &staticpod.Probe{HTTPGet: staticpod.HTTPGet{Host: "127.0.0.1", Path: "/readyz", Port: ports.ChannelsReady}, InitialDelaySeconds: 30, PeriodSeconds: 10, FailureThreshold: 2}
	if b.Traits.Model.Awaited { // a user is waiting for it
		ready.InitialDelaySeconds, ready.PeriodSeconds = 1, 2
	}
	environment := []api.ContainerEnvVar{{Name: "HOME", Value: "/tmp"}, {Name: "KUBECONFIG", Value: paths.ChannelsKubeconfig},
		{Name: "NODE_NAME", ValueFrom: &api.EnvVarSource{FieldRef: &api.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}}
	return staticpod.Pod{
		Metadata: staticpod.Metadata{Name: "kops-channels", Namespace: "kube-system", Labels: map[string]string{"k8s-app": "kops-channels"}},
		Spec: staticpod.Spec{
			Containers: []any{staticpod.Container{
				Name:            "channels",
				Image:           b.ownImage(programs.Channels),
				Args:            args,
				Env:             append(environment, b.storeEnvironment()...),
				Resources:       staticpod.Resources{Requests: map[string]string{"cpu": "50m", "memory": "50Mi"}},
				SecurityContext: user,
				VolumeMounts:    mounts,
				ReadinessProbe:  ready,
			}},
			Volumes:           volumes,
			HostNetwork:       true,
			PriorityClassName: "system-node-critical",
			Tolerations:       staticpod.Critical(),
		},
	}
}

// trust returns the volume of the machine's own authorities, for a pod that calls services outside
// of the cluster; trustMount mounts it where programs look for them.
func trust() staticpod.Volume {
	return staticpod.Volume{Name: "trust", HostPath: &staticpod.HostPath{Path: paths.Trust, Type: "DirectoryOrCreate"}}
}

func trustMount() staticpod.VolumeMount {
	return staticpod.VolumeMount{Name: "trust", MountPath: paths.TrustPod, ReadOnly: true}
}

// storeVariables returns the names of the caller's variables that control-plane machines get,
// sorted.
func (in Input) storeVariables() []string {
	return slices.Sorted(slices.Values(append(nodeconfig.StoreVariables(), in.Traits.Store.Variables...)))
}

// storeEnvironment returns the variables that a pod needs to reach the cluster's store.
func (in Input) storeEnvironment() []api.ContainerEnvVar {
	out := staticpod.ProxyEnvironment(in.spec().Networking.EgressProxy)
	if name := in.Traits.Store.RegionVariable; name != "" && in.Region != "" {
		out = append(out, api.ContainerEnvVar{Name: name, Value: in.Region})
	}
	return append(out, in.storeVariablesSet()...)
}

// storeVariablesSet returns the caller's variables, and the location of the keys.
func (in Input) storeVariablesSet() []api.ContainerEnvVar {
	var out []api.ContainerEnvVar
	for _, n := range in.storeVariables() {
		if v := in.Environment[n]; v != "" {
			out = append(out, api.ContainerEnvVar{Name: n, Value: v})
		}
	}
	if at := in.StoreKeys(); !at.IsZero() {
		out = append(out, api.ContainerEnvVar{Name: storekeys.Variable, Value: at.String()})
	}
	return out
}

// storeAccess returns the variables with which a pod reaches the cluster's store if the pod finds
// out its region and proxy itself; the region is also needed for the store's keys.
func (in Input) storeAccess() []api.ContainerEnvVar {
	out := in.storeVariablesSet()
	if name := in.Traits.Store.RegionVariable; name != "" && in.Region != "" && !in.StoreKeys().IsZero() {
		out = append(out, api.ContainerEnvVar{Name: name, Value: in.Region})
	}
	return out
}
