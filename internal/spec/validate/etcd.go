package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/etcdversion"
)

func (c *check) hasEtcd(name string) bool {
	return slices.ContainsFunc(c.spec.EtcdClusters, func(e api.EtcdClusterSpec) bool { return e.Name == name })
}

func etcdClusters(c *check) {
	c.need(len(c.spec.EtcdClusters) > 0, "spec.etcdClusters", "add main and events")
	var names []string
	for i, e := range c.spec.EtcdClusters {
		path := at("spec.etcdClusters", i)
		names = append(names, e.Name)
		c.need(e.Name != "", path+".name", "name the etcd main or events")
		c.oneOf(path+".name", e.Name, "main", "events", "cilium", "leases")
		if e.Image != "" && e.Version == "" {
			c.required(path+".version", "write the version of etcd in the image")
		}
	}
	c.unique("spec.etcdClusters", names)
	if len(names) > 0 && !c.hasEtcd("main") {
		c.bad("spec.etcdClusters", "", "lack main, in which Kubernetes keeps its objects", "add it")
	}
}

func etcdMembers(c *check) {
	for i, e := range c.spec.EtcdClusters {
		path := at("spec.etcdClusters", i) + ".etcdMembers"
		n := len(e.EtcdMembers)
		switch {
		case n == 0:
			c.required(path, "add a member for every control plane group")
		case n%2 == 0:
			c.bad(path, fmt.Sprint(n), "is an even number of members, which survive no more losses than one member fewer", "use 1, 3 or 5")
		}
		var names []string
		for j, m := range e.EtcdMembers {
			names = append(names, m.Name)
			c.need(m.Name != "", at(path, j)+".name", "name the member, such as a")
			c.memberGroup(at(path, j)+".instanceGroup", text(m.InstanceGroup))
		}
		c.unique(path, names)
	}
}

// memberGroup checks the group that a member of an etcd names.
func (c *check) memberGroup(path, group string) {
	var names []string
	for _, g := range c.in.Groups {
		if g.IsControlPlane() {
			names = append(names, g.Name)
		}
	}
	switch {
	case group == "":
		c.required(path, "name the control plane group that runs the member")
	case c.in.Strict && len(names) > 0 && !slices.Contains(names, group):
		c.bad(path, group, "is no instance group of the control plane", "use one of "+strings.Join(names, ", ")+", or add the group")
	}
}

func etcdVersions(c *check) {
	first := ""
	for i, e := range c.spec.EtcdClusters {
		if e.Version == "" {
			continue
		}
		path := at("spec.etcdClusters", i) + ".version"
		v, err := semver.Parse(e.Version)
		switch {
		case err != nil:
			c.bad(path, e.Version, "is not a version", "write one such as 3.6.12, or remove it")
			continue
		case v.Major != 3:
			c.bad(path, e.Version, "is not a version 3", "write one such as 3.6.12, or remove it")
		case e.Image == "" && !supportedEtcd(v):
			c.bad(path, e.Version, "is not supported", "use a version from "+etcdRanges()+", or name an image as well")
		}
		if first == "" {
			first = e.Version
		}
		if e.Version != first {
			c.bad(path, e.Version, "is not the version of the other etcd, "+first, "use one version for all")
		}
	}
}

// etcdRanges lists the versions that are supported.
func etcdRanges() string {
	var out []string
	for _, r := range etcdversion.All() {
		of := fmt.Sprintf("3.%d.0", r.Minor)
		if r.Patch > 0 {
			of += " to " + r.String()
		}
		out = append(out, of)
	}
	last := len(out) - 1
	return strings.Join(out[:last], ", ") + ", or " + out[last]
}

// supportedEtcd reports whether the image of etcd-manager has the version.
func supportedEtcd(v semver.Version) bool {
	newest, ok := etcdversion.Newest(v.Minor)
	return ok && v.Major == 3 && v.Patch <= newest.Patch && len(v.Pre) == 0
}

// etcdTiming refuses what etcd-manager does not hand to etcd. A spec that is only
// stored may have it, as in kOps.
func etcdTiming(c *check) {
	if !c.in.Strict {
		return
	}
	for i, e := range c.spec.EtcdClusters {
		path := at("spec.etcdClusters", i)
		for _, f := range []struct {
			name string
			set  bool
		}{{"leaderElectionTimeout", e.LeaderElectionTimeout != nil}, {"heartbeatInterval", e.HeartbeatInterval != nil}} {
			if f.set {
				c.bad(path+"."+f.name, "", "is not supported by etcd-manager", "remove it")
			}
		}
	}
}

// etcdBackups refuses two etcd that would write their back-ups, and the requests to
// their managers, into one folder.
func etcdBackups(c *check) {
	used := map[string]string{}
	for i, e := range c.spec.EtcdClusters {
		if e.Backups == nil || e.Backups.BackupStore == "" {
			continue
		}
		folder := strings.TrimRight(e.Backups.BackupStore, "/")
		if other := used[folder]; other != "" && other != e.Name {
			c.bad(at("spec.etcdClusters", i)+".backups.backupStore", e.Backups.BackupStore, "is the folder of the etcd "+other+" too", "give each etcd a folder of its own, or remove it")
		}
		used[folder] = e.Name
	}
}

// etcdVolumes checks what Elastic Block Store offers.
func etcdVolumes(c *check) {
	if c.cloud != api.CloudAWS {
		return
	}
	for i, e := range c.spec.EtcdClusters {
		for j, m := range e.EtcdMembers {
			etcdVolume(c, at(at("spec.etcdClusters", i)+".etcdMembers", j), m)
		}
	}
}

func etcdVolume(c *check, path string, m api.EtcdMemberSpec) {
	kind, size, iops, throughput := "gp3", int64(20), int64(0), int64(0)
	if text(m.VolumeType) != "" {
		kind = *m.VolumeType
	}
	for to, from := range map[*int64]*int32{&size: m.VolumeSize, &iops: m.VolumeIOPS, &throughput: m.VolumeThroughput} {
		if from != nil {
			*to = int64(*from)
		}
	}
	most := map[string]int64{"io1": 50, "io2": 500, "gp3": 500}[kind]
	if most > 0 && (kind != "gp3" || iops > 3000) && iops > most*size {
		c.bad(path+".volumeIops", number(iops), fmt.Sprintf("is more than %d for each GB of %s, and the volume has %d GB", most, kind, size), "lower it, or raise volumeSize")
	}
	if kind == "gp3" && throughput*4 > max(iops, 3000) {
		c.bad(path+".volumeThroughput", number(throughput), "is more than a quarter of the volume's IOPS", "lower it, or raise volumeIops")
	}
}
