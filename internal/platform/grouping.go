package platform

import (
	"slices"
	"strings"
)

// Grouping sorts machines into their groups, which keep the order in which they were first seen.
type Grouping struct {
	groups []MachineGroup
	index  map[string]int
}

// Group returns the group of that name, creating it if needed. The pointer is valid until the next
// call.
func (g *Grouping) Group(name string) *MachineGroup {
	i, ok := g.index[name]
	if !ok {
		if g.index == nil {
			g.index = map[string]int{}
		}
		i = len(g.groups)
		g.index[name] = i
		g.groups = append(g.groups, MachineGroup{Name: name})
	}
	return &g.groups[i]
}

// Groups returns all groups, with each group's machines sorted by name.
func (g *Grouping) Groups() []MachineGroup {
	for _, of := range g.groups {
		slices.SortFunc(of.Machines, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	}
	return g.groups
}
