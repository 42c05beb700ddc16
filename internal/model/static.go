package model

import (
	"fmt"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/contract/users"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/spec/complete"
)

func (b *builder) staticManifests() error {
	healthcheck, err := b.healthcheck().encode()
	if err != nil {
		return err
	}
	b.file("manifests-static-kube-apiserver-healthcheck", layout.Healthcheck, healthcheck)
	channels, err := b.channels().encode()
	if err != nil {
		return err
	}
	b.file("manifests-channels-kops-channels", layout.Channels, channels)
	return nil
}

// healthcheck is the part of the API server's pod that asks the API server for
// its health with a certificate, so that others can ask without one.
func (b *builder) healthcheck() pod {
	const secrets = "healthcheck-secrets"
	args := []string{"--ca-cert=/secrets/ca.crt", "--client-cert=/secrets/client.crt", "--client-key=/secrets/client.key"}
	if s := b.spec().KubeAPIServer; s != nil && s.SecurePort != 0 && s.SecurePort != 443 {
		args = append(args, fmt.Sprintf("--secure-port=%d", s.SecurePort))
	}
	args = append(args, b.healthBalancers()...)
	return pod{Spec: podSpec{
		Containers: []container{{
			Name:            "healthcheck",
			Image:           b.image("registry.k8s.io/kops/kube-apiserver-healthcheck:" + b.Version),
			Args:            args,
			SecurityContext: asUser(users.Healthcheck),
			VolumeMounts:    []volumeMount{{Name: secrets, MountPath: "/secrets", ReadOnly: true}},
			LivenessProbe: &probe{
				HTTPGet:             httpGet{Host: "127.0.0.1", Path: "/.kube-apiserver-healthcheck/healthz", Port: ports.APIHealth},
				InitialDelaySeconds: 5, TimeoutSeconds: 5,
			},
		}},
		Volumes: []volume{{Name: secrets, HostPath: &hostPath{Path: "/etc/kubernetes/kube-apiserver-healthcheck/secrets", Type: "Directory"}}},
	}}
}

// healthBalancers are the flags with which those are answered who ask from elsewhere:
// the host's balancer on this host, and Google's, which may ask from many addresses.
func (b *builder) healthBalancers() []string {
	all := fmt.Sprintf("--listen=:%d", ports.APIHealth)
	switch b.Cluster.CloudProviderID() {
	case api.CloudGCE:
		return []string{all}
	case api.CloudLocal:
		if host, ok := complete.HostAddress(b.Cluster); ok {
			return []string{all, "--clients=" + host.String()}
		}
	}
	return nil
}

// channels is the pod that applies the add-ons, again and again.
func (b *builder) channels() pod {
	args := []string{"apply", "channel", "--v=4", "--yes", "--interval=1m0s", "--node-labels=node-role.kubernetes.io/control-plane",
		"--node-name=$(NODE_NAME)", b.url(layout.Channel)}
	for _, a := range b.spec().Addons {
		args = append(args, a.Manifest)
	}
	mounts := []volumeMount{{Name: "kubeconfig", MountPath: "/var/lib/kops", ReadOnly: true}}
	volumes := []volume{{Name: "kubeconfig", HostPath: &hostPath{Path: "/var/lib/kops", Type: "Directory"}}}
	user := asUser(users.Channels)
	if folder, ok := managedfile.FolderOf(b.spec().ConfigStore.Base); ok {
		mounts = append(mounts, volumeMount{Name: "store", MountPath: folder, ReadOnly: true})
		volumes = append(volumes, volume{Name: "store", HostPath: &hostPath{Path: folder, Type: "Directory"}})
		user = reader()
	}
	ready := &probe{HTTPGet: httpGet{Host: "127.0.0.1", Path: "/readyz", Port: ports.ChannelsReady}, InitialDelaySeconds: 30, PeriodSeconds: 10, FailureThreshold: 2}
	if b.Cluster.CloudProviderID() == api.CloudLocal { // somebody waits for it
		ready.InitialDelaySeconds, ready.PeriodSeconds = 1, 2
	}
	environment := []env{{Name: "HOME", Value: "/tmp"}, {Name: "KUBECONFIG", Value: "/var/lib/kops/kubeconfig"},
		{Name: "NODE_NAME", ValueFrom: &valueFrom{fieldRef{"spec.nodeName"}}}}
	return pod{
		Metadata: podMetadata{Name: "kops-channels", Namespace: "kube-system", Labels: map[string]string{"k8s-app": "kops-channels"}},
		Spec: podSpec{
			Containers: []container{{
				Name:            "channels",
				Image:           b.image("registry.k8s.io/kops/channels:" + b.Version),
				Args:            args,
				Env:             append(environment, b.storeEnvironment()...),
				Resources:       resources{Requests: map[string]string{"cpu": "50m", "memory": "50Mi"}},
				SecurityContext: user,
				VolumeMounts:    mounts,
				ReadinessProbe:  ready,
			}},
			Volumes:           volumes,
			HostNetwork:       true,
			PriorityClassName: "system-node-critical",
			Tolerations:       []toleration{{Key: "CriticalAddonsOnly", Operator: "Exists"}},
		},
	}
}

// storeEnvironment is what a pod needs to reach the cluster's store.
func (in Input) storeEnvironment() []env {
	var out []env
	if p := in.spec().Networking.EgressProxy; p != nil && p.HTTPProxy.Host != "" {
		url := proxyURL(p)
		out = append(out, env{Name: "http_proxy", Value: url}, env{Name: "https_proxy", Value: url},
			env{Name: "NO_PROXY", Value: p.Excludes}, env{Name: "no_proxy", Value: p.Excludes})
	}
	if in.Region != "" && in.spec().CloudProvider.AWS != nil {
		out = append(out, env{Name: "AWS_REGION", Value: in.Region})
	}
	for _, n := range nodeconfig.KnownVariables() {
		if v := in.Environment[n]; v != "" {
			out = append(out, env{Name: n, Value: v})
		}
	}
	return out
}
