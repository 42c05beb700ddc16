package kubeconfig

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// KUBECONFIG=/dev/null discards a kubeconfig; others need the device afterwards.
func TestADeviceKeepsItsMode(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("CANNOT RUN: only root can make a device")
		}
		t.Skip("SKIPPED, NOTHING WAS TESTED: only root can make a device")
	}
	path := filepath.Join(t.TempDir(), "null")
	if err := syscall.Mknod(path, syscall.S_IFCHR, 1<<8|3); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, Entry{Cluster: "a", Server: "https://a"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("mode is %v, %v; want 0666", info.Mode(), err)
	}
}
