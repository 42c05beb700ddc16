package agent

import (
	"os"
	"path/filepath"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
)

// Authorities returns the CA certificates with which a machine verifies kops-controller: its
// last configuration's, if there is one, otherwise those that it was started with. The
// cluster's authority may have been replaced since, while the machine ran.
func Authorities(root string, boot *nodeconfig.Boot) string {
	if text, err := os.ReadFile(filepath.Join(root, configFile)); err == nil {
		if c, err := nodeconfig.Parse(text); err == nil && c.CAs[pki.KubernetesCA] != "" {
			return c.CAs[pki.KubernetesCA]
		}
	}
	return boot.ConfigServer.CACertificates
}
