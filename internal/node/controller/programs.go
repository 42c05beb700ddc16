package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// Programs serves kops' own programs from the cluster's store, by their digests, to machines that
// have not proven their identity yet: a worker may not read the store, and needs nodeup to prove
// who it is. It serves no secrets, and nothing but programs.
type Programs struct {
	base   Folder
	now    func() time.Time
	gate   *Gate
	flight singleflight.Group

	mu     sync.Mutex
	there  map[string]store.Info // what the store has, by key
	listed time.Time
	wrong  map[string]store.Version // those whose content has another digest
	held   map[string][]byte        // by key
	order  []string                 // of the keys, the latest last
	size   int
}

// Folder is the cluster's folder in the store.
type Folder interface {
	Reader
	// List yields the objects whose keys begin with a prefix.
	List(ctx context.Context, prefix string) iter.Seq2[store.Info, error]
}

// NewPrograms serves the programs below base. It has a gate of its own, so that long
// downloads keep no machine from joining.
func NewPrograms(base Folder, now func() time.Time) *Programs {
	return &Programs{base: base, now: now, gate: newGate(now, programsPerSecond), wrong: map[string]store.Version{}}
}

const (
	// programsPerSecond is how often one sender may ask in the long run. A machine asks once.
	programsPerSecond = 5
	// listAge is how old the list of programs is when it is made again for one that it lacks.
	listAge = 5 * time.Second
)

// heldPrograms limits the cache, in bytes: nodeup for each architecture, of two versions.
const heldPrograms = 48 << 20

// largestProgram is the longest that is served, in bytes. Workers fetch only nodeup, of a tenth of it.
const largestProgram = 40 << 20

// errChanged says that a program is as good as not there.
var errChanged = errors.New("the cluster's store has another file for this digest; run kops update cluster --yes, which writes it again")

// ServeHTTP answers GET and HEAD for a key of package programs.
func (p *Programs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/")
	sum, _, ok := programs.ParseKey(key)
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "only GET is answered", http.StatusMethodNotAllowed)
		return
	}
	leave, wait := p.gate.enter(r.RemoteAddr)
	if leave == nil {
		p.gate.refuse(w, wait)
		return
	}
	defer leave()
	data, err := p.read(r.Context(), key, sum)
	switch {
	case fault.Is(err, fault.Gone):
		http.Error(w, "the cluster's store has no program of this digest; run kops update cluster --yes", http.StatusNotFound)
		return
	case errors.Is(err, errChanged):
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, "kops-controller cannot read the cluster's store: "+err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(data) // the machine sees what is missing, and asks again
	}
}

// read returns what stands at a key, and refuses what has another digest. Many machines
// that ask at once make one request.
func (p *Programs) read(ctx context.Context, key, sum string) ([]byte, error) {
	if data := p.have(key); data != nil {
		return data, nil
	}
	got, err, _ := p.flight.Do(key, func() (any, error) {
		if data := p.have(key); data != nil {
			return data, nil
		}
		ctx := context.WithoutCancel(ctx) // others wait for it, too
		info, err := p.find(ctx, key)
		if err != nil {
			return nil, err
		}
		if info.Size > largestProgram || p.isWrong(info) {
			return nil, errChanged
		}
		data, _, err := p.base.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		if is := sha256.Sum256(data); hex.EncodeToString(is[:]) != sum {
			p.note(info)
			return nil, errChanged
		}
		p.hold(key, data)
		return data, nil
	})
	if err != nil {
		return nil, err
	}
	return got.([]byte), nil
}

// find describes what the store has at a key, without a request for each key that anybody
// asks for. The error is of class fault.Gone where there is none.
func (p *Programs) find(ctx context.Context, key string) (store.Info, error) {
	_, err, _ := p.flight.Do("", func() (any, error) {
		p.mu.Lock()
		info, known := p.there[key]
		wrong, found := p.wrong[key]
		good := known && !(found && wrong == info.Version)
		fresh := p.there != nil && p.now().Sub(p.listed) < listAge
		p.mu.Unlock()
		if good || fresh {
			return nil, nil
		}
		all := map[string]store.Info{}
		for info, err := range p.base.List(ctx, programs.Folder) {
			if err != nil {
				return nil, err
			}
			all[info.Key] = info
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.there, p.listed = all, p.now()
		return nil, nil
	})
	if err != nil {
		return store.Info{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	info, ok := p.there[key]
	if !ok {
		return info, fault.New(fault.Gone, "the store has no %s", key)
	}
	return info, nil
}

// isWrong reports whether the content of an object was read and has another digest.
func (p *Programs) isWrong(i store.Info) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.wrong[i.Key]
	return ok && v == i.Version
}

// note remembers that the content of an object has another digest, until the object changes.
func (p *Programs) note(i store.Info) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong[i.Key] = i.Version
}

func (p *Programs) have(key string) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[key]
}

func (p *Programs) hold(key string, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = map[string][]byte{}
	}
	p.held[key], p.order, p.size = data, append(p.order, key), p.size+len(data)
	for p.size > heldPrograms && len(p.order) > 1 {
		p.size -= len(p.held[p.order[0]])
		delete(p.held, p.order[0])
		p.order = p.order[1:]
	}
}
