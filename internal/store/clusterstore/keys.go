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

// EncodeKeyset returns the stored form of a keyset, including private keys.
func EncodeKeyset(k *pki.Keyset) ([]byte, error) {
	o, err := k.ToAPI()
	if err != nil {
		return nil, err
	}
	return compat.Encode(api.V1Alpha2, o)
}

// foundObject is an object in one of several folders.
type foundObject struct {
	folder Folder
	key    string
	name   string
}

// findObjects lists the objects of folders for whose keys name returns a name; the first folder with a name wins.
func findObjects(ctx context.Context, name func(key string) string, folders ...Folder) ([]foundObject, error) {
	seen := map[string]bool{}
	var out []foundObject
	for _, f := range folders {
		listing, err := f.Listing(ctx)
		if err != nil {
			return nil, err
		}
		for _, info := range listing {
			if n := name(info.Key); n != "" && !seen[n] {
				seen[n] = true
				out = append(out, foundObject{f, info.Key, n})
			}
		}
	}
	return out, nil
}

// BrokenError is the error for an object that exists but cannot be understood.
type BrokenError struct {
	Name, URL string
	Err       error
}

func (e *BrokenError) Error() string { return "read " + e.URL + ": " + e.Err.Error() }
func (e *BrokenError) Unwrap() error { return e.Err }

// restoreFile is the remedy for a file that cannot be read.
const restoreFile = "restore an earlier version of the file, from the versions of its bucket or a copy of the store"

// wrapBroken returns a BrokenError with its remedy.
func wrapBroken(name, url string, err error) error {
	return fault.Wrap(fault.Permanent, &BrokenError{name, url, err}, restoreFile)
}

