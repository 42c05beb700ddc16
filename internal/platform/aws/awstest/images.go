package awstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeImages writes images, given as OWNER/NAME, in moto's format, and returns the file.
func writeImages(t testing.TB, images []string) string {
	t.Helper()
	var out []map[string]any
	for i, image := range images {
		owner, name, _ := strings.Cut(image, "/")
		arch := "x86_64"
		if strings.Contains(name, "arm64") {
			arch = "arm64"
		}
		out = append(out, map[string]any{"ami_id": fmt.Sprintf("ami-%08x", i+1), "name": name, "owner_id": owner, "description": name, "architecture": arch, "state": "available",
			"public": true, "image_type": "machine", "hypervisor": "xen", "virtualization_type": "hvm", "root_device_name": "/dev/sda1", "root_device_type": "ebs", "sriov": "simple"})
	}
	text, err := json.Marshal(out)
	file := filepath.Join(t.TempDir(), "images.json")
	if err := errors.Join(err, os.WriteFile(file, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return file
}
