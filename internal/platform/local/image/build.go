package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/local/site"
)

// Exists reports whether the recipe's image is in the cache.
func (r Recipe) Exists(cache string) (bool, error) {
	_, err := os.Stat(r.Root(cache))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Ensure builds the recipe's image, unless it is in the cache, and returns its
// root folder. It waits for another build of the same image. debootstrap's
// messages go to log, which may be nil.
func (r Recipe) Ensure(ctx context.Context, cache string, log io.Writer) (string, error) {
	root := r.Root(cache)
	if ok, err := r.Exists(cache); ok || err != nil {
		return root, err
	}
	here := site.Site{Root: filepath.Join(cache, "images"), Cluster: r.Digest()}
	unlock, err := here.Lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if ok, err := r.Exists(cache); ok || err != nil {
		return root, err
	}
	draft := here.Path("draft")
	if err := os.RemoveAll(draft); err != nil { // left by an interrupted build
		return "", fmt.Errorf("build the image: %w", err)
	}
	err = r.build(ctx, draft, log)
	if err == nil {
		err = os.Rename(draft, root)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("build the image %s: %w", r.Digest(), err), os.RemoveAll(draft))
	}
	return root, nil
}

func (r Recipe) build(ctx context.Context, dir string, log io.Writer) error {
	if err := r.debootstrap(ctx, dir, log); err != nil {
		return err
	}
	for _, name := range removedPaths() {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for _, l := range extraLinks() {
		at := filepath.Join(dir, l.Path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(l.Target, at); err != nil {
			return err
		}
	}
	for _, f := range extraFiles() {
		mode := fs.FileMode(0o644)
		if f.Executable {
			mode = 0o755
		}
		if err := site.Write(filepath.Join(dir, f.Path), []byte(f.Text), mode); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o755)
}

// debootstrap installs the packages. Its mounts are in a mount namespace of their
// own, which disappears with it however it exits.
func (r Recipe) debootstrap(ctx context.Context, dir string, log io.Writer) error {
	r = r.withDefaults()
	if log == nil {
		log = io.Discard
	}
	var tail bytes.Buffer
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--propagation", "private",
		"env", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "debootstrap", "--variant=minbase", "--include="+strings.Join(r.Packages, ","), r.Release, dir, r.Mirror)
	cmd.Stdout = io.MultiWriter(log, &tail)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(tail.String()), "\n")
		return fault.Wrap(fault.Permanent, fmt.Errorf("debootstrap: %w: %s", err, strings.Join(lines[max(0, len(lines)-4):], "; ")),
			"check that "+r.Mirror+" can be reached from this host; if that needs a proxy, set http_proxy")
	}
	return nil
}
