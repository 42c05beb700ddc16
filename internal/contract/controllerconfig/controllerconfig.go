// Package controllerconfig defines the configuration of kops-controller: an update writes it into
// the add-on's manifest, and kops-controller reads it.
//
// It must not know what verifies a machine, nor how a certificate is issued.
package controllerconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// Config is the content of config.yaml. The mixed case of its keys is given by the file format.
// Unknown keys are ignored.
type Config struct {
	ClusterName string `json:"clusterName"`
	Cloud       string `json:"cloud"`
	// ConfigBase is the URL of the cluster's folder in the store, SecretStore the URL
	// of the secrets' folder; empty means the folder secrets of ConfigBase.
	ConfigBase  string `json:"configBase"`
	SecretStore string `json:"secretStore,omitempty"`
	Server      Server `json:"server"`
	// CloudIPAM assigns pod ranges to nodes from the addresses of their machines.
	CloudIPAM bool `json:"enableCloudIPAM,omitempty"`
}

// RepairFile is next to the configuration. It specifies, by instance group, when dead machines are
// replaced; groups that are not in it are left alone. kops-controller re-reads it periodically, so
// that nothing is restarted when groups are added or removed.
const RepairFile = "repair.yaml"

// ParseRepair reads a RepairFile.
func ParseRepair(text []byte) (map[string]Repair, error) {
	out := map[string]Repair{}
	if err := yaml.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("read %s of kops-controller: %w", RepairFile, err)
	}
	return out, nil
}

// Repair specifies when the dead machines of a group are replaced.
type Repair struct {
	// After is how long a machine must be dead.
	After metav1.Duration `json:"after"`
	// MaxUnhealthy is how many machines, or what share of them, may be dead; nil means one.
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`
	ControlPlane bool                `json:"controlPlane,omitempty"`
}

// Server is the configuration of the server for machines.
type Server struct {
	Listen string `json:"Listen"` // host:port; the host may be empty
	// Provider has one entry: the cloud, with the configuration of its verifier; see Section.
	Provider        map[string]any `json:"provider"`
	KeyPath         string         `json:"serverKeyPath"`
	CertificatePath string         `json:"serverCertificatePath"`
	// CABasePath is the folder with <keyset>.crt and <keyset>.key of SigningCAs, and keypair-ids.yaml.
	CABasePath string   `json:"caBasePath"`
	SigningCAs []string `json:"signingCAs"`
	CertNames  []string `json:"certNames"` // the names in Certificates that machines may request
}

// Names of the certificates that a machine may request.
const (
	CertKubelet          = "kubelet"
	CertKubeletServer    = "kubelet-server"
	CertKubeProxy        = "kube-proxy"
	CertKubeRouter       = "kube-router"
	CertEtcdClientCilium = "etcd-client-cilium"
)

// Certificates lists the names.
func Certificates() []string {
	return []string{CertKubelet, CertKubeletServer, CertKubeProxy, CertKubeRouter, CertEtcdClientCilium}
}

// Section reads the section of the configuration's own cloud into that cloud's struct. If there is
// no such section, the struct is not changed.
func (c *Config) Section(into any) error {
	text, err := json.Marshal(c.Server.Provider[c.Cloud])
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("the configuration of kops-controller: server.provider.%s: %w", c.Cloud, err)
	}
	return nil
}

// Parse reads a config.yaml, in YAML or JSON.
func Parse(text []byte) (*Config, error) {
	c := &Config{}
	if err := yaml.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("read the configuration of kops-controller: %w", err)
	}
	var errs []error
	for _, f := range []struct{ name, value string }{
		{"clusterName", c.ClusterName}, {"cloud", c.Cloud}, {"configBase", c.ConfigBase}, {"server.Listen", c.Server.Listen},
		{"server.serverKeyPath", c.Server.KeyPath}, {"server.serverCertificatePath", c.Server.CertificatePath},
		{"server.caBasePath", c.Server.CABasePath},
	} {
		if f.value == "" {
			errs = append(errs, fmt.Errorf("%s is not set", f.name))
		}
	}
	for _, n := range c.Server.CertNames {
		if !slices.Contains(Certificates(), n) {
			errs = append(errs, fmt.Errorf("server.certNames: no certificate is called %q", n))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("the configuration of kops-controller: %w", err)
	}
	return c, nil
}
