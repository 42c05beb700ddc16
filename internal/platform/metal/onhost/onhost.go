// Package onhost is what enrollment and the programs of a host agree on: where the
// files of a host are, and what they hold.
//
// It must not know how a host is reached, nor what a cluster is made of.
package onhost

import "strconv"

// Places on a host.
const (
	folder = "/etc/kubernetes/kops/"
	// Key and PublicKey are the key pair by which the host proves itself, in PEM.
	Key       = folder + "pki/machine/private.pem"
	PublicKey = folder + "pki/machine/public.pem"
	// Record is what was made of the host, as JSON.
	Record = folder + "host.json"
	// Boot is the script that makes it a member.
	Boot = folder + "boot.sh"
	// BootLog is what that script wrote.
	BootLog = "/var/log/kops-boot.log"
	// Registry is a folder in which Peers lists the control plane.
	Registry = folder + "control-plane"
	Peers    = Registry + "/peers.json"
	// Disks holds a folder for each member of etcd; see Disk.
	Disks = "/mnt/disks"
)

// ControlPlane is what the file Peers holds.
type ControlPlane struct {
	// Addresses are the addresses of the control plane's hosts, in order.
	Addresses []string `json:"addresses"`
	// Home is the one whose folder of back-ups the managers of etcd share.
	Home string `json:"home"`
}

// DiskTag is what the names of the disks of an etcd cluster begin with.
func DiskTag(cluster, etcd string) string { return cluster + "--" + etcd + "--" }

// Disk is the folder of the data of a member of etcd, which are counted from 0.
func Disk(cluster, etcd string, member int) string {
	return Disks + "/" + DiskTag(cluster, etcd) + strconv.Itoa(member)
}
