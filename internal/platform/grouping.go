package platform

import (
	"slices"
	"strings"
)

// Grouping puts machines into their groups, which keep the order in which they are first heard of.
type Grouping struct {
	groups []MachineGroup
	at     map[string]int
}

// Of is the group of a name, for use until another is asked for.
func (g *Grouping) Of(name string) *MachineGroup {
	i, ok := g.at[name]
	if !ok {
		if g.at == nil {
			g.at = map[string]int{}
		}
		i = len(g.groups)
		g.at[name] = i
		g.groups = append(g.groups, MachineGroup{Name: name})
	}
	return &g.groups[i]
}

// Groups are all of them, the machines of each by their names.
func (g *Grouping) Groups() []MachineGroup {
	for _, of := range g.groups {
		slices.SortFunc(of.Machines, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	}
	return g.groups
}
