package node

import (
	"fmt"
	"strings"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// places are where things are on the machines of a distribution.
type places struct {
	// keys is the folder of keys and certificates, home the home of root.
	keys, home string
	// kubelet and kubectl are the folders of these programs, tools the folder of other programs
	// that users ask for, and volumePlugins the folder of the kubelet's plugins.
	kubelet, kubectl, tools, volumePlugins string
	// image is the title of a system that is one image: it brings containerd and has no
	// packages, and its /usr is not written to. "" elsewhere.
	image string
	// updaters are the services that replace such an image by the next.
	updaters []string
	// executable are folders that lie on file systems whose programs are not run.
	executable []string
	// covered is a folder of the image that others have to write to; "" for none.
	covered string
}

// Manifests is the folder of the pods that the kubelet runs by itself.
const Manifests = "/etc/kubernetes/manifests"

// APIServerManifest and APIServerLog are those of the machine's own API server, KubeletUnit is the
// unit that runs the pods, and ContainerdUnit the one that runs their containers.
const (
	APIServer         = "kube-apiserver"
	APIServerManifest = Manifests + "/" + APIServer + ".manifest"
	APIServerLog      = "/var/log/" + APIServer + ".log"
	KubeletUnit       = "kubelet.service"
	ContainerdUnit    = "containerd.service"
)

// Where things usually are.
const (
	usualKeys   = "/srv/kubernetes"
	ownBinaries = "/opt/kops/bin"
	manifests   = Manifests
	cniBinaries = "/opt/cni/bin"
	cniConfigs  = "/etc/cni/net.d"
)

// places tells where things are on a machine. Flatcar's /usr cannot be written to
// (Flatcar, "Disk layout"). Neither can the root of Container-Optimized OS, and below /home
// and /var it runs programs in a few folders only (Google, "Disks and file system overview");
// /etc is empty again after each start of the machine, when its user data run again.
func (h Host) places() places {
	switch h.Distro {
	case "flatcar":
		return places{image: "Flatcar", keys: usualKeys, home: "/root", kubelet: "/opt/kubernetes/bin", kubectl: ownBinaries, tools: ownBinaries,
			volumePlugins: "/var/lib/kubelet/volumeplugins/", updaters: []string{"update-engine.service", "locksmithd.service"}}
	case "cos":
		return places{image: "Container-Optimized OS", keys: "/etc/srv/kubernetes", home: "/home/kubernetes", kubelet: "/home/kubernetes/bin", kubectl: "/home/kubernetes/bin", tools: "/home/kubernetes/bin",
			volumePlugins: "/home/kubernetes/flexvolume/", updaters: []string{"update-engine.service"},
			executable: []string{"/home/kubernetes", "/var/lib/kubelet"}, covered: "/opt"}
	}
	return places{keys: usualKeys, home: "/root", kubelet: "/usr/local/bin", kubectl: "/usr/local/bin", tools: "/usr/bin",
		volumePlugins: "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"}
}

// Image is the title of the machine's system if that is one image, which brings containerd
// and to which no packages can be added; "" elsewhere.
func (h Host) Image() string { return h.places().image }

// volumePlugins is where the kubelet looks for plugins.
func (b *builder) volumePlugins() string {
	if c := b.Config.KubeletConfig; c != nil {
		return or(c.VolumePluginDirectory, b.at.volumePlugins)
	}
	return b.at.volumePlugins
}

// moved is where a file of the folder of keys is on this machine. Specifications name the usual folder.
func (b *builder) moved(file string) string {
	if rest, ok := strings.CutPrefix(file, usualKeys+"/"); ok {
		return b.at.keys + "/" + rest
	}
	return file
}

// executable allows programs in an image's folders to run. Everything else follows it: files
// written to a folder before another file system is mounted on it are lost.
func (b *builder) executable() error {
	if len(b.at.executable) == 0 && b.at.covered == "" {
		return nil
	}
	var before, run strings.Builder
	for _, d := range b.at.executable {
		fmt.Fprintf(&before, "ExecStartPre=mkdir -p %s\n", d)
		fmt.Fprintf(&run, "ExecStart=mount --bind %s %s\nExecStart=mount -o remount,bind,exec,suid,dev %s\n", d, d, d)
	}
	if d := b.at.covered; d != "" { // what the image has there stays to be seen
		const upper = "/var/lib/toolbox/kops/cover"
		fmt.Fprintf(&before, "ExecStartPre=mkdir -p %s%s/files %s%s/work\n", upper, d, upper, d)
		fmt.Fprintf(&run, "ExecStart=mount -t overlay -o lowerdir=%s,upperdir=%s%s/files,workdir=%s%s/work overlay %s\n", d, upper, d, upper, d, d)
	}
	a, err := b.unit("kops-executable.service", "[Unit]\nDescription=Let programs of the cluster be written and run\nBefore=containerd.service kubelet.service\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"+
		before.String()+run.String()+"\n[Install]\nWantedBy=multi-user.target\n", nil)
	b.first = []resource.Address{a}
	return err
}

// imageUpdates keeps an image from being replaced, where the specification says that others see to updates.
func (b *builder) imageUpdates() error {
	for _, u := range b.at.updaters {
		if _, err := b.masked(u); err != nil {
			return err
		}
	}
	return nil
}

// ownContainerd has the containerd that an image brings run as the cluster needs it.
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
