package ssh

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// unknownHostError reports that a machine is unknown, or presents a different key than the known one.
type unknownHostError struct {
	key     ssh.PublicKey
	changed bool
}

func (e *unknownHostError) Error() string {
	says := "its host key is not known"
	if e.changed {
		says = "its host key differs from the known one"
	}
	return fmt.Sprintf("%s: it presents %s, %s", says, ssh.FingerprintSHA256(e.key), e.key.Type())
}

func (e *unknownHostError) remedy() string {
	if e.changed {
		return "if the machine was reinstalled, remove its known host key; otherwise the connection may be intercepted"
	}
	return "compare the fingerprint with the one that the machine's console shows (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then pass it, or add the machine to known_hosts"
}

// hostKeyCallback returns the callback that checks a machine's host key, and the algorithms of its known
// keys; nil: any.
func (o Options) hostKeyCallback(t Target) (ssh.HostKeyCallback, []string, error) {
	switch {
	case t.HostKey != "":
		want, _, _, _, err := ssh.ParseAuthorizedKey([]byte(t.HostKey))
		if err != nil {
			return nil, nil, fmt.Errorf("read the recorded host key: %w", err)
		}
		return func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if string(want.Marshal()) != string(key.Marshal()) {
				return &unknownHostError{key: key, changed: true}
			}
			return nil
		}, algorithms(want.Type()), nil
	case t.Fingerprint != "":
		return func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if ssh.FingerprintSHA256(key) != t.Fingerprint {
				return &unknownHostError{key: key, changed: true}
			}
			return nil
		}, []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}, nil
	}
	return o.knownHostsCallback(t)
}

// knownHostsCallback checks the host key against the known_hosts files.
func (o Options) knownHostsCallback(t Target) (ssh.HostKeyCallback, []string, error) {
	files := slices.DeleteFunc(slices.Clone(o.Known), func(file string) bool {
		_, err := os.Stat(file)
		return errors.Is(err, os.ErrNotExist)
	})
	check, err := knownhosts.New(files...)
	if err != nil {
		return nil, nil, fmt.Errorf("read the known hosts: %w", err)
	}
	strange := func(host string, remote net.Addr, key ssh.PublicKey) error {
		err := check(host, remote, key)
		if unknown := (*knownhosts.KeyError)(nil); errors.As(err, &unknown) {
			return &unknownHostError{key: key, changed: len(unknown.Want) > 0}
		}
		return err
	}
	// Request a key type that is already known for the machine.
	var sorts []string
	if wanted := (*knownhosts.KeyError)(nil); errors.As(check(t.Address, noAddress{}, noKey{}), &wanted) {
		for _, k := range wanted.Want {
			sorts = append(sorts, algorithms(k.Key.Type())...)
		}
	}
	return strange, sorts, nil
}

// algorithms returns the signature algorithms of a key type.
func algorithms(key string) []string {
	if key == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{key}
}

// noAddress is a dummy address, and noKey a dummy key.
type (
	noAddress struct{}
	noKey     struct{}
)

func (noAddress) Network() string { return "tcp" }
func (noAddress) String() string  { return "0.0.0.0:0" }

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("there is no key") }
