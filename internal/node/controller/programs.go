package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"

	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/fault"
)

// Programs serves kops' own programs from the cluster's store, by their digests, to
// machines that have proven nothing yet: a worker has no right on the store, and needs
// nodeup to prove who it is. What is served is no secret, and is never anything else.
type Programs struct {
	Base Reader

	flight singleflight.Group
	mu     sync.Mutex
	held   map[string][]byte // by key
	order  []string          // of the keys, the latest last
	size   int
}

// Of what was read this much is held, in bytes: nodeup for each architecture, of two versions.
const heldPrograms = 48 << 20

// largestProgram is the longest that is served, in bytes. Workers fetch only nodeup, of a tenth of it.
const largestProgram = 40 << 20

// errChanged says that a program is as good as not there.
var errChanged = errors.New("what the cluster's store has for this digest is something else; run kops update cluster --yes, which writes it anew")

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
		data, _, err := p.Base.Get(context.WithoutCancel(ctx), key) // others wait for it, too
		if err != nil {
			return nil, err
		}
		if is := sha256.Sum256(data); hex.EncodeToString(is[:]) != sum || len(data) > largestProgram {
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
