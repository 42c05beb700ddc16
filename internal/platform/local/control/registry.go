package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/incluster/roster"
	"kops.local/kops/internal/platform/local/localcloud"
)

// Registry reads the machines of the local cloud from its registry folder: a file <machine>.json
// for each, which exists from before the machine starts until after it has ended. A machine's node
// has the machine's name.
type Registry struct {
	// Folder is read again on each call.
	Folder fs.FS
	// Self is the machine that this process runs on.
	Self string
	// Stored provides the labels of groups.
	controller.Stored
}

var (
	_ bootstrap.Machines = Registry{}
	_ controller.Groups  = Registry{}
)

// Machine reads the entry of a machine. For a control-plane machine it returns no key: such a
// machine reads what it needs from the store, and no one may join in its name.
func (r Registry) Machine(_ context.Context, node string) (bootstrap.Machine, error) {
	e, err := r.entry(node)
	if err != nil {
		return bootstrap.Machine{}, err
	}
	m := bootstrap.Machine{Node: e.Name, InstanceGroup: e.Group, PublicKey: e.PublicKey, Names: []string{e.Name, e.Address}}
	if e.IsControlPlane() {
		m.PublicKey = ""
	}
	return m, nil
}

func (r Registry) entry(name string) (localcloud.Machine, error) {
	var e localcloud.Machine
	if err := controller.CheckName(name); err != nil {
		return e, err
	}
	text, err := fs.ReadFile(r.Folder, name+localcloud.MachineSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return e, fault.New(fault.Gone, "no machine is named %s", name)
	}
	if err != nil {
		return e, fmt.Errorf("read the entry of the machine %s: %w", name, err)
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return e, fault.New(fault.Permanent, "read the entry of the machine %s: %w", name, err)
	}
	if e.Name != name {
		return e, fault.New(fault.Permanent, "the entry of the machine %s belongs to %q", name, e.Name)
	}
	return e, nil
}

// GroupOf returns the group of the node's machine.
func (r Registry) GroupOf(_ context.Context, node *corev1.Node) (string, error) {
	e, err := r.entry(node.Name)
	if err == nil && e.Group == "" {
		err = fault.New(fault.Gone, "the machine %s belongs to no group", node.Name)
	}
	return e.Group, err
}

// roster reports the nodes that have no entry; the content of entries does not matter.
func (r Registry) roster() *roster.Roster {
	return &roster.Roster{Source: "the list of machines", Remedy: "check that its folder is mounted", Self: r.Self, List: func(context.Context, []string) ([]roster.Machine, error) {
		names, err := r.machines()
		var out []roster.Machine
		for _, name := range names {
			out = append(out, roster.Machine{ID: name, Node: name, State: roster.Running})
		}
		return out, err
	}}
}

// machines lists the machines that have an entry.
func (r Registry) machines() ([]string, error) {
	files, err := fs.ReadDir(r.Folder, ".")
	if err != nil {
		return nil, fmt.Errorf("list the machines: %w", err)
	}
	var out []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), localcloud.MachineSuffix); ok && controller.CheckName(name) == nil {
			out = append(out, name)
		}
	}
	return out, nil
}
