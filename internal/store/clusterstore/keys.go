package clusterstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// EncodeKeyset is the stored form of a keyset, private keys included.
func EncodeKeyset(k *pki.Keyset) ([]byte, error) {
	o, err := k.ToAPI()
	if err != nil {
		return nil, err
	}
	return compat.Encode(api.V1Alpha2, o)
}

// found is an object in one of several folders.
type found struct {
	folder Folder
	key    string
	name   string
}

// find lists the objects of folders whose key name turns into a name; the first folder that has a name wins.
func find(ctx context.Context, name func(key string) string, folders ...Folder) ([]found, error) {
	seen := map[string]bool{}
	var out []found
	for _, f := range folders {
		listing, err := f.Listing(ctx)
		if err != nil {
			return nil, err
		}
		for _, info := range listing {
			if n := name(info.Key); n != "" && !seen[n] {
				seen[n] = true
				out = append(out, found{f, info.Key, n})
			}
		}
	}
	return out, nil
}

// BrokenError is of an object that is there and cannot be understood.
type BrokenError struct {
	Name, URL string
	Err       error
}

func (e *BrokenError) Error() string { return "read " + e.URL + ": " + e.Err.Error() }
func (e *BrokenError) Unwrap() error { return e.Err }

// broken is the error of such an object, with what helps.
func broken(name, url string, err error) error {
	return fault.Wrap(fault.Permanent, &BrokenError{name, url, err}, "put back an earlier version of the file, from the versions of its bucket or a copy of the store")
}

