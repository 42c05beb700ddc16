package precheck

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/ops/pods"
)

// managerPrefix is the prefix of the label k8s-app of etcd-manager's pods.
const managerPrefix = "etcd-manager-"

// etcdQuota is the default storage limit of an etcd: 2 GiB (etcd, Configuration,
// quota-backend-bytes). Beyond it, writes are rejected.
const (
	etcdQuota = 2 << 30
	etcdFull  = 0.8
)

// etcd stops the upgrade if a member is missing, because the next control-plane machine takes
// another one away, and if etcd is nearly full.
func (j *judge) etcd() {
	for _, name := range j.Unready {
		if strings.HasPrefix(name, "etcd") {
			j.stop("", "the API server cannot reach etcd: its check "+name+" fails", "see why: kops doctor")
		}
	}
	for _, e := range j.Input.Etcd {
		j.members(&e)
	}
	for _, s := range j.Storage {
		quota := quotaOf(j.Input.Etcd, s.Cluster)
		if s.Bytes >= etcdFull*quota {
			j.stop("etcd", fmt.Sprintf("%s uses %.0f MiB of its quota of %.0f MiB: it rejects writes when the quota is full", s.Cluster, s.Bytes/(1<<20), quota/(1<<20)),
				"compact and defragment it, or delete unneeded objects: kops etcd defrag")
		}
	}
}

// members checks the pod of each member's manager.
func (j *judge) members(e *api.EtcdClusterSpec) {
	app, ready := managerPrefix+e.Name, 0
	for _, p := range j.Pods {
		if p.Labels["k8s-app"] != app {
			continue
		}
		if pods.Ready(&p) {
			ready++
			continue
		}
		j.stop("Pod/"+p.Namespace+"/"+p.Name, "a member of the etcd "+e.Name+" is not ready", "see why: kops doctor")
	}
	if want := len(e.EtcdMembers); ready < want && hasEtcdManager(j.Pods) {
		j.stop("etcd/"+e.Name, fmt.Sprintf("%d of %d members are ready", ready, want), "repair the other members before replacing a machine: kops doctor")
	}
}

// hasEtcdManager reports whether any pods of etcd-manager exist; pods of other managers have other
// names.
func hasEtcdManager(pods []corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return strings.HasPrefix(p.Labels["k8s-app"], managerPrefix) })
}

// quotaOf returns the storage limit of an etcd, which the API server numbers in the order main,
// events.
func quotaOf(all []api.EtcdClusterSpec, numbered string) float64 {
	name := "main"
	if numbered == "etcd-1" {
		name = "events"
	}
	for _, e := range all {
		if e.Name != name || e.Manager == nil {
			continue
		}
		for _, v := range e.Manager.Env {
			var quota float64
			if v.Name == "ETCD_QUOTA_BACKEND_BYTES" {
				if _, err := fmt.Sscan(v.Value, &quota); err == nil && quota > 0 {
					return quota
				}
			}
		}
	}
	return etcdQuota
}
