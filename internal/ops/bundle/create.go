package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/delivery"
)

// fetches is how many files and images are fetched concurrently.
const fetches = 4

// Options specify what a bundle is created from.
type Options struct {
	// Dir is the folder of the bundle. It is created if it does not exist.
	Dir  string
	Want Want
	// Arches are the architectures of machines; images are built for all of them.
	Arches []download.Arch
	// Programs are folders of built programs, NAME-VERSION-ARCH/bin/PROGRAM with PROGRAM.sha256
	// next to it, in search order.
	Programs []string
	// OwnPrograms is the folder of kops' own programs for machines: nodeup, go-runner and so on,
	// directly or in subfolders linux-ARCH.
	OwnPrograms string
	// Archive has kops' own programs as they are delivered with clusters; if nil, they come from
	// OwnPrograms.
	Archive *delivery.Archive
	// Saved are archives of the user's own images, as docker save writes them, by image.
	Saved map[string]string
	// HTTP reaches the publishers of files and images that were not built; if nil, nothing is
	// fetched.
	HTTP *http.Client
	// Keychain has the credentials for registries; nil means none.
	Keychain authn.Keychain
	// Prune removes contents that the bundle no longer names. Machines of clusters that were
	// created earlier may still need them.
	Prune bool
	// Now is the creation time that the bundle records.
	Now time.Time
	// Progress is called with each step; it may be nil.
	Progress func(string)
}

// Create creates a bundle, or adds to one and replaces what has changed. Each file and image comes
// from built programs if possible; otherwise the bundle's own copy is kept, or it is fetched from
// its publisher. If anything is not available, the error names all such items, and the bundle stays
// unchanged.
func Create(ctx context.Context, o Options) (*Bundle, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Keychain == nil {
		o.Keychain = authn.NewMultiKeychain()
	}
	a, err := openArea(o.Dir)
	if err != nil {
		return nil, err
	}
	defer a.close()
	m := &maker{Options: o, area: a, programs: folders{o.Programs, o.OwnPrograms}, unavailable: map[string]error{}}
	if err := m.plan(); err != nil {
		return nil, err
	}
	if err := m.run(ctx); err != nil {
		return nil, err
	}
	a.next.Created = o.Now.UTC()
	a.next.Versions.Kops = with(a.next.Versions.Kops, o.Want.Kops)
	a.next.Versions.Kubernetes = with(a.next.Versions.Kubernetes, strings.TrimPrefix(o.Want.Kubernetes, "v"))
	b, err := a.commit()
	if err == nil && o.Prune {
		err = b.prune()
	}
	return b, err
}

// with adds a value to a sorted list unless it is already there.
func with(list []string, value string) []string {
	if value == "" || slices.Contains(list, value) {
		return list
	}
	list = append(slices.Clone(list), value)
	slices.Sort(list)
	return list
}

// maker creates one bundle.
type maker struct {
	Options
	area     *area
	programs folders
	// fetches and packs are the steps to carry out, in order.
	fetches, packs []step

	mu          sync.Mutex       // guards what follows, and Progress
	unavailable map[string]error // what is not available, and why
}

// step creates one file or image.
type step struct {
	name string
	do   func(context.Context) error
}

// plan finds where each file and image comes from. Nothing is packed yet, so that
// a missing program is reported before any step that takes long.
func (m *maker) plan() error {
	if err := m.area.supersede(m.Want.Files); err != nil {
		return err
	}
	for _, u := range slices.Sorted(maps.Keys(m.Want.Files)) {
		m.file(u, m.Want.Files[u])
	}
	digests := map[string]string{}
	for _, n := range slices.Sorted(slices.Values(m.Want.Images)) {
		tagged, digest := splitDigest(n)
		if _, err := fullName(tagged); err != nil {
			m.refuse(n, err)
			continue
		}
		if other := digests[tagged]; other != "" && digest != "" && other != digest {
			m.refuse(tagged, fmt.Errorf("it is required with two different digests, %s and %s", other, digest))
			continue
		}
		digests[tagged] = cmp.Or(digest, digests[tagged])
	}
	for _, n := range slices.Sorted(maps.Keys(digests)) {
		m.image(n, digests[n])
	}
	return nil
}

// notPacked is the reason why something for which kops has no recipe is not packed.
const notPacked = missingPrograms("kops does not build it")

// file plans a file.
func (m *maker) file(url, known string) {
	if do := m.archivedFile(url); do != nil {
		m.packs = append(m.packs, step{url, do})
		return
	}
	why := error(notPacked)
	r, version, arch, ok := fileRecipeFor(url)
	if ok {
		t := tree{}
		if why = m.programs.collect(t, r.parts, "v"+version, arch); why == nil {
			m.packs = append(m.packs, step{url, func(context.Context) error {
				return m.area.file(url, Built, func(w io.Writer) error { return r.write(w, t) })
			}})
			return
		}
	}
	held := func() bool { return m.area.holdsFile(url) }
	m.planWithoutPrograms(url, why, r.isOwn(), held, func(ctx context.Context) error {
		compared := false
		err := m.area.file(url, Published, func(w io.Writer) (err error) {
			compared, err = m.publishers().file(ctx, url, known, w)
			return err
		})
		if err == nil && !compared {
			m.report("its publisher states no digest for " + url)
		}
		return err
	})
}