// readAll reads objects, some at a time, and decodes them. One that has gone since it was listed is left out.
func readAll[T any](ctx context.Context, objects []found, decode func(name string, data []byte) (T, error)) (map[string]T, error) {
	var mu sync.Mutex
	out := map[string]T{}
	err := each(ctx, objects, func(ctx context.Context, _ int, o found) error {
		data, _, err := o.folder.Store.Get(ctx, o.key)
		if fault.Is(err, fault.Gone) {
			return nil
		}
		if err != nil {
			return err
		}
		v, err := decode(o.name, data)
		if err != nil {
			return broken(o.name, store.URL(o.folder.Store, o.key), err)
		}
		mu.Lock()
		defer mu.Unlock()
		out[o.name] = v
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Keysets reads every keyset, by the name of its folder; old clusters have some under old names.
func (f *Folders) Keysets(ctx context.Context) (map[string]*pki.Keyset, error) {
	name := func(key string) string {
		middle, ok := strings.CutPrefix(key, "private/")
		middle, isKeyset := strings.CutSuffix(middle, "/keyset.yaml")
		if !ok || !isKeyset || strings.Contains(middle, "/") {
			return ""
		}
		return middle
	}
	objects, err := find(ctx, name, f.Keys, f.statePKI)
	if err != nil {
		return nil, fmt.Errorf("list keysets: %w", err)
	}
	return readAll(ctx, objects, decodeKeyset)
}

// Keyset reads the keyset of a name, and the version that conditions its next write.
// The version is empty if the keyset is stored in another place, or under an old name: the
// next write then creates it. The keyset is nil when there is none.
func (f *Folders) Keyset(ctx context.Context, name string) (*pki.Keyset, store.Version, error) {
	data, version, err := f.Keys.Store.Get(ctx, layout.Keyset(name))
	switch {
	case fault.Is(err, fault.Gone):
		all, err := f.Keysets(ctx)
		return pki.Named(all, name), "", err
	case err != nil:
		return nil, "", fmt.Errorf("read keyset %s: %w", name, err)
	}
	k, err := decodeKeyset(name, data)
	if err != nil {
		return nil, "", broken(name, store.URL(f.Keys.Store, layout.Keyset(name)), err)
	}
	return k, version, nil
}

// ReplaceKeyset writes a keyset that Keyset returned, changed, if it is still of that
// version; otherwise the error has class fault.Conflict.
func (f *Folders) ReplaceKeyset(ctx context.Context, k *pki.Keyset, was store.Version) error {
	data, err := EncodeKeyset(k)
	if err == nil {
		err = f.Keys.put(ctx, layout.Keyset(k.Name), data, store.PutOptions{IfAbsent: was == "", IfVersion: was, Private: true})
	}
	return lostRace(err, "keyset "+k.Name)
}

// lostRace explains a conflict to somebody who changes key material.
func lostRace(err error, what string) error {
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(fault.Conflict, fmt.Errorf("change %s: %w; your change was not made", what, err), "check its current state, and repeat the command")
	}
	return err
}

func decodeKeyset(name string, data []byte) (*pki.Keyset, error) {
	o, _, err := compat.DecodeOne[*api.Keyset](data, compat.Options{Lenient: true})
	if err != nil {
		return nil, err
	}
	o.Name = name
	return pki.FromAPI(o)
}

// PutKeyset writes a keyset. With ifAbsent one that is there is an error of class fault.Conflict.
func (f *Folders) PutKeyset(ctx context.Context, k *pki.Keyset, ifAbsent bool) error {
	data, err := EncodeKeyset(k)
	if err != nil {
		return err
	}
	return f.Keys.put(ctx, layout.Keyset(k.Name), data, store.PutOptions{IfAbsent: ifAbsent, Private: true})
}

// put writes an object and forgets what was listed.
func (f Folder) put(ctx context.Context, key string, data []byte, o store.PutOptions) error {
	defer f.tree.changed()
	_, err := f.Store.Put(ctx, key, data, o)
	return err
}

// SecretNames lists the names of the secrets, in order.
func (f *Folders) SecretNames(ctx context.Context) ([]string, error) {
	objects, err := find(ctx, secretName, f.Secrets)
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	var out []string
	for _, o := range objects {
		out = append(out, o.name)
	}
	slices.Sort(out)
	return out, nil
}

// secretName is the name of the secret with a key, or "".
func secretName(key string) string {
	if strings.Contains(key, "/") {
		return ""
	}
	return key
}

// Secret reads one secret; one that does not exist is an error of class fault.Gone.
func (f *Folders) Secret(ctx context.Context, name string) (pki.Secret, error) {
	secret, _, err := f.SecretAt(ctx, name)
	return secret, err
}

// SecretAt reads one secret, and the version against which its next write is held.
func (f *Folders) SecretAt(ctx context.Context, name string) (pki.Secret, store.Version, error) {
	data, version, err := f.Secrets.Store.Get(ctx, name)
	if err != nil {
		return pki.Secret{}, "", fmt.Errorf("read secret %s: %w", name, err)
	}
	secret, err := pki.DecodeSecret(data)
	if err != nil {
		return pki.Secret{}, "", fmt.Errorf("read secret %s: %w", name, err)
	}
	return secret, version, nil
}

// ReplaceSecret writes a secret that SecretAt returned, changed, if it is still of that
// version, or an empty one, which means that there was none; otherwise the error has
// class fault.Conflict.
func (f *Folders) ReplaceSecret(ctx context.Context, name string, secret pki.Secret, was store.Version) error {
	data, err := pki.EncodeSecret(secret)
	if err == nil {
		err = f.Secrets.put(ctx, name, data, store.PutOptions{IfAbsent: was == "", IfVersion: was, Private: true})
	}
	return lostRace(err, "secret "+name)
}

// AllSecrets reads every secret, by name.
func (f *Folders) AllSecrets(ctx context.Context) (map[string]pki.Secret, error) {
	objects, err := find(ctx, secretName, f.Secrets)
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	return readAll(ctx, objects, func(_ string, data []byte) (pki.Secret, error) { return pki.DecodeSecret(data) })
}

// PutSecret writes a secret. With ifAbsent one that is there is an error of class fault.Conflict.
func (f *Folders) PutSecret(ctx context.Context, name string, secret pki.Secret, ifAbsent bool) error {
	if strings.Contains(name, "/") {
		return fault.New(fault.Permanent, "%q cannot be the name of a secret", name)
	}
	data, err := pki.EncodeSecret(secret)
	if err != nil {
		return err
	}
	return f.Secrets.put(ctx, name, data, store.PutOptions{IfAbsent: ifAbsent, Private: true})
}

// DeleteSecret removes a secret; an absent one is not an error.
func (f *Folders) DeleteSecret(ctx context.Context, name string) error {
	defer f.Secrets.tree.changed()
	return f.Secrets.Store.Delete(ctx, name, store.DeleteOptions{})
}

// SSHKey is a public key that may log in to the machines of a cluster.
type SSHKey struct {
	// Fingerprint is the MD5 of the key's wire form, in hex with colons.
	Fingerprint string
	// Text is the key as it was given: a line as in authorized_keys.
	Text string
}

// NewSSHKey checks the text of a public key and finds its fingerprint. It is one line, the
// key's type and the key, with a comment at most: clouds take no options of authorized_keys.
func NewSSHKey(text string) (SSHKey, error) {
	const remedy = "give one line with a type, a key and a comment, such as the content of a .pub file"
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(text))
	switch {
	case err != nil:
	case len(options) > 0:
		err = fmt.Errorf("it has options of authorized_keys (%.100q), which cloud machines do not accept", strings.Join(options, ","))
	case strings.ContainsAny(strings.TrimSpace(text), "\r\n"):
		err = errors.New("it has more than one line; add each key separately")
	}
	if err != nil {
		return SSHKey{}, fault.Wrap(fault.Permanent, fmt.Errorf("read SSH public key: %w", err), remedy)
	}
	return SSHKey{Fingerprint: ssh.FingerprintLegacyMD5(key), Text: text}, nil
}

// key is where the SSH key is stored below the folder pki.
func (k SSHKey) key() string { return layout.SSHKeys + plain(k.Fingerprint) }

// plain is a fingerprint without its colons.
func plain(fingerprint string) string { return strings.ReplaceAll(fingerprint, ":", "") }

// sshName is the name of the SSH key with a key below the folder pki, which is its
// fingerprint without colons, or "".
func sshName(key string) string {
	n, ok := strings.CutPrefix(key, layout.SSHKeys)
	if !ok || strings.Contains(n, "/") {
		return ""
	}
	return plain(n)
}

// SSHKeys reads the SSH keys, in the order of their fingerprints.
func (f *Folders) SSHKeys(ctx context.Context) ([]SSHKey, error) {
	objects, err := f.sshObjects(ctx)
	if err != nil {
		return nil, err
	}
	byName, err := readAll(ctx, objects, func(name string, data []byte) (SSHKey, error) {
		k, err := NewSSHKey(string(data))
		if err != nil {
			return SSHKey{Fingerprint: name, Text: string(data)}, nil // somebody else's: shown, and deleted, by its file's name
		}
		return k, nil
	})
	if err != nil {
		return nil, err
	}
	var out []SSHKey
	for _, k := range byName {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b SSHKey) int { return strings.Compare(a.Fingerprint, b.Fingerprint) })
	return out, nil
}

