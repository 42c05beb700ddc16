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

// fetches is how many files and images are fetched at once.
const fetches = 4

// Options say what a bundle is made of.
type Options struct {
	// Dir is the folder of the bundle. It is made when it does not exist.
	Dir  string
	Want Want
	// Arches are the architectures of machines; images are made for all of them.
	Arches []download.Arch
	// Programs are folders of built programs, NAME-VERSION-ARCH/bin/PROGRAM with
	// PROGRAM.sha256 beside, the first to be looked into first.
	Programs []string
	// Own is the folder of kops' own programs for machines: nodeup, go-runner and
	// so on, or in it folders linux-ARCH of them.
	Own string
	// Archive has kops' own programs as they travel with clusters; nil: they come from Own.
	Archive *delivery.Archive
	// Saved are archives of images of the user's, as docker save writes them, by image.
	Saved map[string]string
	// HTTP reaches the publishers of files and images that were not built; nil: nothing is
	// fetched.
	HTTP *http.Client
	// Keychain has the credentials of registries; nil means none.
	Keychain authn.Keychain
	// Prune removes contents that the bundle does not name any more. Machines of
	// clusters that were made earlier may still want them.
	Prune bool
	// Now is the time that the bundle notes.
	Now time.Time
	// Progress is called with each step; it may be nil.
	Progress func(string)
}

// Create makes a bundle, or adds to one and replaces what has changed. Each file
// and image comes from built programs if there are any; else it stays as the
// bundle has it; else it is fetched from its publisher. If something is not
// available, the error names all such items, and the bundle stays as it was.
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
	m := &maker{Options: o, area: a, programs: folders{o.Programs, o.Own}, refused: map[string]error{}}
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

// with adds a value to a sorted list that lacks it.
func with(list []string, value string) []string {
	if value == "" || slices.Contains(list, value) {
		return list
	}
	list = append(slices.Clone(list), value)
	slices.Sort(list)
	return list
}

// maker makes one bundle.
type maker struct {
	Options
	area     *area
	programs folders
	// fetches and packs are the steps to do, in order.
	fetches, packs []step

	mu      sync.Mutex       // of what follows, and of the progress
	refused map[string]error // what cannot be had, and why
}

// step makes one file or image.
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
		tagged, digest := pinned(n)
		if _, err := fullName(tagged); err != nil {
			m.refuse(n, err)
			continue
		}
		if other := digests[tagged]; other != "" && digest != "" && other != digest {
			m.refuse(tagged, fmt.Errorf("it is wanted as %s and as %s", other, digest))
			continue
		}
		digests[tagged] = cmp.Or(digest, digests[tagged])
	}
	for _, n := range slices.Sorted(maps.Keys(digests)) {
		m.image(n, digests[n])
	}
	return nil
}

// notPacked is why something that kops has no recipe of is not packed.
const notPacked = absent("kops does not build it")

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
	m.otherwise(url, why, r.ours(), held, func(ctx context.Context) error {
		compared := false
		err := m.area.file(url, Published, func(w io.Writer) (err error) {
			compared, err = m.publishers().file(ctx, url, known, w)
			return err
		})
		if err == nil && !compared {
			m.tell("its publisher states no digest for " + url)
		}
		return err
	})
}

// image plans an image; digest is the one that is wanted, or "".
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
			m.packs = append(m.packs, step{image, func(context.Context) error { return m.pack(image, r, trees) }})
			return
		}
	}
	held := func() bool {
		return m.area.holdsImage(image, m.Arches) && (digest == "" || m.area.was.contents.Images[image].Digest == digest)
	}
	m.otherwise(image, why, r.ours, held, func(ctx context.Context) error {
		return m.publishers().image(ctx, m.area, image, digest, m.Arches)
	})
}

// pack makes an image for each architecture.
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

// otherwise plans what no programs are there for; why says which are missing.
// kops' own programs are only taken from this machine: those that others publish
// under the same names are not these.
func (m *maker) otherwise(name string, why error, ours bool, held func() bool, fetch func(context.Context) error) {
	gone := absent("")
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

// run fetches, some at once, and then packs, unless something is missing by then.
// Each fails with all that failed.
func (m *maker) run(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(fetches)
	for _, s := range m.fetches {
		g.Go(func() error { return m.step(ctx, s, "fetching ") })
	}
	if err := errors.Join(g.Wait(), m.refusal()); err != nil {
		return err
	}
	for _, s := range m.packs {
		if err := m.step(ctx, s, "packing "); err != nil {
			return err
		}
	}
	return m.refusal()
}

// step does a step and notes its error; it returns only the context's error.
func (m *maker) step(ctx context.Context, s step, verb string) error {
	if ctx.Err() == nil {
		m.tell(verb + s.name)
		if err := s.do(ctx); err != nil {
			m.refuse(s.name, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("create the bundle: %w", err)
	}
	return nil
}

// tell reports a step, one at a time.
func (m *maker) tell(step string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Progress(step)
}

func (m *maker) refuse(name string, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused[name] = why
}

// refusal is the error that names all that cannot be had, or nil.
func (m *maker) refusal() error {
	if len(m.refused) == 0 {
		return nil
	}
	var text strings.Builder
	remedy := ""
	for _, n := range slices.Sorted(maps.Keys(m.refused)) {
		err := m.refused[n]
		fmt.Fprintf(&text, "\n  %s: %v", n, err)
		if r := fault.Remedy(err); r != "" {
			text.WriteString("; " + r)
		}
		if gone := absent(""); errors.As(err, &gone) {
			remedy = "build the programs with `make bundle`, or name folders that have them with --programs and --own"
		}
	}
	if remedy != "" {
		text.WriteString("\n" + remedy)
	}
	return fault.Wrap(fault.Permanent, fmt.Errorf("the bundle is unchanged; %d of %d files and images are not available:%s",
		len(m.refused), len(m.Want.Files)+len(m.Want.Images), &text), remedy)
}
