package names

// Ports that stages must agree on, and firewalls of users know (kOps').
const (
	// ControllerPort is where kops-controller serves machines that join, TCP with TLS.
	ControllerPort = 3988
	// APIHealthPort is where the health of a machine's API server is told, TCP without TLS.
	APIHealthPort = 3990
)
