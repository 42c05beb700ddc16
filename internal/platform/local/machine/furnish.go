package machine

import (
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

	"kops.local/kops/internal/platform/local/localcloud"
	"kops.local/kops/internal/platform/local/site"
)

// diskFolders returns the folders that are directly on a machine's disk and not in the overlay that is
// its root: overlayfs cannot be stacked on overlayfs, and the host must find logs.
func diskFolders() []string {
	return []string{"/var/lib/containerd", "/var/lib/kubelet", "/var/lib/etcd", "/var/log"}
}

// diskDir returns where a folder of the machine is below the machine's own folder.
func diskDir(dir, path string) string { return filepath.Join(dir, diskMount, path) }

// seedFolder contains a machine's input. In the overlay it is above the image, and below the files
// that the machine writes.
const seedFolder = "seed"

// createFolder creates the content of a machine's folder, except its disk.
func (h Host) createFolder(dir string, s Spec, mem memory) error {
	for _, d := range []string{seedFolder, diskMount, "root"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
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
	capabilities, err := capabilityFiles()
	if err != nil {
		return err
	}
	files = append(append(files, capabilities...), seedFile{localcloud.KeyFile, key, 0o600}, seedFile{"/etc/kops/meminfo", formatMeminfo(mem.table, mem.limitFor(s)), 0o444})
	for _, f := range files {
		if err := site.Write(filepath.Join(dir, seedFolder, f.path), f.data, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// register creates a key for the machine, writes its public half to the registry and
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
	data, err := json.MarshalIndent(localcloud.Machine{Name: s.Name, Group: s.Group, Address: s.Address.Addr().String(),
		PublicKey: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub})), Labels: s.Labels}, "", "  ")
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: priv}),
		site.Write(h.Path(site.Registry, s.Name+localcloud.MachineSuffix), append(data, '\n'), 0o644)
}

// seedDir is where a machine finds its cloud's metadata, in cloud-init's NoCloud format.
const seedDir = "/var/lib/cloud/seed/nocloud/"

// seedFile is a file that a machine gets on top of its image.
type seedFile struct {
	path string
	data []byte
	mode fs.FileMode
}

func (s Spec) files() ([]seedFile, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	meta, err := json.MarshalIndent(map[string]any{"instance-id": hex.EncodeToString(id), "local-hostname": s.Name,
		"group": s.Group, "address": s.Address.Addr(), "gateway": s.Gateway, "labels": s.Labels}, "", "  ")
	if err != nil {
		return nil, err
	}
	resolv := []byte("nameserver " + s.Resolver.String() + "\n")
	if !s.Resolver.IsValid() {
		if resolv, err = resolvers(s.Gateway, "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"); err != nil {
			return nil, err
		}
	}
	out := []seedFile{
		{"/etc/machine-id", []byte(hex.EncodeToString(id) + "\n"), 0o444},
		{"/etc/hostname", []byte(s.Name + "\n"), 0o644},
		{"/etc/hosts", []byte("127.0.0.1 localhost\n" + s.Address.Addr().String() + " " + s.Name + "\n"), 0o644},
		{"/etc/resolv.conf", resolv, 0o644},
		{"/etc/systemd/network/10-host0.network", fmt.Appendf(nil,
			"[Match]\nName=host0\n\n[Network]\nAddress=%s\nGateway=%s\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n", s.Address, s.Gateway), 0o644},
		{seedDir + "meta-data", append(meta, '\n'), 0o644}, // JSON is YAML
		{seedDir + "user-data", []byte(s.UserData), 0o600},
	}
	for p, data := range s.Files {
		out = append(out, seedFile{p, data, 0o644})
	}
	scripts, err := Scripts(s.UserData)
	if err != nil {
		return nil, err
	}
	for i, x := range scripts {
		out = append(out, seedFile{fmt.Sprintf("/var/lib/cloud/instance/scripts/%02d-%s", i, x.Name), []byte(x.Text), 0o700})
	}
	return out, nil
}

// resolvers returns a resolv.conf based on the first file that names a server which machines can
// reach: an IPv4 address, as machines have no IPv6, and not on the host's loopback.
func resolvers(gateway netip.Addr, files ...string) ([]byte, error) {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // another may be usable
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
	// DNS forwarders do not start without an upstream server.
	return []byte("# the host names no server that machines can reach\nnameserver " + gateway.String() + "\n"), nil
}
