package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// inventoryFile lists what runs have created on the machine. Items that are no longer wanted
// are removed. Anything that existed before the first run is not listed: it belongs to the
// distribution or to someone else, even after we changed it.
const inventoryFile = "/var/lib/kops/inventory.json"

// item is an object that a run has created, or was about to create when it was interrupted.
type item struct {
	Kind string `json:"kind"`
	Key  string `json:"key"`
	// Takes is the result of host.Owned for the object.
	Takes []string `json:"takes"`
}

func (i item) address() resource.Address { return resource.Address{Kind: i.Kind, Name: i.Key} }

// inventory holds items by kind and key.
type inventory map[resource.Address]item

func (r *run) readInventory() (inventory, error) {
	text, err := os.ReadFile(filepath.Join(r.Machine.Root, inventoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return inventory{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the inventory of earlier runs: %w", err)
	}
	var list []item
	if err := json.Unmarshal(text, &list); err != nil {
		r.Machine.Warn(fmt.Sprintf("cannot read %s, so nothing that earlier runs created is removed: %v", inventoryFile, err))
		return inventory{}, nil
	}
	out := inventory{}
	for _, i := range list {
		out[i.address()] = i
	}
	return out, nil
}

// write stores the inventory unless the file is up to date.
func (i inventory) write(ctx context.Context, m *host.Machine) error {
	list := []item{}
	for _, x := range i {
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b item) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key)) })
	text, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		return fmt.Errorf("write the inventory of this run: %w", err)
	}
	if err := writeIfChanged(ctx, m, inventoryFile, string(text)+"\n"); err != nil {
		return fmt.Errorf("write the inventory of this run: %w", err)
	}
	return nil
}

// writeIfChanged writes one of nodeup's own files unless it is up to date.
func writeIfChanged(ctx context.Context, m *host.Machine, path, text string) error {
	want := &host.File{Path: path, Content: resource.Text(resource.Lit(text)), Mode: "0600"}
	have, err := host.Files.List(ctx, m, resource.Scope{Names: []string{path}})
	if err != nil {
		return err
	}
	if len(have) == 1 && want.Content.Same(have[0].Content) {
		return nil
	}
	return host.Files.Create(ctx, m, want)
}

// stale lists the inventory's items that no wanted resource takes up, by kind, as names to observe.
func (i inventory) stale(want *graph.Graph) map[string][]string {
	taken := map[string]bool{}
	for n := range want.All() {
		for _, p := range host.Owned(n.Want) {
			taken[p] = true
		}
		taken[n.Address.Kind+" "+n.Kind.KeyOf(n.Want)] = true
	}
	out := map[string][]string{}
	for a, x := range i {
		if !taken[a.Kind+" "+a.Name] && !slices.ContainsFunc(x.Takes, func(p string) bool { return p != "" && taken[p] }) {
			out[a.Kind] = append(out[a.Kind], a.Name)
		}
	}
	return out
}

// observeStale adds to the observed state what earlier runs created and is no longer wanted.
func (r *run) observeStale(ctx context.Context, g *graph.Graph, have plan.Snapshot) error {
	var err error
	if r.inventory, err = r.readInventory(); err != nil {
		return err
	}
	stale := r.inventory.stale(g)
	for _, k := range host.Kinds() {
		names := stale[k.KindName()]
		if len(names) == 0 {
			continue
		}
		found, err := r.observer().List(ctx, k, resource.Scope{Names: names})
		if err != nil {
			return err
		}
		have[k.KindName()] = append(have[k.KindName()], found...)
	}
	return nil
}

// recordPlanned records what a plan creates, before it is created.
func (i inventory) recordPlanned(p *plan.Plan) {
	for _, s := range p.Steps {
		if takes := host.Owned(s.Want); s.Op == plan.Create && len(takes) > 0 {
			x := item{Kind: s.Address.Kind, Key: s.Key, Takes: takes}
			i[x.address()] = x
		}
	}
}

// dropSettled drops the items that a completed plan has removed or did not find.
func (i inventory) dropSettled(p *plan.Plan) {
	wanted := map[resource.Address]bool{}
	for _, s := range p.Steps {
		if s.Want != nil {
			wanted[resource.Address{Kind: s.Address.Kind, Name: s.Key}] = true
		}
	}
	for a := range i {
		if !wanted[a] {
			delete(i, a)
		}
	}
}
