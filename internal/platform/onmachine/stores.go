package onmachine

import (
	"crypto/rand"
	"os"
	"time"

	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/open"
	"kops.local/kops/internal/store/web"
)

// Stores lists the backends that a program on a machine can open: those of every program, and those
// that platforms bring. It sets the Keys of o.
func Stores(all []Platform, w World, o open.Options) store.Backends {
	o.Keys = storeKeys(all, w)
	out := open.Backends(o)
	for _, p := range all {
		if p.Backends != nil {
			out = append(out, p.Backends(w, o.HTTP)...)
		}
	}
	return out
}

// LocalStores is Stores for a program whose root is the machine's root, or for which it does not matter.
func LocalStores(all []Platform, o open.Options) store.Backends {
	return Stores(all, World{Root: "/", Env: o.Env, HTTP: o.HTTP, Direct: web.Direct(), Hostname: os.Hostname, Now: time.Now, Rand: rand.Reader}, o)
}
