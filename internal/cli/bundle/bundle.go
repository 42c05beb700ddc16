// Package bundle implements `kops bundle`: the folder with everything that machines fetch.
package bundle

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/ops/delivery"
	"kops.local/kops/internal/platform/providers"
	"kops.local/kops/world"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: "bundle", Short: "Collect the files and images of clusters in a folder, and serve them offline",
		Long: `A bundle is a folder with all files and container images that the machines of clusters
fetch, stored by digest. Clusters on this host are created from it and need no
internet. You can also serve it to machines elsewhere: set it as the file repository
and as the registry mirror in the cluster's spec.`,
		Example: `  kops bundle create --kubernetes-version 1.36.3
  kops bundle list
  kops bundle create --name cluster.example.com --dir ./bundle
  kops bundle diff --name cluster.example.com --dir ./bundle
  kops bundle verify --dir ./bundle
  kops bundle push s3://my-files/kops --dir ./bundle
  kops bundle pull s3://my-files/kops --dir ./bundle
  kops bundle serve --listen 10.0.0.1:3989 --dir ./bundle`}
	c.AddCommand(create(app), add(app), verify(app), diff(app), sign(app), push(app), pull(app), serve(app), list(app), extract(app), programs(app), version(app))
	return c
}

// folder returns the bundle's folder: the flag's, or the one for clusters on this host.
func folder(app *shell.App, flag string) (string, error) {
	if flag == "" {
		flag = app.Bundle()
	}
	dir, err := filepath.Abs(flag)
	if err != nil {
		return "", fmt.Errorf("find the folder of the bundle: %w", err)
	}
	return dir, nil
}

func dirFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "dir", "", "folder of the bundle (default $KOPS_BUNDLE, or bundle in kops' cache folder)")
}

// openBundle opens the bundle in a folder.
func openBundle(app *shell.App, flag string) (*bundle.Bundle, error) {
	dir, err := folder(app, flag)
	if err != nil {
		return nil, err
	}
	return bundle.Open(dir)
}

// creation has the flags of `kops bundle create`.
type creation struct {
	dir, kubernetes, networking, own string
	programs, arches                 []string
	add, addons                      []string
	offline, prune                   bool
	cluster                          describedCluster
}

func create(app *shell.App) *cobra.Command {
	var o creation
	c := shell.Cobra("create", "Create a bundle, or add to one", `
Create a bundle of everything that a cluster fetches, or add to an existing bundle.
The cluster is the one that --name or the file given with -f describes; its spec
determines which files and images, for which architectures and add-ons. Without either
flag, the bundle is for a new cluster on this host.

For a cluster in a cloud, binaries come from their publishers, unless --programs names
a folder with binaries that you built. Those have other digests, so the cluster must
trust the signed bundle ('kops bundle sign').

kops packs each file and image from the built binaries if a folder has them. Otherwise
it keeps the bundle's copy, or fetches the file from its publisher and compares it
with the digest that the publisher states. kops finds the binaries of 'make bundle'
and those next to itself.

A bundle can hold several versions of Kubernetes: run the command again for each
version. If anything is missing, the command lists all of it and leaves the bundle
unchanged.`, `
  # everything for the recommended version of Kubernetes
  kops bundle create

  # a cluster in the state store, and one that only a file describes
  kops bundle create --name cluster.example.com --dir ./bundle
  kops bundle create -f cluster.yaml --facts facts.yaml --dir ./bundle

  # in addition, the images of a pod network
  kops bundle create --networking cilium

  # in addition, the images of add-ons
  kops bundle create --addons metrics-server,cert-manager

  # another version, from binaries built elsewhere, without the internet
  kops bundle create --kubernetes-version 1.36.3 --programs ~/built --offline

  # one more image and one more file
  kops bundle create --add registry.k8s.io/metrics-server/metrics-server:v0.8.0 \
    --add https://example.com/tool.tgz`,
		func(ctx context.Context, _ []string) error { return o.run(ctx, app) })
	c.Args = shell.NoArguments("specify the cluster with --name")
	dirFlag(c, &o.dir)
	o.cluster.flags(c)
	f := c.Flags()
	f.StringVar(&o.kubernetes, "kubernetes-version", "", "Kubernetes version of a new cluster on this host (default: the recommended version)")
	f.StringVar(&o.networking, "networking", "", "pod network of a new cluster on this host, such as cilium (default: the one that needs no other images)")
	f.StringSliceVar(&o.addons, "addons", nil, "add-ons of a new cluster on this host")
	f.StringSliceVar(&o.programs, "programs", nil, "`folder`s of built binaries, NAME-VERSION-ARCH/bin/PROGRAM (default for clusters on this host: where make bundle puts them)")
	f.StringVar(&o.own, "own", "", "folder of kops' own binaries for machines, such as nodeup (default: the folder of kops)")
	f.StringSliceVar(&o.arches, "arch", nil, "architectures of the machines: amd64, arm64 (default: the architectures of the cluster's machines)")
	f.StringArrayVar(&o.add, "add", nil, "name of an image, or URL of a file, to add to the bundle")
	f.BoolVar(&o.offline, "offline", false, "fetch nothing; list what is missing")
	f.BoolVar(&o.prune, "prune", false, "remove contents that the bundle no longer lists; machines of older clusters may still need them")
	shell.Complete(c, "arch", archNames()...)
	shell.Choices(c, "addons", bundle.Addons)
	return c
}

