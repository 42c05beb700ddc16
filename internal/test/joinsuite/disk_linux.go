package joinsuite

import (
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/nodes"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/store/web"
)

// flag matches a flag of etcd-manager that says how its disk is found.
var flag = regexp.MustCompile(`--(cluster-name|volume-provider|volume-tag|volume-name-tag)=([^\s'"]+)`)

// findDisk finds the disk of the control plane's etcd as etcd-manager does, which its manifest configures: it is
// attached, and the machine sees it where etcd-manager looks.
func (s *stage) findDisk(control host) {
	var r volume.Request
	provider := ""
	for _, f := range flag.FindAllStringSubmatch(s.w.Object("manifests/etcd/main-"+control.of.Group+".yaml"), -1) {
		switch f[1] {
		case "cluster-name":
			r.Cluster = f[2]
		case "volume-provider":
			provider = f[2]
		case "volume-tag":
			r.Tags = append(r.Tags, f[2])
		case "volume-name-tag":
			r.NameTag = f[2]
		}
	}
	all := nodes.All()
	i := slices.IndexFunc(all, func(p onmachine.Platform) bool { return p.HasVolumesOf(provider) })
	if i < 0 {
		s.Fatalf("no volume provider is called %q", provider)
	}
	metadata := s.cloud.Metadata(s.w, control.of)
	s.booting.Store(&metadata)
	r.Mounter = locator{s, control.of}
	source := all[i].Volumes(onmachine.World{Root: control.Root, Env: func(name string) string { return control.env[name] }, HTTP: http.DefaultClient, Direct: web.Direct(),
		Hostname: os.Hostname, Now: time.Now, Rand: rand.Reader}, r)
	for tries := 0; ; tries++ {
		d, err := source.Disk(s.Context())
		want := r.Cluster + "-a"
		if s.cloud.Peer != nil {
			want = s.cloud.Peer(s.w, control.of)
		}
		switch {
		case err == nil && d.Peer == want:
			return
		case err == nil:
			s.Fatalf("the disk is of %q", d.Peer)
		case tries == maxTries || !fault.Is(err, fault.NotYet) && !fault.Is(err, fault.Conflict):
			s.Fatalf("the disk of etcd is not found: %v", err)
		}
		time.Sleep(source.Pause / 10)
	}
}

// maxTries is how often the disk of etcd is looked for.
const maxTries = 50

// locator locates disks without mounting them.
type locator struct {
	*stage
	machine platform.Machine
}

// Mount returns the path of a disk that the machine sees.
func (l locator) Mount(_ context.Context, v volume.Volume) (string, error) {
	seen := l.cloud.Devices(l.w, l.machine)
	for _, d := range v.Devices {
		if slices.Contains(seen, d) {
			return d, nil
		}
	}
	return "", fault.New(fault.NotYet, "the machine sees %s, and not %s", strings.Join(seen, ", "), strings.Join(v.Devices, " or "))
}
