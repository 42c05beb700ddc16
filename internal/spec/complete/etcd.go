package complete

import (
	"strings"

	"kops.local/kops/internal/contract/etcdversion"
	"kops.local/kops/internal/spec/fill"
)

// etcdVersion is the newest etcd that a minor version of Kubernetes is run with here.
func (p *Pass) etcdVersion() string {
	minor := uint64(7)
	switch {
	case p.OlderThan(34):
		minor = 5
	case p.OlderThan(37):
		minor = 6
	}
	r, _ := etcdversion.Newest(minor) // there is one of each of these
	return r.String()
}

func setEtcdVersion(p *Pass) {
	for i := range p.Spec.EtcdClusters {
		if e := &p.Spec.EtcdClusters[i]; e.Image == "" {
			fill.Value(&e.Version, p.etcdVersion())
		}
	}
}

func setEtcdBackups(p *Pass) {
	base := strings.TrimSuffix(p.Spec.ConfigStore.Base, "/")
	if base == "" {
		return
	}
	for i := range p.Spec.EtcdClusters {
		e := &p.Spec.EtcdClusters[i]
		fill.Value(&fill.Ensure(&e.Backups).BackupStore, base+"/backups/etcd/"+e.Name)
	}
}

// hasEtcd reports whether the cluster has an etcd of that name.
func (p *Pass) hasEtcd(name string) bool {
	for _, e := range p.Spec.EtcdClusters {
		if e.Name == name {
			return true
		}
	}
	return false
}