func archNames() []string { return []string{string(download.AMD64), string(download.ARM64)} }

// hostArches returns the architecture of this computer, which machines of a cluster on it have.
func hostArches() []download.Arch { return []download.Arch{download.Arch(runtime.GOARCH)} }

func parseArches(names []string) ([]download.Arch, error) {
	var out []download.Arch
	for _, a := range names {
		if !slices.Contains(download.Arches(), download.Arch(a)) {
			return nil, shell.Usagef("unknown architecture: %q; use amd64 or arm64", a)
		}
		out = append(out, download.Arch(a))
	}
	return out, nil
}

func (o creation) run(ctx context.Context, app *shell.App) error {
	dir, err := folder(app, o.dir)
	if err != nil {
		return err
	}
	if o.own == "" {
		o.own = filepath.Dir(app.Program)
	}
	arches, err := parseArches(o.arches)
	if err != nil {
		return err
	}
	want, arches, archive, published, err := o.want(ctx, app, arches)
	if err != nil {
		return err
	}
	if built := app.Built(); len(o.programs) == 0 && built != "" && (!published || app.Rehearses()) {
		o.programs = []string{built}
	}
	for _, a := range o.add {
		if strings.Contains(a, "://") {
			want.Files[a] = ""
		} else if !slices.Contains(want.Images, a) {
			want.Images = append(want.Images, a)
		}
	}
	options := bundle.Options{Dir: dir, Want: want, Arches: arches, Programs: o.programs, OwnPrograms: o.own, Archive: archive, Keychain: authn.DefaultKeychain,
		Prune: o.prune, Now: app.Now(), Progress: progress(app)}
	if !o.offline {
		options.HTTP = world.Client(publishers())
	}
	b, err := bundle.Create(ctx, options)
	if err != nil {
		return err
	}
	app.Printf("The bundle %s holds %d files and %d images, %s\n", dir, len(b.Files()), len(b.Images()), megabytes(total(b)))
	if app.Rehearses() {
		app.Notef("A rehearsal serves the bundle as it was when the rehearsal started: exit the rehearsal, and start it again\n")
	}
	return nil
}

