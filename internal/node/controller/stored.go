package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/store"
)

// Reader reads single objects of a store.
type Reader interface {
	// Get returns an object, or an error of class fault.Gone.
	Get(ctx context.Context, key string) ([]byte, store.Version, error)
}

// Stored reads a cluster's machines from the cluster's folder in the store.
type Stored struct {
	// Base is the cluster's folder, Secrets the folder of its secrets.
	Base, Secrets Reader
}

var (
	_ Configs            = Stored{}
	_ bootstrap.Machines = Stored{}
)

// NodeConfig reads the configuration of a group of workers, and the secret that
// its machines need; machines of other roles read the store themselves.
func (s Stored) NodeConfig(ctx context.Context, group string) (bootstrap.NodeConfig, error) {
	if err := CheckName(group); err != nil {
		return bootstrap.NodeConfig{}, err
	}
	text, _, err := s.Base.Get(ctx, layout.NodeConfig(string(api.RoleNode), group))
	if err != nil {
		return bootstrap.NodeConfig{}, fmt.Errorf("read the configuration of the group %s: %w", group, err)
	}
	out := bootstrap.NodeConfig{NodeupConfig: string(text)}
	data, _, err := s.Secrets.Get(ctx, pki.DockerConfig)
	if fault.Is(err, fault.Gone) {
		return out, nil
	}
	if err != nil {
		return out, fault.New(fault.NotYet, "read the secret %s: %w", pki.DockerConfig, err)
	}
	secret, err := pki.DecodeSecret(data)
	if err != nil {
		return out, fmt.Errorf("secret %s: %w", pki.DockerConfig, err)
	}
	out.NodeSecrets = map[string][]byte{pki.DockerConfig: []byte(secret.Reveal())}
	return out, nil
}

// Machine reads the registration of a machine.
func (s Stored) Machine(ctx context.Context, node string) (bootstrap.Machine, error) {
	var m bootstrap.Machine
	if err := CheckName(node); err != nil {
		return m, err
	}
	text, _, err := s.Base.Get(ctx, layout.MachineKey(node))
	if err != nil {
		return m, fmt.Errorf("read the entry of the machine %s: %w", node, err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fault.New(fault.Permanent, "read the entry of the machine %s: %w", node, err)
	}
	return m, nil
}

// Marks returns the labels and taints for the nodes of a group: those of its role, its spec and
// its kubelet, which its configuration contains together, and its name.
func (s Stored) Marks(ctx context.Context, group string) (Marks, error) {
	c, err := s.group(ctx, group)
	if err != nil {
		return Marks{}, err
	}
	out := Marks{Labels: map[string]string{}}
	maps.Copy(out.Labels, c.KubeletConfig.NodeLabels)
	out.Labels[api.LabelInstanceGroup] = group
	if out.Taints, err = parseTaints(c.KubeletConfig.Taints); err != nil {
		return Marks{}, fmt.Errorf("read the configuration of the group %s: %w", group, err)
	}
	return out, nil
}

// NamedByAddress reports whether the nodes of a group are named after the private DNS
// names of their machines, rather than after the machines' identifiers.
func (s Stored) NamedByAddress(ctx context.Context, group string) (bool, error) {
	c, err := s.group(ctx, group)
	return c.UseIPBasedNodeNames, err
}

// groupConfig holds the fields of a group's configuration that are used here.
type groupConfig struct {
	KubeletConfig struct {
		NodeLabels map[string]string `json:"nodeLabels"`
		Taints     []string          `json:"taints"`
	} `json:"KubeletConfig"`
	UseIPBasedNodeNames bool `json:"useIPBasedNodeNames"`
}

// Role returns the role under which the configuration of a group is stored.
func (s Stored) Role(ctx context.Context, group string) (api.InstanceGroupRole, error) {
	role, _, err := s.find(ctx, group)
	return role, err
}

// group reads the configuration of a group of any role.
func (s Stored) group(ctx context.Context, group string) (groupConfig, error) {
	var c groupConfig
	_, text, err := s.find(ctx, group)
	if err != nil {
		return c, err
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return c, fault.New(fault.Permanent, "read the configuration of the group %s: %w", group, err)
	}
	return c, nil
}

// find returns the role of a group, and the text of its configuration.
func (s Stored) find(ctx context.Context, group string) (api.InstanceGroupRole, []byte, error) {
	if err := CheckName(group); err != nil {
		return "", nil, err
	}
	for _, role := range []api.InstanceGroupRole{api.RoleNode, api.RoleControlPlane, api.RoleAPIServer} {
		text, _, err := s.Base.Get(ctx, layout.NodeConfig(string(role), group))
		if fault.Is(err, fault.Gone) {
			continue
		}
		if err != nil {
			return "", nil, fmt.Errorf("read the configuration of the group %s: %w", group, err)
		}
		return role, text, nil
	}
	return "", nil, fault.New(fault.Gone, "the group %s has no configuration", group)
}

// CheckName rejects names that cannot be part of a key.
func CheckName(name string) error {
	if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
		return fault.New(fault.Gone, "%q is not the name of a node or a group", name)
	}
	return nil
}
