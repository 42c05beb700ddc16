package emulator

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/internal/standin/tree"
)

// project holds a project's own properties, not the objects in it.
type project struct {
	id     string
	number int64
	policy policy
	// metadata is the metadata that all its instances share.
	metadata object
}

func projectOf(path string) string { return strings.Split(path, "/")[1] }

// createPermanent creates what exists from the start.
func (e *Emulator) createPermanent() {
	for i, id := range append([]string{e.o.Project}, e.o.Others...) {
		p := &project{id: id, number: 100000000000 + int64(i), policy: newPolicy(), metadata: object{"kind": "compute#metadata", "fingerprint": fingerprint(nil)}}
		e.projects[id] = p
		email := fmt.Sprintf("%d-compute@developer.gserviceaccount.com", p.number)
		e.accounts[email] = &account{email: email, project: id, id: e.newID(), display: "Compute Engine default service account", builtIn: true}
	}
	e.createZones()
	for _, b := range e.o.Buckets {
		e.buckets[b.Name] = newBucket(b, e.projects[e.o.Project].number, e.Now())
	}
}

// permanentID returns the ID of a permanent object.
func permanentID(path string) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(path)) // a hash never fails
	return strconv.FormatUint(sum.Sum64()%9e18+1, 10)
}

// epoch is the creation time of permanent objects.
const epoch = "2020-01-01T00:00:00.000-07:00"

// permanentObject completes a permanent object.
func permanentObject(path string, o object) object {
	o["name"], o["id"], o["selfLink"], o["creationTimestamp"] = lastPart(path, "/"), permanentID(path), link(path), epoch
	return o
}

func (e *Emulator) zone(project, name string) object {
	base := "projects/" + project
	return permanentObject(base+"/zones/"+name, object{"description": name, "status": "UP", "region": link(base + "/regions/" + regionOf(name)), "supportsPzs": false,
		"availableCpuPlatforms": list{"Intel Broadwell", "Intel Skylake", "Ampere Altra"}})
}

func (e *Emulator) region(project, name string) object {
	base := "projects/" + project
	zones := list{}
	for _, z := range e.o.Regions[name] {
		zones = append(zones, link(base+"/zones/"+z))
	}
	return permanentObject(base+"/regions/"+name, object{"description": name, "status": "UP", "zones": zones, "supportsPzs": false, "quotas": e.quotas(project, name)})
}

func (e *Emulator) sizeOf(scope string, m MachineType) object {
	arch := "X86_64"
	if m.Arm64 {
		arch = "ARM64"
	}
	return permanentObject(scope+"/machineTypes/"+m.Name, object{"description": fmt.Sprintf("%d vCPUs, %d MB RAM", m.CPUs, m.MemoryMiB), "guestCpus": int64(m.CPUs), "memoryMb": int64(m.MemoryMiB),
		"zone": lastPart(scope, "/"), "architecture": arch, "isSharedCpu": false, "maximumPersistentDisks": int64(128), "maximumPersistentDisksSizeGb": "263168", "imageSpaceGb": int64(0)})
}

func (e *Emulator) diskTypeOf(scope, name string) object {
	t := diskTypes[name]
	return permanentObject(scope+"/diskTypes/"+name, object{"description": name, "defaultDiskSizeGb": strconv.FormatInt(t.usual, 10), "validDiskSize": fmt.Sprintf("%dGB-%dGB", t.least, t.most), "zone": link(scope)})
}

// findByName returns the permanent object with that name.
func findByName(c *call, path, name string, all []object) (object, error) {
	for _, o := range all {
		if o["name"] == name {
			c.method.Response.Complete(o)
			return o, nil
		}
	}
	return nil, notFound(path)
}

// addCatalogueHandlers adds the handlers of a kind of permanent objects.
func addCatalogueHandlers(out map[string]handler, name, word string, zonal bool, all func(c *call, scope string) []object) {
	base := func(c *call) string {
		if zonal {
			return c.scope()
		}
		return "projects/" + c.params["project"]
	}
	out["compute."+name+".get"] = func(c *call) (object, error) {
		return findByName(c, base(c)+"/"+name+"/"+c.params[word], c.params[word], all(c, base(c)))
	}
	out["compute."+name+".list"] = func(c *call) (object, error) {
		return c.pageOf(all(c, base(c)), base(c)+"/"+name)
	}
	if !zonal {
		return
	}
	out["compute."+name+".aggregatedList"] = func(c *call) (object, error) {
		items := object{}
		for _, place := range c.places(c.kinds["disks"]) {
			found := all(c, "projects/"+c.params["project"]+"/"+place)
			page, _, err := c.paginate(found)
			if err != nil {
				return nil, err
			}
			items[place] = object{name: tree.ListOf(page)}
		}
		path := "projects/" + c.params["project"] + "/aggregated/" + name
		out := object{"id": path, "selfLink": link(path), "items": items}
		c.method.Response.Complete(out)
		return out, nil
	}
}

