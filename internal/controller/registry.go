package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/bootstrap"
	"kops.local/kops/internal/fault"
	"kops.local/kops/internal/names"
)

// Registry knows the machines of the local cloud from the folder in which that
// tells of them: a file <machine>.json for each, which comes before the machine
// starts and goes after it has ended. A machine's node has the machine's name.
type Registry struct {
	// Folder is read anew for each question.
	Folder fs.FS
	// Stored has the labels of groups.
	Stored
}

var (
	_ bootstrap.Machines = Registry{}
	_ Groups             = Registry{}
	_ MachineNames       = Registry{}
)

// Machine reads the entry of a machine. One of the control plane has no key here:
// what it needs it reads from the store, and nobody may join in its name.
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

func (r Registry) entry(name string) (names.LocalMachine, error) {
	var e names.LocalMachine
	if err := checkName(name); err != nil {
		return e, err
	}
	text, err := fs.ReadFile(r.Folder, name+names.LocalMachineSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return e, fault.New(fault.Gone, "no machine is called %s", name)
	}
	if err != nil {
		return e, fmt.Errorf("read the entry of the machine %s: %w", name, err)
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return e, fault.New(fault.Permanent, "read the entry of the machine %s: %w", name, err)
	}
	if e.Name != name {
		return e, fault.New(fault.Permanent, "the entry of the machine %s is that of %q", name, e.Name)
	}
	return e, nil
}

// GroupOf returns the group of the machine of the node's name.
func (r Registry) GroupOf(_ context.Context, node *corev1.Node) (string, error) {
	e, err := r.entry(node.Name)
	if err == nil && e.Group == "" {
		err = fault.New(fault.Gone, "the machine %s belongs to no group", node.Name)
	}
	return e.Group, err
}

// MachineNames lists the machines that have an entry, whatever is in it.
func (r Registry) MachineNames(context.Context) ([]string, error) {
	files, err := fs.ReadDir(r.Folder, ".")
	if err != nil {
		return nil, fmt.Errorf("list the machines: %w", err)
	}
	var out []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), names.LocalMachineSuffix); ok && checkName(name) == nil {
			out = append(out, name)
		}
	}
	return out, nil
}
