// Package localcloud is the contract between the local cloud and the programs on its machines:
// where and how it registers machines, and where the etcd disks are.
//
// It must not know how machines are created.
package localcloud

// MirrorPort is the port of the host's address in a cluster's network on which files
// and images are served to machines.
const MirrorPort = 3989

// KeyFile holds a machine's own key: PEM of PKCS #8.
const KeyFile = "/etc/kops/identity.key"

// Where control-plane machines see the host's folders.
const (
	Registry = "/etc/kops/machines" // contains a file for each machine, NAME + MachineSuffix
	Requests = "/etc/kops/requests" // where kops-controller requests that machines be replaced: a file with the machine's name
	Disks    = "/mnt/disks"         // contains a folder for each etcd member; see Disk
)

// Machine is the registry's entry for a machine, as JSON. The file is written before the machine
// starts, and removed after it has ended.
type Machine struct {
	Name    string `json:"name"`
	Group   string `json:"group"`
	Address string `json:"address"`
	// PublicKey is a P-256 ECDSA key as a PEM block of PKIX.
	PublicKey string            `json:"publicKey"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// MachineSuffix is the suffix of the registry's files; before it comes the machine's name.
const MachineSuffix = ".json"

// Role is the label that holds a machine's role; ControlPlane is its value for control-plane
// machines.
const (
	Role         = "role"
	ControlPlane = "control-plane"
)

// IsControlPlane reports whether the machine belongs to the control plane.
func (m Machine) IsControlPlane() bool { return m.Labels[Role] == ControlPlane }

// Disk returns the name of the folder with the data of an etcd member; without a
// member it is the common prefix of all members' names.
func Disk(cluster, etcd, member string) string { return cluster + "--" + etcd + "--" + member }

// Controller is the local cloud's section in the configuration of kops-controller.
type Controller struct {
	// Machines is the folder in which the cloud registers its machines.
	Machines string `json:"machines"`
	// Requests is the folder for requests to replace machines; empty: there is none.
	Requests string `json:"requests,omitempty"`
}
