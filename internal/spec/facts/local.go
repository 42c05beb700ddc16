package facts

// Local is what a cluster on this host asks.
type Local struct {
	// Network is a range of addresses that the host does not use, such as
	// "10.77.0.0/24". It is asked for a new cluster only.
	Network string `json:"network,omitempty"`
	// Arch is the architecture of the host's processors, such as amd64, and so of
	// all machines.
	Arch string `json:"arch,omitempty"`
	// Bundle is the folder that files and images are served from.
	Bundle string `json:"bundle,omitempty"`
}
