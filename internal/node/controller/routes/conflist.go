package routes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
)

const (
	// ConflistName is the file in the folder of CNI configurations. It sorts early, because the
	// runtime takes the first file.
	ConflistName = "10-kops.conflist"
	// bridge is the interface that connects the pods of a node.
	bridge = "cni0"
)

// Conflist returns the configuration of the reference CNI plugins for a node's pod
// ranges: a bridge that is the pods' gateway, addresses from host-local, and host
// ports. Nothing is masqueraded.
func Conflist(ranges []netip.Prefix) ([]byte, error) {
	if len(ranges) == 0 {
		return nil, errors.New("write the CNI configuration: the node has no range of pod addresses")
	}
	type object = map[string]any
	var subnets, defaults []any
	for _, r := range ranges {
		subnets = append(subnets, []any{object{"subnet": r.String()}})
		dst := "0.0.0.0/0"
		if r.Addr().Is6() {
			dst = "::/0"
		}
		defaults = append(defaults, object{"dst": dst})
	}
	text, err := json.MarshalIndent(object{
		"cniVersion": "1.0.0",
		"name":       "kops",
		"plugins": []any{
			object{
				"type": "bridge", "bridge": bridge, "isGateway": true, "hairpinMode": true,
				"forceAddress": true, // a node that registers again may get another range while the bridge still exists
				"ipam":         object{"type": "host-local", "ranges": subnets, "routes": defaults},
			},
			object{"type": "portmap", "capabilities": object{"portMappings": true}, "snat": true},
		},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the CNI configuration: %w", err)
	}
	return append(text, '\n'), nil
}

// writeIfChanged replaces a file atomically, unless it already contains the text.
func writeIfChanged(file string, text []byte) (changed bool, err error) {
	old, err := os.ReadFile(file)
	if err == nil && bytes.Equal(old, text) {
		return false, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return false, err
	}
	part := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".part") // the runtime ignores files with another extension
	if err := os.WriteFile(part, text, 0o644); err != nil {
		return false, err
	}
	return true, os.Rename(part, file)
}