// readAll reads objects, several at a time, and decodes them. An object removed since the listing is left
// out.
func readAll[T any](ctx context.Context, objects []foundObject, decode func(name string, data []byte) (T, error)) (map[string]T, error) {
	var mu sync.Mutex
	out := map[string]T{}
	err := forEach(ctx, objects, func(ctx context.Context, _ int, o foundObject) error {
		data, _, err := o.folder.Store.Get(ctx, o.key)
		if fault.Is(err, fault.Gone) {
			return nil
		}
		if err != nil {
			return err
		}
		v, err := decode(o.name, data)
		if err != nil {
			return wrapBroken(o.name, store.URL(o.folder.Store, o.key), err)
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
	objects, err := findObjects(ctx, name, f.Keys, f.statePKI)
	if err != nil {
		return nil, fmt.Errorf("list keysets: %w", err)
	}
	return readAll(ctx, objects, decodeKeyset)
}

// Keyset reads the keyset with the given name, and the version for its next conditional
// write. The version is empty if the keyset is stored in another place, or under an old
// name: the next write then creates it. The keyset is nil if it does not exist.
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
		return nil, "", wrapBroken(name, store.URL(f.Keys.Store, layout.Keyset(name)), err)
	}
	return k, version, nil
}

// ReplaceKeyset writes a modified keyset that Keyset returned, if the stored one still
// has that version; otherwise the error has class fault.Conflict.
func (f *Folders) ReplaceKeyset(ctx context.Context, k *pki.Keyset, was store.Version) error {
	data, err := EncodeKeyset(k)
	if err == nil {
		err = f.Keys.put(ctx, layout.Keyset(k.Name), data, store.PutOptions{IfAbsent: was == "", IfVersion: was, Private: true})
	}
	return changeConflict(err, "keyset "+k.Name)
}

// changeConflict explains a conflict to a user who changes key material.
func changeConflict(err error, what string) error {
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

// PutKeyset writes a keyset. If ifAbsent is set and there is one, the error has class
// fault.Conflict.
func (f *Folders) PutKeyset(ctx context.Context, k *pki.Keyset, ifAbsent bool) error {
	data, err := EncodeKeyset(k)
	if err != nil {
		return err
	}
	return f.Keys.put(ctx, layout.Keyset(k.Name), data, store.PutOptions{IfAbsent: ifAbsent, Private: true})
}

// put writes an object and discards the listing.
func (f Folder) put(ctx context.Context, key string, data []byte, o store.PutOptions) error {
	defer f.tree.invalidate()
	_, err := f.Store.Put(ctx, key, data, o)
	return err
}

// SecretNames lists the names of the secrets, in order.
func (f *Folders) SecretNames(ctx context.Context) ([]string, error) {
	objects, err := findObjects(ctx, secretName, f.Secrets)
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

// secretName returns the name of the secret with a key, or "".
func secretName(key string) string {
	if strings.Contains(key, "/") {
		return ""
	}
	return key
}

// Secret reads one secret; if it does not exist, the error has class fault.Gone.
func (f *Folders) Secret(ctx context.Context, name string) (pki.Secret, error) {
	secret, _, err := f.SecretAt(ctx, name)
	return secret, err
}

// SecretAt reads one secret, and the version for its next conditional write.
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

// ReplaceSecret writes a modified secret that SecretAt returned, if the stored one still
// has that version; the empty version means that there was none. Otherwise the error has
// class fault.Conflict.
func (f *Folders) ReplaceSecret(ctx context.Context, name string, secret pki.Secret, was store.Version) error {
	data, err := pki.EncodeSecret(secret)
	if err == nil {
		err = f.Secrets.put(ctx, name, data, store.PutOptions{IfAbsent: was == "", IfVersion: was, Private: true})
	}
	return changeConflict(err, "secret "+name)
}

// AllSecrets reads every secret, by name.
func (f *Folders) AllSecrets(ctx context.Context) (map[string]pki.Secret, error) {
	objects, err := findObjects(ctx, secretName, f.Secrets)
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	return readAll(ctx, objects, func(_ string, data []byte) (pki.Secret, error) { return pki.DecodeSecret(data) })
}

// PutSecret writes a secret. If ifAbsent is set and there is one, the error has class
// fault.Conflict.
func (f *Folders) PutSecret(ctx context.Context, name string, secret pki.Secret, ifAbsent bool) error {
	if strings.Contains(name, "/") {
		return fault.New(fault.Permanent, "%q is not a valid secret name", name)
	}
	data, err := pki.EncodeSecret(secret)
	if err != nil {
		return err
	}
	return f.Secrets.put(ctx, name, data, store.PutOptions{IfAbsent: ifAbsent, Private: true})
}

// DeleteSecret removes a secret; it is not an error if it does not exist.
func (f *Folders) DeleteSecret(ctx context.Context, name string) error {
	defer f.Secrets.tree.invalidate()
	return f.Secrets.Store.Delete(ctx, name, store.DeleteOptions{})
}

// SSHKey is a public key that may log in to a cluster's machines.
type SSHKey struct {
	// Fingerprint is the MD5 of the key's wire form, in hex with colons.
	Fingerprint string
	// Text is the key as it was given, in the form of a line of authorized_keys.
	Text string
}

// NewSSHKey checks the text of a public key and computes its fingerprint. It must be one line: the
// key's type, the key, and optionally a comment; clouds do not accept options of authorized_keys.
func NewSSHKey(text string) (SSHKey, error) {
	const remedy = "specify one line with a type, a key and a comment, such as the content of a .pub file"
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

// key returns where the SSH key is stored below the folder pki.
func (k SSHKey) key() string { return layout.SSHKeys + fingerprintHex(k.Fingerprint) }

// fingerprintHex returns a fingerprint without its colons.
func fingerprintHex(fingerprint string) string { return strings.ReplaceAll(fingerprint, ":", "") }

// sshName returns the name of the SSH key with a key below the folder pki, which is
// its fingerprint without colons, or "".
func sshName(key string) string {
	n, ok := strings.CutPrefix(key, layout.SSHKeys)
	if !ok || strings.Contains(n, "/") {
		return ""
	}
	return fingerprintHex(n)
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
			return SSHKey{Fingerprint: name, Text: string(data)}, nil // not one of ours: shown and deleted by its file's name
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
func (f *Folders) sshObjects(ctx context.Context) ([]foundObject, error) {
	objects, err := findObjects(ctx, sshName, f.statePKI, f.Keys)
	if err != nil {
		return nil, fmt.Errorf("list SSH keys: %w", err)
	}
	return objects, nil
}

// AddSSHKey writes an SSH key.
func (f *Folders) AddSSHKey(ctx context.Context, k SSHKey) error {
	return f.statePKI.put(ctx, k.key(), []byte(k.Text), store.PutOptions{})
}

// HasSSHKey reports whether an SSH key exists where keys are added.
func (f *Folders) HasSSHKey(ctx context.Context, k SSHKey) (bool, error) {
	listing, err := f.statePKI.Listing(ctx)
	if err != nil {
		return false, fmt.Errorf("list SSH keys: %w", err)
	}
	return slices.ContainsFunc(listing, func(info store.Info) bool { return sshName(info.Key) == fingerprintHex(k.Fingerprint) }), nil
}

// OtherSSHKeys lists the names, which are fingerprints without colons, of all other SSH
// keys in the state store's folder, where keys are added.
func (f *Folders) OtherSSHKeys(ctx context.Context, k SSHKey) ([]string, error) {
	listing, err := f.statePKI.Listing(ctx)
	if err != nil {
		return nil, fmt.Errorf("list SSH keys: %w", err)
	}
	var out []string
	for _, info := range listing {
		if n := sshName(info.Key); n != "" && n != fingerprintHex(k.Fingerprint) {
			out = append(out, n)
		}
	}
	return out, nil
}

// DeleteSSHKeys removes the SSH keys with the given fingerprints from every place;
// without fingerprints, all SSH keys.
func (f *Folders) DeleteSSHKeys(ctx context.Context, fingerprints ...string) error {
	for _, folder := range []Folder{f.statePKI, f.Keys} {
		listing, err := folder.Listing(ctx)
		if err != nil {
			return fmt.Errorf("list SSH keys: %w", err)
		}
		var keys []string
		for _, info := range listing {
			if n := sshName(info.Key); n != "" && (len(fingerprints) == 0 || slices.ContainsFunc(fingerprints, func(p string) bool { return fingerprintHex(p) == n })) {
				keys = append(keys, info.Key)
			}
		}
		if len(keys) == 0 {
			continue
		}
		if err := store.DeleteAll(ctx, folder.Store, keys); err != nil {
			return err
		}
		folder.tree.invalidate()
	}
	return nil
}
