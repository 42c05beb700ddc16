package controller

import (
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"
)

// Config is the file config.yaml of kops-controller. The mixed case of its keys
// is that of the file format. Keys that are not known are let pass.
type Config struct {
	ClusterName string `json:"clusterName"`
	Cloud       string `json:"cloud"`
	// ConfigBase is the URL of the cluster's folder in the store, SecretStore that
	// of its secrets; empty means the folder secrets of ConfigBase.
	ConfigBase  string       `json:"configBase"`
	SecretStore string       `json:"secretStore,omitempty"`
	Server      ServerConfig `json:"server"`
	// EnableCloudIPAM gives nodes their pod ranges from the addresses of their machines.
	EnableCloudIPAM bool `json:"enableCloudIPAM,omitempty"`
}

// ServerConfig is the part of the server that machines ask.
type ServerConfig struct {
	Listen string `json:"Listen"` // host:port; the host may be empty
	// Provider holds one entry: the cloud, with what its verifier needs.
	Provider              map[string]ProviderConfig `json:"provider"`
	ServerKeyPath         string                    `json:"serverKeyPath"`
	ServerCertificatePath string                    `json:"serverCertificatePath"`
	// CABasePath is the folder with <keyset>.crt and <keyset>.key of SigningCAs, and keypair-ids.yaml.
	CABasePath string   `json:"caBasePath"`
	SigningCAs []string `json:"signingCAs"`
	// CertNames are the certificates that machines may ask for.
	CertNames []string `json:"certNames"`
}

// ProviderConfig is what a cloud's verifier needs to know.
type ProviderConfig struct {
	// NodesRoles are the names of the AWS roles that machines have.
	NodesRoles []string `json:"nodesRoles,omitempty"`
	// NodesProfiles are the roles that the machines' AWS instance profiles give, by the profile's name.
	NodesProfiles map[string]string `json:"nodesProfiles,omitempty"`
	// Region is where the machines are, on clouds with regions.
	Region string `json:"Region,omitempty"`
	// Machines is the folder in which the local cloud tells of its machines.
	Machines string `json:"machines,omitempty"`
}

// ParseConfig reads a config.yaml, or the same as JSON.
func ParseConfig(text []byte) (*Config, error) {
	c := &Config{}
	if err := yaml.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("read the configuration of kops-controller: %w", err)
	}
	var errs []error
	for _, f := range []struct{ name, value string }{
		{"clusterName", c.ClusterName}, {"cloud", c.Cloud}, {"configBase", c.ConfigBase}, {"server.Listen", c.Server.Listen},
		{"server.serverKeyPath", c.Server.ServerKeyPath}, {"server.serverCertificatePath", c.Server.ServerCertificatePath},
		{"server.caBasePath", c.Server.CABasePath},
	} {
		if f.value == "" {
			errs = append(errs, fmt.Errorf("%s is not set", f.name))
		}
	}
	for _, n := range c.Server.CertNames {
		if _, ok := certificates()[n]; !ok {
			errs = append(errs, fmt.Errorf("server.certNames: no certificate is called %q", n))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("the configuration of kops-controller: %w", err)
	}
	return c, nil
}