// want returns the content that the bundle should have, its architectures, the archive of kops'
// own programs if it comes from there, and whether the rest is taken as published: machines that
// get no digests from the bundle know the publishers' digests.
func (o creation) want(ctx context.Context, app *shell.App, arches []download.Arch) (_ bundle.Want, _ []download.Arch, _ *delivery.Archive, published bool, err error) {
	if !o.cluster.isSet(app) {
		if len(arches) == 0 {
			arches = hostArches()
		}
		want, err := bundle.ForDefault(providers.Of("local"), bundle.Default{Kops: app.Version, Kubernetes: o.kubernetes, Networking: o.networking, Addons: o.addons}, arches)
		return want, arches, nil, false, err
	}
	if o.kubernetes != "" || o.networking != "" || len(o.addons) > 0 {
		return bundle.Want{}, nil, nil, false, shell.Usagef("--kubernetes-version, --networking and --addons are for a new cluster on this host; the cluster of --name or -f sets its own")
	}
	a, err := o.cluster.assets(ctx, app, arches)
	if err != nil {
		return bundle.Want{}, nil, nil, false, err
	}
	return WantOf(a), a.Arches, a.Archive, a.Bundle == "", nil
}

func version(app *shell.App) *cobra.Command {
	c := shell.Cobra("version", "Print the Kubernetes version that bundles are created for", `
Print the Kubernetes version that new clusters and 'kops bundle create' use by
default.`, `
  kops bundle version`,
		func(context.Context, []string) error {
			want, err := bundle.ForDefault(providers.Of("local"), bundle.Default{Kops: app.Version}, nil)
			if err != nil {
				return err
			}
			app.Printf("%s\n", strings.TrimPrefix(want.Kubernetes, "v"))
			return nil
		})
	c.Args = shell.NoArguments("")
	return c
}

// publishers returns a transport to the places of releases that reports soon when they cannot be
// reached.
func publishers() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	t.ResponseHeaderTimeout = 30 * time.Second
	return t
}

// progress returns a function that prints each step.
func progress(app *shell.App) func(string) {
	return func(step string) { app.Notef("%s\n", step) }
}

func verify(app *shell.App) *cobra.Command {
	var dir string
	var keys []string
	c := shell.Cobra("verify", "Check all contents of a bundle against their digests", `
Read every file and all contents of images, and compare them with their digests. The
command names each file that differs; 'kops bundle create' restores it.

With --key, the bundle must also be signed by one of the public keys.`, `
  kops bundle verify
  kops bundle verify --dir /srv/bundle --key key.pub`,
		func(ctx context.Context, _ []string) error {
			b, err := openBundle(app, dir)
			if err != nil {
				return err
			}
			if _, err := verifySignature(ctx, app, b, keys); err != nil {
				return err
			}
			if err := b.Verify(ctx, progress(app)); err != nil {
				return err
			}
			app.Printf("The bundle %s is unchanged: %d files and %d images, %s\n", b.Dir(), len(b.Files()), len(b.Images()), megabytes(total(b)))
			return nil
		})
	c.Args = shell.NoArguments("")
	dirFlag(c, &dir)
	keyFlag(c, &keys)
	return c
}

func serve(app *shell.App) *cobra.Command {
	var dir, listen string
	var keys []string
	c := shell.Cobra("serve", "Serve a bundle to machines", `
Serve a bundle over HTTP until the command is interrupted: each file under the path of
its public URL, and the images as a registry that mirrors all other registries. Before
that, the command compares every file and image with its digest. When bundle.json
changes while it is served, the command compares what is new, and then serves it too.
It does not notice a file that is replaced by another of the same size; machines
compare what they fetch.

With --key, the bundle, and each later version of it that is served, must be signed by
one of the public keys. Use it for a bundle that came from elsewhere.

To use the server, set spec.assets.fileRepository of a cluster to its address, and set
the mirror "*" in spec.containerd.registryMirrors. Clusters on this host need no
server: kops serves the bundle to them.`, `
  kops bundle serve
  kops bundle serve --listen 10.0.0.1:3989 --dir /srv/bundle --key key.pub`,
		func(ctx context.Context, _ []string) error {
			b, err := openBundle(app, dir)
			if err != nil {
				return err
			}
			trusted, err := verifySignature(ctx, app, b, keys)
			if err != nil {
				return err
			}
			if err := b.Verify(ctx, progress(app)); err != nil {
				return err
			}
			h, err := b.Handler(trusted...)
			if err != nil {
				return err
			}
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
			if err != nil {
				return fmt.Errorf("serve the bundle: %w", err)
			}
			app.Notef("Serving %s on http://%s\n", b.Dir(), l.Addr())
			return serveUntil(ctx, &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}, l)
		})
	c.Args = shell.NoArguments("")
	dirFlag(c, &dir)
	keyFlag(c, &keys)
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:3989", "address and port to listen on")
	return c
}

