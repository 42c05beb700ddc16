package dns

import (
	"fmt"
	"slices"
	"strings"
)

// ZoneSpec picks zones by their names and identifiers. An empty one is any.
type ZoneSpec struct{ Name, ID string }

// ParseZone reads a zone's name, name/identifier, */identifier or */*.
func ParseZone(text string) (ZoneSpec, error) {
	name, id, _ := strings.Cut(text, "/")
	if name == "" || strings.HasPrefix(name, "*") && name != "*" || name == "*" && id == "" {
		return ZoneSpec{}, fmt.Errorf("got %q; a zone is NAME, NAME/ID, */ID or */*", text)
	}
	s := ZoneSpec{Canonical(name), id}
	if s.Name == "*" {
		s.Name = ""
	}
	if s.ID == "*" {
		s.ID = ""
	}
	return s, nil
}

func (s ZoneSpec) picks(z Zone) bool {
	return (s.Name == "" || s.Name == z.Name) && (s.ID == "" || s.ID == z.ID || s.ID == z.Alias)
}

// Zones are a provider's zones that the specs pick.
type Zones struct {
	named map[string]Zone
	// several are names of more than one zone, of which none was picked by its identifier.
	several map[string]bool
	// picked are those that a spec names, and that are looked at whether a name is
	// wanted in them or not.
	picked map[Zone]bool
}

// PickZones picks zones. Without specs it picks all.
func PickZones(all []Zone, specs []ZoneSpec) Zones {
	out := Zones{map[string]Zone{}, map[string]bool{}, map[Zone]bool{}}
	if len(specs) == 0 {
		specs = []ZoneSpec{{}}
	}
	byName := map[string][]Zone{}
	for _, z := range all {
		if slices.ContainsFunc(specs, func(s ZoneSpec) bool { return s.picks(z) }) {
			byName[z.Name] = append(byName[z.Name], z)
		}
		out.picked[z] = slices.ContainsFunc(specs, func(s ZoneSpec) bool { return s != ZoneSpec{} && s.picks(z) })
	}
	for name, zones := range byName {
		if len(zones) > 1 {
			zones = slices.DeleteFunc(zones, func(z Zone) bool {
				return !slices.ContainsFunc(specs, func(s ZoneSpec) bool { return s.ID != "" && s.picks(z) })
			})
		}
		if len(zones) == 1 {
			out.named[name] = zones[0]
		} else {
			out.several[name] = true
		}
	}
	return out
}

// Of returns the zone of a name: the one with the longest name that the name ends in.
func (z Zones) Of(name string) (zone Zone, why string) {
	for rest, ok := name, true; ok; _, rest, ok = strings.Cut(rest, ".") {
		if z.several[rest] {
			return Zone{}, "there are several zones " + rest + "; choose one by its identifier: --zone=" + rest + "/ID"
		}
		if found, ok := z.named[rest]; ok {
			return found, ""
		}
	}
	return Zone{}, "no zone that may be changed has a name that it ends in"
}

// Relevant are the zones that may hold sets of the cluster though nothing is wanted in them.
func (z Zones) Relevant(o Owner) []Zone {
	var out []Zone
	for _, zone := range z.named {
		if z.picked[zone] || within(o.Cluster, zone.Name) || within(zone.Name, o.Cluster) || o.API != "" && within(Canonical(o.API), zone.Name) {
			out = append(out, zone)
		}
	}
	return out
}
