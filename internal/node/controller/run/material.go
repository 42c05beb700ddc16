package run

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/controller"
)

// materialPeriod is how often the authorities' files are checked.
const materialPeriod = 5 * time.Second

// current is a server with the authorities that are in their files now: nodeup rewrites the
// files when the cluster's authorities are replaced, while this process keeps running.
type current struct {
	conf  *controllerconfig.Config
	log   *slog.Logger
	sleep func(context.Context, time.Duration) error

	read   [sha256.Size]byte // a digest of the files that were read
	server atomic.Pointer[controller.Server]
}

// newCurrent reads the authorities of a server.
func newCurrent(conf *controllerconfig.Config, s *controller.Server, sleep func(context.Context, time.Duration) error) (*current, error) {
	c := &current{conf: conf, log: s.Log, sleep: sleep}
	c.server.Store(s)
	return c, c.load()
}

// ServeHTTP answers with the current authorities.
func (c *current) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.server.Load().ServeHTTP(w, r) }

// load reads the authorities, if their files have changed.
func (c *current) load() error {
	now, err := c.digest()
	if err != nil || now == c.read {
		return err
	}
	folder := os.DirFS(c.conf.Server.CABasePath)
	next := *c.server.Load()
	if next.Signers, err = controller.LoadSigners(folder, c.conf.Server.SigningCAs); err != nil {
		return err
	}
	if next.Trusted, err = controller.LoadTrusted(folder, pki.KubernetesCA); err != nil {
		return err
	}
	if again, err := c.digest(); err != nil || again != now {
		return err // they are being written; the next check reads them
	}
	c.server.Store(&next)
	c.read = now
	return nil
}

// digest returns the digest of all files of the authorities.
func (c *current) digest() (out [sha256.Size]byte, err error) {
	files, err := filepath.Glob(filepath.Join(c.conf.Server.CABasePath, "*"))
	if err != nil {
		return out, fmt.Errorf("look for the files of the authorities: %w", err)
	}
	slices.Sort(files)
	sum := sha256.New()
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return out, fmt.Errorf("stat the files of the authorities: %w", err)
		}
		if info.IsDir() {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			return out, fmt.Errorf("read the files of the authorities: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", f, len(text), text)
	}
	return [sha256.Size]byte(sum.Sum(nil)), nil
}

// watch checks the files until the context ends. While they cannot be read, or do not
// match, the server keeps the previous ones.
func (c *current) watch(ctx context.Context) error {
	for {
		if err := c.sleep(ctx, materialPeriod); err != nil {
			return err
		}
		before := c.read
		switch err := c.load(); {
		case err != nil:
			c.log.Warn("cannot read the authorities; continuing with the previous ones", "error", err)
		case c.read != before:
			c.log.Info("the authorities have changed")
		}
	}
}
