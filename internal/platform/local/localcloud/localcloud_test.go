package localcloud_test

import (
	"testing"

	"kops.local/kops/internal/platform/local/localcloud"
)

// Disks bear these names on hosts, also those that an older kops made.
func TestDisk(t *testing.T) {
	if got, of := localcloud.Disk("c.k8s.local", "main", "a"), localcloud.Disk("c.k8s.local", "main", ""); got != "c.k8s.local--main--a" || of != "c.k8s.local--main--" {
		t.Errorf("the disk %s among %s", got, of)
	}
}
