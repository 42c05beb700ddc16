package localcloud_test

import (
	"testing"

	"kops.local/kops/internal/platform/local/localcloud"
)

// Disks have these names on hosts, including those created by an older kops.
func TestDisk(t *testing.T) {
	if got, of := localcloud.Disk("c.k8s.local", "main", "a"), localcloud.Disk("c.k8s.local", "main", ""); got != "c.k8s.local--main--a" || of != "c.k8s.local--main--" {
		t.Errorf("the disk %s among %s", got, of)
	}
}
