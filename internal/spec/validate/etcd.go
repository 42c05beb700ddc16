package validate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/etcdversion"
	"kops.local/kops/internal/contract/ports"
)

func (c *Check) hasEtcd(name string) bool {
	return slices.ContainsFunc(c.Spec.EtcdClusters, func(e api.EtcdClusterSpec) bool { return e.Name == name })
}

func etcdClusters(c *Check) {
	c.Need(len(c.Spec.EtcdClusters) > 0, "spec.etcdClusters", "add main and events")
	var names []string
	for i, e := range c.Spec.EtcdClusters {
		path := At("spec.etcdClusters", i)
		names = append(names, e.Name)
		c.Need(e.Name != "", path+".name", "set it to main or events")
		c.OneOf(path+".name", e.Name, "main", "events", "cilium", "leases")
		if e.Image != "" && e.Version == "" {
			c.Required(path+".version", "set it to the version of etcd in the image")
		}
	}
	c.Unique("spec.etcdClusters", names)
	if len(names) > 0 && !c.hasEtcd("main") {
		c.Bad("spec.etcdClusters", "", "do not include main, which stores the Kubernetes objects", "add it")
	}
}

// EachMember calls do for every etcd member with its path.
func (c *Check) EachMember(do func(path string, m api.EtcdMemberSpec)) {
	for i, e := range c.Spec.EtcdClusters {
		for j, m := range e.EtcdMembers {
			do(At(At("spec.etcdClusters", i)+".etcdMembers", j), m)
		}
	}
}

func etcdMembers(c *Check) {
	for i, e := range c.Spec.EtcdClusters {
		path := At("spec.etcdClusters", i) + ".etcdMembers"
		n := len(e.EtcdMembers)
		switch {
		case n == 0:
			c.Required(path, "add a member for each control plane group")
		case n%2 == 0:
			c.Bad(path, fmt.Sprint(n), "is an even number; it tolerates no more failures than one member fewer", "use 1, 3 or 5")
		}
		var names []string
		for j, m := range e.EtcdMembers {
			names = append(names, m.Name)
			c.Need(m.Name != "", At(path, j)+".name", "specify a name, such as a")
			c.memberGroup(At(path, j)+".instanceGroup", text(m.InstanceGroup))
		}
		c.Unique(path, names)
	}
}

// memberGroup checks the group that a member of an etcd names.
func (c *Check) memberGroup(path, group string) {
	var names []string
	for _, g := range c.input.Groups {
		if g.IsControlPlane() {
			names = append(names, g.Name)
		}
	}
	switch {
	case group == "":
		c.Required(path, "specify the control plane group that runs the member")
	case c.input.Strict && len(names) > 0 && !slices.Contains(names, group):
		c.Bad(path, group, "is not a control plane instance group", "use one of "+strings.Join(names, ", ")+", or add the group")
	}
}

func etcdVersions(c *Check) {
	first := ""
	for i, e := range c.Spec.EtcdClusters {
		if e.Version == "" {
			continue
		}
		path := At("spec.etcdClusters", i) + ".version"
		v, err := semver.Parse(e.Version)
		switch {
		case err != nil:
			c.Bad(path, e.Version, "is not a version", "write one such as 3.6.12, or remove it")
			continue
		case v.Major != 3:
			c.Bad(path, e.Version, "is not a 3.x version", "write one such as 3.6.12, or remove it")
		case e.Image == "" && !supportedEtcd(v):
			c.Bad(path, e.Version, "is not supported", "use a version from "+etcdRanges()+", or also set image")
		}
		if first == "" {
			first = e.Version
		}
		if e.Version != first {
			c.Bad(path, e.Version, "differs from the version of the other etcd cluster, "+first, "use the same version for all")
		}
	}
}

// etcdRanges lists the supported versions.
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

// etcdTiming rejects settings that etcd-manager does not pass to etcd.
func etcdTiming(c *Check) {
	for i, e := range c.Spec.EtcdClusters {
		path := At("spec.etcdClusters", i)
		for _, f := range []struct {
			name string
			set  bool
		}{{"leaderElectionTimeout", e.LeaderElectionTimeout != nil}, {"heartbeatInterval", e.HeartbeatInterval != nil}} {
			if f.set {
				c.Bad(path+"."+f.name, "", "is not supported by etcd-manager", "remove it")
			}
		}
	}
}

// etcdPlain warns about an etcd that the API server reaches without TLS, which its managers then
// run without TLS, and rejects that for main: its managers do not support it.
func etcdPlain(c *Check) {
	a := c.Spec.KubeAPIServer
	if a == nil {
		return
	}
	for i, s := range a.EtcdServers {
		if p, _ := ports.OfEtcd("main"); s == plain(p) {
			c.Bad(At("spec.kubeAPIServer.etcdServers", i), s, "is served with TLS only", "use https")
		}
	}
	for i, o := range a.EtcdServersOverrides {
		for _, e := range c.Spec.EtcdClusters {
			p, ok := ports.OfEtcd(e.Name)
			if ok && e.Name != "main" && strings.HasSuffix(o, "#"+plain(p)) {
				c.Warn(At("spec.kubeAPIServer.etcdServersOverrides", i), o,
					fmt.Sprintf("does not use TLS: anyone who can reach ports %d and %d of a control plane can read and write the data of etcd %s, and become a member", p.Client, p.Peer, e.Name),
					"unset the feature flag EtcdEventsHTTP, or make sure that no one else can reach the ports; to avoid setting the flag for each command, set the field yourself")
			}
		}
	}
}

// plain returns the URL at which an API server reaches the etcd on its machine without TLS.
func plain(p ports.Etcd) string { return "http://127.0.0.1:" + strconv.Itoa(p.Client) }

// etcdBackups rejects two etcds that would write their back-ups, and the requests to their
// managers, to one folder.
func etcdBackups(c *Check) {
	used := map[string]string{}
	for i, e := range c.Spec.EtcdClusters {
		if e.Backups == nil || e.Backups.BackupStore == "" {
			continue
		}
		folder := strings.TrimRight(e.Backups.BackupStore, "/")
		if other := used[folder]; other != "" && other != e.Name {
			c.Bad(At("spec.etcdClusters", i)+".backups.backupStore", e.Backups.BackupStore, "is also the folder of etcd "+other, "use a separate folder for each etcd cluster, or remove it")
		}
		used[folder] = e.Name
	}
}
