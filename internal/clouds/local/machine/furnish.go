package machine

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kops.local/kops/internal/clouds/local/site"
	"kops.local/kops/internal/names"
)

// disks are the folders of a machine that lie on the host's own file system,
// because overlayfs cannot lie on overlayfs, and so that the host can read logs.
func disks() []string {
	return []string{"/var/lib/containerd", "/var/lib/kubelet", "/var/lib/etcd", "/var/log"}
}

// diskDir is where a machine's folder is below its own folder.
func diskDir(dir, path string) string {
	return filepath.Join(dir, "disk", strings.TrimPrefix(path, "/"))
}

// KeyFile is where a machine finds its private key: a PEM block of PKCS #8.
const KeyFile = "/etc/kops/identity.key"

// furnish makes a machine's folder: what lies over the image, and its disks.
func (h Host) furnish(dir string, s Spec) error {
	for _, d := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for _, d := range disks() {
		if err := os.MkdirAll(diskDir(dir, d), 0o755); err != nil {
			return err
		}
	}
	key, err := h.register(s)
	if err != nil {
		return err
	}
	files, err := s.files()
	if err != nil {
		return err
	}
	files = append(files, upperFile{KeyFile, key, 0o600})
	for _, f := range files {
		if err := site.Write(filepath.Join(dir, "upper", f.path), f.data, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// register makes a key for the machine, tells the registry the public half and
// returns the private one.
func (h Host) register(s Spec) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	pub, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	priv, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(names.LocalMachine{Name: s.Name, Group: s.Group, Address: s.Address.Addr().String(),
		PublicKey: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub})), Labels: s.Labels}, "", "  ")
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: priv}),
		site.Write(h.Path(site.Registry, s.Name+names.LocalMachineSuffix), append(data, '\n'), 0o644)
}

// seedDir is where a machine finds what its cloud tells it, in the form that
// cloud-init calls NoCloud.
const seedDir = "/var/lib/cloud/seed/nocloud/"

// upperFile is a file that a machine has over its image.
type upperFile struct {
	path string
	data []byte
	mode fs.FileMode
}

func (s Spec) files() ([]upperFile, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	meta, err := json.MarshalIndent(map[string]any{"instance-id": hex.EncodeToString(id), "local-hostname": s.Name,
		"group": s.Group, "address": s.Address.Addr(), "gateway": s.Gateway, "labels": s.Labels}, "", "  ")
	if err != nil {
		return nil, err
	}
	resolv, err := resolvers(s.Gateway, "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
	if err != nil {
		return nil, err
	}
	out := []upperFile{
		{"/etc/machine-id", []byte(hex.EncodeToString(id) + "\n"), 0o444},
		{"/etc/hostname", []byte(s.Name + "\n"), 0o644},
		{"/etc/hosts", []byte("127.0.0.1 localhost\n" + s.Address.Addr().String() + " " + s.Name + "\n"), 0o644},
		{"/etc/resolv.conf", resolv, 0o644},
		{"/etc/systemd/network/10-host0.network", fmt.Appendf(nil,
			"[Match]\nName=host0\n\n[Network]\nAddress=%s\nGateway=%s\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n", s.Address, s.Gateway), 0o644},
		{seedDir + "meta-data", append(meta, '\n'), 0o644}, // JSON is YAML
		{seedDir + "user-data", []byte(s.UserData), 0o600},
	}
	if s.MemoryMiB > 0 {
		host, err := os.ReadFile("/proc/meminfo")
		if err != nil {
			return nil, err
		}
		out = append(out, upperFile{"/etc/kops/meminfo", meminfo(host, s.MemoryMiB), 0o444})
	}
	scripts, err := Scripts(s.UserData)
	if err != nil {
		return nil, err
	}
	for i, x := range scripts {
		out = append(out, upperFile{fmt.Sprintf("/var/lib/cloud/instance/scripts/%02d-%s", i, x.Name), []byte(x.Text), 0o700})
	}
	return out, nil
}

// meminfo is the host's table of memory as a smaller machine would have it.
// The numbers do not move: they serve to tell the machine's size.
func meminfo(host []byte, mib int) []byte {
	own := map[string]int{"MemTotal": mib << 10, "MemFree": mib << 10, "MemAvailable": mib << 10, "SwapTotal": 0, "SwapFree": 0}
	var out bytes.Buffer
	for lines := bufio.NewScanner(bytes.NewReader(host)); lines.Scan(); {
		name, _, _ := strings.Cut(lines.Text(), ":")
		if kib, ok := own[name]; ok {
			fmt.Fprintf(&out, "%-15s %8d kB\n", name+":", kib)
		} else {
			out.WriteString(lines.Text() + "\n")
		}
	}
	return out.Bytes()
}

// resolvers writes a resolv.conf of the first file that names a server which
// machines can reach: one of IPv4, as they have no other, and not on the host's loopback.
func resolvers(gateway netip.Addr, files ...string) ([]byte, error) {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // another may serve
		}
		var out bytes.Buffer
		found := false
		for line := range strings.Lines(string(data)) {
			w := strings.Fields(line)
			switch {
			case len(w) < 2 || !slices.Contains([]string{"nameserver", "search", "options"}, w[0]):
			case w[0] != "nameserver":
				out.WriteString(line)
			default:
				if a, err := netip.ParseAddr(w[1]); err == nil && a.Is4() && !a.IsLoopback() {
					found = true
					out.WriteString(line)
				}
			}
		}
		if found {
			return out.Bytes(), nil
		}
	}
	// Programs that forward questions do not start without a server to forward them to.
	return []byte("# the host names no server that machines can reach\nnameserver " + gateway.String() + "\n"), nil
}
