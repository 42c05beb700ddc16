package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
)

// HostsFile maintains the names of the peers in a hosts file, in its own block
// between two lines. The file is written in place, because in a pod it is a mount.
type HostsFile struct {
	Path string
	// Cluster names the block, so that managers of several clusters can share a file.
	Cluster string
	// Suffix follows a peer's name in its host name, such as .internal.example.com.
	Suffix string
}

// Update writes the addresses of peers, given as name and endpoint. Peers that
// were written before and are missing now stay.
func (h HostsFile) Update(ctx context.Context, endpoints map[string]string) error {
	begin := "# Begin host entries managed by etcd-manager[" + h.Cluster + "] - do not edit"
	end := "# End host entries managed by etcd-manager[" + h.Cluster + "]"
	text, err := os.ReadFile(h.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the names of hosts: %w", err)
	}
	before, block, after := cutBlock(string(text), begin, end)
	entries := map[string]string{}
	for line := range strings.Lines(block) {
		if f := strings.Fields(line); len(f) == 2 {
			entries[f[1]] = f[0]
		}
	}
	for id, endpoint := range endpoints {
		address, err := resolve(ctx, endpoint)
		if err != nil {
			continue // its last address stays
		}
		entries[id+h.Suffix] = address
	}
	var b strings.Builder
	b.WriteString(before + begin + "\n")
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		b.WriteString(entries[name] + "\t" + name + "\n")
	}
	b.WriteString(end + "\n" + after)
	if b.String() == string(text) {
		return nil
	}
	if err := overwrite(h.Path, text, []byte(b.String())); err != nil {
		return fmt.Errorf("write the names of hosts: %w", err)
	}
	return nil
}

// overwrite replaces a file's content in place, and never leaves it empty
// meanwhile: the names before the first one that differs can be looked up all the
// time.
func overwrite(path string, old, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(rewrite(f, old, text), f.Close())
}

// content is the interface of a file to be rewritten.
type content interface {
	io.WriterAt
	Truncate(size int64) error
}

// rewrite replaces the old content. The file is first extended with empty lines,
// so that a full disk is noticed before anything is lost; after an error the old
// content is restored.
func rewrite(f content, old, text []byte) error {
	size := int64(len(old))
	if more := len(text) - len(old); more > 0 {
		if _, err := f.WriteAt(bytes.Repeat([]byte("\n"), more), size); err != nil {
			return errors.Join(err, f.Truncate(size))
		}
	}
	if _, err := f.WriteAt(text, 0); err != nil {
		_, failed := f.WriteAt(old, 0)
		if failed == nil {
			failed = f.Truncate(size)
		}
		return errors.Join(err, failed)
	}
	return f.Truncate(int64(len(text)))
}

// cutBlock returns what is before the first line, between the two, and after the second.
func cutBlock(text, begin, end string) (before, block, after string) {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	before, rest, ok := strings.Cut(text, begin+"\n")
	if !ok {
		return text, "", ""
	}
	block, after, ok = strings.Cut(rest, end+"\n")
	if !ok {
		return before, "", rest // the end is missing; lines of others must not be lost
	}
	return before, block, after
}

// resolve returns the address of an endpoint's host.
func resolve(ctx context.Context, endpoint string) (string, error) {
	host, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		return "", err
	}
	if net.ParseIP(host) != nil {
		return host, nil
	}
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return "", err
	}
	return found[0], nil
}
