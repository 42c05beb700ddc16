package labels

import (
	"encoding/json"
	"fmt"

	"kops.local/kops/api/status"
)

// Certificates is an annotation of nodes: the certificates that the machine holds, a JSON
// list of status.Certificate. The machine writes it. Nothing may trust it.
const Certificates = "kops.k8s.io/certificates"

// WriteCertificates is the value of the annotation.
func WriteCertificates(all []status.Certificate) string {
	text, _ := json.Marshal(all) // texts and times can always be written
	return string(text)
}

// ReadCertificates reads it; there is false where the node has none.
func ReadCertificates(annotations map[string]string) (all []status.Certificate, there bool, err error) {
	text, there := annotations[Certificates]
	if !there {
		return nil, false, nil
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, true, fmt.Errorf("read the node's annotation %s: %w", Certificates, err)
	}
	return all, true, nil
}
