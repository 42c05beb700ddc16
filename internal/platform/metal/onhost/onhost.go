// Package onhost is the contract between enrollment and the programs on a host: where
// the host's files are, and what they contain.
//
// It must not know how a host is reached, nor what a cluster consists of.
package onhost

import "strconv"

// Paths on a host.
const (
	folder = "/etc/kubernetes/kops/"
	// Key and PublicKey are the key pair that identifies the host, in PEM.
	Key       = folder + "pki/machine/private.pem"
	PublicKey = folder + "pki/machine/public.pem"
	// Record describes what the host was set up with, as JSON.
	Record = folder + "host.json"
	// Boot is the script that makes the host a member.
	Boot = folder + "boot.sh"
	// BootLog is the output of that script.
	BootLog = "/var/log/kops-boot.log"
	// Registry is the folder of the file Peers, which lists the control plane.
	Registry = folder + "control-plane"
	Peers    = Registry + "/peers.json"
	// Disks contains a folder for each etcd member; see Disk.
	Disks = "/mnt/disks"
)

// ControlPlane is the content of the file Peers.
type ControlPlane struct {
	// Addresses are the addresses of the control plane's hosts, in order.
	Addresses []string `json:"addresses"`
	// Home is the one whose backup folder the etcd managers share.
	Home string `json:"home"`
}

// DiskTag returns the common prefix of the names of an etcd cluster's disks.
func DiskTag(cluster, etcd string) string { return cluster + "--" + etcd + "--" }

// Disk returns the folder with the data of an etcd member; members are counted from 0.
func Disk(cluster, etcd string, member int) string {
	return Disks + "/" + DiskTag(cluster, etcd) + strconv.Itoa(member)
}
