package dns

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/internal/node/dns/records"
)

// ZoneSpec selects zones by name and identifier. An empty field matches any.
type ZoneSpec struct{ Name, ID string }

// ParseZone parses a zone's name, name/identifier, */identifier or */*.
func ParseZone(text string) (ZoneSpec, error) {
	name, id, _ := strings.Cut(text, "/")
	if name == "" || strings.HasPrefix(name, "*") && name != "*" || name == "*" && id == "" {
		return ZoneSpec{}, fmt.Errorf("got %q; a zone is NAME, NAME/ID, */ID or */*", text)
	}
	s := ZoneSpec{records.Canonical(name), id}
	if s.Name == "*" {
		s.Name = ""
	}
	if s.ID == "*" {
		s.ID = ""
	}
	return s, nil
}

func (s ZoneSpec) picks(z records.Zone) bool {
	return (s.Name == "" || s.Name == z.Name) && (s.ID == "" || s.ID == z.ID || s.ID == z.Alias)
}

// Zones are the provider's zones that the specs select.
type Zones struct {
	byName map[string]records.Zone
	// several holds the names of more than one zone, none of which was selected by its identifier.
	several map[string]bool
	// picked holds the zones that a spec names; they are read even if no name is
	// wanted in them.
	picked map[records.Zone]bool
}

// PickZones selects zones. Without specs it selects all.
func PickZones(all []records.Zone, specs []ZoneSpec) Zones {
	out := Zones{map[string]records.Zone{}, map[string]bool{}, map[records.Zone]bool{}}
	if len(specs) == 0 {
		specs = []ZoneSpec{{}}
	}
	byName := map[string][]records.Zone{}
	for _, z := range all {
		if slices.ContainsFunc(specs, func(s ZoneSpec) bool { return s.picks(z) }) {
			byName[z.Name] = append(byName[z.Name], z)
		}
		out.picked[z] = slices.ContainsFunc(specs, func(s ZoneSpec) bool { return s != ZoneSpec{} && s.picks(z) })
	}
	for name, zones := range byName {
		if len(zones) > 1 {
			zones = slices.DeleteFunc(zones, func(z records.Zone) bool {
				return !slices.ContainsFunc(specs, func(s ZoneSpec) bool { return s.ID != "" && s.picks(z) })
			})
		}
		if len(zones) == 1 {
			out.byName[name] = zones[0]
		} else {
			out.several[name] = true
		}
	}
	return out
}

// Of returns the zone of a name: the one with the longest name that is a suffix of the name.
func (z Zones) Of(name string) (zone records.Zone, why string) {
	for rest, ok := name, true; ok; _, rest, ok = strings.Cut(rest, ".") {
		if z.several[rest] {
			return records.Zone{}, "there are several zones " + rest + "; choose one by its identifier: --zone=" + rest + "/ID"
		}
		if found, ok := z.byName[rest]; ok {
			return found, ""
		}
	}
	return records.Zone{}, "it is not in any zone that may be changed"
}

// Relevant returns the zones that may contain record sets of the cluster even if none is wanted in them.
func (z Zones) Relevant(o Owner) []records.Zone {
	var out []records.Zone
	for _, zone := range z.byName {
		if z.picked[zone] || records.IsWithin(o.Cluster, zone.Name) || records.IsWithin(zone.Name, o.Cluster) || o.API != "" && records.IsWithin(records.Canonical(o.API), zone.Name) {
			out = append(out, zone)
		}
	}
	return out
}