func catalogueHandlers() map[string]handler {
	out := map[string]handler{}
	addCatalogueHandlers(out, "zones", "zone", false, func(c *call, _ string) []object {
		var all []object
		for _, r := range c.regions() {
			for _, z := range c.o.Regions[r] {
				all = append(all, c.zone(c.params["project"], z))
			}
		}
		return all
	})
	addCatalogueHandlers(out, "regions", "region", false, func(c *call, _ string) []object {
		var all []object
		for _, r := range c.regions() {
			all = append(all, c.region(c.params["project"], r))
		}
		return all
	})
	addCatalogueHandlers(out, "machineTypes", "machineType", true, func(c *call, scope string) []object {
		var all []object
		for _, m := range c.o.MachineTypes {
			all = append(all, c.sizeOf(scope, m))
		}
		return sortedBy(all, func(o object) string { return tree.Text(o, "name") })
	})
	addCatalogueHandlers(out, "diskTypes", "diskType", true, func(c *call, scope string) []object {
		var all []object
		for _, name := range sortedKeys(diskTypes) {
			all = append(all, c.diskTypeOf(scope, name))
		}
		return all
	})
	out["compute.images.get"] = func(c *call) (object, error) { return c.getImage(c.params["image"]) }
	out["compute.images.getFromFamily"] = func(c *call) (object, error) { return c.getImage("family/" + c.params["family"]) }
	out["compute.images.list"] = func(c *call) (object, error) {
		var all []object
		for _, i := range c.o.Images {
			if i.Project == c.params["project"] {
				all = append(all, imageOf(i))
			}
		}
		return c.pageOf(sortedBy(all, func(o object) string { return tree.Text(o, "name") }), c.scope()+"/images")
	}
	out["compute.projects.get"] = (*call).getProject
	out["compute.projects.setCommonInstanceMetadata"] = (*call).setCommonMetadata
	return out
}

var customType = pattern(`^(?:[a-z0-9]+-)?custom-(\d+)-(\d+)$`)

// machineType returns the machine type of that name, which may be a custom one.
func (e *Emulator) machineType(name, at string) (MachineType, error) {
	if m := customType().FindStringSubmatch(name); m != nil {
		cpus, _ := strconv.Atoi(m[1])   // a number, by the pattern
		memory, _ := strconv.Atoi(m[2]) // likewise
		return MachineType{Name: name, CPUs: cpus, MemoryMiB: memory}, nil
	}
	i := slices.IndexFunc(e.o.MachineTypes, func(m MachineType) bool { return m.Name == name })
	if i < 0 {
		return MachineType{}, invalid(at, name, "The referenced machineType resource cannot be found.")
	}
	return e.o.MachineTypes[i], nil
}

// usualImage is the default size of an image, in GB.
const usualImage = 10

func imageOf(i Image) object {
	path := "projects/" + i.Project + "/global/images/" + i.Name
	arch := "X86_64"
	if i.Arm64 {
		arch = "ARM64"
	}
	size := i.GiB
	if size == 0 {
		size = usualImage
	}
	o := permanentObject(path, object{"architecture": arch, "diskSizeGb": strconv.Itoa(size), "archiveSizeBytes": "1000000000", "status": "READY", "sourceType": "RAW",
		"guestOsFeatures": list{object{"type": "UEFI_COMPATIBLE"}, object{"type": "VIRTIO_SCSI_MULTIQUEUE"}, object{"type": "GVNIC"}}})
	if i.Family != "" {
		o["family"] = i.Family
	}
	if i.Deprecated {
		o["deprecated"] = object{"state": "DEPRECATED"}
	}
	return o
}

var imagePath = pattern(`^projects/([^/]+)/global/images/(family/)?([^/]+)$`)

// image returns the image, or the newest image of the family, that a URL refers to, and the URL's
// path.
func (e *Emulator) image(url, at string) (path string, image object, err error) {
	path = pathOf(url)
	if strings.HasPrefix(path, "global/") {
		path = "projects/" + e.o.Project + "/" + path
	}
	m := imagePath().FindStringSubmatch(path)
	if m == nil {
		return "", nil, invalid(at, url, "The URL is malformed.")
	}
	project, name := m[1], m[3]
	if e.o.Images == nil {
		return path, imageOf(Image{Project: project, Name: name, Arm64: strings.Contains(name, "arm64")}), nil
	}
	var found *Image
	for i, o := range e.o.Images {
		if o.Project == project && (m[2] == "" && o.Name == name || m[2] != "" && o.Family == name && !o.Deprecated && (found == nil || found.Name < o.Name)) {
			found = &e.o.Images[i]
		}
	}
	if found == nil {
		return "", nil, invalid(at, url, "The referenced image resource cannot be found.")
	}
	return path, imageOf(*found), nil
}

func (c *call) getImage(name string) (object, error) {
	path := c.scope() + "/images/" + name
	_, o, err := c.image(path, "image")
	if err != nil {
		return nil, notFound(path)
	}
	c.method.Response.Complete(o)
	return o, nil
}

func (c *call) getProject() (object, error) {
	p := c.projects[c.params["project"]]
	o := permanentObject("projects/"+p.id, object{"commonInstanceMetadata": tree.Clone(p.metadata), "quotas": c.quotas(p.id, ""), "defaultServiceAccount": fmt.Sprintf("%d-compute@developer.gserviceaccount.com", p.number),
		"xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS", "defaultNetworkTier": "PREMIUM", "vmDnsSetting": "ZONAL_ONLY"})
	o["id"] = strconv.FormatInt(p.number, 10)
	c.method.Response.Complete(o)
	return o, nil
}
