package nodeconfig

import (
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"
)

// Boot is what a machine knows when it boots: its identity, and where to get the rest. The mixed
// case of its keys is given by the file format.
type Boot struct {
	CloudProvider     string        `json:"CloudProvider,omitempty"`
	ClusterName       string        `json:"ClusterName,omitempty"`
	InstanceGroupName string        `json:"InstanceGroupName,omitempty"`
	InstanceGroupRole string        `json:"InstanceGroupRole,omitempty"`
	ConfigBase        string        `json:"ConfigBase,omitempty"` // if the store is read
	ConfigServer      *ConfigServer `json:"ConfigServer,omitempty"`
	APIServerIPs      []string      `json:"APIServerIPs,omitempty"`
	EtcdIPs           []string      `json:"EtcdIPs,omitempty"` // if no name resolves to etcd
	// NodeupConfigHash is the base64 of the SHA-256 of the node configuration.
	NodeupConfigHash string `json:"NodeupConfigHash,omitempty"`
}

// ConfigServer is where machines that do not read the store request their configuration.
type ConfigServer struct {
	CACertificates string   `json:"CACertificates,omitempty"`
	Servers        []string `json:"servers,omitempty"`
	TLSServerName  string   `json:"tlsServerName,omitempty"`
}

// ParseBoot reads a boot configuration. Unknown keys are rejected.
func ParseBoot(text []byte) (*Boot, error) {
	b := &Boot{}
	if err := yaml.UnmarshalStrict(text, b); err != nil {
		return nil, fmt.Errorf("read the boot configuration: %w", err)
	}
	if b.ClusterName == "" || b.InstanceGroupName == "" || b.InstanceGroupRole == "" {
		return nil, errors.New("read the boot configuration: ClusterName, InstanceGroupName and InstanceGroupRole are needed")
	}
	if b.ConfigBase == "" && b.ConfigServer == nil {
		return nil, errors.New("read the boot configuration: neither ConfigBase nor ConfigServer says where the machine's configuration is")
	}
	return b, nil
}

// Encode writes a boot configuration.
func (b *Boot) Encode() ([]byte, error) {
	text, err := yaml.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("write boot configuration: %w", err)
	}
	return text, nil
}

// StoreVariables returns the environment variables that control-plane machines of every platform
// get; platforms may add others. None of them is a secret: every process on a machine can read what
// is in a script.
func StoreVariables() []string { return []string{"S3_ENDPOINT", "S3_REGION"} }