// serveUntil serves until ctx ends. Responses under way have some seconds to finish.
func serveUntil(ctx context.Context, s *http.Server, l net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve the bundle: %w", err)
	case <-ctx.Done():
	}
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*time.Second)
	defer cancel()
	if err := s.Shutdown(soon); err != nil {
		return s.Close()
	}
	return nil
}

// item is a line of the list.
type item struct {
	Name      string        `json:"name"`
	Digest    string        `json:"digest"`
	Size      int64         `json:"size"` // bytes
	Source    bundle.Source `json:"source"`
	Platforms []string      `json:"platforms,omitempty"`
}

// listing is the output of `kops bundle list`.
type listing struct {
	Dir      string          `json:"dir"`
	Created  time.Time       `json:"created"`
	Versions bundle.Versions `json:"versions"`
	Files    []item          `json:"files"`
	Images   []item          `json:"images"`
}

func list(app *shell.App) *cobra.Command {
	var dir, format string
	c := shell.Cobra("list", "List the files and images of a bundle", `
List the files of a bundle by public URL and its images by name, with their digests.
The list shows which of them were packed from built binaries and which come from their
publisher.`, `
  kops bundle list
  kops bundle list -o json`,
		func(_ context.Context, _ []string) error {
			if err := shell.CheckFormat(format, shell.Table, shell.JSON, shell.YAML); err != nil {
				return err
			}
			b, err := openBundle(app, dir)
			if err != nil {
				return err
			}
			l := newListing(b)
			return app.PrintAs(format, l, func() error {
				var rows [][]string
				for _, i := range append(l.Files, l.Images...) {
					rows = append(rows, []string{i.Name, megabytes(i.Size), string(i.Source), i.Digest})
				}
				return app.PrintTable([]string{"NAME", "SIZE", "SOURCE", "DIGEST"}, rows)
			})
		})
	c.Args = shell.NoArguments("")
	dirFlag(c, &dir)
	c.Flags().StringVarP(&format, "output", "o", shell.Table, "format: table, yaml or json")
	shell.Complete(c, "output", shell.Table, shell.JSON, shell.YAML)
	return c
}

func newListing(b *bundle.Bundle) listing {
	l := listing{Dir: b.Dir(), Created: b.Created(), Versions: b.Versions(), Files: []item{}, Images: []item{}}
	files, images := b.Files(), b.Images()
	for _, u := range slices.Sorted(maps.Keys(files)) {
		l.Files = append(l.Files, item{u, "sha256:" + files[u].SHA256, files[u].Size, files[u].Source, nil})
	}
	for _, n := range slices.Sorted(maps.Keys(images)) {
		l.Images = append(l.Images, item{n, images[n].Digest, images[n].Size, images[n].Source, images[n].Platforms})
	}
	return l
}

// total returns the size of all files and images, in bytes; shared contents count for each image.
func total(b *bundle.Bundle) int64 {
	var sum int64
	for _, f := range b.Files() {
		sum += f.Size
	}
	for _, i := range b.Images() {
		sum += i.Size
	}
	return sum
}

func megabytes(size int64) string { return fmt.Sprintf("%.1f MB", float64(size)/1e6) }
