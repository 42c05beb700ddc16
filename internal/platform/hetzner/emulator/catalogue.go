package emulator

import (
	"strconv"
	"strings"

	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

// addCatalogue adds what exists from the start: locations, types and images.
func (e *Emulator) addCatalogue() {
	none := object{"available": list{}, "available_for_migration": list{}, "supported": list{}}
	for _, l := range []struct{ name, center, city, country, zone string }{
		{"fsn1", "fsn1-dc14", "Falkenstein", "DE", "eu-central"}, {"nbg1", "nbg1-dc3", "Nuremberg", "DE", "eu-central"}, {"hel1", "hel1-dc2", "Helsinki", "FI", "eu-central"},
		{"ash", "ash-dc1", "Ashburn, VA", "US", "us-east"}, {"hil", "hil-dc1", "Hillsboro, OR", "US", "us-west"}, {"sin", "sin-dc1", "Singapore", "SG", "ap-southeast"},
	} {
		at := object{"name": l.name, "city": l.city, "country": l.country, "description": l.city, "latitude": 0.0, "longitude": 0.0, "network_zone": l.zone}
		e.permanent("locations", at)
		e.permanent("datacenters", object{"name": l.center, "description": l.center, "location": at, "server_types": none})
	}
	for _, t := range []struct {
		name                string
		cores, memory, disk int64
	}{
		{"cx23", 2, 4, 40}, {"cx33", 4, 8, 80}, {"cx43", 8, 16, 160}, {"cx53", 16, 32, 320}, {"cpx22", 2, 4, 80}, {"cpx32", 4, 8, 160}, {"cpx42", 8, 16, 320},
		{"cax11", 2, 4, 40}, {"cax21", 4, 8, 80}, {"cax31", 8, 16, 160}, {"ccx13", 2, 8, 80}, {"ccx23", 4, 16, 160}, {"ccx33", 8, 32, 240},
	} {
		arch, cpu := "x86", "shared"
		if strings.HasPrefix(t.name, "cax") {
			arch = "arm"
		}
		if strings.HasPrefix(t.name, "ccx") {
			cpu = "dedicated"
		}
		places := list{}
		for _, l := range e.store.All("locations") {
			places = append(places, object{"id": l.ID(), "name": l.Object["name"], "deprecation": nil})
		}
		e.permanent("server_types", object{"name": t.name, "description": strings.ToUpper(t.name), "architecture": arch, "cpu_type": cpu, "cores": t.cores, "memory": t.memory, "disk": t.disk,
			"deprecated": false, "storage_type": "local", "locations": places, "prices": list{}})
	}
	for i, name := range []string{"lb11", "lb21", "lb31"} {
		size := int64(1) << i
		e.permanent("load_balancer_types", object{"name": name, "description": strings.ToUpper(name), "deprecated": nil, "max_assigned_certificates": 10 * size, "max_connections": 10000 * size,
			"max_services": 5 * size, "max_targets": 25 * size, "prices": list{}})
	}
	e.addImages()
}

// addImages adds the system images.
func (e *Emulator) addImages() {
	if e.o.Images == nil {
		e.o.Images = []string{"debian-12", "debian-13", "rocky-10", "ubuntu-22.04", "ubuntu-24.04", "ubuntu-26.04"}
	}
	for _, name := range e.o.Images {
		for _, arch := range []string{"x86", "arm"} {
			flavor, version, _ := strings.Cut(name, "-")
			e.permanent("images", object{"name": name, "description": name, "architecture": arch, "os_flavor": flavor, "os_version": version, "type": "system", "status": "available", "disk_size": int64(5),
				"image_size": nil, "bound_to": nil, "created_from": nil, "deleted": nil, "deprecated": nil, "labels": object{}, "protection": object{"delete": false}, "rapid_deploy": true, "created": "2026-01-01T00:00:00+00:00"})
		}
	}
}

func (e *Emulator) permanent(name string, o object) {
	o["id"] = e.store.NextID()
	_, _ = e.store.Add(name, o) // these have no limit
}

// named returns the object that a field of a request names, or whose ID it holds.
func (c *call) named(name, field string) (*standin.Entry, error) {
	return c.lookUp(name, field, tree.Text(c.body, field))
}

// lookUp returns the object with a name or an ID, which is in a field.
func (c *call) lookUp(name, field, text string) (*standin.Entry, error) {
	if id, err := strconv.ParseInt(text, 10, 64); err == nil {
		if e := c.store.Get(name, id); e != nil {
			return e, nil
		}
	}
	if e := c.store.Find(name, "name", text); e != nil {
		return e, nil
	}
	return nil, invalid(field, "%s %q was not found", resources[name].singular, text)
}

// image returns the image that a request names, for an architecture.
func (c *call) image(arch any) (object, error) {
	e, err := c.named("images", "image")
	if err != nil {
		return nil, err
	}
	for _, x := range c.store.All("images") {
		if x.Object["architecture"] == arch && (x == e || x.Object["name"] == e.Object["name"] && c.body["image"] == e.Object["name"]) {
			return x.Object, nil
		}
	}
	return nil, invalid("image", "the image %s is not available for the architecture %s", c.body["image"], arch)
}

// center returns the data center of a location.
func (e *Emulator) center(location object) object {
	for _, x := range e.store.All("datacenters") {
		if tree.Sub(x.Object, "location")["id"] == location["id"] {
			return x.Object
		}
	}
	return nil
}
