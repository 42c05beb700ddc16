package emulator

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"kops.local/kops/internal/standin/tree"
)

// metric is a quota metric.
type metric struct {
	limit    float64
	regional bool
	// kinds are the kinds whose objects count as one each; otherwise amount returns how much an
	// object uses.
	kinds  []string
	amount func(e *Emulator, x *entry) int64
}

func size(standard bool) func(*Emulator, *entry) int64 {
	return func(_ *Emulator, x *entry) int64 {
		if x.kind.name != "disks" || (lastPart(tree.Text(x.o, "type"), "/") == "pd-standard") != standard {
			return 0
		}
		n, _ := strconv.ParseInt(tree.Text(x.o, "sizeGb"), 10, 64) // set by the emulator
		return n
	}
}

func cpus(e *Emulator, x *entry) int64 {
	if x.kind.name != "instances" || x.o["status"] == "TERMINATED" {
		return 0
	}
	m, _ := e.machineType(lastPart(tree.Text(x.o, "machineType"), "/"), "") // the instance exists with it
	return int64(m.CPUs)
}

func static(_ *Emulator, x *entry) int64 {
	if x.kind.name == "addresses" && tree.Text(x.o, "addressType") == "EXTERNAL" {
		return 1
	}
	return 0
}

// metrics returns the limited metrics, with the limits of an established project.
func metrics() map[string]metric {
	return map[string]metric{
		"NETWORKS":                {limit: 50, kinds: []string{"networks"}},
		"SUBNETWORKS":             {limit: 275, kinds: []string{"subnetworks"}},
		"FIREWALLS":               {limit: 500, kinds: []string{"firewalls"}},
		"ROUTES":                  {limit: 250, kinds: []string{"routes"}},
		"ROUTERS":                 {limit: 20, kinds: []string{"routers"}},
		"HEALTH_CHECKS":           {limit: 150, kinds: []string{"healthChecks", "regionHealthChecks", "httpHealthChecks"}},
		"INSTANCE_TEMPLATES":      {limit: 300, kinds: []string{"instanceTemplates"}},
		"TARGET_POOLS":            {limit: 150, kinds: []string{"targetPools"}},
		"BACKEND_SERVICES":        {limit: 75, kinds: []string{"regionBackendServices"}},
		"FORWARDING_RULES":        {limit: 150, kinds: []string{"forwardingRules"}},
		"INSTANCES":               {limit: 6000, regional: true, kinds: []string{"instances"}},
		"INSTANCE_GROUP_MANAGERS": {limit: 1000, regional: true, kinds: []string{"instanceGroupManagers"}},
		"CPUS":                    {limit: 2400, regional: true, amount: cpus},
		"DISKS_TOTAL_GB":          {limit: 102400, regional: true, amount: size(true)},
		"SSD_TOTAL_GB":            {limit: 81920, regional: true, amount: size(false)},
		"STATIC_ADDRESSES":        {limit: 70, regional: true, amount: static},
	}
}

func (e *Emulator) limit(name string) float64 {
	if n, set := e.o.Quotas[name]; set {
		return n
	}
	return metrics()[name].limit
}

// usage returns how much of a metric a project, or one of its regions, uses.
func (e *Emulator) usage(name, project, region string) int64 {
	m, sum := metrics()[name], int64(0)
	for path, x := range e.entries {
		if x.kind == nil || x.owner != "" || projectOf(path) != project || m.regional && !strings.Contains(path, "/regions/"+region+"/") && !strings.Contains(path, "/zones/"+region+"-") {
			continue
		}
		if m.amount != nil {
			sum += m.amount(e, x)
			continue
		}
		for _, k := range m.kinds {
			if x.kind.name == k {
				sum++
			}
		}
	}
	return sum
}

// checkQuota rejects an increase beyond the limit of the project, or of the path's region for a
// regional metric.
func (e *Emulator) checkQuota(name, path string, more int64) error {
	parts := strings.Split(path, "/")
	region, where := "", "globally"
	if metrics()[name].regional {
		region = parts[3]
		if parts[2] == "zones" {
			region = regionOf(region)
		}
		where = "in region " + region
	}
	if limit := e.limit(name); float64(e.usage(name, parts[1], region)+more) > limit {
		return refusal(http.StatusForbidden, "quotaExceeded", "Quota '%s' exceeded.  Limit: %s %s.", name, strconv.FormatFloat(limit, 'f', 1, 64), where)
	}
	return nil
}

// quotas returns the limits and the usage of a project, or of one of its regions.
func (e *Emulator) quotas(project, region string) list {
	out := list{}
	for _, name := range sortedKeys(metrics()) {
		if metrics()[name].regional == (region != "") {
			out = append(out, object{"metric": name, "limit": e.limit(name), "usage": float64(e.usage(name, project, region))})
		}
	}
	return out
}

// permissionOf returns the permission that a method needs, such as compute.networks.create.
func permissionOf(id string) string {
	parts := strings.Split(id, ".")
	service, resource, verb := parts[0], parts[len(parts)-2], parts[len(parts)-1]
	switch {
	case service == "cloudresourcemanager":
		return "resourcemanager.projects." + verb
	case service == "dns" && resource == "changes":
		return "dns.changes." + verb
	case resource == "instanceGroupManagers" && verb != "insert" && verb != "delete" && verb != "get" && !strings.HasPrefix(verb, "list") && verb != "aggregatedList":
		return "compute.instanceGroupManagers.update"
	case strings.HasSuffix(resource, "Operations"):
		return "compute." + resource + ".get"
	}
	words := map[string]string{"insert": "create", "aggregatedList": "list", "patch": "update", "wait": "get", "listManagedInstances": "list", "getHealth": "get"}
	if w := words[verb]; w != "" {
		verb = w
	}
	return service + "." + resource + "." + verb
}

// checkPermission returns an error if the caller does not have permission.
func (c *call) checkPermission() error {
	p := permissionOf(c.method.ID)
	if !c.denied[p] {
		return nil
	}
	service, _, _ := strings.Cut(c.method.ID, ".")
	target := strings.TrimPrefix(c.URL.Path, "/compute/v1/")
	if name := tree.Text(c.body, "name"); name != "" && c.method.Verb == http.MethodPost {
		target += "/" + name
	}
	message := fmt.Sprintf("Required '%s' permission for '%s'", p, target)
	switch service {
	case "iam":
		message = fmt.Sprintf("Permission '%s' denied on resource (or it may not exist).", p)
	case "cloudresourcemanager":
		message = "The caller does not have permission"
	case "storage":
		message = fmt.Sprintf("user@example.com does not have %s access to the Google Cloud Storage bucket. Permission '%s' denied on resource (or it may not exist).", p, p)
	}
	return refusal(http.StatusForbidden, "forbidden", "%s", message)
}
