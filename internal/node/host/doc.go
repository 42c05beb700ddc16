// Package host is a machine's own resources as the engine sees them: files and
// folders, fetched files and what is unpacked from them, packages, users, kernel
// settings, file systems, systemd units, container images, and certificates with
// their keys.
//
// Only desired resources are observed: a machine holds much that is none of our business. It must
// not know which resources a machine of a cluster needs, nor any cloud. It knows as much of
// Kubernetes as a kubeconfig takes.
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

// Machine is what the kinds work on. Its fields must not change while it is used.
type Machine struct {
	// Root is where the machine's file system begins: "/", or a folder that
	// stands for a machine. Paths of resources are the machine's own.
	Root string
	// Chown says that owners of files can be set. Without it they are only
	// remembered, as long as the value lives.
	Chown bool
	// Command runs a program and returns what it wrote to its standard output;
	// nil in a folder, where nothing can be run and nothing needs to be.
	Command func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Systemd manages units.
	Systemd Systemd
	// Fetch opens what stands at a URL, as Open does.
	Fetch func(ctx context.Context, url string) (io.ReadCloser, error)
	// Cache is the folder of fetched files, as the machine's own path.
	Cache string
	// Silence is how long a sender of a file may be silent before the next place is tried; 0: a minute.
	Silence time.Duration
	// Authority has certificates issued.
	Authority Authority
	Now       func() time.Time
	// Warn receives failures that may be ignored; nil: nobody does.
	Warn func(text string)
	// BeforeRestart is called before a unit that runs with an old content is restarted, after
	// everything that it follows is done; nil: nobody waits.
	BeforeRestart func(ctx context.Context, unit string)
	// OnRewrite is called before a file is changed that is there, and what it returns
	// afterwards, before anything that follows the file; both may be nil.
	OnRewrite func(path string) (after func(context.Context))

	mu     sync.Mutex
	owners map[string]owner // by path, without Chown
	edits  sync.Mutex       // held while a file with several owners of its parts is rewritten
}

// Authority has certificates issued.
type Authority interface {
	// Signer names the keyset with whose current key a certificate was signed;
	// "" when it was none that this machine believes.
	Signer(*x509.Certificate) string
	// Issue has a certificate made for a new key. name is what the authority calls the
	// certificate, signer the keyset that is to sign it.
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
// longer wanted; nothing for an object of a kind that stays: one that others may use by now, or
// that replaces another of its kind.
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

// path is where a path of the machine is for this process.
func (m *Machine) path(p string) string { return filepath.Join(m.Root, p) }

func (m *Machine) warn(text string) {
	if m.Warn != nil {
		m.Warn(text)
	}
}