// sshObjects lists the files of SSH keys; kOps may have written a name with colons elsewhere.
func (f *Folders) sshObjects(ctx context.Context) ([]found, error) {
	objects, err := find(ctx, sshName, f.statePKI, f.Keys)
	if err != nil {
		return nil, fmt.Errorf("list SSH keys: %w", err)
	}
	return objects, nil
}

// AddSSHKey writes an SSH key; one that is there already stays.
func (f *Folders) AddSSHKey(ctx context.Context, k SSHKey) error {
	return f.statePKI.put(ctx, k.key(), []byte(k.Text), store.PutOptions{})
}

// HasSSHKey reports whether an SSH key is where keys are added.
func (f *Folders) HasSSHKey(ctx context.Context, k SSHKey) (bool, error) {
	listing, err := f.statePKI.Listing(ctx)
	if err != nil {
		return false, fmt.Errorf("list SSH keys: %w", err)
	}
	return slices.ContainsFunc(listing, func(info store.Info) bool { return sshName(info.Key) == plain(k.Fingerprint) }), nil
}

// OtherSSHKeys lists the names, which are fingerprints without colons, of the SSH keys
// beside one in the folder of the state store, where keys are added.
func (f *Folders) OtherSSHKeys(ctx context.Context, k SSHKey) ([]string, error) {
	listing, err := f.statePKI.Listing(ctx)
	if err != nil {
		return nil, fmt.Errorf("list SSH keys: %w", err)
	}
	var out []string
	for _, info := range listing {
		if n := sshName(info.Key); n != "" && n != plain(k.Fingerprint) {
			out = append(out, n)
		}
	}
	return out, nil
}

// DeleteSSHKeys removes the SSH keys with some fingerprints from every place; without
// fingerprints, all SSH keys.
func (f *Folders) DeleteSSHKeys(ctx context.Context, fingerprints ...string) error {
	for _, folder := range []Folder{f.statePKI, f.Keys} {
		listing, err := folder.Listing(ctx)
		if err != nil {
			return fmt.Errorf("list SSH keys: %w", err)
		}
		var keys []string
		for _, info := range listing {
			if n := sshName(info.Key); n != "" && (len(fingerprints) == 0 || slices.ContainsFunc(fingerprints, func(p string) bool { return plain(p) == n })) {
				keys = append(keys, info.Key)
			}
		}
		if len(keys) == 0 {
			continue
		}
		if err := store.DeleteAll(ctx, folder.Store, keys); err != nil {
			return err
		}
		folder.tree.changed()
	}
	return nil
}
