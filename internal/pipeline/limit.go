package pipeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/store/clusterstore"
)

// Lifecycles of resources, in kOps' terms.
const (
	full           = "Sync"
	ignore         = "Ignore"
	existsWarn     = "ExistsAndWarnIfChanges"
	existsValidate = "ExistsAndValidates"
	warnNoAccess   = "WarnIfInsufficientAccess"
)

// phases returns the parts of an update, and how resources of each part are treated in each; iam is
// kOps' other name for security. What an apply requires, a preview only warns about.
func phases(apply bool) map[string]map[string]string {
	exists := existsWarn
	if apply {
		exists = existsValidate
	}
	return map[string]map[string]string{
		resource.Network:  {resource.Network: full, resource.Security: ignore, resource.Cluster: ignore},
		resource.Security: {resource.Network: existsWarn, resource.Security: full, resource.Cluster: ignore},
		"iam":             {resource.Network: existsWarn, resource.Security: full, resource.Cluster: ignore},
		resource.Cluster:  {resource.Network: exists, resource.Security: exists, resource.Cluster: full},
	}
}

// limits specify how each resource is treated in an update of a part.
type limits struct {
	phase     map[string]string // by part; nil means everything
	overrides map[resource.Address]string
	groups    []string               // the chosen instance groups; nil means all
	folders   []managedfile.Location // folders with the files of the chosen groups
}

// lifecycle returns how a resource, wanted or observed, is treated.
func (l limits) lifecycle(n resource.Node) string {
	for _, a := range []resource.Address{n.Address, {Kind: n.Address.Kind}} {
		if l, ok := l.overrides[a]; ok {
			return l
		}
	}
	if l.groups != nil {
		if g := n.Kind.Group(n.Want); g != "" && !slices.Contains(l.groups, g) {
			return ignore
		}
	}
	if l.phase == nil {
		return full
	}
	return l.phase[n.Kind.Phase()]
}

// covers reports whether an observed object that is not wanted is part of the update.
func (l limits) covers(k resource.Any, obj any) bool {
	if f, ok := obj.(*managedfile.File); ok && l.groups != nil && !slices.ContainsFunc(l.folders, func(mine managedfile.Location) bool {
		return f.Store == mine.Store && strings.HasPrefix(f.Key, mine.Prefix)
	}) {
		return false // belongs to another group, or to none
	}
	how := l.lifecycle(resource.Node{Address: resource.Address{Kind: k.KindName()}, Kind: k, Want: obj})
	return how == full || how == warnNoAccess
}

// LimitOptions specify the part of a cluster to which an update is limited.
type LimitOptions struct {
	// Apply means that the plan will be carried out.
	Apply bool
	// Phase is network, security or cluster; empty means all.
	Phase string
	// Lifecycles specify how resources are treated, by type or type/name.
	Lifecycles map[string]string
	// Groups and Roles choose instance groups.
	Groups, Roles []string
}

// Limit applies phases, lifecycle overrides and the choice of instance groups to the graph, and to
// the objects that it is compared with.
func (m *Modelled) Limit(o LimitOptions) (*Modelled, error) {
	l := limits{}
	var known bool
	if l.phase, known = phases(o.Apply)[o.Phase]; o.Phase != "" && !known {
		return nil, fmt.Errorf("unknown phase %q; use network, security (or iam) or cluster", o.Phase)
	}
	var err error
	if l.overrides, err = m.overrides(o.Lifecycles); err != nil {
		return nil, err
	}
	if l.groups, err = Chosen(m.Cluster, o.Groups, o.Roles); err != nil {
		return nil, err
	}
	for _, g := range l.groups {
		l.folders = append(l.folders, m.folderOf(m.Cluster.Group(g)))
	}
	var limited []resource.Node
	for n := range m.Graph.All() {
		switch l.lifecycle(n) {
		case ignore:
			continue
		case existsValidate:
			n.Expect = n.Adopt == ""
			n.Exact = n.Expect
		case existsWarn:
			n.Expect = n.Adopt == ""
		case warnNoAccess:
			n.Lenient = true
		}
		limited = append(limited, n)
	}
	if err := selfContained(limited); err != nil {
		return nil, err
	}
	out := *m
	out.Graph, out.scope = &graph.Graph{}, l.covers
	return &out, out.Graph.Add(limited...)
}