// image plans an image; digest is the wanted one, or "".
func (m *maker) image(image, digest string) {
	if do := m.archivedImage(image); do != nil {
		m.packs = append(m.packs, step{image, do})
		return
	}
	why := error(notPacked)
	r, tag, ok := imageRecipeFor(image)
	if ok && digest == "" {
		var trees map[download.Arch]tree
		if trees, why = r.trees(m.programs, tag, m.Arches); why == nil {
			if r.content, why = r.describe(m.programs, tag, m.Arches); why != nil {
				m.refuse(image, why)
				return
			}
			m.packs = append(m.packs, step{image, func(context.Context) error { return m.pack(image, r, trees) }})
			return
		}
	}
	if r.network != "" {
		why = fault.Wrap(fault.Permanent, why, "build it with `make programs NETWORK="+r.network+"`")
	}
	if r.addon != "" {
		why = fault.Wrap(fault.Permanent, why, "build it with `make programs ADDONS="+r.addon+"`")
	}
	held := func() bool {
		return m.area.holdsImage(image, m.Arches) && (digest == "" || m.area.previous.contents.Images[image].Digest == digest)
	}
	m.planWithoutPrograms(image, why, r.isOwn, held, func(ctx context.Context) error {
		return m.publishers().image(ctx, m.area, image, digest, m.Arches)
	})
}

// pack builds an image for each architecture.
func (m *maker) pack(image string, r imageRecipe, trees map[download.Arch]tree) error {
	var manifests []v1.Descriptor
	for _, arch := range slices.Sorted(maps.Keys(trees)) {
		d, err := m.area.pack(trees[arch], r, arch)
		if err != nil {
			return err
		}
		manifests = append(manifests, d)
	}
	return m.area.image(image, manifests, Built)
}

// planWithoutPrograms plans an item whose programs are missing; why names them. kops' own programs
// are only taken from this machine: what others publish under the same names is something else.
func (m *maker) planWithoutPrograms(name string, why error, ours bool, held func() bool, fetch func(context.Context) error) {
	gone := missingPrograms("")
	switch {
	case !errors.As(why, &gone):
		m.refuse(name, why)
	case held():
	case ours, m.HTTP == nil:
		m.refuse(name, why)
	default:
		m.fetches = append(m.fetches, step{name, func(ctx context.Context) error {
			if err := fetch(ctx); err != nil {
				return fmt.Errorf("%w; %w", why, err)
			}
			return nil
		}})
	}
}

func (m *maker) publishers() publishers { return publishers{m.HTTP, m.Keychain} }

// run fetches, some of it concurrently, and then packs, unless something is missing by then. Each
// phase returns all its errors.
func (m *maker) run(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(fetches)
	for _, s := range m.fetches {
		g.Go(func() error { return m.step(ctx, s, "fetching ") })
	}
	if err := errors.Join(g.Wait(), m.unavailableError()); err != nil {
		return err
	}
	for _, s := range m.packs {
		if err := m.step(ctx, s, "packing "); err != nil {
			return err
		}
	}
	return m.unavailableError()
}

// step runs a step and records its error; it returns only the context's error.
func (m *maker) step(ctx context.Context, s step, verb string) error {
	if ctx.Err() == nil {
		m.report(verb + s.name)
		if err := s.do(ctx); err != nil {
			m.refuse(s.name, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("create the bundle: %w", err)
	}
	return nil
}

// report reports progress, one step at a time.
func (m *maker) report(step string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Progress(step)
}

func (m *maker) refuse(name string, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unavailable[name] = why
}

// unavailableError returns an error that names all items that are not available, or nil.
func (m *maker) unavailableError() error {
	if len(m.unavailable) == 0 {
		return nil
	}
	var text strings.Builder
	remedy := ""
	for _, n := range slices.Sorted(maps.Keys(m.unavailable)) {
		err := m.unavailable[n]
		fmt.Fprintf(&text, "\n  %s: %v", n, err)
		if r := fault.Remedy(err); r != "" {
			text.WriteString("; " + r)
		}
		if gone := missingPrograms(""); errors.As(err, &gone) {
			remedy = "build the programs with `make bundle`, or name folders that have them with --programs and --own"
		}
	}
	if remedy != "" {
		text.WriteString("\n" + remedy)
	}
	return fault.Wrap(fault.Permanent, fmt.Errorf("the bundle is unchanged; %d of %d files and images are not available:%s",
		len(m.unavailable), len(m.Want.Files)+len(m.Want.Images), &text), remedy)
}
