package managedfile

import (
	"context"
	"fmt"
	"strings"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// Private is a file with key material. It is created once, and an update never overwrites it: an
// existing file may have any content.
type Private struct {
	Name    string           `res:"forbid"`
	Content resource.Content `res:"writeonly"`
}

// Keyset is a keyset's file. Its client is the area of the key pairs, the
// folder pki of a cluster unless its spec says otherwise.
var Keyset = private("keyset", layout.Keyset, layout.KeysetName)

// Secret is a secret's file. Its client is the area of the secrets, the folder
// secrets of a cluster unless its spec says otherwise.
var Secret = private("secret", func(name string) string { return name },
	func(key string) (string, bool) { return key, !strings.Contains(key, "/") })

// private declares a kind of files; at maps names to keys, and nameAt maps them back.
func private(kind string, at func(name string) string, nameAt func(key string) (string, bool)) resource.Kind[Private, Area] {
	return resource.Kind[Private, Area]{
		Name: kind, API: "store", Direct: true,
		Key: func(p *Private) string { return p.Name },
		List: func(ctx context.Context, a Area, s resource.Scope) ([]*Private, error) {
			all, err := a.List(ctx)
			if err != nil {
				return nil, err
			}
			wanted := map[string]bool{}
			for _, n := range s.Names {
				wanted[n] = true
			}
			var out []*Private
			for _, i := range all {
				if name, ok := nameAt(i.Key); ok && wanted[name] {
					out = append(out, &Private{Name: name})
				}
			}
			return out, nil
		},
		Create: func(ctx context.Context, a Area, p *Private) error {
			text, _ := p.Content.Value().Known()
			if text == "" { // it existed when the plan was made
				return fault.Wrap(fault.Permanent, fmt.Errorf("%s was removed in the meantime", at(p.Name)), "run this command again")
			}
			err := a.Write(ctx, at(p.Name), []byte(text), Options{IfAbsent: true, Private: true})
			if fault.Is(err, fault.Conflict) {
				return fault.Wrap(fault.Permanent, err, "another command created it in the meantime; run this command again")
			}
			return err
		},
		Delete: func(ctx context.Context, a Area, p *Private) error { return a.Remove(ctx, at(p.Name)) },
	}
}

// KeysetNode declares the file of a keyset, in the form in which it is stored.
func KeysetNode(name string, content resource.Content) resource.Node {
	return Keyset.New(name, Private{Name: name, Content: content})
}

// SecretNode declares the file of a secret, in the form in which it is stored.
func SecretNode(name string, content resource.Content) resource.Node {
	return Secret.New(name, Private{Name: name, Content: content})
}
