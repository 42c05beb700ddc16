package node

import (
	"fmt"
	"strings"

	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// places holds the paths on a distribution's machines.
type places struct {
	// keys is the folder of keys and certificates, home the home folder of root.
	keys, home string
	// kubelet and kubectl are the folders of these programs, tools the folder of other programs
	// that users run, and volumePlugins the folder of the kubelet's plugins.
	kubelet, kubectl, tools, volumePlugins string
	// image is the name of an image-based system: it includes containerd, has no
	// packages, and its /usr is read-only. "" elsewhere.
	image string
	// updaters are the services that replace such an image with the next one.
	updaters []string
	// executable are folders on file systems that are mounted noexec.
	executable []string
	// covered is a folder of the image that must be made writable; "" for none.
	covered string
}

// Manifests is the folder of the kubelet's static pods.
const Manifests = "/etc/kubernetes/manifests"

// APIServerManifest and APIServerLog belong to the machine's own API server; KubeletUnit is the
// unit that runs the pods, and ContainerdUnit the one that runs their containers.
const (
	APIServer         = "kube-apiserver"
	APIServerManifest = Manifests + "/" + APIServer + ".manifest"
	APIServerLog      = "/var/log/" + APIServer + ".log"
	KubeletUnit       = "kubelet.service"
	ContainerdUnit    = "containerd.service"
)

// The usual paths.
const (
	defaultKeys = paths.Keys
	ownBinaries = "/opt/kops/bin"
	manifests   = Manifests
	cniBinaries = "/opt/cni/bin"
	cniConfigs  = "/etc/cni/net.d"
)

// places returns the paths on a machine. Flatcar's /usr is read-only (Flatcar, "Disk
// layout"). So is the root of Container-Optimized OS, which below /home and /var allows
// programs to run only in a few folders (Google, "Disks and file system overview"); its /etc
// is empty after each boot, when the user data run again.
func (h Host) places() places {
	switch h.Distro {
	case "flatcar":
		return places{image: "Flatcar", keys: defaultKeys, home: "/root", kubelet: "/opt/kubernetes/bin", kubectl: ownBinaries, tools: ownBinaries,
			volumePlugins: "/var/lib/kubelet/volumeplugins/", updaters: []string{"update-engine.service", "locksmithd.service"}}
	case "cos":
		return places{image: "Container-Optimized OS", keys: "/etc/srv/kubernetes", home: "/home/kubernetes", kubelet: "/home/kubernetes/bin", kubectl: "/home/kubernetes/bin", tools: "/home/kubernetes/bin",
			volumePlugins: "/home/kubernetes/flexvolume/", updaters: []string{"update-engine.service"},
			executable: []string{"/home/kubernetes", "/var/lib/kubelet"}, covered: "/opt"}
	}
	return places{keys: defaultKeys, home: "/root", kubelet: "/usr/local/bin", kubectl: "/usr/local/bin", tools: "/usr/bin",
		volumePlugins: "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"}
}

// Image returns the name of the machine's image-based system, which includes containerd
// and to which no packages can be added; "" on other systems.
func (h Host) Image() string { return h.places().image }

// volumePlugins returns the folder in which the kubelet looks for plugins.
func (b *builder) volumePlugins() string {
	if c := b.Config.KubeletConfig; c != nil {
		return orDefault(c.VolumePluginDirectory, b.places.volumePlugins)
	}
	return b.places.volumePlugins
}

// localPath returns this machine's path of a file in the folder of keys; specifications use the
// usual one.
func (b *builder) localPath(file string) string {
	if rest, ok := strings.CutPrefix(file, defaultKeys+"/"); ok {
		return b.places.keys + "/" + rest
	}
	return file
}

// executable allows programs in an image's folders to run. Everything else depends on it:
// files written to a folder before another file system is mounted on it would be hidden.
func (b *builder) executable() error {
	if len(b.places.executable) == 0 && b.places.covered == "" {
		return nil
	}
	var before, run strings.Builder
	for _, d := range b.places.executable {
		fmt.Fprintf(&before, "ExecStartPre=mkdir -p %s\n", d)
		fmt.Fprintf(&run, "ExecStart=mount --bind %s %s\nExecStart=mount -o remount,bind,exec,suid,dev %s\n", d, d, d)
	}
	if d := b.places.covered; d != "" { // the image's own files stay visible
		const upper = "/var/lib/toolbox/kops/cover"
		fmt.Fprintf(&before, "ExecStartPre=mkdir -p %s%s/files %s%s/work\n", upper, d, upper, d)
		fmt.Fprintf(&run, "ExecStart=mount -t overlay -o lowerdir=%s,upperdir=%s%s/files,workdir=%s%s/work overlay %s\n", d, upper, d, upper, d, d)
	}
	a, err := b.unit("kops-executable.service", "[Unit]\nDescription=Make the cluster's program folders writable and executable\nBefore=containerd.service kubelet.service\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"+
		before.String()+run.String()+"\n[Install]\nWantedBy=multi-user.target\n", nil)
	b.first = []resource.Address{a}
	return err
}

// imageUpdates keeps an image from being replaced, if the specification leaves updates to others.
func (b *builder) imageUpdates() error {
	for _, u := range b.places.updaters {
		if _, err := b.maskUnit(u); err != nil {
			return err
		}
	}
	return nil
}

// ownContainerd configures the image's own containerd for the cluster.
func (b *builder) ownContainerd(after []resource.Address, reads ...string) (resource.Address, error) {
	content := "[Unit]\n" + b.needsMounts() + `
[Service]
EnvironmentFile=/etc/sysconfig/containerd
EnvironmentFile=-/etc/environment
ExecStart=
ExecStart=/usr/bin/containerd --config ` + containerdConfigFile + ` $CONTAINERD_OPTS
`
	unit := host.Unit{Name: ContainerdUnit, DropIn: true, Content: resource.Text(resource.Lit(host.WithDigest(content, reads...))), On: true, Current: true}
	return add(b, &host.Units, ContainerdUnit, unit, after...)
}
