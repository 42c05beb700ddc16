package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
	"weak"

	"golang.org/x/sync/singleflight"

	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// Programs serves kops' own programs from the cluster's store, by digest, to machines that have
// not proven their identity yet: a worker may not read the store, and needs nodeup to prove its
// identity. It serves no secrets, and nothing but programs.
type Programs struct {
	base   Folder
	now    func() time.Time
	gate   *Gate
	flight singleflight.Group

	mu         sync.Mutex
	objects    map[string]store.Info // the store's objects, by key
	listedAt   time.Time
	mismatched map[string]store.Version // those whose content has another digest
	cache      map[string]*program      // by key
	order      []string                 // of the keys, the latest last
	size       int
	sent       map[string]weak.Pointer[program] // those no longer in the cache may still be being sent
}

// program is a program's content.
type program struct{ data []byte }

// Folder is the cluster's folder in the store.
type Folder interface {
	Reader
	// List yields the objects whose keys start with a prefix.
	List(ctx context.Context, prefix string) iter.Seq2[store.Info, error]
}

// NewPrograms serves the programs below base. It has its own gate, so that long
// downloads do not keep machines from joining.
func NewPrograms(base Folder, now func() time.Time) *Programs {
	return &Programs{base: base, now: now, gate: newGate(now, programsPerSecond), mismatched: map[string]store.Version{}, cache: map[string]*program{}, sent: map[string]weak.Pointer[program]{}}
}

const (
	// programsPerSecond is how often one sender may request a program in the long run. A machine
	// sends one request.
	programsPerSecond = 5
	// listAge is the age at which the list of programs is read again if a requested program is missing in it.
	listAge = 5 * time.Second
)

// heldPrograms limits the cache, in bytes: nodeup for each architecture, in two versions.
const heldPrograms = 48 << 20

// largestProgram is the size of the largest program that is served, in bytes. Workers fetch
// only nodeup, which is a tenth of it.
const largestProgram = 40 << 20

// errChanged means that a program's content does not match its digest, so that it counts as missing.
var errChanged = errors.New("the cluster's store has a different file for this digest; run kops update cluster --yes to write it again")

// ServeHTTP answers GET and HEAD for a key of package programs.
func (p *Programs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/")
	sum, _, ok := programs.ParseKey(key)
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "only GET is supported", http.StatusMethodNotAllowed)
		return
	}
	leave, wait := p.gate.enter(r.RemoteAddr)
	if leave == nil {
		p.gate.refuse(w, wait)
		return
	}
	defer leave()
	got, err := p.read(r.Context(), key, sum)
	leave() // all who receive a program share its content, however long they take
	switch {
	case fault.Is(err, fault.Gone):
		http.Error(w, "the cluster's store has no program with this digest; run kops update cluster --yes", http.StatusNotFound)
		return
	case errors.Is(err, errChanged):
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, "kops-controller cannot read the cluster's store: "+err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(got.data)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(got.data) // the machine notices what is missing, and retries
	}
	runtime.KeepAlive(got)
}

// read returns the content at a key, and rejects content with another digest.
// Concurrent requests of many machines cause one request to the store.
func (p *Programs) read(ctx context.Context, key, sum string) (*program, error) {
	if held := p.held(key); held != nil {
		return held, nil
	}
	got, err, _ := p.flight.Do(key, func() (any, error) {
		if held := p.held(key); held != nil {
			return held, nil
		}
		ctx := context.WithoutCancel(ctx) // others wait for it, too
		info, err := p.find(ctx, key)
		if err != nil {
			return nil, err
		}
		if info.Size > largestProgram || p.isMismatched(info) {
			return nil, errChanged
		}
		data, _, err := p.base.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		if is := sha256.Sum256(data); hex.EncodeToString(is[:]) != sum {
			p.recordMismatch(info)
			return nil, errChanged
		}
		return p.hold(key, data), nil
	})
	if err != nil {
		return nil, err
	}
	return got.(*program), nil
}

// find returns the store's information about a key, without a request for each requested
// key. The error is of class fault.Gone if the key does not exist.
func (p *Programs) find(ctx context.Context, key string) (store.Info, error) {
	_, err, _ := p.flight.Do("", func() (any, error) {
		p.mu.Lock()
		info, known := p.objects[key]
		wrong, found := p.mismatched[key]
		good := known && !(found && wrong == info.Version)
		fresh := p.objects != nil && p.now().Sub(p.listedAt) < listAge
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
		p.objects, p.listedAt = all, p.now()
		return nil, nil
	})
	if err != nil {
		return store.Info{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	info, ok := p.objects[key]
	if !ok {
		return info, fault.New(fault.Gone, "the store has no %s", key)
	}
	return info, nil
}

// isMismatched reports whether an object's content was read and has another digest.
func (p *Programs) isMismatched(i store.Info) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.mismatched[i.Key]
	return ok && v == i.Version
}

// recordMismatch records that an object's content has another digest, until the object changes.
func (p *Programs) recordMismatch(i store.Info) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mismatched[i.Key] = i.Version
}

// held returns a program that is in memory, or nil.
func (p *Programs) held(key string) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.cache[key]; c != nil {
		return c
	}
	return p.sent[key].Value()
}

// hold adds a program to the cache.
func (p *Programs) hold(key string, data []byte) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &program{data}
	p.cache[key], p.sent[key], p.order, p.size = c, weak.Make(c), append(p.order, key), p.size+len(data)
	for p.size > heldPrograms && len(p.order) > 1 {
		p.size -= len(p.cache[p.order[0]].data)
		delete(p.cache, p.order[0])
		p.order = p.order[1:]
	}
	return c
}
