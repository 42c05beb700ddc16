// Package host defines a machine's own resources for the engine: files and folders, fetched files
// and what is unpacked from them, packages, users, kernel settings, file systems, systemd units,
// container images, and certificates with their keys.
//
// Only desired resources are observed: a machine has much that does not concern us. The package
// must not know which resources a machine of a cluster needs, nor any cloud. Of Kubernetes it
// knows only the format of a kubeconfig.
package host

import (
	"context"
	"crypto/x509"
	"io"
	"path/filepath"
	"sync"
	"time"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/resource"
)

// Machine is what the kinds operate on. Its fields must not change while it is used.
type Machine struct {
	// Root is the root of the machine's file system: "/", or a folder that stands for
	// a machine. Paths of resources are relative to it.
	Root string
	// Chown is set if owners of files can be set. Without it they are only remembered,
	// as long as the value lives.
	Chown bool
	// Command runs a program and returns its standard output; nil in a folder, where
	// no program can or need be run.
	Command func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Systemd manages units.
	Systemd Systemd
	// Fetch opens the content at a URL, as Open does.
	Fetch func(ctx context.Context, url string) (io.ReadCloser, error)
	// Cache is the folder of fetched files, as a path on the machine.
	Cache string
	// Silence is how long a sender of a file may send nothing before the next location is tried; 0
	// means a minute.
	Silence time.Duration
	// Authority issues certificates.
	Authority Authority
	Now       func() time.Time
	// Warn receives failures that may be ignored; may be nil.
	Warn func(text string)
	// BeforeRestart is called before a unit that runs with old content is restarted, after
	// everything that it depends on is done; may be nil.
	BeforeRestart func(ctx context.Context, unit string)
	// OnRewrite is called before an existing file is changed, and the function it
	// returns afterwards, before anything that depends on the file; both may be nil.
	OnRewrite func(path string) (after func(context.Context))

	mu     sync.Mutex
	owners map[string]owner // by path, without Chown
	edits  sync.Mutex       // held while a file with parts of several owners is rewritten
}

// Authority issues certificates.
type Authority interface {
	// Signer returns the keyset whose current key signed a certificate; "" if this
	// machine trusts no such keyset.
	Signer(*x509.Certificate) string
	// Issue issues a certificate for a new key. name is the authority's name for the
	// certificate, signer the keyset that signs it.
	Issue(ctx context.Context, name, signer string, r pki.Request) (pki.Pair, error)
}

// Kinds lists the kinds of this package.
func Kinds() []resource.Any {
	return []resource.Any{
		Directories.Erase(), Files.Erase(), Logs.Erase(), Symlinks.Erase(), Blocks.Erase(), Users.Erase(), PackageSets.Erase(), Modules.Erase(),
		SysctlFiles.Erase(), Mounts.Erase(), Assets.Erase(), Binaries.Erase(), Archives.Erase(), Certificates.Erase(), Units.Erase(), Images.Erase(), Readers.Erase(),
	}
}

// Owned lists what an object takes up on the machine, so that it can be removed when it is no
// longer wanted. The list is empty for an object of a kind that stays: one that others may use
// by now, or that replaces another of its kind.
func Owned(obj any) []string {
	switch o := obj.(type) {
	case *File:
		return []string{o.Path}
	case *Symlink:
		return []string{o.Path}
	case *SysctlFile:
		return []string{o.Path}
	case *Module:
		return []string{o.file()}
	case *Block:
		return []string{o.Path + "#" + o.Name}
	case *Certificate:
		return []string{o.Path, o.KeyPath}
	case *Asset:
		return []string{"asset " + o.File}
	case *Unit:
		if !o.Content.Value().IsZero() {
			return []string{unitFile(unitKey(o))}
		}
	}
	return nil
}

// path returns the path at which this process sees a path of the machine.
func (m *Machine) path(p string) string { return filepath.Join(m.Root, p) }

func (m *Machine) warn(text string) {
	if m.Warn != nil {
		m.Warn(text)
	}
}
