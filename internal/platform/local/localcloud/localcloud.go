// Package localcloud is the contract between the local cloud and the programs on its machines:
// where and how it registers machines; where the disks of etcd are.
//
// It must not know how machines are made.
package localcloud

// MirrorPort is the port of the host's address in a cluster's network on which files
// and images are served to machines.
const MirrorPort = 3989

// KeyFile holds a machine's own key: PEM of PKCS #8.
const KeyFile = "/etc/kops/identity.key"

// Where machines of the control plane see folders of the host.
const (
	Registry = "/etc/kops/machines" // holds a file for each machine, NAME + MachineSuffix
	Requests = "/etc/kops/requests" // where kops-controller asks for machines to be replaced: a file of a machine's name
	Disks    = "/mnt/disks"         // holds a folder for each member of etcd; see Disk
)

// Machine is the registry's entry for a machine, as JSON. The file is written before the machine
// starts, and removed after it has ended.
type Machine struct {
	Name    string `json:"name"`
	Group   string `json:"group"`
	Address string `json:"address"`
	// PublicKey is an ECDSA key on the curve P-256: a PEM block of PKIX.
	PublicKey string            `json:"publicKey"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// MachineSuffix ends the names of the files of the registry, which begin with the machine's name.
const MachineSuffix = ".json"

// Role is the label with a machine's role, ControlPlane its value for machines of the control
// plane.
const (
	Role         = "role"
	ControlPlane = "control-plane"
)

// IsControlPlane reports whether the machine is of the control plane.
func (m Machine) IsControlPlane() bool { return m.Labels[Role] == ControlPlane }

// Disk is the name of the folder that holds the data of a member of etcd; without a
// member it is what the names of all members begin with.
func Disk(cluster, etcd, member string) string { return cluster + "--" + etcd + "--" + member }

// Controller is the section of the local cloud in the configuration of kops-controller.
type Controller struct {
	// Machines is the folder in which the cloud registers its machines.
	Machines string `json:"machines"`
	// Requests is the folder in which machines to be replaced are named; empty: there is none.
	Requests string `json:"requests,omitempty"`
}