// selfContained reports an error if a resource of a part needs another one that is left out.
func selfContained(part []resource.Node) error {
	has := map[resource.Address]bool{}
	for _, n := range part {
		has[n.Address] = true
	}
	for _, n := range part {
		missing := slices.DeleteFunc(n.Refs(), func(a resource.Address) bool { return has[a] })
		if len(missing) == 0 {
			continue
		}
		more := ""
		if len(missing) > 1 {
			more = fmt.Sprintf(" and %d others", len(missing)-1)
		}
		return fmt.Errorf("%s needs %s%s, which this update leaves out; include it, or leave out more (option:Phase, option:Lifecycles)", n.Address, missing[0], more)
	}
	return nil
}

// overrides turns kOps' names of types, and of resources as type/name, into
// addresses; a type's address has no name.
func (m *Modelled) overrides(byTask map[string]string) (map[resource.Address]string, error) {
	lifecycles := []string{full, ignore, existsWarn, existsValidate, warnNoAccess}
	out, tasks := map[resource.Address]string{}, map[string][]string{}
	for _, k := range m.Kinds {
		for _, task := range k.Tasks() {
			tasks[task] = append(tasks[task], k.KindName())
		}
	}
	for task, lifecycle := range byTask {
		if !slices.Contains(lifecycles, lifecycle) {
			return nil, fmt.Errorf("unknown lifecycle %q of %s; use %s", lifecycle, task, strings.Join(lifecycles, ", "))
		}
		task, name, named := strings.Cut(task, "/")
		kinds := tasks[task]
		if len(kinds) == 0 {
			known := slices.Sorted(maps.Keys(tasks))
			if near := diag.Nearest(task, known); near != "" {
				return nil, fmt.Errorf("unknown type of resource %q; did you mean %s?", task, near)
			}
			return nil, fmt.Errorf("unknown type of resource %q; use %s", task, strings.Join(known, ", "))
		}
		if named {
			if err := m.checkExisting(task, kinds, name); err != nil {
				return nil, err
			}
		}
		for _, kind := range kinds {
			out[resource.Address{Kind: kind, Name: name}] = lifecycle
		}
	}
	return out, nil
}

// checkExisting returns an error that lists the existing resources of a type if one is not among
// them.
func (m *Modelled) checkExisting(task string, kinds []string, name string) error {
	var known []string
	for n := range m.Graph.All() {
		if slices.Contains(kinds, n.Address.Kind) {
			known = append(known, n.Address.Name)
		}
	}
	if name != "" && slices.Contains(known, name) {
		return nil
	}
	if near := diag.Nearest(name, known); near != "" {
		return fmt.Errorf("the cluster has no %s %q; did you mean %s?", task, name, near)
	}
	return fmt.Errorf("the cluster has no %s %q; it has %s", task, name, cmp.Or(strings.Join(known, ", "), "none"))
}

// Chosen lists the instance groups of a cluster that have the given names and roles; nil means all,
// if neither is given.
func Chosen(cl *clusterstore.Contents, names, roles []string) ([]string, error) {
	if len(names)+len(roles) == 0 {
		return nil, nil
	}
	if _, err := cl.SelectGroups(names...); err != nil {
		return nil, err
	}
	for _, r := range roles {
		if !slices.ContainsFunc([]api.InstanceGroupRole{api.RoleControlPlane, api.RoleAPIServer, api.RoleNode, api.RoleBastion},
			func(known api.InstanceGroupRole) bool { return isRole(known, r) }) {
			return nil, fmt.Errorf("unknown role %q; use control-plane, apiserver, node or bastion", r)
		}
	}
	out := []string{}
	for _, g := range cl.Groups {
		byName := len(names) == 0 || slices.Contains(names, g.Name)
		byRole := len(roles) == 0 || slices.ContainsFunc(roles, func(r string) bool { return isRole(g.Spec.Role, r) })
		if byName && byRole {
			out = append(out, g.Name)
		}
	}
	return out, nil
}

// isRole reports whether a name is a role's name as the command line spells it.
func isRole(r api.InstanceGroupRole, name string) bool {
	return strings.EqualFold(strings.ReplaceAll(name, "-", ""), string(r)) || strings.EqualFold(name, "master") && r == api.RoleControlPlane
}
