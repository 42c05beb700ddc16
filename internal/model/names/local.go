package names

import (
	"regexp"
	"strconv"
)

// LocalMirrorPort is the port of the host's address in a local cluster's network
// on which files and images are served to machines.
const LocalMirrorPort = 3989

// Where machines of the local control plane see folders of the host: the
// registry of machines, and the disks of etcd.
const (
	LocalMachines = "/etc/kops/machines"
	LocalDisks    = "/mnt/disks"
)

// LocalHostSize is the machine type that has what the host has.
const LocalHostSize = "host"

var localSize = regexp.MustCompile(`^([1-9][0-9]{0,3})cpu-([1-9][0-9]{0,5})(gib|mib)$`)

// LocalSize reads a machine type of the local cloud: "host", or such as
// "2cpu-4gib" or "1cpu-1500mib". Zero is what the host has and can do without.
func LocalSize(machineType string) (cpus, memoryMiB int, ok bool) {
	if machineType == LocalHostSize {
		return 0, 0, true
	}
	m := localSize.FindStringSubmatch(machineType)
	if m == nil {
		return 0, 0, false
	}
	cpus, _ = strconv.Atoi(m[1]) // the expression has made sure
	memoryMiB, _ = strconv.Atoi(m[2])
	if m[3] == "gib" {
		memoryMiB *= 1024
	}
	return cpus, memoryMiB, true
}

// LocalMachine is what the registry of machines of the local cloud tells of one,
// as JSON in a file of the machine's name and LocalMachineSuffix.
type LocalMachine struct {
	Name    string `json:"name"`
	Group   string `json:"group"`
	Address string `json:"address"`
	// PublicKey is an ECDSA key on the curve P-256: a PEM block of PKIX.
	PublicKey string            `json:"publicKey"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// LocalMachineSuffix ends the names of the files of the registry.
const LocalMachineSuffix = ".json"

// LocalRole is the label of a machine that tells its role, LocalControlPlane that
// of machines of the control plane.
const (
	LocalRole         = "role"
	LocalControlPlane = "control-plane"
)

// IsControlPlane reports whether the machine is of the control plane.
func (m LocalMachine) IsControlPlane() bool { return m.Labels[LocalRole] == LocalControlPlane }

// LocalDisk is the name of the folder that holds the data of a member of etcd;
// without a member it is what the names of all members begin with.
func LocalDisk(cluster, etcd, member string) string { return cluster + "--" + etcd + "--" + member }
