package kinds

import "kops.local/kops/internal/engine/resource"

// Disk is a persistent disk of a zone. What would need a new disk is forbidden, as the disk
// holds the cluster's data; one can grow.
type Disk struct {
	Name       string            `res:"forbid" tf:"name"`
	Zone       string            `res:"forbid" tf:"zone"`
	Type       string            `res:"forbid" tf:"type"` // "pd-ssd", "hyperdisk-balanced", …
	SizeGiB    int               `tf:"size"`
	IOPS       int               `res:"default" tf:"provisioned_iops"`
	Throughput int               `res:"default" tf:"provisioned_throughput"` // MiB/s
	Labels     map[string]string `tf:"labels"`

	ID string `res:"out,id" out:"id"`
}

// Disks is the kind of Disk. The label k8s-io-etcd-… tells it from those that drivers in the cluster make.
var Disks = resource.Kind[Disk, *Client]{
	Name:  "google_compute_disk",
	API:   apiCompute,
	Phase: resource.Security,
	Tasks: []string{"Disk"},
	Key:   func(d *Disk) string { return d.Name },
}
